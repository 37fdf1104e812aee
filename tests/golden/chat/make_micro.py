"""Writes micro.json: small templates and what Transformers' template environment makes of them.

Run: python tests/golden/chat/make_micro.py > tests/golden/chat/micro.json
"""
import json
import sys

import jinja2
from transformers.utils.chat_template_utils import _cached_compile_jinja_template

CONTEXT = {
    "s": "Hello, World", "u": "Grüße, 世界 🙂 ẞß", "empty": "", "n": 7, "neg": -3, "f": 2.5, "big": 1e20, "t": True, "no": False,
    "nil": None, "xs": [3, 1, 2], "words": ["b", "A", "c", "a", "B"], "nested": [[1, 2], [3, [4]]],
    "d": {"b": 1, "a": {"x": [1, 2]}, "items": "own"}, "users": [
        {"name": "Zoë", "age": 30, "city": {"name": "Ulm"}}, {"name": "adam", "age": 25, "city": {"name": "Bonn"}},
        {"name": "Bob", "age": 30, "city": {"name": "ulm"}}, {"name": "Eve"}],
    "html": "<b>\"x\" & 'y'</b>", "lines": "one\ntwo\r\n\nthree\n", "spaces": "  \t pad \n ", "tools": None,
}

EXPRESSIONS = r'''
1 + 2 * 3
(1 + 2) * 3
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
7.5 // 2
-7.5 // 2
7.5 % -2
-7.5 % 2
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
2 * -3
1 / 2
4 / 2
1 // 0
1 / 0
1 % 0
1.0 / 0
0.1 + 0.2
1e16
1e15
1.5e-5
0.0001
123456789.123456789
1e100
-0.0
1e22
5e-324
1.7976931348623157e308
3.0
100000.0
1_000
0x1F
0b101
0o17
1_0.5
007
000
1.
.5
"a" + "b"
"a" ~ 1 ~ none ~ true ~ 2.0
"a" * 3
3 * "ab"
"a" * -1
"a" + 1
1 + "a"
[1] + [2, 3]
[1] * 2
(1,) + (2,)
[1] + (2,)
[1] + "a"
"abc" - "a"
"a" * "b"
[1] * [2]
none + 1
true + true
true * 5
not true
not not 1
not 1 == 2
-true
+"a"
-"a"
- 5
+5
1 < 2 < 3
1 < 3 < 2
1 == 1.0
1 == true
"1" == 1
[1, 2] == [1, 2]
(1, 2) == [1, 2]
{"a": 1} == {"a": 1.0}
[1, 2] < [1, 3]
[1, 2] < [1, 2, 0]
"a" < "b"
"Z" < "a"
1 < "a"
none < 1
[1] < 1
{} < {}
1 != 2
1 <> 2
1 in [1, 2]
4 not in [1, 2]
"a" in "abc"
"" in "abc"
1 in "abc"
"a" in {"a": 1}
1 in {"a": 1}
1 in 5
1 in none
[1] in {"a": 1}
"x" in nope
not "a" in "abc"
1 and 2
0 and 2
0 or "x"
"" or none or []
1 or nope.x
1 if true else 2
1 if false else 2
1 if false
(1 if false) is defined
1 if 0 else 2 if 0 else 3
"a" if nope else "b"
[1, 2, 3][0]
[1, 2, 3][-1]
[1, 2, 3][5]
[1, 2, 3][5] is defined
[1, 2, 3][5].x
[1, 2, 3].0
[1, 2, 3]["0"]
[1, 2, 3][true]
[1, 2, 3][1.0]
"héllo"[1]
"héllo"[-4:]
"héllo"[::-1]
"abc"[10]
"abc"[1:2]
"abcdef"[::2]
"abcdef"[4:1:-1]
"abcdef"[-100:100]
"abcdef"[100:]
"abcdef"[:-100]
"abcdef"[::-2]
"abcdef"[5::-1]
"abcdef"[-2::-2]
"abcdef"[:2:-1]
[1, 2, 3][::-1]
[1, 2, 3][1:]
(1, 2, 3)[1:]
[1, 2, 3][::0]
[1, 2, 3]["a":]
{"a": 1}[1:2]
none[1:2]
5[0]
range(10)[2:8:2]
range(5)
range(1, 10, 3)
range(5)[::-1]
range(3)|list
range(5, 0, -2)|list
range(0)
range(1, 2, 0)
range(100001)
range("a")
range(10)|length
range(10)[3]
range(10)[20]
(1, 2)
(1,)
()
[]
{}
{"a": 1, 2: [none, true]}
{"a": 1, "a": 2}
{[1]: 2}
{(1, 2): 3}
[1, [2, (3,)], {"k": "v"}]
"it's"
'say "hi"'
["it's", 'say "hi"', "both ' and \""]
["tab\t", "nl\n", "cr\r", "\x00\x1f\x7f", "é", "\u200b", "🙂", "\\"]
"\u00e9\x41\101\N"
"a\qb"
"line\
continued"
"\U0001F600"
"\x4"
"adja" "cent"
'\'' ~ "\""
s
s.upper()
s.lower()
s.title()
"hello wORLD it's x2y"|title
"hello wORLD it's x2y".title()
"hello-world foo_bar (baz) [qux] {a} <b"|title
s.capitalize()
u.upper()
u.lower()
u.title()
u.swapcase()
u.casefold()
u|upper
u|lower
u|capitalize
u|length
u[::-1]
"ΑΣ ΣΑΣ".lower()
"ǆ".title()
"ﬁ".upper()
"İ".lower()
s.split(",")
s.split()
"a b  c".split(" ")
"a b  c".split(none, 1)
" a b c ".split(maxsplit=1)
"a,b,c".rsplit(",", 1)
" a b c ".rsplit(none, 1)
"a".split("")
"abc".split(1)
"".split()
"".split(",")
"a||b".split("||", -1)
lines.splitlines()
lines.splitlines(true)
lines.splitlines(keepends=True)
spaces.strip()
spaces.lstrip()
spaces.rstrip()
"xxabcxx".strip("x")
"xyabcyx".strip("xy")
"éaé".strip("é")
"abc".strip(1)
"abc".strip(none)
s.startswith("Hello")
s.startswith(("x", "Hello"))
s.startswith(["x"])
s.endswith("World")
s.endswith("")
s.startswith("World", 7)
s.find("o")
s.find("o", 5)
s.rfind("o")
s.find("zz")
s.index("zz")
s.index("W")
s.count("l")
s.count("")
u.find("世")
s.replace("l", "L")
s.replace("l", "L", 1)
s.replace("", "-")
"".replace("", "-")
s.replace("l")
s.replace(1, 2)
"-".join(["a", "b"])
"-".join("abc")
"-".join([1])
"-".join([])
"a-b-c".partition("-")
"a-b-c".rpartition("-")
"abc".partition("-")
"abc".rpartition("-")
"abc".removeprefix("ab")
"abc".removesuffix("bc")
"abc".removesuffix("")
"abc".center(8, "*")
"abc".center(7)
"abcd".center(7, "-")
"abc".ljust(6, ".")
"abc".rjust(6)
"42".zfill(5)
"-42".zfill(5)
"a\tb".expandtabs()
"abc".isalpha()
"abc1".isalnum()
"123".isdigit()
"²".isdigit()
"²".isdecimal()
"½".isnumeric()
"".isalpha()
"abc".islower()
"ABC1".isupper()
"12".isupper()
" \t".isspace()
"Hello World".istitle()
"Hello world".istitle()
"abc_1".isidentifier()
"1abc".isidentifier()
"é".isascii()
"a\n".isprintable()
"{} and {}".format(1, "x")
"{0}{1}{0}".format("a", "b")
"{x}".format(x=5)
"{:>5}|{:<5}|{:^5}".format(1, 2, 3)
"{:05d}".format(42)
"{:.2f}".format(3.14159)
"{:,}".format(1234567)
"{:x} {:#x} {:b} {:o} {:X}".format(255, 255, 5, 8, 255)
"{:+d} {: d}".format(5, 5)
"{:e}".format(12345.678)
"{:g}".format(0.00001)
"{:%}".format(0.256)
"{:.1%}".format(0.256)
"{!r}".format("a")
"{a[0]} {b.x}".format(a=[9], b={"x": 1})
"{0[k]}".format({"k": "v"})
"{{}}".format()
"{}".format()
"{".format()
"}".format()
"{:*^9}".format("mid")
"{:.3}".format("abcdef")
"{:>{}}".format("a", 4)
"{:d}".format("a")
"{:5}".format(true)
"{:5}".format(none)
"%s %d %f" % ("a", 3, 2.5)
"%5d|%-5d|%05d" % (1, 2, 3)
"%.3f" % 3.14159
"%x %X %o" % (255, 255, 8)
"%s" % [1, 2]
"%s" % none
"%r" % "a"
"%(a)s" % {"a": 1}
"%d%%" % 50
"%s" % (1, 2)
"%s %s" % (1,)
"%d" % "a"
"%c" % 65
"%e" % 12345.678
"%g" % 100000
"%5.1f|" % 2.25
"%+d" % 5
"%q" % 5
"%i" % 3.9
"%s"|format(nope)
"%s-%s"|format(1, 2)
"%(x)s"|format(x=1)
s.nope
s.nope is defined
s.nope.x
s["upper"]()
s.__class__
s.__class__.__mro__
"".__class__.__base__
s.__len__
xs.append(4)
xs.append
xs.append is defined
xs.pop()
xs.sort()
xs.index(2)
xs.index(9)
xs.count(1)
xs.copy()
d.update({"x": 1})
d.pop("a")
d.setdefault("z", 1)
d.items()
d.items
d["items"]
d.keys()
d.keys()|list
d.values()|list
d.items()|list
d.get("a")
d.get("zz")
d.get("zz", 5)
d.get("zz").x
d.copy()
d.a.x
d.a.x[0]
d.zz
d.zz.y
d["zz"]
d["zz"]["y"]
d[1]
d[1].x
d[[1]]
d.a["x"][1]
d|length
d|list
d|first
d|last
d|items|list
nope
nope.x
nope["x"]
nope()
nope + 1
1 + nope
"a" + nope
"a" ~ nope ~ "b"
nope == none
nope == nope2
nope < 1
1 < nope
-nope
nope|length
nope|list
nope|upper
nope|default("x")
nope|d("x")
none|default("x")
none|default("x", true)
""|default("x", boolean=true)
0|default(5, true)
nope|default
nope.x|default("y")
nope is defined
nope is undefined
nope is none
nil is none
nil.x
nil.x.y
nil["x"]
nil.items()
nil|length
5 is number
5.0 is float
5 is integer
true is integer
true is boolean
true is number
false is false
0 is false
true is true
"a" is string
xs is sequence
d is sequence
"a" is sequence
5 is sequence
d.items() is sequence
xs is iterable
5 is iterable
d is mapping
xs is mapping
3 is odd
4 is even
9 is divisibleby 3
9 is divisibleby(2)
"abc" is lower
"ABC" is upper
"a" is odd
s is callable
range is callable
s.upper is callable
nope is callable
1 is sameas 1
true is sameas true
xs is sameas xs
1 is eq 1
1 is ne 1
2 is gt 1
2 is ge 2
1 is lt 2
1 is le 1
1 is equalto(1)
1 is greaterthan 0
1 is lessthan 0
1 is in [1, 2]
1 is not in [1]
"upper" is filter
"zzz" is filter
"odd" is test
1 is not none
1 is none is none
1 is nosuch
1|nosuch
1 is none or true
not 1 is none
html|e
html|escape
html|safe
html|forceescape
(html|e)|e
html|e is escaped
html is escaped
(html|safe) + "<x>"
"<x>" + (html|safe)
(html|safe) ~ "<x>"
[html|safe]
html|striptags
"a  <!-- c --> b <i>x</i>&lt;"|striptags
xs|sort
xs|sort(reverse=true)
words|sort
words|sort(case_sensitive=true)
words|unique|list
words|unique(case_sensitive=true)|list
xs|min
xs|max
words|min
words|max
[]|min
[]|max
[1, "a"]|sort
users|sort(attribute="age")|map(attribute="name")|list
users[:3]|sort(attribute="age")|map(attribute="name")|list
users[:3]|sort(attribute="age,name")|map(attribute="name")|list
users[:3]|sort(attribute="age", reverse=true)|map(attribute="name")|list
users|map(attribute="name")|join(", ")
users|map(attribute="age")|list
users|map(attribute="age", default=0)|list
users|map(attribute="city.name", default="?")|list
users|map("length")|list
words|map("upper")|join
words|map("nosuch")|list
words|map
words|map("replace", "b", "x")|list
users|selectattr("age")|map(attribute="name")|list
users|selectattr("age", "equalto", 30)|map(attribute="name")|list
users|selectattr("age", "defined")|list|length
users|rejectattr("age", "defined")|map(attribute="name")|list
users|selectattr("name", "in", ["Bob", "Eve"])|map(attribute="name")|list
xs|select("odd")|list
xs|select("gt", 1)|list
xs|reject("odd")|list
[0, 1, "", none]|select|list
[0, 1, "", none]|reject|list
xs|select("nosuch")|list
nope|select|list
users[:3]|groupby("age")|list
users[:3]|groupby("city.name")|map(attribute="grouper")|list
(users[:3]|groupby("age"))[0].list|length
users|groupby("age", default=1)|map("first")|list
xs|sum
[1.5, 2]|sum
[]|sum
users[:3]|sum(attribute="age")
xs|sum(start=10)
["a"]|sum
[[1], [2]]|sum(start=[])
xs|first
xs|last
[]|first
[]|last
""|first
"abc"|last
nope|first
nope|last
xs|select("odd")|first
xs|select("odd")|last
xs|reverse|list
"abc"|reverse
5|reverse
d|reverse|list
xs|join(",")
xs|join
xs|join(1)
"abc"|join("-")
[1, none, true]|join(" ")
users|join(",", attribute="name")
5|join
xs|length
xs|count
5|length
xs|select|length
xs|batch(2)|list
xs|batch(2, "x")|list
range(7)|slice(3)|list
range(7)|slice(3, "x")|list
d|dictsort
{"b": 1, "A": 2, "c": 0}|dictsort
{"b": 1, "A": 2}|dictsort(true)
{"b": 1, "A": 2, "c": 0}|dictsort(by="value")
{"b": 1, "A": 2}|dictsort(reverse=true)
d|dictsort(by="zz")
"  x "|trim
"xxaxx"|trim("x")
5|trim
"hello"|upper|lower
"hello"|replace("l", "L")
"hello"|replace("l", "L", 1)
5|replace("5", "6")
"a\nb\n\nc"|indent
"a\nb\n\nc"|indent(2)
"a\nb\n\nc"|indent(2, true)
"a\nb\n\nc"|indent(width=2, first=true, blank=true)
"a\nb"|indent("> ")
"a\nb\n"|indent
5|indent
"hello world foo"|truncate(9)
"hello world foo"|truncate(9, true)
"hello world foo"|truncate(11, false, "...", 0)
"hello"|truncate(2)
"héllo wörld foo bar"|truncate(8, true, "…", 0)
"hello world"|wordcount
u|wordcount
"a b/c?d=é&"|urlencode
{"a b": "c/d", "e": 1}|urlencode
5|urlencode
3.7|int
"42"|int
"42.9"|int
"abc"|int
"abc"|int(5)
"0x1f"|int(0, 16)
"ff"|int(base=16)
" 7 "|int
"1_000"|int
none|int
[]|int(3)
"1e3"|int
true|int
"3.5"|float
"abc"|float
"abc"|float(1.5)
5|float
"inf"|float
"nan"|float
" 1e5 "|float
none|float
nope|int
2.5|round
3.5|round
2.567|round(2)
2.675|round(2)
42|round
42.55|round(1, "floor")
42.51|round(1, "ceil")
1234|round(-2)
1250.0|round(-2)
2.5|round|int
"a"|round
2.5|round(0, "x")
-5|abs
-5.5|abs
"a"|abs
5|string
none|string
[1]|string
"abc"|list
"é世"|list
5|list
"hello"|center(11)
1000|filesizeformat
1|filesizeformat
1536|filesizeformat(true)
123456789|filesizeformat
{"class": "a b", "x": none, "id": 1}|xmlattr
{"b": 1, "a": 2}|pprint
"abc"|attr("upper")
d|attr("a")
d|attr("items") is defined
d|tojson
users|tojson
[1, 2.0, 1e20, true, none, "é\n\"\\/<>&'"]|tojson
[1, 2]|tojson(indent=2)
{"a": [], "b": {}, "c": [1]}|tojson(indent=2)
{"b": 1, "a": 2}|tojson(sort_keys=true)
{"b": 1, "a": 2}|tojson(separators=(",", ":"))
{"b": [1, 2]}|tojson(indent=1, separators=(", ", "= "))
{"b": [1, 2]}|tojson(indent="--")
{"b": [1, 2]}|tojson(indent=0)
"é🙂\x7f\x01"|tojson(ensure_ascii=true)
"é🙂\x7f\x01\u2028"|tojson
{1: 2, none: 3, true: 4, 2.5: 5}|tojson
{(1, 2): 3}|tojson
(1, 2)|tojson
nope|tojson
range(3)|tojson
d.items()|tojson
s.upper|tojson
(html|safe)|tojson
{"a": nope}|tojson
namespace(a=1).a
namespace(a=1).b
namespace(a=1).b.c
namespace({"a": 1}).a
namespace(_a=1)
namespace(1)
dict(a=1, b=[2])
dict({"x": 1}, y=2)
dict([("a", 1), ("b", 2)])
cycler("a", "b").next()
cycler()
joiner("|")()
lipsum
raise_exception("boom!")
raise_exception("boom " ~ n)
raise_exception()
xs|random and false
messages[0].content
messages[0]["role"]
messages|length
add_generation_prompt
tools is none
true and false or true
1 ~ 2 + 3
2 + 3 ~ 4
1 + 2 == 3 and 2 > 1
-1|abs
-1 ** 2
(-1)|abs
1|string|length
[1,2,3]|length + 1
"a,b"|upper.split(",")
("a,b"|upper).split(",")
[1, 2,]
(1, 2,)
{"a": 1,}
[1 2]
{"a" 1}
(1
1 +
1 1
a.
a[
"abc
{{ 1
1 if
not
is
xs[0
xs.1
xs.-1
foo(a=1, 2)
foo(*xs, 1)
foo(**d, a=1)
range(*[1, 4])|list
dict(**{"k": 1})
"{a}-{b}".format(**{"a": 1, "b": 2})
"{}-{}".format(*xs)
"x" is string and n is number
xs[n]
xs[:n]
xs[neg:]
n ** 2 // 3
9223372036854775807
s|length > 5 and s[0] == "H"
"%s" % (u,)
u|tojson
"a".upper
loop
caller
self
True
None
False
none
TRUE
"a"|string is string
"\t\v\f x \x1c\x85\u2003"|trim|length
(1, [2, {"a": (3,)}])
1.0 is integer
"1" is number
1e3|int
10|float / 4
(2, 1) < (2, 2)
"é" < "z"
"a" "b" ~ "c"
xs + [4] == [3, 1, 2, 4]
[xs, xs][1][0]
{"x": xs}["x"]|first
[]|join is defined
(nope or {}).get("x", "dflt")
(d.a or {}).x|last
d.get("a", {}).get("x", [])[0]
messages[0].get("tool_calls") is not none
messages[-1].role == "user"
messages[::-1][0].content
1 is divisibleby 0
"abc" is in "xabcx"
5 is filter
namespace
'a' if 1 else nope.x.y
(1, 2)|tojson(2)
{"a": {"b": [1, {"c": 2}]}}|tojson(indent=4)
"2024-01-02"[:4]|int + 1
"a\\nb"
"\a\b\f\v\0"
['\a\b\f\v\0']
'é'.encode("utf-8") is defined
1 is test
"Ab".swapcase()
"one two".title().split()[1]
"x".join(["1", "2"])|int
3|float|string
(0.1 + 0.7) * 10
1e-7
12345678901234567.0
1/3
100 * 1.1
2 ** 0.5
10 ** 20 // 10 ** 15 if false else 1
"%08.3f" % 3.14159
"%-10s|" % "ab"
"%.2s" % "abc"
"%5s%%" % 12
"{:>8.2f}|".format(3.14159)
"{:08.2f}".format(-3.14159)
"{:_}".format(1234567)
"{:n}".format(5)
"{:c}".format(65)
"{:s}".format(5)
"{0!s:>4}".format(5)
'''.strip("\n").split("\n")

