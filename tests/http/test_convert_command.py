"""linnet convert: a folder with weights in blocks answers as the folder that it was made from, byte by byte with
--precision int4. Bad folders and places are refused with one clear line, and then there is no new folder."""

import json
import re
import resource
import shutil
import struct

import numpy
import pytest

import gguf_file
import hf_model
import text_model
import vocabularies
from client import complete_ok
from hf_model import folders
from server import Server, run
from settings import ROOT
from test_gguf import KINDS as OTHERS
from test_gguf import answer

pytestmark = pytest.mark.asan

KINDS = OTHERS | {
    "tied": (OTHERS["qwen35"][0] | {"tie_word_embeddings": True}, folders.qwen_tensors),
    "experts": (folders.JAMBA_EXPERTS | {"hidden_size": 32, "intermediate_size": 64, "mamba_dt_rank": 32}, folders.jamba_tensors),
    "experts_in_one": (folders.GRANITE_EXPERTS | {"hidden_size": 32, "intermediate_size": 64, "mamba_d_head": 16}, folders.granite_tensors)}
COUPLET = ROOT / "weights" / "couplet"
LINE = re.compile(r"^(\S+) +\[(\d+), (\d+)\] (\w+)(?: -> (\w+), error ([\d.]+) %|(, stays: .*))?$")


def convert(folder, out, to="int4"):
    """Lines of tensors: name to (type before, type after, error in percent, whether a matrix stays)."""
    said = run("convert", "--to", to, folder, out)
    assert said.returncode == 0 and said.stderr == "", said.stderr
    found = [LINE.match(line) for line in said.stdout.splitlines()]
    return {m[1]: (m[4], m[5] or m[4], float(m[6] or 0), bool(m[7])) for m in found if m}


