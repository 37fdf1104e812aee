"""Makes small tokenizers of every kind with the `tokenizers` and `sentencepiece` libraries, and what they answer.

    python make_tokenizers.py                    writes tokenizers/ (deterministic up to the libraries' training)
    python make_tokenizers.py --show KIND N      prints what the library answers to text N, for a failing test

Expected answers are stored as 32-bit FNV-1a hashes, two for each text: one of the ids (with special tokens, without, and,
where the library keeps special tokens out of plain text, without recognising them), one of the decoded texts (with special
tokens and without). tests/text/tokenizer/golden_test.cc computes the same.
"""
import argparse
import io
import json
import pathlib

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from odd_texts import byte_strings, strings

HERE = pathlib.Path(__file__).parent
OUT = HERE / "tokenizers"
NUM_TEXTS, NUM_BROKEN, NUM_ID_LISTS = 2000, 300, 500

# Written for this purpose; no licence but the project's.
TEXT = """The river kept its own time. In spring it came down brown and loud from the hills, and in the autumn it was low
and clear enough to count the stones. People who lived along it said that they did not need a calendar; they could tell the
month by the sound of the water under the bridge. There was a mill, and there was a school with one room and two windows.
When the bell rang at eight o'clock, the children would run across the field, because nobody wanted to be the last one in.
"How many stones are there in the river?" the teacher asked once. "As many as there are," said a girl, and that was right.
They've been here, he's there, we'll go, I'm late, you're early, don't wait, it's 7:45, and 1,234 people can't agree.
def count(stones):\n    total = 0\n    for stone in stones:\n        total += stone.weight * 2\n    return total  # done\n
for (int i = 0; i < n; ++i) { sum += a[i]; }   if (x != y && z >= 10) return {"key": [1, 2, 3]};
Der Fluss hatte seine eigene Zeit. Im Frühling kam er braun und laut von den Hügeln; straße, Größe, Übung, ärgern.
La rivière avait son temps à elle. Au printemps, elle descendait des collines; élève, garçon, où, forêt, naïve, œuvre.
El río tenía su propio tiempo. En primavera bajaba marrón y ruidoso; niño, mañana, corazón, ¿cuántas piedras? ¡Así es!
Река жила по своему времени. Весной она приходила с холмов, бурая и шумная. Сколько камней в реке? Привет, мир!
河流有自己的时间。春天它从山上下来,又黄又响。河里有多少石头? 你好,世界。学校只有一个房间。
川には川の時間があった。春には丘から茶色く下りてきた。石はいくつありますか。こんにちは世界。カタカナ
강은 자기만의 시간이 있었다. 봄에는 언덕에서 내려왔다. 안녕하세요 세계. नमस्ते दुनिया। नदी का अपना समय था।
كان للنهر وقته الخاص. مرحبا بالعالم. לנהר היה זמן משלו. שלום עולם. Ο ποταμός είχε τον δικό του χρόνο. สวัสดีชาวโลก
"""
CORPUS = [line for line in TEXT.split("\n") if line] * 3

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
# Oniguruma's dialect where PCRE2's differs; no model uses all of it.
DIALECT = r"\p{Han}+|(?m:<.>)|\h{2}\b|[\w&&[^\d_]]+|[[:digit:]]{1,2}+|[^\S\n]{2}?|\p{^L}(?=\p{Lu})|(?i)ß|\R"

BYTES = pre_tokenizers.ByteLevel.alphabet()


def special(*texts):
    return [AddedToken(text, special=True, normalized=False) for text in texts]


def train(tokenizer, trainer):
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def bpe(size, alphabet=(), specials=(), **model):
    tokenizer = Tokenizer(models.BPE(**model))
    options = {key: model[key] for key in ("continuing_subword_prefix", "end_of_word_suffix") if key in model}
    return tokenizer, trainers.BpeTrainer(vocab_size=size, initial_alphabet=list(alphabet), special_tokens=list(specials),
                                          show_progress=False, **options)


def byte_level(pattern, size, normalizer=None, add_prefix_space=False, **model):
    tokenizer, trainer = bpe(size, BYTES, **model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if isinstance(pattern, str):
        pattern = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=pattern is None)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pattern, bytes_]) if pattern else bytes_
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, trainer)


def llama3():
    tokenizer = byte_level(LLAMA3, 600, ignore_merges=True)
    tokenizer.add_special_tokens(special("<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>"))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                                      special_tokens=[("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))])])
    return tokenizer


def qwen2():
    tokenizer = byte_level(QWEN2, 600, normalizers.NFC())
    tokenizer.add_special_tokens(special("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    tokenizer.add_tokens([AddedToken("newtok", normalized=False), AddedToken("lstok", lstrip=True), AddedToken("rstok", rstrip=True),
                          AddedToken("wtok", single_word=True), AddedToken("\u00c5ngstr\u00f6m")])
    return tokenizer


def gpt2():
    tokenizer = byte_level(None, 500, add_prefix_space=True)
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=False, lstrip=True, rstrip=True)])
    return tokenizer


def gpt4o():
    return byte_level(GPT4O, 500, normalizers.NFD())