TEMPLATES = [
    "{% for x in xs %}{{ x }}{% endfor %}", "{% for x in xs %}{{ loop.index }}:{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in [] %}a{% else %}none{% endfor %}", "{% for x in xs if x > 1 %}{{ loop.index }}/{{ loop.length }} {{ x }};{% endfor %}",
    "{% for x in xs %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}|{% endfor %}",
    "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}", "{% for x in xs %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1,1,2,2,1] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}", "{% for a, b in [[1, 2], (3, 4)] %}{{ a }}{{ b }}{% endfor %}", "{% for a, b in [[1]] %}{% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for c in 'héy' %}{{ c }}-{% endfor %}",
    "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% for x in nope %}a{% else %}b{% endfor %}",
    "{% for x in nested recursive %}[{% if x is iterable %}{{ loop(x) }}{% else %}{{ x }}@{{ loop.depth }}{{ loop.depth0 }}{% endif %}]{% endfor %}",
    "{% for x in xs %}{{ loop(xs) }}{% endfor %}", "{% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in xs %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% break %}", "{% for x in xs %}{% break %}{% else %}e{% endfor %}",
    "{% for x in xs %}{% continue %}{% else %}e{% endfor %}", "{% for x in [1,2] %}{% for y in [3,4] %}{{ loop.index }}{% if y == 3 %}{% continue %}{% endif %}{{ x }}{{ y }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% if n == 7 %}a{% elif n == 8 %}b{% else %}c{% endif %}", "{% if nope %}a{% elif d %}b{% endif %}", "{% if false %}a{% endif %}", "{% if xs %}x{% endif %}{% if empty %}y{% endif %}",
    "{% if false %}{{ 1|nosuch }}{% endif %}ok", "{% if true %}{{ 1|nosuch }}{% endif %}", "{{ 1|nosuch if false else 2 }}", "{{ 1|nosuch if true else 2 }}", "{{ 1 is nosuch if true }}",
    "{% if false %}{% for x in xs %}{{ x|nosuch }}{% endfor %}{% endif %}",
    "{% set x = 5 %}{{ x }}", "{% set x, y = 1, 2 %}{{ x }}{{ y }}", "{% set x = 1, 2 %}{{ x }}", "{% set x %}a{{ n }}b{% endset %}{{ x }}|{{ x|length }}", "{% set x | upper | replace('A', 'z') %}abc{% endset %}{{ x }}",
    "{% set x = 1 %}{% for i in xs %}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "{% for i in xs %}{{ x }}{% set x = i %}{% endfor %}", "{% set ns = namespace(c=0) %}{% for i in xs %}{% set ns.c = ns.c + i %}{% endfor %}{{ ns.c }}",
    "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}{{ ns }}", "{% set d.x = 1 %}", "{% set nope.x = 1 %}", "{% set ns = namespace(a=1) %}{% set ns._b = 1 %}", "{% set loop = 1 %}{{ loop }}", "{% for x in xs %}{% set loop = 1 %}{% endfor %}", "{% for loop in xs %}{% endfor %}",
    "{% set 5 = 1 %}", "{% set none = 1 %}", "{% set x.y.z = 1 %}", "{% set x = %}", "{% set x[0] = 1 %}", "{% set (a, b) = (1, 2) %}{{ a }}{{ b }}", "{% set a, b = 1 %}",
    "{% if true %}{% set q = 1 %}{% endif %}{{ q }}", "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% set n = 9 %}{{ n }}{% endwith %}{{ n }}{{ a }}", "{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}", "{% with %}x{% endwith %}",
    "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, 3) }}|{{ m(1, c=9) }}|{{ m(b=1, a=0) }}", "{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m() }}", "{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=1) }}", "{% macro m(a) %}{{ a }}{{ caller() }}{% endmacro %}{% call m(1) %}body{% endcall %}",
    "{% macro m() %}{{ caller('x', 'y') }}{% endmacro %}{% call(a, b='d') m() %}{{ a }}-{{ b }}{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% macro m() %}x{% endmacro %}{% call m() %}{% endcall %}", "{% call 5 %}{% endcall %}",
    "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{{ f() }}{% macro f() %}x{% endmacro %}", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% macro m(x) %}{{ x }}{{ outer }}{% endmacro %}{% set outer = 'O' %}{{ m(1) }}", "{% macro m() %}{% set n = 1 %}{{ n }}{% endmacro %}{{ m() }}{{ n }}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(3) }}", "{% macro m(a=1, b) %}{% endmacro %}", "{{ m.name }}{% macro m(a, b) %}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m }}",
    "{% macro m() %}  x  {% endmacro %}{{ m()|trim }}|{{ m()|length }}", "{% for i in xs %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% filter upper %}abc{{ s }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}aaa{% endfilter %}", "{% filter nosuch %}{% endfilter %}", "{% raw %}{{ x }}{% if %}{% endraw %}", "{%- raw -%} {{ x }} {%- endraw -%} a", "{% raw %}a", "a{# comment #}b", "a{#- c -#} b", "a {#- c #} b", "{# unclosed",
    "a\n{% if true %}\nb\n{% endif %}\nc\n", "a\n  {% if true %}\n  b\n  {% endif %}\nc", "a\n  {%+ if true %}\n  b\n  {% endif +%}\nc", "  {{ n }}  \n  {{ n }}\n", "a  {%- if true -%}  b  {%- endif -%}  c", "{{- n -}}  x", "x  {{- n -}}  y", "a\n\n{%- if true %}\n\nb{% endif %}", "a \n {# c #} \n b", "a\n{# c #}\nb", "{% if true %}\r\nb\r\n{% endif %}\r\nc\r\n", "x\n\n", "\n", "", "a {% set x = 1 %} b", "  {% set x = 1 %}\n  {% set y = 2 %}\nz", "{{ '{{' }}{{ '%}' }}", "{{ {'a': {'b': 1}} }}", "{{ {'a': 1}['a'] }}{% if {'a': 1} %}x{% endif %}", "a{%- set x = 1 %}\n  b", "\t{% if true %}x{% endif %}", "x{% if true %}\n\n y{% endif %}",
    "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{% from 'x' import y %}", "{% block a %}x{{ n }}{% endblock %}", "{% block a %}{% endblock %}{% block a %}{% endblock %}", "{% do 1 %}", "{% foo %}", "{% endif %}", "{% if true %}", "{% if true %}{% endfor %}", "{% for x in xs %}{% endif %}", "{% for x xs %}", "{% %}", "{% if %}{% endif %}", "{{ }}", "{{ 1 }", "{{ 1", "{% if true %", "{{ a b }}", "{{ 1 ! 2 }}", "{{ @ }}", "{{ $x }}", "{{ (1] }}", "{{ ) }}", "{{ 'a }}", "{{ \"\\xzz\" }}", "a\nb\n{{ 1 + }}", "{% else %}", "{% for x in xs %}{% else %}{% else %}{% endfor %}", "{% macro %}{% endmacro %}", "{% macro m(1) %}{% endmacro %}", "{% elif 1 %}", "{% if 1 %}{% else %}{% elif 2 %}{% endif %}",
    "{% generation %}x{{ n }}{% set n = 2 %}{% endgeneration %}{{ n }}", "{% for x in xs %}{% generation %}{{ x }}{{ loop.index }}{% endgeneration %}{% endfor %}", "{% generation %}", "{% print 1, 2 %}", "{% print %}", "{{ 1, 2 }}", "{% set x = xs|map('string')|list %}{{ x }}{{ x|length }}", "{% set g = xs|select('odd') %}{{ g|list }}{{ g|list }}",
    "{% for x in xs|reverse %}{{ x }}{{ loop.length }}{% endfor %}", "{% for x in users|selectattr('age', 'defined') %}{{ loop.last }}{{ x.name }}{% endfor %}", "{% for m in messages[::-1] %}{{ m.role }}{% endfor %}", "{% set ns = namespace(stop=false) %}{% for x in [1,2,3,4] if not ns.stop %}{{ x }}{% if x == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}", "{% set j = joiner(', ') %}{% for x in xs %}{{ j() }}{{ x }}{% endfor %}",
    "{% set f = s.upper %}{{ f() }}", "{% set x = d.get %}{{ x('b') }}", "{% set m = messages[0] %}{{ m['content'] | trim }}", "{{ messages[0].content if messages[0].content is string else '' }}", "{% if messages[0]['role'] == 'system' %}{% set s0 = messages[0]['content'] %}{% set loop_messages = messages[1:] %}{% else %}{% set loop_messages = messages %}{% endif %}{% for m in loop_messages %}{{ m.role }}{% endfor %}{{ s0 is defined }}", "{% for g in users[:3]|groupby('age') %}{{ g.grouper }}:{% for u in g.list %}{{ u.name }},{% endfor %};{% endfor %}", "{% for age, us in users[:3]|groupby('age') %}{{ age }}={{ us|length }};{% endfor %}", "{% for x in range(3) -%}\n  {{ x }}\n{%- endfor %}", "{%- for x in xs -%} {{ x }} {%- endfor -%}", "{% for x in xs %}{% for y in xs %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}", "{% for x in xs %}{% set outer = loop %}{% for y in [1] %}{{ outer.index }}{% endfor %}{% endfor %}", "{% if (n > 5 and\n not no) %}ok{% endif %}", "{{ n\n}}\n{{ nope.x }}", "{% set x = 'a' %}{% set x = x + 'b' %}{{ x }}", "{% for k, v in d|dictsort %}{{ k }}{% endfor %}", "{% for k, v in nope.items() %}{% endfor %}", "{% for i in range(3) %}{% if i == 1 %}{% set z %}in{{ i }}{% endset %}{{ z }}{% endif %}{% endfor %}{{ z }}", "{% set x = namespace(v=[]) %}{% for i in xs %}{% set x.v = x.v + [i] %}{% endfor %}{{ x.v }}", "{{ strftime_now('%%') }}", "{{ strftime_now('') }}", "{% macro r(t) %}{% if t.items is defined %}d{% endif %}{{ t['items'] }}{% endmacro %}{{ r(d) }}", "{% for x in [1, 2, 3] %}{{ x }}{{ ',' if not loop.last }}{% endfor %}", "{% set a = [1] %}{% set a = a + [a] %}{{ a }}", "{% for x in d.a.x %}{{ x }}{% endfor %}", "{% call(x) nope() %}{% endcall %}", "{{ s.format }}x{{ '{}'.format_map({}) if false }}", "{%- if tools %}t{% else %}n{% endif -%}\n\nz", "{% for x in xs recursive %}{{ x }}{% endfor %}", "{%for x in xs%}{{x}}{%endfor%}", "{% if n is defined and n is not none and n > 0 %}y{% endif %}", "{% if not n is defined %}a{% else %}b{% endif %}", "{{ [1, 2, 3] | map('string') | join(', ') }}", "{% macro m() -%}\n a\n{%- endmacro %}[{{ m() }}]", "{% set ns = namespace(a=1) %}{{ ns['a'] }}{{ ns.a }}{{ 'a' in ns }}",
    "{% for x in xs %}{{ loop }}{% endfor %}", "{% block b %}{% set n = 3 %}{{ n }}{% endblock %}{{ n }}", "{% set y = 3 %}{% block b %}{{ y }}{% endblock %}", "{% for i in xs %}{% block b %}{{ i }}{% endblock %}{% endfor %}", "{% for i in xs %}{% block b scoped %}{{ i }}{% endblock %}{% endfor %}", "{% autoescape true %}{% endautoescape %}", "{% if true: %}x{% endif %}", "{% for x in xs: %}{{ x }}{% endfor %}", "{% set x = true if n > 5 else false %}{{ x }}", "{% set x, = [1] %}{{ x }}",
]

