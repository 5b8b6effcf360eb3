"""Models that weights/train makes of a few lines: the server's results equal PyTorch's with equal weights. Without
PyTorch these are skipped."""

import base64
import lzma
import math
import random
import subprocess
import sys

import pytest

import client
import image_model
import png
from server import Server
from settings import ROOT

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
pytest.importorskip("tqdm")
pytest.importorskip("matplotlib")
TRAIN = ROOT / "weights" / "train"
sys.path.insert(0, str(TRAIN))

import image  # noqa: E402
import image_data  # noqa: E402
import poem  # noqa: E402
import text  # noqa: E402
import trainer  # noqa: E402

pytestmark = pytest.mark.training

LINES = [f"{who} {does} {where}，{n}。" for n in range(1, 7) for who in ("the fox", "a bird", "春風")
         for does in ("sees", "leaves") for where in ("the hill", "明月")]
SMALL = ["--layers", "2", "--width", "32", "--heads", "2", "--length", "64", "--batch-tokens", "512", "--tokens", "30000",
         "--threads", "1", "--device", "cpu"]


def trained(monkeypatch, data, out, flags, kind, parse, program=None):
    """Trains here, or as a user does with this program of weights/train: a process for each model would import PyTorch again.
    Returns the recipe with the weights of its checkpoint, rounded as they are written."""
    arguments = ["--data", str(data), "--run", str(out.parent / f"{out.name}-run"), "--out", str(out), *flags]
    monkeypatch.setattr(sys, "argv", ["recipe.py", *arguments])
    if program is None:
        trainer.run(kind, parse())
    else:
        done = subprocess.run([sys.executable, TRAIN / program, *arguments], capture_output=True, text=True, timeout=1200)
        assert done.returncode == 0, done.stderr
    recipe = kind(parse())
    recipe.model.load_state_dict(torch.load(recipe.args.run / "checkpoint.pt", weights_only=True)["model"])
    with torch.no_grad():
        for name, p in recipe.model.named_parameters():
            if not name.endswith(("A_log", "dt_bias")):
                p.copy_(p.bfloat16())
    return recipe


def surprises(recipe, prompt, rest):
    """The number of tokens of the prompt, and the nats of each token after it."""
    known = recipe.tokenizer
    ids = ([known.end] if known.end is not None else []) + known.encode(prompt)
    first, ids = len(ids), ids + known.encode(rest)
    with torch.no_grad():
        logits = recipe.model(torch.tensor(ids)[None, :, None])[0].double().log_softmax(-1)
    return first, [-logits[i - 1, ids[i]].item() for i in range(first, len(ids))]


@pytest.mark.parametrize("flags", [
    ["--lines"],
    ["--kind", "delta_net", "--tokenizer", "bytes"],
    ["--lines", "--kind", "linear", "--min-count", "60"],
    ["--kind", "rwkv7"],
    ["--lines", "--kind", "grouped_query", "--set", "attention.key_heads=1"],
    ["--lines", "--kind", "mamba2"],
], ids=" ".join)
def test_the_server_computes_what_was_trained(monkeypatch, tmp_path, flags):
    data, out = tmp_path / "lines.txt", tmp_path / "own"
    data.write_text("\n".join(LINES * 6))
    recipe = trained(monkeypatch, data, out, [*SMALL, *flags], text.Text, text.parse_arguments)
    known = recipe.tokenizer
    prompt, rest = "the fox sees", " the hill，7。\na 鱼!"  # a character that was never read
    first, want = surprises(recipe, prompt, rest)
    with Server("--precision", "f32", model_dir=out) as server:
        reply = client.call(server.port, "POST", "/v1/score", {"model": "own", "prompt": prompt, "completion": rest})
        assert reply.status == 200, reply.text
        assert reply.json()["usage"]["prompt_tokens"] == first
        assert reply.json()["surprise"] == pytest.approx(want, abs=1e-3)
        answer = client.complete_ok(server.port, model="own", prompt="the", temperature=0, max_tokens=60)
        assert answer["usage"]["completion_tokens"] > 0 and ("--lines" not in flags or "\n" not in answer["choices"][0]["text"]), answer
    learned = want[1:6]  # of "the hill", which every line may say
    assert sum(learned) / len(learned) < 0.6 * math.log(known.size) and max(want) > 4, want


def test_the_server_computes_what_was_trained_on_poems(monkeypatch, tmp_path):
    out, rng = tmp_path / "own", random.Random(5)
    poems = ["\t".join((rng.choice("唐宋"), "某", rng.choice(["静夜思", "春", "望 月"]),
                       "".join("".join(rng.sample("春花秋月何時了往事知多少", 5)) + mark for mark in "，。，。"))) for _ in range(400)]
    with lzma.open(tmp_path / "train.tsv.xz", "wt", encoding="utf-8") as file:
        file.write("\n".join(poems) + "\n")
    recipe = trained(monkeypatch, tmp_path, out, [*SMALL, "--tokens", "150000"], poem.Poems, poem.parse_arguments, "poem.py")
    prompt, rest = "唐《静夜思》春花秋月何，", "往事知多少。鱼月何時了，"
    first, want = surprises(recipe, prompt, rest)
    with Server("--precision", "f32", model_dir=out) as server:
        reply = client.call(server.port, "POST", "/v1/score", {"model": "own", "prompt": prompt, "completion": rest})
        assert reply.status == 200, reply.text
        assert reply.json()["usage"]["prompt_tokens"] == first
        assert reply.json()["surprise"] == pytest.approx(want, abs=1e-3)
    assert want[5] < 0.5 < 4 < max(want), want  # every line has its mark at that place


