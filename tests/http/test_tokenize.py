"""`linnet tokenize` against the library whose files it reads, and against RWKV World written down in Python."""

import base64
import functools
import json
import os
import random
import subprocess
import time

import pytest
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers, processors

import text_model
import vocabularies
import world
from settings import LINNET, MODEL_DIR, SANITIZED

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.asan]

# A tokenizer gets a third of the texts, another one another third; a sixth under the address sanitizer; all by night.
PART = int(os.environ.get("TEXTS_PART", 6 if SANITIZED else 3))
LONG = 1 << (17 if SANITIZED else 20)


def tokenize(*args, text=b"", status=0):
    result = subprocess.run([LINNET, "tokenize", *map(str, args)], input=text, capture_output=True, check=False,
                            timeout=600)
    assert result.returncode == status, result.stderr.decode()
    return result.stdout if status == 0 else result.stderr.decode()


def encode_all(path, texts, *flags):
    records = b"".join(t if isinstance(t, bytes) else t.encode() for text in texts for t in (text, b"\0"))
    out = tokenize("--tokenizer", path, "--each", "nul", *flags, text=records)
    ids = [[int(word) for word in line.split()] for line in out.decode().split("\n")[:-1]]
    assert len(ids) == len(texts)
    return ids


def decode_all(path, lists, *flags):
    lines = "".join(" ".join(map(str, ids)) + "\n" for ids in lists)
    return tokenize("--tokenizer", path, "--each", "nul", "--decode", *flags, text=lines.encode()).decode().split("\0")[:-1]


@functools.cache
def made(name):
    return vocabularies.MAKERS[name]()


@functools.cache
def comparable():
    """All texts, and how many of them the library's tables of characters are too old for."""
    texts = [*vocabularies.corners(), *vocabularies.texts()]
    kept = [text for text in texts if vocabularies.same_tables(text)]
    assert len(kept) > 0.95 * len(texts)
    return kept


@functools.cache
def some(n):
    return list(vocabularies.texts(n=n))


MAIN = [name for name in vocabularies.MAKERS if name not in dict(vocabularies.stages())]


def compare(name, folder, texts):
    compare_with(made(name), folder, texts)


def compare_with(tokenizer, folder, texts):
    texts, path = list(texts), folder / "tokenizer.json"
    tokenizer.save(str(path))
    expected = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    for text, ours, theirs in zip(texts, encode_all(path, texts), expected, strict=True):
        assert ours == theirs, text
    for flags, skip in (((), False), (("--no-specials",), True)):
        decoded = tokenizer.decode_batch(expected, skip_special_tokens=skip)
        for text, ids, ours, theirs in zip(texts, expected, decode_all(path, expected, *flags), decoded, strict=True):
            assert ours == theirs, (text, ids)


@pytest.mark.heavy
@pytest.mark.parametrize("name", MAIN)
def test_equals_the_library(name, tmp_path):
    texts = comparable()[MAIN.index(name) % PART::PART]
    compare(name, tmp_path, texts if name != "unigram-albert" else filter(vocabularies.same_marks, texts))


@pytest.mark.parametrize("name", [name for name, _ in vocabularies.stages()])
def test_equals_the_library_with_a_stage_before(name, tmp_path):
    compare(name, tmp_path, some(25))


@pytest.mark.parametrize("pattern", [r"\p{Han}", r"\p{^Hiragana}", r"[^\p{Katakana}]", r"\P{Latin}", r"\p{Common}", r"\p{L}", r"\p{Lu}", r"\w",
                                     r"\W", r"[\w]", r".\b", r"\B."])
def test_characters_of_a_class_are_those_of_the_library(pattern, tmp_path):
    """The characters that scripts share are of none, and \\w has superscripts and fractions outside of sets alone."""
    known = [chr(c) for c in [*range(1, 0x700), *range(0x3000, 0x3400), *range(0xff00, 0x10000)] if vocabularies.is_known(c)]
    tokenizer = Tokenizer.from_str(made("gpt2").to_str())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "removed"), pre_tokenizers.ByteLevel(use_regex=False)])
    compare_with(tokenizer, tmp_path, filter(vocabularies.same_tables, [*known, *(c + " a" for c in known)]))


