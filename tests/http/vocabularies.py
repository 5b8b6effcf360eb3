"""Vocabularies of every family, trained on the spot by the `tokenizers` library on made-up text, and texts to compare
on. They hold no data of other projects; equal seeds give equal files."""

import functools
import json
import os
import random
import struct
import unicodedata

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # threads for so little text cost more than they do

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
NO_HAN = [r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]", r"\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]"]
KIMI = (rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?[{NO_HAN[0]}]*[{NO_HAN[1]}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        rf"[^\r\n\p{{L}}\p{{N}}]?[{NO_HAN[0]}]+[{NO_HAN[1]}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LING = QWEN2.replace("]?", "]?+", 1).replace(r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{N}]++").replace(r"[\r\n]+", r"[\r\n]").replace(
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)", "'(?i:[sdmt]|ll|ve|re)")
ALPHABETS = ["abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJ", "абвгдежзи", "αβγδεζ", "春風花月山水人天地一", "のはをがたで", "אבגד",
             "àéîõüçñ", "กขคงจ", "हिन्दी", "0123456789", "٠١٢٣٤", "😀🎉👩‍👩‍👧", "é̂ ä̧"]
BETWEEN = [" ", " ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", " \n ", "\t", ", ", ". ", "!", "?! ", " (", ") ", "'s ", "'LL ",
           "don't", "...", "—", "。", "，", "\u00a0", "\u3000", "\u2028", "_", "-", "/", "==", "##", "▁", ""]


def text(rng, n_words):
    """Words of several scripts, some of them frequent, with all separators of words."""
    words = ["".join(rng.choices(rng.choice(ALPHABETS), k=rng.randint(1, 9))) for _ in range(400)]
    out = []
    for _ in range(n_words):
        word = words[min(int(rng.expovariate(0.02)), 399)] if rng.random() < 0.8 else "".join(
            rng.choices(rng.choice(ALPHABETS), k=rng.randint(1, 12)))
        out += [word, rng.choice(BETWEEN)]
    return "".join(out)


@functools.cache
def corpus(seed=1, n_texts=200):
    rng = random.Random(seed)
    return [text(rng, 60) for _ in range(n_texts)]


SPECIALS = [AddedToken("<|end|>", special=True, normalized=False), AddedToken("<s>", special=True, normalized=False),
            AddedToken("</s>", special=True, normalized=False)]
ADDED = [AddedToken("<mask>", lstrip=True), AddedToken("<right>", rstrip=True), AddedToken("<both>", lstrip=True, rstrip=True),
         AddedToken("word", single_word=True), AddedToken("raw one", normalized=False), AddedToken("raw one more", normalized=False),
         AddedToken("Norm", normalized=True), AddedToken("é", normalized=True, single_word=True),
         AddedToken("<tool>", special=True, lstrip=True, rstrip=True, normalized=False), AddedToken("  ", normalized=False),
         AddedToken("\n\n\n", normalized=False)]


def train(tokenizer, size, alphabet=(), added=True):
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<unk>", *SPECIALS], initial_alphabet=list(alphabet),
                                  show_progress=False, min_frequency=2)
    tokenizer.train_from_iterator(corpus(), trainer)
    if added:
        tokenizer.add_tokens(ADDED)
    return tokenizer


def byte_level(pattern=None, prefix=False, normalizer=None, ignore_merges=False, template=False, added=True, size=1500,
               before=(), after=()):
    """GPT-2's own splitting, or ByteLevel after a Split by `pattern` and the stages of `before`; then those of `after`."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    end = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=pattern is None)
    stages = [*before, *([pre_tokenizers.Split(Regex(pattern), "isolated")] if pattern else []), end, *after]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(stages) if len(stages) > 1 else end
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, size, pre_tokenizers.ByteLevel.alphabet(), added)
    if template:
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)])])
    return tokenizer


@functools.cache
def text_of_qwen2():
    return byte_level(pattern=QWEN2).to_str()


def qwen2():
    """Of byte_level with QWEN2's pattern: it is trained once, and each caller may add its tokens."""
    return Tokenizer.from_str(text_of_qwen2())


