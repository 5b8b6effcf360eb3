"""GGUF files as models. A file as llama.cpp's converter writes it answers as the folder that it was made from. Tokenizer,
template and ends come from the file. A bad file is refused with one clear line."""

import json
import struct

import pytest

from tokenizers import Tokenizer, normalizers, pre_tokenizers

import gguf_file
import hf_model
import vocabularies
import world
from client import call, complete_ok
from gguf_file import ARRAY, I32, TEXT
from hf_model import folders
from server import Server, run

pytestmark = pytest.mark.asan

EPS = 64e-5  # of RWKV's groups: llama.cpp has no other
DENSE = {"format": "linnet", "format_version": 1, "task": "text", "n_layers": 2, "n_heads": 4, "d_model": 64, "d_key": 16,
         "d_value": 16, "d_ff": 96, "norm": "pre", "norm_kind": "rms", "norm_eps": 1e-5, "activation": "relu",
         "feed_forward": {"kind": "gated_mlp"}, "text": {"tokenizer": "tokenizer.json", "context": 2048, "end": [3]}}


def dense(arch):
    mixer = {"kind": "grouped_query", "key_heads": 2, "base": 50000, "bias": arch == "qwen2", "norm": "rms" if arch == "qwen3" else "none",
             "gate": "none", "eps": 1e-5}
    return DENSE | {"attention": mixer, "linnet_arch": arch}


def dense_tensors(c):
    d, keys, n = c["d_model"], 2 * c["d_key"], c["inputs"][0]["size"]
    out = {"embed.token.weight": folders.tensor([n, d], 0, 0.5), "final_norm.weight": folders.norm(d), "head.weight": folders.tensor([n, d])}
    for i in range(c["n_layers"]):
        p = f"layers.{i}."
        out |= {f"{p}norm{k}.weight": folders.norm(d) for k in (1, 2)}
        out |= {f"{p}attn.q.weight": folders.tensor([d, d]), f"{p}attn.k.weight": folders.tensor([keys, d]),
                f"{p}attn.v.weight": folders.tensor([keys, d]), f"{p}attn.out.weight": folders.tensor([d, d]),
                f"{p}ff.gate.weight": folders.tensor([c["d_ff"], d]), f"{p}ff.up.weight": folders.tensor([c["d_ff"], d]),
                f"{p}ff.down.weight": folders.tensor([d, c["d_ff"]])}
        if c["attention"]["bias"]:
            out |= {f"{p}attn.{part}.bias": folders.tensor([d if part == "q" else keys], 0, 0.5) for part in "qkv"}
        if c["attention"]["norm"] == "rms":
            out |= {f"{p}attn.{part}_norm.weight": folders.norm(c["d_key"]) for part in "qk"}
    return out


def write_dense(folder, arch):
    """A folder of our own, whose config has one key more for gguf_file.py: the folder is not served with it."""
    size = hf_model.tokenizer_of_all().get_vocab_size() + 6
    config = dense(arch) | {"inputs": [{"name": "token", "size": size}], "head": {"kind": "categorical", "size": size, "bias": False}}
    hf_model.write(folder, config, dense_tensors)
    for key in ("vocab_size", "eos_token_id", "bos_token_id"):
        config.pop(key, None)
    (folder / "config.json").write_text(json.dumps(config))