@pytest.mark.parametrize("lstrip", [True, False])
def test_white_space_that_a_token_took_is_no_token_with_lstrip(lstrip, tmp_path):
    file = json.loads(made("gpt2").to_str())
    for token in file["added_tokens"]:
        token["lstrip"] = lstrip and token["content"] in ("  ", "\n\n\n")
    longer = [] if lstrip else ["<tool>   a", "<tool>\n\n\n\n<|end|>"]  # the library fails where more white space was taken
    compare_with(Tokenizer.from_str(json.dumps(file)), tmp_path, ["<tool>  a", "a<tool>\n\n\n<tool>  word", *longer])


@pytest.mark.parametrize("around", [processors.RobertaProcessing, processors.BertProcessing])
def test_equals_the_library_with_tokens_around(around, tmp_path):
    tokenizer = Tokenizer.from_str(made("gpt2").to_str())
    tokenizer.post_processor = around(("</s>", 3), ("<s>", 2))
    compare_with(tokenizer, tmp_path, some(10))


@pytest.mark.parametrize("change, words", [({"sep": ["</s>"]}, "post_processor.sep"), ({"cls": ["<s>", 99999999]}, "post_processor.cls"),
                                           ({"cls": ["<s>", "2"]}, "post_processor.cls"), ({"clip": 1}, "post_processor.clip")])
def test_bad_tokens_around(change, words, tmp_path):
    path, tokenizer = tmp_path / "tokenizer.json", Tokenizer.from_str(made("gpt2").to_str())
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 3), ("<s>", 2))
    file = json.loads(tokenizer.to_str())
    file["post_processor"] |= change
    path.write_text(json.dumps(file))
    assert words in tokenize("--tokenizer", path, "a", status=1)