def with_byte_tokens(tokenizer):
    """The same vocabulary with <0x00> to <0xFF> after the first ids, as SentencePiece orders them."""
    file = json.loads(tokenizer.to_str())
    vocab, first = file["model"]["vocab"], 4
    vocab = {k: v if v < first else v + 256 for k, v in vocab.items()}
    vocab |= {f"<0x{byte:02X}>": first + byte for byte in range(256)}
    file["model"]["vocab"] = vocab
    file["model"]["byte_fallback"] = True
    for token in file["added_tokens"]:
        token["id"] = vocab.get(token["content"], token["id"] + 256)
    return Tokenizer.from_str(json.dumps(file))


def llama(scheme=None, fallback=True, fuse=True, split=False, added=True, size=1200):
    """Llama's way: normalizers Prepend and Replace, or with `scheme` the pre-tokenizer Metaspace."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse))
    if scheme is None:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                               decoders.Strip(" ", 1, 0)])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
        tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]) \
            if fallback else decoders.Metaspace(prepend_scheme=scheme, split=split)
    # The trainer cuts only by the pre-tokenizer: without one a token would be a whole text.
    rest = tokenizer.pre_tokenizer
    if not split:
        tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next") if scheme is None else \
            pre_tokenizers.Metaspace(prepend_scheme=scheme, split=True)
    train(tokenizer, size, added=added)
    if not split and scheme is None:
        tokenizer.pre_tokenizer = None
    elif not split:
        tokenizer.pre_tokenizer = rest
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
    return with_byte_tokens(tokenizer) if fallback else tokenizer


def charsmap(rules):
    """Bytes of SentencePiece's compiled rules {text: replacement}: a double array, then the replacements."""
    tree, blob, units, bases = {}, bytearray(), {}, set()
    for text, replacement in sorted(rules.items()):
        node = tree
        for byte in text.encode():
            node = node.setdefault(byte, {})
        node[None] = len(blob)
        blob += replacement.encode() + b"\0"

    def place(node, at, label):
        own = {key if key is not None else 0: key for key in node}
        base = next(b for b in range(1, 1 << 20) if b not in bases and not any(b ^ key in units for key in own))
        bases.add(base)
        units[at] = label | (None in node) << 8 | (at ^ base) << 10
        units.update({base ^ key: 0 for key in own})
        for key, child in own.items():
            if child is None:
                units[base] = 1 << 31 | node[None]
            else:
                place(node[child], base ^ key, key)

    place(tree, 0, 0)
    array = [units.get(i, 0) for i in range(max(units) + 256)]
    return struct.pack(f"<{1 + len(array)}I", 4 * len(array), *array) + bytes(blob)


RULES = {"\u00a0": " ", "\u3000": " ", "\t": " ", "\n": " ", "\r\n": "  ", "\u200b": "", "ﬁ": "fi", "①": "1", "Å": "A\u030a", "e\u0301": "é",
         "é": "e", "\u2028": " ", "…": "...", "a\u0301": "á", "٠": "0", "字": "", "x": "ks", "ü": "uu"}


def pieces(rng, count, texts, longest=8, quantum=4, known=0.9):
    """Pieces of texts with scores that are multiples of 1 / quantum, so that sums are exact and often equal."""
    found = dict.fromkeys(c for text in texts for c in text if not c.isspace() and rng.random() < known)
    for _ in range(20 * count):  # few characters have few pieces
        text = rng.choice(texts)
        at = rng.randrange(len(text))
        piece = text[at:at + rng.randint(2, longest)]
        if len(found) < count and piece and not any(c.isspace() for c in piece):
            found[piece] = None
    return [(piece, -round(quantum * (rng.uniform(2, 9) + 0.4 * len(piece))) / quantum) for piece in found]


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
MARKED = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
DOUBLE_BLANKS = normalizers.Replace(Regex(" {2,}"), "▁")


def unigram(normalizer=None, before=MARKED, decoder=None, fallback=False, count=1500):
    """T5's way: pieces with scores, blanks as marks."""
    found = pieces(random.Random(7), count, ["▁" + part.replace(" ", "▁") for part in corpus()[:40]])
    vocab = [("<unk>", 0.0), *((token.content, 0.0) for token in SPECIALS), *((byte, -20.0) for byte in BYTES if fallback), *found]
    tokenizer = Tokenizer(models.Unigram(vocab, 0, byte_fallback=fallback))
    tokenizer.pre_tokenizer = before
    tokenizer.decoder = decoder or decoders.Metaspace(prepend_scheme="always", split=True)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens([AddedToken("<unk>", special=True, normalized=False), *SPECIALS])
    tokenizer.add_tokens(ADDED)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 3)])
    return tokenizer


