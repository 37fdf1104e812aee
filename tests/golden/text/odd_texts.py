"""Texts that tokenizers get wrong: many scripts, emoji sequences, white space, controls, code, special tokens, broken UTF-8.

Characters drawn at random are those of Unicode 3.2: the tables of the libraries are of different ages, and disagree on
the punctuation and the marks of scripts that came later.

Deterministic, so that expectations can be made anew.
"""
import random
import unicodedata
WORDS = """the of and to in is you that it he was for on are as with his they I at be this have from or one had by word but not what all were we when your can said there use an each which she do how their if will up other about out many then them these so some her would make like him into time has look two more write go see number no way could people my than first water been call who oil its now find long down day did get come made may part""".split()
MULTI = ["Привет, мир!", "Καλημέρα κόσμε", "こんにちは世界", "你好,世界。", "안녕하세요 세계", "مرحبا بالعالم", "שלום עולם", "नमस्ते दुनिया", "สวัสดีชาวโลก", "Xin chào thế giới", "Žluťoučký kůň úpěl ďábelské ódy", "İstanbul'da ışık", "ǅungla ǆ Ǆ", "straße STRASSE ẞ", "ﬁnance ﬂow ﬀ ﬃ", "ＦＵＬＬＷＩＤＴＨ　ｔｅｘｔ１２３", "½ ⅓ ² ³ ①②③ Ⅳ ⅷ", "한글 자모 ㄱㄴㄷ", "ᄒ" "ᅡ" "ᆫ", "བོད་སྐད་", "ქართული ენა", "հայերեն", "አማርኛ", "தமிழ்", "ภาษาไทย", "ລາວ", "မြန်မာ", "ខ្មែរ", "ไทย๑๒๓", "٣٤٥ ۶۷۸", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛", "𠮷野家 𡈽", "日本語テキスト、カタカナー", "ʰʷ ʼ", "K ſ Å Ω"]
EMOJI = ["😀", "👨‍👩‍👧‍👦", "🏳️‍🌈", "👩🏽‍🚀", "🇩🇪🇫🇷", "❤️", "1️⃣", "🤷🏿‍♀️", "☺️", "🫠", "👍🏻👍🏿", "🧑‍💻"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n ", "\u00a0", "\u3000", "\u2028", "\u200b", "\u202f", "\x0b", "\x0c", "\x85", "\u180e", "\ufeff", "\u2060", "\t\t", "        "]
CTRL = ["\x00", "\x01", "\x07", "\x1b[0m", "\x7f", "\x80", "\x9f", "\ufffd", "\u200d", "\u200c", "\ue000", "\U000f0000", "\u0378", "\uffff", "\U0010ffff"]
CODE = ["def f(x):\n    return x**2 + 1\n", "for (int i=0;i<n;++i) { a[i] = b[i]; }", "if(x!=null&&y>=3){}", "<html><body class=\"a\">&amp;</body></html>", "SELECT * FROM t WHERE id='1' -- c", "x=1_000.5e-10;", "https://example.com/a?b=c&d=%20#e", "#include <stdio.h>", "\\frac{1}{2}", "a->b::c()", "{\"k\": [1,2,3]}", "$HOME/.bashrc", "import numpy as np", "!!!???...", "--flag=value", "'tis I'll we've DON'T can't 'S 'LL", "it's he's I'M you'RE"]
DIGITS = ["1", "12", "123", "1234", "12345", "1234567890", "3.14159", "1,000,000", "007", "2023-01-01", "1e10"]
MARKS = ["e\u0301", "e\u0301\u0323", "a\u0300\u0301\u0302\u0303", "n\u0303", "\u0301x", "c\u0327\u0301", "\u1e9b\u0323", "o\u0302\u0301", "क्षि", "g̈", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘"]
SPECIAL = ["<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "[CLS]", "[SEP]", "[MASK]", "<mask>", "<|im_start|>user\n", "<|im_end|>", "<bos>", "<eos>", "<start_of_turn>", "<|begin_of_text|>", "<0x0A>", "<0xFF>", "▁", "▁the", "##ing", "Ġ", "</w>", "<extra_id_0>", "newtok", "NewTok", "lstok", "rstok", "wtok"]
ALL = [WORDS]*6 + [MULTI]*2 + [EMOJI, SPACES, SPACES, CTRL, CODE, CODE, DIGITS, MARKS, SPECIAL, SPECIAL]
RANGES = [(0x20, 0x7F), (0xA0, 0x600), (0x900, 0x1100), (0x1E00, 0x2500), (0x3000, 0x9FFF), (0x1F300, 0x1FA00), (0xAC00, 0xD7A3)]


def random_character(r):
    while True:
        c = chr(r.randrange(*r.choice(RANGES)))
        if c >= "\U0001f300" or unicodedata.ucd_3_2_0.category(c) != "Cn":
            return c


def strings(n, seed=1, special=True):
    r = random.Random(seed); out = [""]
    base = MULTI + EMOJI + SPACES + CTRL + CODE + DIGITS + MARKS + SPECIAL + WORDS[:20]
    out += base
    out += [" "+b for b in base] + [b+" " for b in base]
    while len(out) < n:
        k = r.random()
        if k < 0.15:
            s = "".join(random_character(r) for _ in range(r.randrange(1, 12)))
        elif k < 0.25:
            s = "".join(r.choice(r.choice([SPACES, SPACES, WORDS, DIGITS])) for _ in range(r.randrange(1,10)))
        else:
            parts = []
            for _ in range(r.randrange(1,14)):
                parts.append(r.choice(r.choice(ALL))); parts.append(r.choice([" ", " ", " ", "", "", ", ", ". ", "\n"]))
            s = "".join(parts)
            if r.random() < 0.1: s = s.upper()
            elif r.random() < 0.1: s = s.title()
        out.append(s)
    return out[:n]
def byte_strings(n, seed=2):
    r = random.Random(seed); out = []
    for s in strings(n, seed):
        b = bytearray(s.encode())
        for _ in range(r.randrange(1,4)):
            p = r.randrange(len(b)+1); k = r.random()
            if k < .4 and b: del b[min(p,len(b)-1)]
            elif k < .7: b[p:p] = bytes([r.randrange(128,256)])
            elif b: b[min(p,len(b)-1)] = r.randrange(256)
        out.append(bytes(b))
    return out