# Where the engine refuses by design what Jinja2 would do.
REFUSED = ("9223372036854775807 ", "lipsum", "self", "{% extends", "{% include", "{% import", "{% from", "{% autoescape", "xs|random and false", "namespace", "namespace(a=1).b.c", '\'é\'.encode("utf-8") is defined')
# Jinja2's own words, which must be the same; a Python exception of another kind must only be an error.
EXACT = (jinja2.exceptions.UndefinedError, jinja2.exceptions.SecurityError, jinja2.exceptions.TemplateSyntaxError,
         jinja2.exceptions.TemplateRuntimeError)


def case(template):
    row = {"template": template}
    try:
        compiled = _cached_compile_jinja_template(template)
        text = compiled.render(messages=[{"role": "user", "content": " hi "}], documents=None, add_generation_prompt=True, **CONTEXT)
        assert " at 0x" not in text, f"not reproducible: {template!r} -> {text!r}"
        row["text"] = text
    except AssertionError:
        raise
    except jinja2.exceptions.TemplateSyntaxError as e:
        row["error"], row["exact"], row["line"] = e.message, True, e.lineno
    except SyntaxError as e:  # break outside a loop
        row["error"], row["exact"] = str(e), False
    except Exception as e:
        row["error"], row["exact"] = str(e), isinstance(e, EXACT) or type(e) is jinja2.exceptions.TemplateError
    return row


def main():
    sys.setrecursionlimit(500)
    sources = ["{{ " + e + " }}" for e in EXPRESSIONS] + TEMPLATES
    cases = []
    for source in dict.fromkeys(sources):
        try:
            if any(source.startswith(r) or source == "{{ " + r + " }}" for r in REFUSED):
                continue
            cases.append(case(source))
        except AssertionError as e:
            print(e, file=sys.stderr)
    json.dump({"context": CONTEXT, "cases": cases}, sys.stdout, ensure_ascii=False, indent=0)
    print()


main()