@pytest.mark.parametrize("colour, levels", [(False, 256), (True, 256), (False, 4)], ids=["grey", "colour", "four values"])
def test_the_server_computes_what_was_trained_on_pictures(monkeypatch, tmp_path, colour, levels):
    pytest.importorskip("PIL")
    folder, out, rng = tmp_path / "in", tmp_path / "own", random.Random(4)
    for i in range(60):  # a bar, lying or standing
        lying, at, level = i % 2, rng.randrange(5), rng.randrange(150, 250)
        (folder / ("lying" if lying else "standing")).mkdir(parents=True, exist_ok=True)
        grey = bytes(level if (y if lying else x) == at else 0 for y in range(5) for x in range(6))
        (folder / ("lying" if lying else "standing") / f"{i}.png").write_bytes(png.write(6, 5, grey))
    flags = ["--layers", "2", "--width", "32", "--heads", "2", "--batch-tokens", "360", "--tokens", "20000", "--threads", "1",
             "--device", "cpu", "--levels", str(levels), *(["--colour"] if colour else [])]
    recipe = trained(monkeypatch, folder, out, flags, image.Images, image.parse_arguments)
    picture = recipe.held_out[:1]
    nothing = torch.tensor([len(recipe.classes)])  # a score says no class
    ids, targets = image_data.make_inputs(picture, nothing, recipe.streams, levels)
    with torch.no_grad():
        logits = recipe.model(ids)[0].double().log_softmax(-1)
    want = [-logits[i, value].item() / math.log(2) for i, value in enumerate(targets[0].tolist())]  # bits, of images
    values = bytes(recipe.palette[level] for level in picture.flatten().tolist())
    with Server("--precision", "f32", model_dir=out) as server:
        url = "data:image/png;base64," + base64.b64encode(png.write(6, 5, values, png.RGB if colour else png.GREY)).decode()
        reply = client.call(server.port, "POST", "/v1/score", {"model": "own", "image": url})
        assert reply.status == 200, reply.text
        assert reply.json()["surprise"] == pytest.approx(want, abs=1e-3)
        made = client.call(server.port, "POST", "/v1/images/generations", {"model": "own", "prompt": "standing"})
        assert made.status == 200, made.text
    assert min(want) < 0.5 and max(want) > (2 if levels == 256 else 0.5)


def write_idx(path, array):
    path.write_bytes(b"\0\0\x08" + bytes([array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes())


def test_pictures_that_were_asked_for_are_judged(tmp_path):
    """Bars are the digits; a classifier learns them, and sees that a model of random weights paints none on request."""
    rng = numpy.random.default_rng(1)
    for name, count in (("train", 600), ("t10k", 100)):
        labels = rng.integers(0, 10, count).astype(numpy.uint8)
        images = rng.integers(0, 60, (count, 28, 28), dtype=numpy.uint8)
        for image_, label in zip(images, labels):
            image_[2 * label + 4 : 2 * label + 6] = 255
        write_idx(tmp_path / f"{name}-images-idx3-ubyte", images)
        write_idx(tmp_path / f"{name}-labels-idx1-ubyte", labels)
    image_model.write(tmp_path / "models" / "digits", 28, 28, classes=[str(i) for i in range(10)])
    with Server("--models", tmp_path / "models") as server:
        done = subprocess.run([sys.executable, TRAIN / "classify.py", "--data", tmp_path, "--url", f"http://127.0.0.1:{server.port}",
                               "--model", "digits", "--count", "50", "--sheet", tmp_path / "sheet.png", "--threads", "1"],
                              capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    known, *each, asked = done.stdout.splitlines()
    assert float(known.split()[2]) > 0.9 and len(each) == 10
    assert float(asked.split()[2]) < 0.5 and asked.endswith("right of 500")
    sheet = png.read((tmp_path / "sheet.png").read_bytes())
    assert (sheet.width, sheet.height) == (8 * 30, 10 * 30)
    strip = tmp_path / "models" / "strip"
    strip.mkdir()
    (strip / "config.json").write_text('{"base": "../digits", "image": {"height": 112, "period": 28}}')
    with Server("--models", tmp_path / "models") as server:
        done = subprocess.run([sys.executable, TRAIN / "classify.py", "--data", tmp_path, "--url", f"http://127.0.0.1:{server.port}",
                               "--model", "strip", "--strip", "4", "--epochs", "1", "--threads", "1"],
                              capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    _, first, every = done.stdout.splitlines()
    assert first.startswith("digits 1 to 4: ") and every.startswith("digits all: ") and first.split(":")[1] == every.split(":")[1]
    gone = subprocess.run([sys.executable, TRAIN / "classify.py", "--data", tmp_path / "none"], capture_output=True, text=True, timeout=1200)
    assert gone.returncode == 1 and gone.stderr.startswith("classify.py: ") and gone.stderr.count("\n") == 1