KINDS = {
    "qwen35": (folders.QWEN | {"head_dim": 32, "hidden_size": 64, "intermediate_size": 96, "linear_key_head_dim": 16,
                               "linear_value_head_dim": 32, "linear_num_value_heads": 6}, folders.qwen_tensors),
    "qwen35_tied": (folders.QWEN | {"tie_word_embeddings": True, "linear_num_value_heads": 2}, folders.qwen_tensors),
    "rwkv7": (folders.RWKV7 | {"norm_eps": EPS / 8, "hidden_size": 32, "intermediate_size": 64, "value_dim": 32}, folders.rwkv7_tensors),
    "rwkv6": (folders.RWKV6 | {"norm_eps": EPS, "hidden_size": 32, "intermediate_size": 64, "num_heads": 4, "expand_k": 1.0,
                               "num_hidden_layers": 3}, folders.rwkv6_tensors),
    "mamba2": (folders.MAMBA2 | {"hidden_size": 32, "num_heads": 8}, folders.mamba2_tensors),
}
DENSE_KINDS = ("llama", "qwen2", "qwen3")
VALUES = ("F32", "F16", "BF16", "Q8_0", "Q4_0")
PROMPT = [(7 * i * i + 11 * i) % 1500 for i in range(40)]
FIELDS = {"prompt": PROMPT, "max_tokens": 12, "temperature": 0, "ignore_eos": True, "logprobs": 5, "seed": 3}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of each kind."""
    path = tmp_path_factory.mktemp("made")
    for kind in [*KINDS, *DENSE_KINDS]:
        if kind in KINDS:
            hf_model.write(path / kind, *KINDS[kind])
        else:
            write_dense(path / kind, kind)
    return path


def answer(port, model):
    choice = complete_ok(port, model=model, **FIELDS)["choices"][0]
    return choice["text"], choice["logprobs"]["token_logprobs"]


@pytest.mark.parametrize("kind", [*KINDS, *DENSE_KINDS])
def test_a_file_answers_as_its_folder(made, tmp_path, kind):
    """With every type of values, and the folder that has the same numbers."""
    for values in VALUES:
        gguf_file.write(tmp_path / f"{values}.gguf", made / kind, values)
        folder = tmp_path / f"{values}-folder"
        gguf_file.write_rounded(folder, made / kind, values)
        config = json.loads((folder / "config.json").read_text())
        config.pop("linnet_arch", None)
        (folder / "config.json").write_text(json.dumps(config))
    with Server("--models", tmp_path, "--precision", "f32", "--slots", "4") as server:
        for values in VALUES:
            text, found = answer(server.port, values)
            want_text, want = answer(server.port, f"{values}-folder")
            assert found == pytest.approx(want, rel=2e-5, abs=1e-6), values  # the file has -exp(A_log), in f32
            assert text == want_text


# --- tokenizers

PRE = {
    "qwen2": {"pattern": vocabularies.QWEN2, "normalizer": normalizers.NFC()},
    "qwen35": {"pattern": vocabularies.QWEN2.replace(r"]?\p{L}+", r"]?[\p{L}\p{M}]+").replace(r"\s\p{L}\p{N}", r"\s\p{L}\p{M}\p{N}"),
               "normalizer": normalizers.NFC()},
    "llama-bpe": {"pattern": vocabularies.LLAMA3, "ignore_merges": True},
    "gpt-2": {},
    "mpt": {"normalizer": normalizers.NFC()},
    "smollm": {"before": [pre_tokenizers.Digits(individual_digits=True)]},
}


def tokenize(path, *texts):
    """Ids of each text, from the command line."""
    said = run("tokenize", "--model", path, "--each", "nul", "--no-template", "-", input="\0".join(texts))
    assert said.returncode == 0, said.stderr
    return [[int(word) for word in line.split()] for line in said.stdout.splitlines()]


@pytest.mark.parametrize("pre", PRE)
def test_a_tokenizer_is_that_of_its_folder(made, tmp_path, pre):
    tokenizer = vocabularies.byte_level(added=False, **PRE[pre])
    tokenizer.add_tokens(["a tool", "  "])
    keys, tensors = gguf_file.parts_of(made / "qwen2", pre=None)
    keys |= gguf_file.bpe_keys(json.loads(tokenizer.to_str()), pre, 0)
    (tmp_path / "model.gguf").write_bytes(gguf_file.whole(keys, tensors))
    texts = [*vocabularies.corpus(seed=3, n_texts=20), "<s>a tool</s>", "e\u0301 12345 don't"]
    assert tokenize(tmp_path / "model.gguf", *texts) == [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def test_a_vocabulary_of_rwkv(made, tmp_path):
    """As the converter writes it: Python's literals without quotes, and unused tokens at the end."""
    vocabulary = world.vocabulary(n=1200)
    n = 1516
    tokens = [repr(vocabulary[i])[2:-1] if i in vocabulary else f"[PAD{i}]" for i in range(n)]
    kinds = [gguf_file.NORMAL if i in vocabulary else gguf_file.UNUSED for i in range(n)]
    tokens[0], kinds[0] = "<s>", gguf_file.CONTROL
    keys, tensors = gguf_file.parts_of(made / "rwkv7", pre=None)
    keys |= {"tokenizer.ggml.model": "rwkv", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": (I32, kinds),
             "tokenizer.chat_template": "rwkv-world", "tokenizer.ggml.eos_token_id": 0, "tokenizer.ggml.eot_token_id": 261}
    path = tmp_path / "world.gguf"
    path.write_bytes(gguf_file.whole(keys, tensors))
    texts = ["it's\\ \"cab\" 春風é\n\n😀", "abc\tdeo"]
    assert tokenize(path, *texts) == [world.encode(vocabulary, text.encode()) for text in texts]
    said = run("inspect", path).stdout
    assert "template     rwkv" in said and "0 (<|endoftext|>), 261 (" in said, said
