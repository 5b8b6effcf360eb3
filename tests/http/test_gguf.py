"""GGUF files as models. A file as llama.cpp's converter writes it answers as the folder that it was made from. Tokenizer,
template and ends come from the file. A bad file is refused with one clear line."""

import contextlib
import ctypes
import json
import os
import shutil
import struct

import numpy
import pytest

from tokenizers import Tokenizer, normalizers, pre_tokenizers

import gguf_file
import hf_model
import vocabularies
import world
from client import call, complete_ok
from gguf_file import I32
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


def write_dense(folder, arch, **more):
    """A folder of our own, whose config has one key more for gguf_file.py: the folder is not served with it."""
    size = hf_model.tokenizer_of_all().get_vocab_size() + 6
    config = dense(arch) | more | {"inputs": [{"name": "token", "size": size}], "head": {"kind": "categorical", "size": size, "bias": False}}
    hf_model.write(folder, config, dense_tensors)
    for key in ("vocab_size", "eos_token_id", "bos_token_id"):
        config.pop(key, None)
    (folder / "config.json").write_text(json.dumps(config))


KINDS = {
    "qwen35": (folders.QWEN | {"head_dim": 32, "hidden_size": 64, "intermediate_size": 96, "linear_key_head_dim": 16,
                               "linear_value_head_dim": 32, "linear_num_value_heads": 6}, folders.qwen_tensors),
    "qwen35_tied": (folders.QWEN | {"tie_word_embeddings": True, "linear_num_value_heads": 2}, folders.qwen_tensors),
    "lfm2": (folders.LFM2 | {"hidden_size": 32}, folders.lfm2_tensors),
    "rwkv7": (folders.RWKV7 | {"norm_eps": EPS / 8, "hidden_size": 32, "intermediate_size": 64, "value_dim": 32}, folders.rwkv7_tensors),
    "rwkv6": (folders.RWKV6 | {"norm_eps": EPS, "hidden_size": 32, "intermediate_size": 64, "num_heads": 4, "expand_k": 1.0,
                               "num_hidden_layers": 3}, folders.rwkv6_tensors),
    "mamba2": (folders.MAMBA2 | {"hidden_size": 32, "num_heads": 8}, folders.mamba2_tensors),
    "mamba": (folders.MAMBA1 | {"hidden_size": 32, "intermediate_size": 64, "time_step_rank": 32}, folders.mamba1_tensors),
    "falcon_mamba": (folders.FALCON_MAMBA | {"mixer_rms_eps": 1e-5, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True},
                     folders.mamba1_tensors),
}
DENSE_KINDS = ("llama", "qwen2", "qwen3")
WIDE = folders.MAMBA2 | {"hidden_size": 256, "num_heads": 64, "num_hidden_layers": 1}  # rows of whole blocks of 256
VALUES = ("F32", "F16", "BF16", "Q8_0", "Q4_0")
K_TYPES = ("Q4_K", "Q5_K", "Q6_K")
PROMPT = [(7 * i * i + 11 * i) % 1500 for i in range(40)]
FIELDS = {"prompt": PROMPT, "max_tokens": 12, "temperature": 0, "ignore_eos": True, "logprobs": 5, "seed": 3}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of each kind."""
    path = tmp_path_factory.mktemp("made")
    hf_model.write(path / "wide", WIDE, folders.mamba2_tensors)
    write_dense(path / "wide_llama", "llama", d_model=256, d_key=64, d_value=64, d_ff=256)
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
    check_answers(made, tmp_path, kind, VALUES)


@pytest.mark.parametrize(("precision", "types"), [("auto", ("F32",)), ("int8", ("F32", *K_TYPES)), ("f32", K_TYPES)])
def test_a_file_is_packed_as_its_folder(made, tmp_path, precision, types):
    check_answers(made, tmp_path, "wide", types, precision)


def check_answers(made, tmp_path, kind, types, precision="f32"):
    for values in types:
        gguf_file.write(tmp_path / f"{values}.gguf", made / kind, values)
        folder = tmp_path / f"{values}-folder"
        gguf_file.write_rounded(folder, made / kind, values)
        config = json.loads((folder / "config.json").read_text())
        config.pop("linnet_arch", None)
        (folder / "config.json").write_text(json.dumps(config))
    with Server("--models", tmp_path, "--precision", precision, "--slots", "4") as server:
        for values in types:
            text, found = answer(server.port, values)
            want_text, want = answer(server.port, f"{values}-folder")
            assert found == pytest.approx(want, rel=2e-5, abs=1e-6), values  # the file has -exp(A_log), in f32
            assert text == want_text


# --- blocks stay as they are where a kernel exists, others become Q8_0

BLOCK_TYPES = ("Q4_0", "Q8_0")


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["qwen35", "llama", "wide"])
def test_blocks_give_equal_answers_on_every_instruction_set(made, tmp_path, kind):
    """Precision auto multiplies blocks as whole numbers, with the bits of plain C. The answers are near those of f32."""
    found, types = {}, (*BLOCK_TYPES, *K_TYPES) if kind == "wide" else BLOCK_TYPES
    for values in types:
        gguf_file.write(tmp_path / f"{values}.gguf", made / kind, values)
    for precision, isa in (("f32", "plain"), ("auto", "plain"), ("auto", "auto")):
        with Server("--models", tmp_path, "--precision", precision, "--isa", isa, "--slots", "4") as server:
            for values in types:
                found[values, precision, isa] = answer(server.port, values)
    for values in types:
        exact, plain = found[values, "f32", "plain"], found[values, "auto", "plain"]
        assert found[values, "auto", "auto"] == plain
        assert plain != exact
        assert plain[1][0] == pytest.approx(exact[1][0], abs=0.1), values  # of the first token, which has one prompt


AGAIN = "weights are rounded a second time"


def test_a_joined_matrix_keeps_the_types_of_its_parts(made, tmp_path):
    """As in a file of Q4_K_M, where values have more bits than queries and keys."""
    found, others = {}, {"attn_v.weight": "Q6_K", "ffn_up.weight": "Q8_0", "attn_k.weight": "Q5_K"}
    for name, mixed in (("equal", {}), ("mixed", others)):
        gguf_file.write(tmp_path / f"{name}.gguf", made / "wide_llama", "Q4_K", others=mixed)
    for precision, isa in (("f32", "plain"), ("auto", "plain"), ("auto", "auto")):
        with Server("--models", tmp_path, "--precision", precision, "--isa", isa, "--slots", "4") as server:
            for name in ("equal", "mixed"):
                found[name, precision, isa] = answer(server.port, name)
            assert AGAIN not in server.log
    assert found["mixed", "auto", "auto"] == found["mixed", "auto", "plain"] != found["equal", "auto", "plain"]
    assert found["mixed", "auto", "auto"][1][0] == pytest.approx(found["mixed", "f32", "plain"][1][0], abs=0.1)
    sizes, bytes_of = [], []
    for path in (tmp_path / "equal.gguf", tmp_path / "mixed.gguf"):
        sizes.append(path.stat().st_size)
        bytes_of.append(json.loads(run("inspect", path, "--json").stdout)["weight_bytes"]["auto"])
    assert bytes_of[1] - bytes_of[0] == pytest.approx(sizes[1] - sizes[0], rel=0.05), "each part takes the memory of its own type"


@pytest.mark.parametrize(("precision", "says"), [("auto", True), ("f32", False)])
def test_a_second_rounding_is_stated(made, tmp_path, precision, says):
    gguf_file.write(tmp_path / "model.gguf", made / "wide_llama", "Q8_0", others={"ffn_down.weight": "Q4_1"})
    with Server("--precision", precision, model_dir=tmp_path / "model.gguf") as server:
        lines = [line for line in server.log.splitlines() if AGAIN in line]
    assert len(lines) == says and all(f" {DENSE['n_layers'] * 256 * 256} {AGAIN}" in line for line in lines), lines


def repeated(values, rows, columns):
    """Blocks of a type, the same few again and again."""
    blocks = gguf_file.encode(numpy.random.default_rng(1).standard_normal((8, 32)), values)[0]
    return values, [rows, columns], blocks * (rows * columns // 256)


@contextlib.contextmanager
def without_huge_pages():
    """Programs that start in it get pages of 4 KiB. Otherwise the system rounds memory up to huge pages when it has some."""
    libc, pr_set_thp_disable = ctypes.CDLL(None, use_errno=True), 41
    assert libc.prctl(pr_set_thp_disable, 1, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        libc.prctl(pr_set_thp_disable, 0, 0, 0, 0)


@pytest.mark.heavy  # a build with sanitizers has memory of its own
@pytest.mark.parametrize(("values", "is_tied"), [("Q4_0", False), ("Q8_0", False), ("Q4_K", False), ("Q5_K", False), ("Q6_K", False), ("Q4_0", True), ("Q8_0", True), ("Q4_K", True), ("Q6_K", True)])
def test_blocks_take_the_memory_of_their_file(made, tmp_path, values, is_tied):
    """With a table of inputs that is the head, most of the file is that table."""
    width, hidden, layers = (1024, 1024, 1) if is_tied else (1024, 6144, 4)
    keys, tensors = gguf_file.parts_of(made / "llama", values)
    gguf_file.write(tmp_path / "small.gguf", made / "llama", values)
    heads = width // 16
    keys |= {"llama.embedding_length": width, "llama.feed_forward_length": hidden, "llama.block_count": layers,
             "llama.attention.head_count": heads, "llama.attention.head_count_kv": heads}
    ids = tensors["token_embd.weight"][1][0]
    if is_tied:
        ids = 50000
        keys |= gguf_file.bpe_keys(json.loads((made / "llama" / "tokenizer.json").read_text()), "qwen2", ids)
    norm = "F32", [width], numpy.ones(width, numpy.float32).tobytes()
    big = {"token_embd.weight": repeated(values, ids, width), "output.weight": repeated(values, ids, width), "output_norm.weight": norm}
    if is_tied:
        del big["output.weight"]
    for i in range(layers):
        big |= {f"blk.{i}.{name}.weight": norm for name in ("attn_norm", "ffn_norm")}
        big |= {f"blk.{i}.attn_{part}.weight": repeated(values, width, width) for part in ("q", "k", "v", "output")}
        big |= {f"blk.{i}.ffn_{part}.weight": repeated(values, hidden, width) for part in ("gate", "up")}
        big[f"blk.{i}.ffn_down.weight"] = repeated(values, width, hidden)
    (tmp_path / "big.gguf").write_bytes(gguf_file.whole(keys, big))
    resident = {}
    for name in ("small", "big"):
        with without_huge_pages(), Server("--slots", "1", model_dir=tmp_path / f"{name}.gguf") as server:
            resident[name] = server.resident_bytes()  # before a request takes memory for its state
            complete_ok(server.port, model=name, prompt=PROMPT[:2], max_tokens=2, ignore_eos=True)
    size = (tmp_path / "big.gguf").stat().st_size
    assert size > 30e6
    most = 1.4 if is_tied else 1.1  # the tied files have a larger tokenizer, too
    assert resident["big"] - resident["small"] < most * size, resident


# --- tokenizers

PRE = {
    "qwen2": {"pattern": vocabularies.QWEN2, "normalizer": normalizers.NFC()},
    "qwen35": {"pattern": vocabularies.QWEN2.replace(r"]?\p{L}+", r"]?[\p{L}\p{M}]+").replace(r"\s\p{L}\p{N}", r"\s\p{L}\p{M}\p{N}"),
               "normalizer": normalizers.NFC()},
    "llama-bpe": {"pattern": vocabularies.LLAMA3, "ignore_merges": True},
    "lfm2": {"pattern": vocabularies.LLAMA3, "ignore_merges": True},
    "gpt-2": {},
    "mpt": {"normalizer": normalizers.NFC()},
    "olmo": {"normalizer": normalizers.NFC()},
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


# --- chats

TEMPLATE = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}[assistant]"


def test_a_chat_is_that_of_its_folder(made, tmp_path):
    folder = shutil.copytree(made / "qwen35", tmp_path / "folder")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    more = {"tokenizer.chat_template": TEMPLATE, "general.sampling.temp": 0.25, "general.sampling.top_k": 7}
    gguf_file.write(tmp_path / "file.gguf", folder, **more)
    fields = {"messages": [{"role": "user", "content": "春風 and 12"}], "max_tokens": 10, "temperature": 0, "ignore_eos": True}
    answers = []
    with Server("--models", tmp_path, "--precision", "f32") as server:
        for model in ("folder", "file"):
            reply = call(server.port, "POST", "/v1/chat/completions", {**fields, "model": model})
            assert reply.status == 200, reply.text
            answers.append((reply.json()["choices"], reply.json()["usage"]["prompt_tokens"]))
    assert answers[0] == answers[1]
    said = run("inspect", tmp_path / "file.gguf").stdout
    assert "ends         3 (</s>), 1 (<|end|>)" in said and "sampling     temperature 0.25, top_k 7" in said, said


@pytest.mark.parametrize(("kind", "ends"), [(gguf_file.CONTROL, True), (gguf_file.USER_DEFINED, True), (1, False)])
@pytest.mark.parametrize("name", ["<|im_end|>", "<end_of_turn>", "<|im_end"])
def test_the_end_of_a_message_is_known_by_its_name(made, tmp_path, kind, ends, name):
    """Many files have no key for it: their answers went on after it, to the limit."""
    keys, tensors = gguf_file.parts_of(made / "llama")
    keys["tokenizer.ggml.tokens"][-1] = name
    keys["tokenizer.ggml.token_type"][1][-1] = kind
    end, path = len(keys["tokenizer.ggml.tokens"]) - 1, tmp_path / "file.gguf"
    path.write_bytes(gguf_file.whole(keys, tensors))
    said = [line for line in run("inspect", path).stdout.splitlines() if line.startswith("ends")][0]
    assert said.startswith("ends         3 (</s>)") and (f"{end} ({name})" in said) == (ends and name.endswith(">")), said


@pytest.mark.parametrize(("pre", "said", "begins"), [("llama-bpe", None, True), ("llama-bpe", False, False), ("gpt-2", None, False),
                                                     ("gpt-2", True, True)])
def test_the_beginning_of_a_prompt(made, tmp_path, pre, said, begins):
    keys, tensors = gguf_file.parts_of(made / "llama", pre="qwen2")
    keys |= {"tokenizer.ggml.pre": pre, "tokenizer.ggml.add_bos_token": said}
    keys["tokenizer.chat_template"] = "{% for m in messages %}{{ m.content }}{% endfor %}"
    path, fields = tmp_path / "file.gguf", {"model": "file", "max_tokens": 1, "return_token_ids": True}
    path.write_bytes(gguf_file.whole({key: value for key, value in keys.items() if value is not None}, tensors))
    with Server(model_dir=path) as server:
        counts = [complete_ok(server.port, prompt=prompt, **fields)["usage"]["prompt_tokens"] for prompt in ("a", "<s>a")]
        chat = call(server.port, "POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], **fields}).json()
    assert counts == [1 + begins, 2]
    assert len(chat["prompt_token_ids"]) == 1 + begins and (chat["prompt_token_ids"][0] == 2) == begins


def test_a_file_is_reloaded(made, tmp_path):
    """Its states go on while the file has the same bytes."""
    path = tmp_path / "rwkv7.gguf"
    gguf_file.write(path, made / "rwkv7")
    with Server(model_dir=path) as server:
        whole = complete_ok(server.port, model="rwkv7", **FIELDS)["choices"][0]["text"]
        begun = complete_ok(server.port, model="rwkv7", return_state=True, **FIELDS | {"max_tokens": 5})
        state = begun["states"][0]["id"]
        assert call(server.port, "POST", "/v1/models/reload").status == 200
        rest = complete_ok(server.port, model="rwkv7", state=state, max_tokens=7, temperature=0, ignore_eos=True)
        assert begun["choices"][0]["text"] + rest["choices"][0]["text"] == whole
        gguf_file.write(tmp_path / "new", made / "rwkv7", "Q4_0")
        (tmp_path / "new").rename(path)
        assert call(server.port, "POST", "/v1/models/reload").status == 200
        found = complete_ok(server.port, model="rwkv7", **FIELDS)["choices"][0]["logprobs"]
        assert found != begun["choices"][0]["logprobs"]
        path.write_bytes(path.read_bytes()[:-100])
        assert call(server.port, "POST", "/v1/models/reload").status != 200
        assert complete_ok(server.port, model="rwkv7", **FIELDS)["choices"][0]["logprobs"] == found


# --- bad files

HUGE = 1 << 60


def with_keys(**changed):
    """Keys with __ in place of a dot; None removes one."""
    def change(keys, tensors):
        for key, value in changed.items():
            keys[key.replace("__", ".")] = value
        return gguf_file.whole({key: value for key, value in keys.items() if value is not None}, tensors)
    return change


def with_tensor(name, kind=None, shape=None, data=None):
    def change(keys, tensors):
        old = tensors.get(name, ("F32", [4], bytes(16)))
        tensors[name] = kind or old[0], shape or old[1], data if data is not None else old[2]
        return gguf_file.whole(keys, tensors)
    return change


def without_tensor(name):
    def change(keys, tensors):
        del tensors[name]
        return gguf_file.whole(keys, tensors)
    return change


def replaced(old, new):
    """The only occurrence of some bytes of the file."""
    def change(keys, tensors):
        data = gguf_file.whole(keys, tensors)
        assert data.count(old) == 1
        return data.replace(old, new)
    return change


def entry(name, *shape):
    return gguf_file.text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))


NORM = entry("output_norm.weight", 64)
BAD = [
    (lambda keys, tensors: b"GGUF", "the file ends before"),
    (lambda keys, tensors: gguf_file.whole(keys, tensors)[:-200], "the file ends before the values of tensor"),
    (lambda keys, tensors: gguf_file.whole(keys, tensors) + bytes(64), "bytes of data, the last tensor ends at"),
    (lambda keys, tensors: gguf_file.whole(keys, tensors, 1), "its version must be 2 or 3"),
    (lambda keys, tensors: gguf_file.whole(keys, tensors, 3 << 24), "big-endian files are not supported"),
    (lambda keys, tensors: b"GGUF" + struct.pack("<IQQ", 3, HUGE, HUGE) + bytes(160), "tensors, at most 16384 are read"),
    (replaced(NORM, entry("output_norm.weight", 1 << 32, 1 << 32)[: len(NORM)]), "a dimension must be a number from 1 to"),
    (replaced(NORM, NORM[:-12] + struct.pack("<IQ", 5, 64)), "output_norm.weight: it must have 1 to 4 dimensions"),
    (replaced(NORM, NORM[:-8] + struct.pack("<Q", 0)), "output_norm.weight: a dimension must be a number from 1"),
    (replaced(NORM, NORM[:-8] + struct.pack("<Q", (1 << 31) - 1)), "tensor output_norm.weight"),
    (replaced(NORM + struct.pack("<I", 0), NORM + struct.pack("<I", 16)), "has values of type 16 (IQ2_XXS); supported types: F32"),
    (replaced(NORM + struct.pack("<I", 0), NORM + struct.pack("<i", -1)), "has values of type 4294967295 (unknown)"),
    (replaced(NORM + struct.pack("<I", 0), NORM + struct.pack("<I", 12)), "a multiple of its type's block"),
    (replaced(NORM, NORM.replace(b"output_norm", b"output-norm")), "output_norm.weight is missing"),
    (replaced(gguf_file.text("general.alignment"), gguf_file.text(b"general.align" + bytes(4))), "a key has 1 to 255 bytes and no NUL"),
    (with_keys(general__alignment=0), "general.alignment must be a u32, a power of two from 8 to 65536"),
    (with_keys(general__alignment=48), "general.alignment must be a u32"),
    (with_keys(general__alignment=1 << 30), "general.alignment must be a u32"),
    (with_keys(general__alignment="32"), "general.alignment must be a u32"),
    (with_keys(general__alignment=64), "begins at data byte"),
    (with_keys(general__architecture=None), "general.architecture is missing"),
    (with_keys(general__architecture="gpt4"), "general.architecture: gpt4 is not supported; supported: qwen35, rwkv7"),
    (with_keys(general__architecture=["qwen35"]), "general.architecture must be a text"),
    (with_keys(general__type="adapter"), 'general.type must be "model"'),
    (with_keys(split__count=2), "it is one of several files"),
    (with_keys(qwen35__block_count=None), "qwen35.block_count is missing"),
    (with_keys(qwen35__block_count=(1 << 32) - 1), "qwen35.block_count must be a whole number from 1 to 256"),
    (with_keys(qwen35__block_count=257), "qwen35.block_count must be a whole number from 1 to 256"),
    (with_keys(qwen35__block_count=2.0), "qwen35.block_count must be a whole number"),
    (with_keys(qwen35__block_count=2), "is not one that the config asks for"),
    (with_keys(qwen35__block_count=4), "recurrent_layers must have a flag per layer"),
    (with_keys(qwen35__nextn_predict_layers=3), "n_layers must be a whole number from 1"),
    (with_keys(qwen35__embedding_length="64"), "qwen35.embedding_length must be a whole number"),
    (with_keys(qwen35__embedding_length=63), "has shape"),
    (with_keys(qwen35__attention__head_count=0), "qwen35.attention.head_count must be a whole number from 1"),
    (with_keys(qwen35__attention__head_count=3), "qwen35.attention.head_count must be a multiple of attention.head_count_kv"),
    (with_keys(qwen35__attention__head_count=[4, 4]), "qwen35.attention.head_count must be a whole number"),
    (with_keys(qwen35__attention__value_length=16), "qwen35.attention.value_length must be attention.key_length"),
    (with_keys(qwen35__attention__layer_norm_rms_epsilon=0.0), "layer_norm_rms_epsilon must be a number from 1e-30"),
    (with_keys(qwen35__attention__layer_norm_rms_epsilon=float("nan")), "layer_norm_rms_epsilon must be a number"),
    (with_keys(qwen35__attention__recurrent_layers=[True]), "recurrent_layers must have a flag per layer"),
    (with_keys(qwen35__ssm__time_step_rank=5), "must divide ssm.inner_size and be a multiple of ssm.group_count"),
    (with_keys(qwen35__ssm__inner_size=96), "attn_qkv.weight: its shape is not the one that the heads need"),
    (with_keys(qwen35__rope__freq_base=10000.5), "qwen35.rope.freq_base must be a whole number"),
    (with_keys(qwen35__rope__scaling__type="yarn"), "qwen35.rope.scaling.type is not a known key: it may change results"),
    (with_keys(qwen35__expert_count=4), "qwen35.expert_count is not a known key"),
    (with_keys(tokenizer__ggml__model=None), "tokenizer.ggml.model is missing"),
    (with_keys(tokenizer__ggml__model="llama"), "tokenizer.ggml.model: llama is not supported; supported: gpt2, rwkv"),
    (with_keys(tokenizer__ggml__pre=None), "tokenizer.ggml.pre: none is not supported; supported: qwen35"),
    (with_keys(tokenizer__ggml__pre="default"), "tokenizer.ggml.pre: default is not supported"),
    (with_keys(tokenizer__ggml__tokens=None), "tokenizer.ggml.tokens must be an array"),
    (with_keys(tokenizer__ggml__tokens=[1, 2]), "tokenizer.ggml.tokens must be an array"),
    (with_keys(tokenizer__ggml__token_type=(I32, [1, 1])), "tokenizer.ggml.token_type must be an array of an i32 per token"),
    (with_keys(tokenizer__ggml__merges=None), "tokenizer.ggml.merges must be an array"),
    (with_keys(tokenizer__ggml__merges=["none such"]), "has a token that is not in vocab"),
    (with_keys(tokenizer__ggml__merges=[b"\xff a"]), "tokenizer.ggml.merges has a text that is not UTF-8"),
    (with_keys(tokenizer__ggml__eos_token_id="end"), "tokenizer.ggml.eos_token_id must be a token's number"),
    (with_keys(tokenizer__ggml__eos_token_id=1 << 31), "tokenizer.ggml.eos_token_id must be a token's number"),
    (with_keys(tokenizer__ggml__eos_token_id=5000), "text.end: 5000 is not a token"),
    (with_keys(tokenizer__chat_template=5), "tokenizer.chat_template must be a text"),
    (with_keys(general__sampling__temp=-1.0), "general.sampling.temp must be a number from 0 to 10"),
    (without_tensor("token_embd.weight"), "tensor token_embd.weight is missing"),
    (without_tensor("blk.1.attn_q.weight"), "tensor blk.1.attn_q.weight is missing"),
    (with_tensor("blk.0.odd.weight"), "tensor blk.0.odd.weight is not one that the config asks for"),
    (with_tensor("blk.9.attn_q.weight"), "tensor blk.9.attn_q.weight is not one that the config asks for"),
    (with_tensor("output_norm.weight", data=struct.pack("<f", float("inf")) * 64), "output_norm.weight has a value that is NaN or infinite"),
    (with_tensor("output.weight", "Q8_0", data=b"\0\x7c" + bytes(1516 * 2 * 34 - 2)), "output.weight has a value that is NaN or infinite"),
    (with_tensor("output_norm.weight", shape=[2, 32]), "output_norm.weight has shape [2, 32], the config asks for [0, 64]"),
    (with_tensor("blk.0.ssm_a", data=bytes(24)), "tensor blk.0.ssm_a: its numbers must be below 0"),
]


BAD_OF = [
    ("lfm2", with_keys(lfm2__attention__head_count_kv=(I32, [0, 2, -1])), "lfm2.attention.head_count_kv must have a number per layer"),
    ("lfm2", with_keys(lfm2__attention__head_count_kv=2), "lfm2.attention.head_count_kv must have a number per layer"),
    ("lfm2", without_tensor("blk.0.shortconv.conv.weight"), "tensor blk.0.shortconv.conv.weight is missing"),
    ("llama", with_keys(llama__rope__dimension_count=8), "llama.rope.dimension_count must be the size of a head"),
    ("llama", with_tensor("rope_freqs.weight"), "rope_freqs.weight is not supported"),
    ("llama", with_keys(llama__expert_count=8), "llama.expert_count must be 0"),
    ("qwen2", without_tensor("blk.0.attn_k.bias"), "tensor blk.0.attn_k.bias is missing"),
    ("rwkv7", with_tensor("blk.1.time_mix_lerp_fused.weight", shape=[3, 1, 1, 64]), "it has another number of rows"),
    ("rwkv7", with_keys(rwkv7__wkv__head_size=7), "rwkv7.wkv.head_size must divide embedding_length"),
    ("rwkv7", with_keys(rwkv7__attention__gate_lora_rank=None), "rwkv7.attention.gate_lora_rank is missing"),
    ("rwkv6", with_tensor("blk.0.time_mix_w1.weight", shape=[16, 30]), "blk.0.time_mix_w1.weight: its shape is not the one"),
    ("rwkv6", with_keys(rwkv6__rescale_every_n_layers=1 << 20), "rwkv6.rescale_every_n_layers must be a whole number"),
    ("mamba2", with_keys(mamba2__ssm__group_count=3), "groups must divide n_heads"),
    ("mamba2", with_keys(mamba2__ssm__conv_kernel=9), "mamba2.ssm.conv_kernel must be a whole number from 2 to 8"),
    ("mamba2", without_tensor("blk.1.ssm_conv1d.bias"), "tensor blk.1.ssm_conv1d.bias is missing"),
    ("mamba", with_keys(mamba__ssm__conv_kernel=9), "mamba.ssm.conv_kernel must be a whole number from 2 to 8"),
    ("mamba", with_keys(mamba__ssm__time_step_rank=None), "mamba.ssm.time_step_rank is missing"),
    ("mamba", with_keys(mamba__ssm__dt_b_c_rms=2), "mamba.ssm.dt_b_c_rms must be a flag"),
    ("mamba", with_keys(mamba__ssm__state_size=9), "tensor blk.0.ssm_x.weight has shape"),
    ("mamba", without_tensor("blk.1.ssm_d"), "tensor blk.1.ssm_d is missing"),
] + [("qwen35", *case) for case in BAD]


@pytest.mark.parametrize("i", range(len(BAD_OF)), ids=lambda i: "-".join(BAD_OF[i][::2]).replace(" ", "-")[:48])
def test_a_bad_file_is_one_clear_line(made, tmp_path, i):
    kind, change, words = BAD_OF[i]
    path = tmp_path / "bad.gguf"
    path.write_bytes(change(*gguf_file.parts_of(made / kind, "F32")))
    command = ["generate", "--prompt", "a", "--max-tokens", "1", "--model"] if "below 0" in words else ["inspect"]
    said = run(*command, path)
    assert said.returncode == 1 and said.stderr.count("\n") == 1, said.stderr
    assert "bad.gguf" in said.stderr and words in said.stderr, said.stderr


def test_a_name_of_a_file(made, tmp_path):
    """The model's name is the file's; what is no such name, or no file, is refused."""
    gguf_file.write(tmp_path / "Qwen3.5-tiny_Q8-0.gguf", made / "qwen35")
    assert "model        Qwen3.5-tiny_Q8-0 (" in run("inspect", tmp_path / "Qwen3.5-tiny_Q8-0.gguf").stdout
    (tmp_path / "folder.gguf").mkdir()
    for path, words in ((tmp_path / "none.gguf", "none.gguf"), (tmp_path / "folder.gguf", "folder.gguf/config.json")):
        for command in (["inspect"], ["serve", "--port", "0", "--model"]):
            said = run(*command, path)
            assert said.returncode == 1 and words in said.stderr, said.stderr