def unigrams(count=1500):
    """Pre-tokenizers and normalizers of T5, XLM-RoBERTa and ALBERT, with byte tokens, and of whole texts; by name."""
    rules = normalizers.Precompiled(charsmap(RULES))
    words = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), MARKED])
    yield "unigram-t5", lambda: unigram(rules, words, count=count)
    yield "unigram-xlm-r", lambda: unigram(normalizers.Sequence([rules, normalizers.Strip(left=False), DOUBLE_BLANKS]), count=count)
    yield "unigram-albert", lambda: unigram(normalizers.Sequence([
        normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), rules]), words, count=count)
    yield "unigram-bytes", lambda: unigram(
        normalizers.Sequence([normalizers.Strip(), normalizers.Replace(" ", "▁")]), pre_tokenizers.Split("▁", "merged_with_next"),
        decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]), fallback=True, count=count)
    yield "unigram-whole", lambda: unigram(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
                                           decoders.Metaspace(prepend_scheme="first", split=False), count=count)


def random_unigram(seed):
    """A small vocabulary over few characters, and texts of these and others: many equal sums, unknown runs, byte tokens."""
    rng = random.Random(seed)
    alphabet = rng.choice(["ab", "abc▁", "aé春▁", "a\u0301▁😀b"])
    found = pieces(rng, rng.randint(5, 40), ["".join(rng.choices(alphabet, k=30)) for _ in range(8)], rng.randint(2, 6),
                   rng.choice([1, 4]), rng.random())
    fallback = rng.random() < 0.5
    vocab = [("<unk>", 0.0), ("</s>", 0.0), *((byte, -9.0) for byte in BYTES if fallback and rng.random() < 0.999), *found]
    tokenizer = Tokenizer(models.Unigram(vocab, 0, byte_fallback=fallback))
    tokenizer.add_special_tokens([AddedToken("</s>", special=True, normalized=False)])
    scheme = rng.choice(["always", "first", "never"])
    steps = [normalizers.Precompiled(charsmap(RULES)), normalizers.Lowercase(), normalizers.NFKC(), DOUBLE_BLANKS, normalizers.Replace("b", "aa")]
    if scheme != "first":  # which no text has whose beginning was left out
        steps += [normalizers.StripAccents(), normalizers.Strip(rng.random() < 0.5, rng.random() < 0.5)]
    tokenizer.normalizer = normalizers.Sequence(rng.sample(steps, rng.randint(0, 4)))
    split = rng.random() < 0.5
    tokenizer.pre_tokenizer = rng.choice([pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split), pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)])])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]) if fallback \
        else decoders.Metaspace(prepend_scheme=scheme, split=split)
    texts = ["".join(rng.choices(alphabet + " \u0301\t▁xBÅe\r\n", k=rng.randint(0, 40))) for _ in range(60)]
    return tokenizer, texts


