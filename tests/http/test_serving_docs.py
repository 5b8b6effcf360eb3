"""docs/serving-your-model.md, tried literally: its commands in a folder where a model was made on the spot. Also the
tools that it names: their errors, and that a comparison can fail."""

import importlib.util
import json
import re
import shlex
import struct
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import gguf_file
import hf_model
from client import complete_ok
from hf_model import folders
from pages import commands, environment_of
from server import Server
from settings import LINNET

ROOT = Path(__file__).resolve().parents[2]
LAYERS, WIDTH, SIZE, RANK, HIDDEN = 2, 16, 8, 3, 24


def load(name):
    spec = importlib.util.spec_from_file_location(f"convert_{name}", ROOT / "weights" / "convert" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rwkv_tensors():
    """As the authors name and lay them out, f32."""
    rng = numpy.random.default_rng(4)
    d, out = WIDTH, {}

    def put(name, *shape, mean=0.0, spread=0.4):
        out[name] = (mean + spread * rng.uniform(-1, 1, shape)).astype("<f4")

    put("emb.weight", 256, d)
    for i in range(LAYERS):
        p = f"blocks.{i}."
        for norm in (["ln0"] if i == 0 else []) + ["ln1", "ln2", "att.ln_x"]:
            put(f"{p}{norm}.weight", d, mean=1)
            put(f"{p}{norm}.bias", d)
        for mix in "rwkvag":
            put(f"{p}att.x_{mix}", 1, 1, d, mean=0.5)
        for pair in "wavg":
            put(f"{p}att.{pair}1", d, RANK)
            put(f"{p}att.{pair}2", RANK, d)
            if pair != "g":
                put(f"{p}att.{pair}0", 1, 1, d)
        put(f"{p}att.k_k", 1, 1, d, mean=0.8)
        put(f"{p}att.k_a", 1, 1, d, mean=1)
        put(f"{p}att.r_k", d // SIZE, SIZE)
        for name in ("receptance", "key", "value", "output"):
            put(f"{p}att.{name}.weight", d, d)
        put(f"{p}ffn.x_k", 1, 1, d, mean=0.5)
        put(f"{p}ffn.key.weight", HIDDEN, d)
        put(f"{p}ffn.value.weight", d, HIDDEN)
    put("ln_out.weight", d, mean=1)
    put("ln_out.bias", d)
    put("head.weight", 256, d)
    return out


def write_bin(path, tensors):
    """rwkv.cpp's: low-rank pairs transposed, the mixes in one."""
    tensors = {n: numpy.ascontiguousarray(t.T) if re.search(r"att\.[wavg][12]$", n) else t for n, t in tensors.items()}
    for i in range(LAYERS):
        mixes = [tensors.pop(f"blocks.{i}.att.x_{mix}").reshape(-1) for mix in "rwkvag"]
        tensors[f"blocks.{i}.att.x_rwkvag"] = numpy.stack(mixes)
    with open(path, "wb") as file:
        file.write(struct.pack("<6I", 0x67676D66, 101, 256, WIDTH, LAYERS, 0))
        for name, t in tensors.items():
            file.write(struct.pack(f"<{3 + t.ndim}I", t.ndim, len(name), 0, *t.shape[::-1]) + name.encode() + t.tobytes())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("mine")
    hf_model.write(path / "my-model", folders.GATED | {"attn": folders.ATTN}, folders.delta_tensors)
    write_bin(path / "my-rwkv.bin", rwkv_tensors())
    hf_model.write(path / "qwen", folders.QWEN, folders.qwen_tensors)
    gguf_file.write(path / "my-file.gguf", path / "qwen", "Q8_0")
    (path / "weights").symlink_to(ROOT / "weights")
    return path


def convert(place, *args):
    command = [sys.executable, ROOT / "weights" / "convert" / "rwkv.py", *args]
    return subprocess.run(list(map(str, command)), cwd=place, capture_output=True, text=True, timeout=120)


def test_the_commands_do_what_the_page_says(place):
    *lines, serve, ask = commands("serving-your-model.md")
    for line in lines:
        if "--against torch" in line and importlib.util.find_spec("transformers") is None:
            print(f"not tried, there is no transformers: {line}")
            continue
        done = subprocess.run(["bash", "-c", line], cwd=place, env=environment_of(line, place), capture_output=True, text=True,
                              timeout=300)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        if "check.py" in line:
            assert "all within 0.001" in done.stdout, done.stdout
    words = shlex.split(serve)
    assert words[:-1] == ["linnet", "serve", "--model", "my-model", "--port"]
    with Server(model_dir=place / "my-model") as server:
        answer = complete_ok(server.port, **json.loads(shlex.split(ask)[-1]))
        assert answer["usage"]["completion_tokens"] > 0, answer


@pytest.mark.training
def test_bin_and_pth_give_the_same_folder(place):
    torch = pytest.importorskip("torch", reason="a .pth is read by torch")
    torch.save({name: torch.tensor(t) for name, t in rwkv_tensors().items()}, place / "same.pth")
    assert convert(place, "same.pth", "from-pth").returncode == 0
    assert convert(place, "my-rwkv.bin", "from-bin").returncode == 0
    read = load("check").read_safetensors
    one, other = read(place / "from-pth"), read(place / "from-bin")
    assert one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)


def test_conversion_gives_the_equations(place):
    """A value of every sort lies where the names say, transposed where it must be."""
    own = rwkv_tensors()
    assert convert(place, "my-rwkv.bin", "converted", "--dtype", "bf16").returncode == 0
    assert convert(place, "my-rwkv.bin", "exact").returncode == 0
    got = load("check").read_safetensors(place / "exact")
    assert (got["model.layers.1.attn.v_lora.lora.0.weight"] == own["blocks.1.att.v1"].T).all()
    assert (got["model.layers.1.attn.w_lora.lora.2.bias"] == own["blocks.1.att.w0"].reshape(-1)).all()
    assert (got["model.layers.0.pre_norm.bias"] == own["blocks.0.ln0.bias"]).all()
    assert not any(name.startswith("model.layers.0.attn.v_lora") for name in got)
    rounded = load("check").read_safetensors(place / "converted")
    assert (rounded["lm_head.weight"] != got["lm_head.weight"]).any()
    assert abs(rounded["lm_head.weight"] - got["lm_head.weight"]).max() < 2e-3
    assert (rounded["model.layers.0.attn.k_k"] == got["model.layers.0.attn.k_k"]).all()


def test_tuned_states_are_what_requests_begin_with(place):
    """Of zeros they change nothing; others do, for every request alike, and lie as the equations want them."""
    rng = numpy.random.default_rng(9)
    answers = {}
    for name, size in (("without", None), ("zeros", 0.0), ("tuned", 1.0)):
        states = {f"blocks.{i}.att.time_state": (size * rng.standard_normal((WIDTH // SIZE, SIZE, SIZE))).astype("<f4")
                  for i in range(LAYERS) if size is not None}
        write_bin(place / f"{name}.bin", rwkv_tensors() | states)
        assert convert(place, f"{name}.bin", name).returncode == 0
        with Server("--slots", "2", model_dir=place / name) as server:
            fields = {"model": name, "prompt": "Once", "seed": 2, "max_tokens": 12, "logprobs": 2}
            several = [complete_ok(server.port, **fields)["choices"] for _ in range(4)]
            assert all(one == several[0] for one in several)
            answers[name] = several[0]
            begun = complete_ok(server.port, **fields | {"max_tokens": 5, "return_state": True, "logprobs": None})
            rest = complete_ok(server.port, model=name, state=begun["states"][0]["id"], max_tokens=7)
            assert begun["choices"][0]["text"] + rest["choices"][0]["text"] == several[0][0]["text"]
    assert answers["zeros"] == answers["without"] != answers["tuned"]
    got = load("check").read_safetensors(place / "tuned")["model.layers.1.attn.time_state"]
    assert (got.reshape(-1, SIZE, SIZE) == numpy.swapaxes(states["blocks.1.att.time_state"], 1, 2)).all()


def test_what_is_no_model_is_refused(place):
    (place / "other.bin").write_bytes(b"GGUF" + bytes(60))
    done = convert(place, "other.bin", "nothing")
    assert done.returncode == 1 and "not one of rwkv.cpp's files" in done.stderr
    tensors = rwkv_tensors()
    write_bin(place / "more.bin", tensors | {"blocks.0.att.time_decay": numpy.zeros((4,), "<f4")})
    done = convert(place, "more.bin", "nothing")
    assert done.returncode == 1 and "blocks.0.att.time_decay is not a tensor of RWKV-7" in done.stderr
    del tensors["blocks.0.att.r_k"]
    write_bin(place / "less.bin", tensors)
    done = convert(place, "less.bin", "nothing")
    assert done.returncode == 1 and "there is no blocks.0.att.r_k" in done.stderr and not (place / "nothing").exists()


def test_a_config_without_what_is_usual(tmp_path):
    """As older trainers wrote them: both sides take the same default for a missing key."""
    usual = {"attn", "allow_neg_eigval", "use_gate", "use_short_conv", "conv_size", "num_v_heads", "tie_word_embeddings", "norm_eps"}
    folder = tmp_path / "short"
    hf_model.write(folder, folders.GATED, folders.delta_tensors)
    path = folder / "config.json"
    path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key not in usual}))
    command = [sys.executable, ROOT / "weights" / "convert" / "check.py", folder, "--against", "float64", "--linnet", LINNET]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "all within 0.001" in done.stdout, (done.stdout, done.stderr)


def test_what_is_rounded_parts_from_what_is_exact(place):
    """The whole tool, with a precision that is none of the trainer's: it ends with 1 and marks the first token that is off."""
    command = [sys.executable, ROOT / "weights" / "convert" / "check.py", "my-model", "--against", "float64", "--precision", "int8",
               "--linnet", LINNET, "--within", "1e-4", "--tokens", "60"]
    done = subprocess.run(list(map(str, command)), cwd=place, capture_output=True, text=True, timeout=120)
    part = re.search(r"they part at token (\d+): \d+ of \d+ are further off than 0.0001", done.stdout)
    assert done.returncode == 1 and part, (done.stdout, done.stderr)
    table = [line.split() for line in done.stdout.splitlines()[-8:]]
    (first,) = (row for row in table if row[0] == part[1])
    assert first[-1] == "<" and abs(float(first[2]) - float(first[3])) > 1e-4, done.stdout
    assert all(row[-1] != "<" for row in table if row[0].isdigit() and int(row[0]) < int(part[1]))


def test_a_comparison_says_where_they_part(place, capsys):
    check = load("check")

    class Args:
        precision, against, within = "f32", "torch", 1e-3

    ids, ours = list(range(30)), numpy.linspace(-3, -1, 20)
    assert check.report(Args, ids, 10, ours, ours + 1e-5) == 0
    theirs = ours.copy()
    theirs[7:] += 0.5
    assert check.report(Args, ids, 10, ours, theirs) == 1
    assert "they part at token 17: 13 of 20" in capsys.readouterr().out
    theirs[2] = numpy.nan
    assert check.report(Args, ids, 10, ours, theirs) == 1