def smollm():
    tokenizer = byte_level(pre_tokenizers.Digits(individual_digits=True), 500)
    tokenizer.add_special_tokens(special("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    return tokenizer


def dialect():
    return byte_level(DIALECT, 500)


def clip():
    tokenizer, trainer = bpe(700, BYTES, special("<|startoftext|>", "<|endoftext|>"), unk_token="<|endoftext|>",
                             end_of_word_suffix="</w>", continuing_subword_prefix="")
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(CLIP), behavior="removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, trainer)
    ids = [tokenizer.token_to_id(text) for text in ("<|endoftext|>", "<|startoftext|>")]
    tokenizer.post_processor = processors.RobertaProcessing(("<|endoftext|>", ids[0]), ("<|startoftext|>", ids[1]), trim_offsets=False)
    return tokenizer


BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]


def llama2():
    tokenizer, trainer = bpe(900, specials=special("<unk>", "<s>", "</s>") + BYTE_TOKENS, unk_token="<unk>", fuse_unk=True,
                             byte_fallback=True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    train(tokenizer, trainer)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return only_special(tokenizer, 3)


def gemma():
    tokenizer, trainer = bpe(900, specials=special("<pad>", "<eos>", "<bos>", "<unk>") + BYTE_TOKENS, unk_token="<unk>",
                             fuse_unk=True, byte_fallback=True)
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous")
    train(tokenizer, trainer)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", pair="<bos> $A <bos>:1 $B:1", special_tokens=[("<bos>", 2)])
    return only_special(tokenizer, 4)


def only_special(tokenizer, count):
    """Byte tokens were named as special tokens only to get them into the vocabulary."""
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = [token for token in document["added_tokens"] if token["id"] < count]
    return Tokenizer.from_str(json.dumps(document))


def metaspace_first():
    tokenizer, trainer = bpe(500, specials=special("<unk>", "<s>"), unk_token="<unk>")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return train(tokenizer, trainer)


def prefixed_bpe():
    tokenizer, trainer = bpe(500, specials=special("[UNK]"), unk_token="[UNK]", continuing_subword_prefix="##", fuse_unk=False)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.NFKD(), normalizers.StripAccents()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(individual_digits=False),
        pre_tokenizers.CharDelimiterSplit("e")])
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    return train(tokenizer, trainer)


def suffixed_bpe():
    tokenizer, trainer = bpe(500, specials=special("<unk>"), unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=True)
    tokenizer.normalizer = normalizers.Nmt()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.BPEDecoder()
    return train(tokenizer, trainer)


def unigram(size, specials, normalizer, pre_tokenizer, unk="<unk>"):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    return train(tokenizer, trainers.UnigramTrainer(vocab_size=size, special_tokens=special(*specials), unk_token=unk, show_progress=False))


