"""Writes oniguruma.json: how the `tokenizers` library cuts texts at patterns in which Oniguruma and PCRE2 differ, or might."""
import json
import pathlib

from tokenizers import Regex, pre_tokenizers

CASES = [
    (r"\p{N}{1,3}+","a1234567b12"), (r"a{2}?","aaaaa"), (r"a{,2}","aaaab"), (r"a{2,}?","aaaaa"), (r"x{,}","x{,}xx"), (r"a{b","aa{bab"),
    (r"(?:ab)+*","ababxab"), (r"a++b","aaab ab"), (r"a?+b","aab"),
    (r"\h+","xyzABCdef09g"), (r"\H+","abcxyz12"), (r"\v","a\x0bb\x0cc\x85d\u2028e"), (r"\s","a\u180eb\x85c\u00a0d\u200be\u2028f\x1cg"), (r"\S+"," ab\u180e c\x85d"),
    (r"\w+","a_b-c\u0301d\u203fe\u200df\u24b6g\u00b2h\u0660"), (r"\W+","ab - c\u0301,d"), (r"\d+","1\u0661\u00b2\u2160a"), (r"\D+","12ab3"),
    (r"\bfoo\b","foo \u00e9foo foo\u0301 foo_ (foo)"), (r"\Boo","foo oo"), (r"[\b]","a\x08b"),
    (r"(?m:a.b)","a\nb a\n a-b"), (r"(?-m:a.b)","a\nb a-b"), (r"a.b","a\nb axb"), (r"(?i)ab|cd","AB Cd xAb"), (r"x(?i)a|b","xA B b xb"), (r"(?i:k)","k K \u212a"), (r"(?i:s)","s S \u017f"),
    (r"^a","a\na\nba"), (r"a$","a\na b\na"), (r"\Aa","a\na"), (r"a\z","a\na"), (r"a\Z","a\na\n"),
    (r"[a-z&&[^aeiou]]+","hello world"), (r"[a[bc]d]+","abcdexyz"), (r"[^a[bc]]+","abcxyzb"), (r"[^\w&&[a-f]]+","abcxyz f-"), (r"[[:alpha:]]+","ab1\u00e9\u0301_"), (r"[[:^digit:]]+","12ab3"), (r"[[:punct:]]+","a$+<=>^`|~!\u00a1\u20acb"), (r"[[:space:]]","a \u0085b"), (r"[\]a]+","a]b"), (r"[]a]+","a]b"), (r"[a\-z]+","a-zb"), (r"[\p{L}&&\p{^Lu}]+","aBcD"),
    (r"[\W_]+","a_-b"), (r"[^\W_]+","a_b-1"), (r"[\S]+","a b"), (r"[^\S\n]+","a \t\n b"),
    (r"\p{Han}+","\u6f22\u3007\u3005\u3031\u30fc\u5b57"), (r"\p{Greek}+","\u03b1\u0342\u1f70\u0345x"), (r"\p{Letter}+","ab1"), (r"\p{^L}+","ab12"), (r"\P{^L}+","ab12"), (r"\p{Punct}+","a!$b\u00a1"), (r"\p{Punctuation}+","a!$b\u00a1"), (r"\p{Alnum}+","a1\u0301_\u00b2"), (r"\p{Emoji}","a\u00a9\U0001F600"), (r"\p{sc}","a$b"), (r"\p{Lu}\p{Ll}*","Hello WORLD \u01c5x"), (r"\p{Word}+","a_1-"), (r"\p{White_Space}","a b"), (r"\p{L_}","ab") ,
    (r"\u0061+","aab"), (r"\x{1F600}","a\U0001F600b"), (r"\x41","A41"), (r"\t|\n|\r|\f|\a|\e","a\tb\nc\x0cd\x07e\x1bf"), (r"\R","a\r\nb\nc\x85d\u2028"), (r"\X","e\u0301x\r\n"), (r"\O","a\n"), (r"\N+","ab\ncd"), (r"a(?#note)b","abab"), (r"(?<n>a)\k<n>","aab"), (r"(a)\1","aab"), (r"(?=b)","abab"), (r"(?<=a)b","abb"), (r"(?<!a)b","abb"), (r"(?>a+)b","aab"), (r"x*","axxb"), (r"","ab"), (r"|a","ba"), (r"a\/b\-c\ d","a/b-c d"), (r"\_\'","_'"), (r"[\u4e00-\u9fa5]+","a\u4e00b"), (r"[!-/:-~]+","a!z"), (r"(?i:'s|'t|'re)","'S 'RE 'r"), (r"[^\r\n\p{L}\p{N}]?+\p{L}+"," ab\nc"), (r"(?x)a b","ab a b"), (r"a{0}","aa"), (r"(ab){2}+","abababab"), (r"[a-]","a-b"), (r"[--a]","a-b"), (r"\G.","abc"), (r"\Ka","aa"), (r"a\Kb","abab"),
]

rows = [[pattern, text, [part for part, _ in pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str(text)]]
        for pattern, text in CASES]
pathlib.Path(__file__).with_name("oniguruma.json").write_text(json.dumps(rows, indent=0))