def refusal(*args, **options):
    said = run("convert", *args, **options)
    assert said.returncode != 0
    lines = said.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("linnet convert: "), said.stderr
    return lines[0]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of each kind, and converted; KIND to the lines of its tensors."""
    path = tmp_path_factory.mktemp("made")
    lines = {}
    for kind, (config, tensors) in KINDS.items():
        hf_model.write(path / kind, config, tensors, bf16=kind != "lfm2")
        lines[kind] = convert(path / kind, path / f"{kind}-int4")
        convert(path / kind, path / f"{kind}-q8", "q8")
    return path, lines


@pytest.mark.parametrize("precision", ["int4", "auto"])
def test_a_converted_folder_answers_as_with_int4(made, precision):
    path, lines = made
    found = {}
    with Server("--models", path, "--precision", "int4", "--slots", "4") as server:
        for kind in KINDS:
            found[kind] = answer(server.port, kind)
            assert precision == "auto" or answer(server.port, f"{kind}-int4") == found[kind], kind
    if precision == "int4":
        return
    whole = [kind for kind in KINDS if not any(stays for *_, stays in lines[kind].values())]
    assert len(whole) >= 3, whole
    with Server("--models", path, "--slots", "4") as server:
        for kind in whole:
            assert answer(server.port, f"{kind}-int4") == found[kind], kind
        for kind in KINDS:  # 8 bits are near the folder's own numbers, and not equal
            first, rounded = answer(server.port, kind), answer(server.port, f"{kind}-q8")
            assert rounded[1][0] == pytest.approx(first[1][0], abs=0.05) and rounded != first, kind


def test_a_shipped_model_answers_as_with_int4(tmp_path):
    """In all fields, except times and the names of model and answer."""
    convert(COUPLET, tmp_path / "couplet")
    found = []
    for folder, options in ((COUPLET, ("--precision", "int4")), (tmp_path / "couplet", ())):
        with Server(*options, model_dir=folder) as server:
            said = complete_ok(server.port, prompt="海上明月", seed=1, n=4, logprobs=1)
        found.append({key: value for key, value in said.items() if key not in ("id", "created", "system_fingerprint", "timings")})
    assert found[0] == found[1]


def tensors_of(folder):
    """Name to (type, shape, bytes), and the metadata."""
    data = (folder / "model.safetensors").read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8 : 8 + n])
    metadata = head.pop("__metadata__")
    return {name: (t["dtype"], t["shape"], data[8 + n :][slice(*t["data_offsets"])]) for name, t in head.items()}, metadata


def numbers_of(kind, shape, data):
    """As docs/weights-format.md describes the types."""
    if kind == "F32":
        return numpy.frombuffer(data, "<f4").reshape(shape)
    if kind == "BF16":
        return (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
    blocks = numpy.frombuffer(data, numpy.uint8).reshape(-1, {"Q8_0": 34, "Q4_0": 18}[kind])
    scale, body = numpy.ascontiguousarray(blocks[:, :2]).view("<f2").astype("<f4"), blocks[:, 2:]
    whole = body.view(numpy.int8) if kind == "Q8_0" else numpy.concatenate([body & 15, body >> 4], 1).astype("<f4") - 8
    return (whole * scale).reshape(shape)


@pytest.mark.parametrize("to", ["int4", "q8"])
def test_a_file_is_as_documented(made, tmp_path, to):
    """The types of tensors, their numbers, and the printed errors. A tied head has its own tensor with int4 only."""
    path, _ = made
    out, packed = tmp_path / "out", {"int4": "Q4_0", "q8": "Q8_0"}[to]
    lines = convert(path / "tied", out, to)
    before, (after, metadata) = tensors_of(path / "tied")[0], tensors_of(out)
    assert metadata == {"linnet_blocks": "1"}
    head, table = "lm_head.weight", "model.embed_tokens.weight"
    assert (head in after) == (to == "int4") and head not in before
    assert after[table][0] == ("BF16" if to == "int4" else "Q8_0")
    assert {name: kind for name, (kind, *_) in after.items()} == {name: line[1] for name, line in lines.items()}
    assert sum(kind == packed for kind, *_ in after.values()) > 10
    for name, (kind, shape, data) in after.items():
        exact = numbers_of(*before[name if name != head else table]).reshape(shape)  # a dimension of 1 is left out
        found = numbers_of(kind, shape, data)
        error = numpy.sqrt(((found - exact) ** 2).mean() / (exact**2).mean()) * 100
        assert lines[name][2] == pytest.approx(error, abs=0.006), name
        assert error < (0 if kind != packed else 1 if to == "q8" else 10) + 1e-9, name
    names = {file.name for file in out.iterdir()}
    assert names == {file.name for file in (path / "tied").iterdir()}
    assert all((out / name).read_bytes() == (path / "tied" / name).read_bytes() for name in names - {"model.safetensors"})


def test_files_of_a_folder(tmp_path):
    """Texts are copied, and weights in other files are not. Shards become one file."""
    config, tensors = KINDS["mamba2"]
    hf_model.write(tmp_path / "folder", config, tensors, shards=3)
    extra = {"LICENSE-OTHER": "x", "chat_template.jinja": "{{ messages[0].content }}", "README.md": "x", "pytorch_model.bin": "x", "a.txt": ""}
    for name, text in extra.items():
        (tmp_path / "folder" / name).write_text(text)
    (tmp_path / "folder" / "additional_chat_templates").mkdir()
    (tmp_path / "folder" / "additional_chat_templates" / "tool_use.jinja").write_text("{{ tools }}")
    convert(tmp_path / "folder", tmp_path / "out")
    copied = {"config.json", "generation_config.json", "tokenizer.json", "LICENSE-OTHER", "chat_template.jinja", "README.md",
              "additional_chat_templates"}
    assert {file.name for file in (tmp_path / "out").iterdir()} == copied | {"model.safetensors"}
    said = run("inspect", tmp_path / "out")
    assert said.returncode == 0 and " Q4_0 " in said.stdout and "with tools" in said.stdout, said.stderr


def test_a_tokenizer_of_another_name(tmp_path):
    folder = text_model.write(tmp_path / "folder", 1600, {"tokenizer": "words.tok", "context": 64})
    vocabularies.MAKERS["gpt2"]().save(str(folder / "words.tok"))
    convert(folder, tmp_path / "out")
    said = run("inspect", tmp_path / "out")
    assert said.returncode == 0 and "byte-level" in said.stdout, said.stderr


def test_where_a_folder_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for name in ("file", "folder"):
        assert refusal(COUPLET, tmp_path / name).endswith(f"{name} exists: give the name of a folder that does not exist yet")
    assert refusal(COUPLET, tmp_path / "file" / "out").endswith("file/out: Not a directory")
    assert refusal(COUPLET, tmp_path / "none" / "out").endswith("none/out: No such file or directory")
    refusal(COUPLET, "/sys/linnet-out")
    for name in ("a b", ".hidden", "x" * 64, "é"):
        assert "a model folder's name has 1 to 63 letters" in refusal(COUPLET, tmp_path / name)
    assert (tmp_path / "file").read_text() == "x" and {file.name for file in tmp_path.iterdir()} == {"file", "folder"}


def test_a_full_disk_leaves_nothing(tmp_path):
    """A limit on the size of a file stands for a full disk: writing fails in the header, in a tensor, or at the end."""
    convert(COUPLET, tmp_path / "whole")
    size = (tmp_path / "whole" / "model.safetensors").stat().st_size
    for most in (1000, 100_000, size - 1):
        limit = {"preexec_fn": lambda most=most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)), "restore_signals": False}
        assert refusal(COUPLET, tmp_path / "out", **limit).endswith("out/model.safetensors: File too large")
        assert not (tmp_path / "out").exists()


def test_what_is_not_converted(made, tmp_path):
    path, _ = made
    gguf_file.write(tmp_path / "model.gguf", path / "lfm2")
    out = tmp_path / "out"
    assert "model.gguf is a GGUF file" in refusal(tmp_path / "model.gguf", out)
    assert "has most weights of its base" in refusal(ROOT / "weights" / "strip", out)
    assert "has no matrix that can become Q4_0" in refusal(path / "lfm2-int4", out)
    assert refusal(tmp_path / "none", out).endswith("none/config.json: No such file or directory")
    hf_model.write(tmp_path / "large", folders.LFM2 | {"hidden_size": 32}, folders.lfm2_tensors)
    file, name = tmp_path / "large" / "model.safetensors", "model.layers.0.feed_forward.w1.weight"
    weights = tensors_of(tmp_path / "large")[0][name][2]
    file.write_bytes(file.read_bytes().replace(weights, struct.pack("<f", 5e5) + weights[4:]))
    assert refusal(tmp_path / "large", out).endswith(f"tensor {name} has a weight above 400000, which a block cannot hold")
    many = folders.JAMBA_EXPERTS | {"hidden_size": 32, "intermediate_size": 32, "mamba_dt_rank": 32, "num_experts": 700,
                                    "num_hidden_layers": 2, "expert_layer_period": 1, "expert_layer_offset": 0}
    hf_model.write(tmp_path / "many", many, folders.jamba_tensors, shards=2)
    assert re.search(r"many has 42\d\d tensors, and convert writes one file, which holds at most 4096$", refusal(tmp_path / "many", out))
    assert not out.exists()


def test_a_damaged_file_is_refused(tmp_path):
    """Cut, or with a scale that is infinite, of another version, or without one."""
    convert(COUPLET, tmp_path / "good")
    data = (tmp_path / "good" / "model.safetensors").read_bytes()
    head = 8 + struct.unpack("<Q", data[:8])[0]
    tensors, _ = tensors_of(tmp_path / "good")
    at = next(head + data.index(body) - head for kind, _, body in tensors.values() if kind == "Q4_0")
    version = b'"linnet_blocks":"1"'
    damaged = {
        "ends at data byte": data[:-1],
        "in a file of 1000": data[:1000],
        "NaN or infinite": data[: at + 1] + b"\x7c" + data[at + 2 :],
        'need "linnet_blocks": "1" in __metadata__': data.replace(version, b'"linnet_blocks":"2"'),
        "dtype must be": data.replace(b"Q4_0", b"Q5_0", 1),
    }
    for i, (reason, content) in enumerate(damaged.items()):
        folder = shutil.copytree(tmp_path / "good", tmp_path / f"damaged{i}")
        (folder / "model.safetensors").write_bytes(content)
        said = run("generate", "--model", folder, "海上明月")
        assert said.returncode == 1 and len(said.stderr.splitlines()) == 1, said.stderr
        assert reason in said.stderr and "model.safetensors" in said.stderr, said.stderr