def split_variants():
    yield from ((behavior, invert) for invert in (False, True)
                for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"))


def stages():
    """Pre-tokenizers before ByteLevel, by name."""
    for behavior, invert in split_variants():
        yield f"split-{behavior}-{invert:d}", [pre_tokenizers.Split(Regex(r"[aeiou\s]"), behavior, invert)]
    yield "split-text", [pre_tokenizers.Split("..", "isolated")]
    yield "digits", [pre_tokenizers.Digits(False)]
    yield "digit", [pre_tokenizers.Digits(True)]
    yield "punctuation", [pre_tokenizers.Punctuation("isolated")]
    yield "whitespace", [pre_tokenizers.Whitespace()]
    yield "whitespace-split", [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("isolated")]
    yield "punctuation-contiguous", [pre_tokenizers.Digits(True), pre_tokenizers.Punctuation("contiguous")]


# As Falcon's: the steps after ByteLevel see letters for bytes.
AFTER = [pre_tokenizers.Digits(False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]
WORDS = r"\b\w{1,4}\b|\B[\w.]+|\w|\W\b|\s+|[^\s\w]+"

MAKERS = {
    "gpt2": lambda: byte_level(),
    "gpt2-prefix": lambda: byte_level(prefix=True),
    "gpt-neox": lambda: byte_level(normalizer=normalizers.NFC()),
    "llama3": lambda: byte_level(LLAMA3, ignore_merges=True, template=True),
    "qwen2": lambda: byte_level(QWEN2, normalizer=normalizers.NFC()),
    "kimi": lambda: byte_level(KIMI),
    "ling": lambda: byte_level(LING, normalizer=normalizers.NFC()),
    "falcon": lambda: byte_level(before=[pre_tokenizers.Punctuation("contiguous")], after=AFTER),
    "falcon-whole": lambda: byte_level(LLAMA3, prefix=True, ignore_merges=True, after=[
        pre_tokenizers.Punctuation("isolated"), pre_tokenizers.WhitespaceSplit()]),
    "words": lambda: byte_level(WORDS),
    "nfkc": lambda: byte_level(QWEN2, normalizer=normalizers.NFKC()),
    "nfd": lambda: byte_level(normalizer=normalizers.Sequence([normalizers.NFD(), normalizers.Replace("a", "bb")])),
    "nfkd": lambda: byte_level(normalizer=normalizers.NFKD()),
    "llama": lambda: llama(),
    "llama-not-fused": lambda: llama(fuse=False),
    "metaspace-always": lambda: llama("always"),
    "metaspace-first": lambda: llama("first"),
    "metaspace-never": lambda: llama("never"),
    "metaspace-split": lambda: llama("always", split=True),
    "characters-bpe": lambda: llama("always", fallback=False, split=True),
    "characters-bpe-not-fused": lambda: llama("first", fallback=False, fuse=False),
} | {name: (lambda before=before: byte_level(before=before)) for name, before in stages()} | dict(unigrams())


# --- texts ------------------------------------------------------------------------------------------

def is_known(c):
    """Assigned, as all tables of characters have known for years: newer ones differ between libraries."""
    return unicodedata.category(chr(c)) not in ("Cs", "Cn")


def corners():
    """All characters, and the borders of all ranges."""
    known = [chr(c) for c in range(1, 0x110000) if is_known(c)]
    yield from ("".join(known[i:i + 400]) for i in range(0, len(known), 400))
    yield from (" ".join(known[i:i + 100]) for i in range(0, len(known), 1500))
    yield from ["", " ", "  ", "\n", "\r\n\r\n", "a", "'", "'s", "▁", "▁▁", " ▁", "<s>", "<s><s>", "\ufeff", "\ufffd", "\U0010ffff",
                "e\u0301\u0323\u0301", "\u1100\u1161\u11a8", "\u212b\u2126", "ﬁ①Å", "\u180e", "\u0085", "\u200b", "\u017fT's 'ſ"]


def with_added(rng):
    """Texts in which added and special tokens stand against each other, words and white space."""
    parts = [t.content for t in [*SPECIALS, *ADDED]] + [" ", "  ", "\n", "\t", "a", "word", "é", "e\u0301", "1", "_", "\u3000", ".", "norm",
                                                        "\u0301", "raw", " one"]
    return "".join(rng.choice(parts) for _ in range(rng.randint(1, 12)))


def random_text(rng):
    """Random bytes, read as UTF-8 as far as they are, or random characters."""
    if rng.random() < 0.5:
        return rng.randbytes(rng.randint(1, 400)).decode("utf-8", "replace").replace("\0", "")
    return "".join(chr(c) for c in (rng.randrange(1, rng.choice([0x80, 0x300, 0x3000, 0x20000])) for _ in range(200)) if is_known(c))


def texts(seed=2, n=100):
    rng = random.Random(seed)
    yield from (with_added(rng) for _ in range(4 * n))
    yield from (random_text(rng) for _ in range(n))
    yield from (text(rng, rng.randint(1, 80)) for _ in range(n))


FORMS = {"NFC": normalizers.NFC(), "NFD": normalizers.NFD(), "NFKC": normalizers.NFKC(), "NFKD": normalizers.NFKD()}


def same_tables(text):
    """Whether the library's tables of Unicode's forms, which are older, agree with Python's on the text."""
    return all(form.normalize_str(text) == unicodedata.normalize(name, text) for name, form in FORMS.items())


def same_marks(text):
    """Whether the library's table of marks, which is older still, agrees with Python's on the text."""
    return normalizers.StripAccents().normalize_str(text) == "".join(c for c in text if unicodedata.category(c)[0] != "M")