@pytest.mark.parametrize("seed", range(max(8, 240 // PART**3)))
def test_random_unigrams_equal_the_library(seed, tmp_path):
    """Small vocabularies with many equal sums of scores, and random normalizers; hundreds of them by night."""
    tokenizer, texts = vocabularies.random_unigram(seed)
    compare_with(tokenizer, tmp_path, texts)


def test_names_of_specials_in_a_text_never_become_unigram_pieces(tmp_path):
    """Pieces of the vocabulary are special tokens too, and a normalizer may write their names."""
    tokenizer, path = vocabularies.MAKERS["unigram-t5"](), tmp_path / "tokenizer.json"
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.save(str(path))
    texts = ["＜s＞", "a ＜/s＞", "<s></s>", "<｜end｜>", "<unk>"]
    specials = {tokenizer.token_to_id(token.content) for token in vocabularies.SPECIALS}
    assert specials & set(tokenizer.encode("＜s＞", add_special_tokens=False).ids), "the library has them"
    for ids in encode_all(path, texts, "--no-specials", "--no-template"):
        assert ids and not specials & set(ids)


@pytest.mark.parametrize("change, words", [
    ({"unk_id": 9999999}, ["model.unk_id"]), ({"vocab": []}, ["model.vocab"]), ({"vocab": {"a": 1}}, ["model.vocab"]),
    ({"vocab": [["a", "b"]]}, ["model.vocab[0]", "score"]), ({"vocab": [["a", 0.0], ["b", 1.0], ["a", 2.0]]}, ["model.vocab[2]", "vocab[0]"]),
    ({"vocab": [["a" * 1025, 0.0]]}, ["model.vocab[0]", "1,024"]), ({"merges": []}, ["model.merges"]), ({"byte_fallback": 1}, ["model.byte_fallback"]),
])
def test_unigram_files_are_refused_by_name(change, words, tmp_path):
    file = json.loads(made("unigram-t5").to_str())
    file["model"] |= change
    refuse(file, words, tmp_path)


@pytest.mark.parametrize("step", [{"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "StripAccents"},
                                  {"type": "Replace", "pattern": {"String": "a"}, "content": ""}])
def test_a_mark_before_the_first_text_is_refused_where_that_may_be_left_out(step, tmp_path):
    file = json.loads(made("unigram-whole").to_str())
    refuse(file | {"normalizer": step}, ["pre_tokenizer.prepend_scheme", "first after"], tmp_path)


@pytest.mark.parametrize("value, words", [
    ("!", ["normalizer.precompiled_charsmap", "base64"]), ("", ["table of characters"]), ("AAAAAA==", ["table of characters"]),
    ("CAAAAAAAAAA=", ["table of characters"]), (5, ["normalizer.precompiled_charsmap"]),
])
def test_tables_of_characters_are_refused(value, words, tmp_path):
    file = json.loads(made("unigram-t5").to_str())
    file["normalizer"]["precompiled_charsmap"] = value
    refuse(file, words, tmp_path)


def test_a_table_that_leads_nowhere_replaces_nothing(tmp_path):
    """Places out of bounds, and texts that are not UTF-8."""
    file = json.loads(made("unigram-t5").to_str())
    table = vocabularies.charsmap({"x": "y"})
    (tmp_path / "tokenizer.json").write_text(json.dumps(file | {"normalizer": None}), encoding="utf-8")
    plain = encode_all(tmp_path / "tokenizer.json", ["axb"])
    for spoilt in (table[:-2] + b"\xff\0", table[:-2], table.replace(b"\0\0\0\x80", b"\xff\xff\0\x80"),
                   b"\x04\0\0\0" + b"\xff" * 4, b"\x08\0\0\0" + b"\xff" * 8):
        file["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(spoilt).decode()}
        (tmp_path / "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
        assert encode_all(tmp_path / "tokenizer.json", ["axb"]) == plain


@pytest.mark.parametrize("name", ["llama3", "llama"])
def test_template_and_names_of_specials_can_be_left_out(name, tmp_path):
    tokenizer, path = made(name), tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    texts = ["a<s>b<mask> c<|end|>", "<s>", "", "<s"]
    plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    assert encode_all(path, texts, "--no-template") == plain
    tokenizer.encode_special_tokens = True
    as_text = [tokenizer.encode(text).ids for text in texts]
    tokenizer.encode_special_tokens = False
    assert encode_all(path, texts, "--no-specials") == as_text
    assert as_text != [tokenizer.encode(text).ids for text in texts]


@pytest.mark.parametrize("name", ["gpt2", "llama3", "qwen2", "llama", "metaspace-first", "unigram-xlm-r", "unigram-bytes"])
def test_a_megabyte_of_one_letter(name, tmp_path):
    tokenizer, path = made(name), tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    units = ["a", " ", "\n", "春", "\u0301", "a\u0301\u0323", "1", "<s>", "'s"]
    texts = [unit * (LONG // len(unit.encode())) for unit in units]
    start = time.monotonic()
    ours = encode_all(path, texts)
    assert time.monotonic() - start < 60, "quadratic"
    # The library is slow on some of these; a stretch and its tokens are enough.
    for unit, text, ids in zip(units, texts, ours, strict=True):
        assert name not in ("gpt2", "llama") or unit not in ("a", " ", "春") or ids == tokenizer.encode(text).ids, unit
    for unit, text, expected in zip(units, decode_all(path, ours, "--no-specials"), tokenizer.decode_batch(ours), strict=True):
        assert text == expected, unit


def test_nul_is_a_character(tmp_path):
    for name in ("gpt2", "llama"):
        path = tmp_path / "tokenizer.json"
        made(name).save(str(path))
        out = tokenize("--tokenizer", path, text=b"a\0b")
        assert [int(word) for word in out.split()] == made(name).encode("a\0b").ids


def test_byte_runs_that_are_no_text(tmp_path):
    """Bytes from byte tokens: UTF-8 comes out, and every longest beginning of the rest is one U+FFFD."""
    path = tmp_path / "tokenizer.json"
    made("llama").save(str(path))
    rng = random.Random(5)
    first = made("llama").token_to_id("<0x00>")
    # NUL ends a text of the output, so the compared texts have none.
    runs = [bytes(rng.choices(range(1, 256), k=rng.randint(1, 12))) for _ in range(300)]
    runs = [b"x" + run for run in [*runs, *("é春😀".encode()[:k] for k in range(1, 10))]]
    decoded = decode_all(path, [[first + byte for byte in run] for run in runs])
    assert decoded == [run.decode("utf-8", "replace") for run in runs]


# --- RWKV World, bytes, characters -----------------------------------------------------------------

def test_world_equals_its_rule(tmp_path):
    rng = random.Random(3)
    tokens = world.vocabulary()
    path = tmp_path / "rwkv_vocab_v20230424.txt"
    path.write_text(world.lines(tokens), encoding="utf-8")
    texts = [rng.randbytes(rng.randint(0, 300)).replace(b"\0", b"") for _ in range(200)]
    texts += [text.encode() for text in vocabularies.texts(n=50)]
    ids = encode_all(path, texts)
    assert ids == [world.encode(tokens, text) for text in texts]
    assert [text.encode() for text in decode_all(path, ids)] == \
        [text.decode("utf-8", "replace").encode() for text in texts]
    assert encode_all(tmp_path / path.name, [b"a" * (1 << 20)])[0].count(0) == 0
    # The folder is enough.
    assert tokenize("--model", tmp_path, "it's").decode().split() == [str(i) for i in world.encode(tokens, b"it's")]


@pytest.mark.parametrize("change, words", [
    (("65 'a' 1", "65 'a' 2"), "length"), (("65 'a' 1", "65 'b' 1"), "before"), (("65 'a' 1", "66 'a' 1"), "before"),
    (("65 'a' 1", "x"), "id"), (("65 'a' 1", "65 '\\q' 1"), "literal"), (("65 'a' 1\n", ""), "0x"), (("65 'a' 1", "9999999 'a' 1"), "id"),
    (("65 'a' 1", "65 'a 1"), "literal")])
def test_world_refuses_what_is_no_vocabulary(change, words, tmp_path):
    text = "".join(f"{b + 1} {chr(b)!r} 1\n" if b < 128 else f"{b + 1} {bytes([b])!r} 1\n" for b in range(256))
    old, new = change
    old, new = old.replace("65 ", "98 "), new.replace("65 ", "98 ").replace("66 ", "99 ")
    assert old in text
    (tmp_path / "v.txt").write_text(text.replace(old, new), encoding="utf-8")
    assert words in tokenize("--tokenizer", tmp_path / "v.txt", "a", status=1)


def test_bytes():
    assert tokenize("--tokenizer", "bytes", "aé").split() == [b"97", b"195", b"169"]
    assert tokenize("--tokenizer", "bytes", "--decode", "97 195 169 195") == "aé\ufffd\n".encode()


def test_characters_of_a_model():
    ids = tokenize("--model", MODEL_DIR, "海上明月").split()
    assert len(ids) == 4
    assert tokenize("--model", MODEL_DIR, "--decode", b" ".join(ids).decode()) == "海上明月\n".encode()


# --- refused files ------------------------------------------------------------------------------

def test_a_model_has_the_tokenizer_that_its_config_names(tmp_path):
    assert tokenize("--model", text_model.write_bytes(tmp_path / "bytes"), "ab") == b"97 98\n"
    folder = text_model.write(tmp_path / "named", 1600, {"tokenizer": "words.tok", "context": 64})
    made("gpt2").save(str(folder / "words.tok"))
    made("llama").save(str(folder / "tokenizer.json"))  # of another program
    assert tokenize("--model", folder, "it's a").decode().split() == [str(i) for i in made("gpt2").encode("it's a").ids]
    (folder / "config.json").write_text('{"model_type": "not_one_that_is_served"}')
    assert tokenize("--model", folder, "it's a").decode().split() == [str(i) for i in made("llama").encode("it's a").ids]
    (folder / "config.json").write_text('{"format": "linnet", "format_version": 1}')
    assert "config.json" in tokenize("--model", folder, "a", status=1)


def field(file, path, value):
    at = file
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value


@pytest.mark.parametrize("path, value, words", [
    (["normalizer"], {"type": "Nmt"}, ["normalizer", "Nmt"]),
    (["normalizer"], {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "BertNormalizer"}]},
     ["normalizer.normalizers[1]", "BertNormalizer"]),
    (["normalizer"], {"type": "Replace", "pattern": {"Regex": " *"}, "content": "_"}, ["normalizer", "nothing"]),
    (["decoder"], {"type": "Replace", "pattern": {"Regex": " +"}, "content": "_"}, ["decoder.pattern", "Regex"]),
    (["pre_tokenizer"], {"type": "UnicodeScripts"}, ["pre_tokenizer", "UnicodeScripts"]),
    (["pre_tokenizer"], {"type": "Split", "pattern": {"Regex": "\\h+"}, "behavior": "Isolated", "invert": False}, ["pre_tokenizer", "\\h"]),
    (["pre_tokenizer"], {"type": "Split", "pattern": {"Regex": "[\\b]"}, "behavior": "Isolated", "invert": False}, ["pre_tokenizer", "\\b"]),
    (["pre_tokenizer"], {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}, {"type": "ByteLevel"}]},
     ["pre_tokenizer.pretokenizers[2]", "ByteLevel or Metaspace after ByteLevel"]),
    (["pre_tokenizer"], {"type": "Split", "pattern": {"Regex": "[a[b]]"}, "behavior": "Isolated", "invert": False}, ["set"]),
    (["pre_tokenizer"], {"type": "Split", "pattern": {"Regex": "[^a&&[b]]"}, "behavior": "Isolated", "invert": False}, ["set"]),
    (["pre_tokenizer"], {"type": "Split", "pattern": {"Regex": "[a&&b]"}, "behavior": "Isolated", "invert": False}, ["set"]),
    (["pre_tokenizer"], {"type": "Split", "pattern": {"Regex": "[a&&[b]c]"}, "behavior": "Isolated", "invert": False}, ["set"]),
    (["pre_tokenizer"], {"type": "Split", "pattern": {"Regex": "[a&&[b]&&[c]]"}, "behavior": "Isolated", "invert": False}, ["set"]),
    (["pre_tokenizer"], {"type": "Split", "pattern": {"Regex": "a*"}, "behavior": "Isolated", "invert": False}, ["nothing"]),
    (["pre_tokenizer"], {"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated", "invert": False}, ["pre_tokenizer"]),
    (["pre_tokenizer"], {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Odd", "invert": False}, ["behavior", "Odd"]),
    (["post_processor"], {"type": "Bert"}, ["post_processor", "Bert"]),
        (["post_processor"], {"type": "BertProcessing"}, ["post_processor.cls"]),
    (["decoder"], {"type": "WordPiece"}, ["decoder", "WordPiece"]),
    (["decoder"], None, ["decoder"]),
    (["model", "type"], "Unigram", ["model.type", "Unigram after ByteLevel"]),
    (["model", "type"], "WordPiece", ["model.type", "WordPiece"]),
    (["model", "dropout"], 0.1, ["model.dropout"]),
    (["model", "end_of_word_suffix"], "</w>", ["model.end_of_word_suffix"]),
    (["model", "novelty"], 1, ["model.novelty"]),
    (["model", "vocab"], {}, ["model.vocab"]),
    (["model", "merges"], [["a", "nowhere"]], ["model.merges[0]", "vocab"]),
    (["model", "merges"], ["a b c"], ["model.merges[0]"]),
    (["model", "unk_token"], "<none>", ["model.unk_token"]),
    (["added_tokens", 0, "id"], 5, ["added_tokens[0].id"]),
    (["added_tokens", 0, "content"], "", ["added_tokens[0].content"]),
    (["version"], "2.0", ["version", "2.0"]),
])
def test_what_is_not_implemented_is_refused_by_its_name(path, value, words, tmp_path):
    file = json.loads(made("llama3").to_str())
    field(file, path, value)
    refuse(file, words, tmp_path)


def refuse(file, words, tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
    line = tokenize("--model", tmp_path, "a", status=1)
    assert len(line.splitlines()) == 1
    assert all(word in line for word in ["tokenizer.json", *words]), line


def test_bad_arguments(tmp_path):
    assert "tokenizer.json" in tokenize("--model", tmp_path, "a", status=1)
    assert "nosuch" in tokenize("--tokenizer", tmp_path / "nosuch", "a", status=1)
    assert "UTF-8" in tokenize("--model", MODEL_DIR, text=b"\xff", status=2)
    assert "-1" in tokenize("--tokenizer", "bytes", "--decode", text=b"1 -1", status=2)
    assert "256" in tokenize("--tokenizer", "bytes", "--decode", "256", status=2)
    assert "token id" in tokenize("--tokenizer", "bytes", "--decode", "1 x", status=2)
    for flag in ("--count", "--no-template"):
        assert f"{flag} does not fit" in tokenize("--tokenizer", "bytes", "--decode", flag, "1", status=2)
    assert "more than 16777216 bytes" in tokenize("--tokenizer", "bytes", text=b"a" * ((16 << 20) + 1), status=1)


def test_json_and_count():
    out = json.loads(tokenize("--tokenizer", "bytes", "--json", text=b'a"\0\xc3'))
    assert out == {"tokens": [97, 34, 0, 195], "pieces": ["a", '"', "\0", "\ufffd"]}
    assert json.loads(tokenize("--tokenizer", "bytes", "--decode", "--json", "97 0 98")) == {"text": "a\0b"}
    assert tokenize("--tokenizer", "bytes", "--count", "--each", "line", text=b"abc\n\nx") == b"3\n0\n1\n"