def nmt_nfkc():
    """The character map that nearly all SentencePiece models carry."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=model, vocab_size=400,
                                             normalization_rule_name="nmt_nfkc", minloglevel=2)
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


def t5():
    tokenizer = unigram(500, ["<pad>", "</s>", "<unk>"], normalizers.Precompiled(nmt_nfkc()), pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]))
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def xlmr():
    tokenizer = unigram(600, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] + BYTE_TOKENS, normalizers.Sequence([
        normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]), pre_tokenizers.Metaspace(prepend_scheme="never"))
    document = json.loads(tokenizer.to_str())
    document["model"]["byte_fallback"] = True
    document["added_tokens"] = document["added_tokens"][:5]
    for token in document["added_tokens"]:
        token["lstrip"] = token["content"] == "<mask>"
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="never")])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def word_piece(normalizer, size=600):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=40))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    train(tokenizer, trainers.WordPieceTrainer(vocab_size=size, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def bert():
    return word_piece(normalizers.BertNormalizer())


def bert_cased():
    return word_piece(normalizers.BertNormalizer(lowercase=False, strip_accents=False, handle_chinese_chars=False))


def word_level():
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.FixedLength(7)])
    return train(tokenizer, trainers.WordLevelTrainer(vocab_size=300, special_tokens=["[UNK]"], show_progress=False))


def splits(behavior, invert):
    def make():
        tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(r"\s+|,|(?=x)"), behavior, invert), pre_tokenizers.Split("e", behavior), pre_tokenizers.Punctuation(behavior)])
        tokenizer.decoder = decoders.CTC("the", "e", True)
        return train(tokenizer, trainers.WordLevelTrainer(vocab_size=300, special_tokens=["[UNK]"], show_progress=False))
    return make


# Kind -> (maker, whether the library keeps the ids of special tokens out of plain text)
KINDS = {
    "llama3": (llama3, True), "qwen2": (qwen2, True), "gpt2": (gpt2, True), "gpt4o": (gpt4o, True), "smollm": (smollm, True),
    "dialect": (dialect, True), "clip": (clip, True), "llama2": (llama2, True), "gemma": (gemma, True),
    "metaspace_first": (metaspace_first, True), "prefixed_bpe": (prefixed_bpe, True), "suffixed_bpe": (suffixed_bpe, True),
    "t5": (t5, False), "xlmr": (xlmr, False), "bert": (bert, True), "bert_cased": (bert_cased, True), "word_level": (word_level, True),
    "split_removed": (splits("removed", False), True), "split_removed_inverted": (splits("removed", True), True),
    "split_isolated": (splits("isolated", False), True), "split_merged_with_previous": (splits("merged_with_previous", False), True),
    "split_merged_with_next": (splits("merged_with_next", True), True), "split_contiguous": (splits("contiguous", False), True),
}

SENTENCEPIECE = {
    "sp_bpe": dict(model_type="bpe", byte_fallback=True, remove_extra_whitespaces=False),
    "sp_bpe_symbols": dict(model_type="bpe", byte_fallback=True, user_defined_symbols=["newtok", "<|im_end|>", "▁▁", "(x)"]),
    "sp_bpe_unknown": dict(model_type="bpe", add_dummy_prefix=False),
    "sp_unigram": dict(model_type="unigram", hard_vocab_limit=False, byte_fallback=True, user_defined_symbols=["newtok", "<sep>"]),
    "sp_unigram_phrases": dict(model_type="unigram", hard_vocab_limit=False, split_by_whitespace=False, remove_extra_whitespaces=False),
}


def texts():
    """(bytes, what they mean to a library that takes no broken UTF-8)"""
    raw = [text.encode() for text in strings(NUM_TEXTS)] + byte_strings(NUM_BROKEN)
    return [(data, data.decode("utf-8", errors="replace")) for data in raw]


def id_lists(vocab_size):
    """tests/text/tokenizer/golden_test.cc generates the same."""
    state = 1
    for _ in range(NUM_ID_LISTS):
        row = []
        for _ in range(24):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            draw = state >> 33
            row.append(draw % (vocab_size if draw & 256 else min(vocab_size, 300)))
        yield row


def fnv(data, value=2166136261):
    for byte in data:
        value = ((value ^ byte) * 16777619) % 2**32
    return value


def hash_ids(lists):
    return fnv(b"".join(b"".join(i.to_bytes(4, "little") for i in ids) + b"\xff\xff\xff\xff" for ids in lists))


def hash_texts(parts):
    return fnv(b"".join(part.encode() + b"\xff" for part in parts))


def answers(tokenizer, plain, text):
    tokenizer.encode_special_tokens = False
    ids = [tokenizer.encode(text, add_special_tokens=True).ids, tokenizer.encode(text, add_special_tokens=False).ids]
    if plain:
        tokenizer.encode_special_tokens = True
        ids.append(tokenizer.encode(text, add_special_tokens=False).ids)
    decoded = [tokenizer.decode(ids[0], skip_special_tokens=skip) for skip in (False, True)]
    return ids, decoded


def write_kind(name):
    make, plain = KINDS[name]
    tokenizer = make()
    tokenizer.save(str(OUT / f"{name}.json"), pretty=False)
    tokenizer = Tokenizer.from_file(str(OUT / f"{name}.json"))
    hashes = []
    for _, text in texts():
        ids, decoded = answers(tokenizer, plain, text)
        hashes.append(f"{hash_ids(ids):08x}{hash_texts(decoded):08x}")
    lists = [hash_texts([tokenizer.decode(ids, skip_special_tokens=skip) for skip in (False, True)])
             for ids in id_lists(tokenizer.get_vocab_size())]
    return {"plain": plain, "texts": "".join(hashes), "id_lists": "".join(f"{value:08x}" for value in lists)}


def write_sentencepiece(name):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=model, vocab_size=680, character_coverage=0.995,
                                             normalization_rule_name="identity", minloglevel=2, **SENTENCEPIECE[name])
    (OUT / f"{name}.model").write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return {"texts": "".join(f"{hash_ids([processor.encode(text)]):08x}" for _, text in texts())}


def show(name, number):
    data, text = texts()[number]
    print(repr(data), repr(text), sep="\n")
    if name in KINDS:
        tokenizer = Tokenizer.from_file(str(OUT / f"{name}.json"))
        ids, decoded = answers(tokenizer, KINDS[name][1], text)
        print(*ids, *map(repr, decoded), tokenizer.encode(text).tokens, sep="\n")
    else:
        processor = sentencepiece.SentencePieceProcessor(model_file=str(OUT / f"{name}.model"))
        print(processor.encode(text), processor.encode(text, out_type=str), sep="\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--show", nargs=2, metavar=("KIND", "N"))
    arguments = parser.parse_args()
    if arguments.show:
        return show(arguments.show[0], int(arguments.show[1]))
    OUT.mkdir(exist_ok=True)
    # A text that is not UTF-8 is stored as {"hex": "..."}.
    rows = [text if data == text.encode() else {"hex": data.hex()} for data, text in texts()]
    (OUT / "texts.json").write_text(json.dumps(rows, ensure_ascii=False, separators=(",", ":")))
    expected = {name: write_kind(name) for name in KINDS}
    expected |= {name: write_sentencepiece(name) for name in SENTENCEPIECE}
    (OUT / "expected.json").write_text(json.dumps(expected, indent=0))


if __name__ == "__main__":
    main()
