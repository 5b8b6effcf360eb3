"""weights/train/strip.py on a small model with random weights: its gates make a picture of a strip equal to a picture alone,
and to one of the base, whatever the classes. Bases, pictures and options that do not fit are refused with one line."""

import json
import pathlib
import re
import sys

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
pytest.importorskip("tqdm")
pytest.importorskip("matplotlib")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "weights" / "train"))

import export  # noqa: E402
import mnist  # noqa: E402
import strip  # noqa: E402
from linear_transformer import LinearTransformer, model_config, override  # noqa: E402

pytestmark = pytest.mark.training

SIZES = ["n_layers=2", "n_heads=2", "d_model=96", "d_ff=32"]
STREAMS = [(name, {"row": mnist.SIDE, "column": mnist.SIDE, "class": 11}.get(name, 257)) for name in mnist.STREAMS]


def write_base(folder, *settings):
    """A model without zeros, with which training begins: its outputs follow from its memory."""
    config = model_config("image", STREAMS, {"kind": "categorical", "size": 256},
                          image={"width": mnist.SIDE, "height": mnist.SIDE, "channels": 1})
    override(config, [*SIZES, *settings])
    torch.manual_seed(1)
    model = LinearTransformer(config)
    for parameter in model.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.3)
    export.export_model(folder, model, config, None)
    return folder


def make_pictures(count):
    rng = numpy.random.default_rng(1)
    shape = count, mnist.SIDE, mnist.SIDE, 1
    return ((rng.random(shape) < 0.2) * rng.integers(256, size=shape)).astype(numpy.uint8)


def write_images(folder, count, labels=None):
    rng = numpy.random.default_rng(1)
    pictures = make_pictures(count)
    folder.mkdir(exist_ok=True)
    head = numpy.array([2051, *pictures.shape[:3]], ">i4").tobytes()
    (folder / "train-images-idx3-ubyte").write_bytes(head + pictures.tobytes())
    classes = rng.integers(10, size=count if labels is None else labels).astype(numpy.uint8)
    (folder / "train-labels-idx1-ubyte").write_bytes(numpy.array([2049, len(classes)], ">i4").tobytes() + classes.tobytes())
    return folder


def run(monkeypatch, base, images, *flags):
    out = base.parent / "strip"
    monkeypatch.setattr(sys, "argv", ["strip.py", "--data", str(images), "--base", str(base), "--out", str(out), "--images", "2",
                                      "--steps", "400", "--threads", "1", *flags])
    strip.main()
    return out


def refused(monkeypatch, base, images, *flags):
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, base, images, *flags)
    line = str(ended.value)
    assert line.startswith("strip.py: ") and "\n" not in line and not (base.parent / "strip").exists(), line
    return line


def test_a_picture_of_a_strip_is_one_alone(monkeypatch, tmp_path, capsys):
    base = write_base(tmp_path / "base")
    out = run(monkeypatch, base, write_images(tmp_path / "images", 30 + strip.HELD_OUT), "--pictures", "3", "--images", "30")
    printed = capsys.readouterr().out
    figures = re.search(r"bits per pixel: picture 3 ([\d.]+), alone ([\d.]+), alone in the base ([\d.]+)", printed).groups()
    in_place, alone, of_base = map(float, figures)
    assert in_place == pytest.approx(alone, abs=2e-3) and alone == pytest.approx(of_base, abs=2e-3) and alone > 1, printed
    config = json.loads((out / "config.json").read_text())
    assert config["base"] == "../base" and config["attention"]["kind"] == "gated_linear"
    assert config["image"] == {"height": strip.MOST_PICTURES * mnist.SIDE, "period": mnist.SIDE}
    tensors = export.read_safetensors(out / "model.safetensors")
    assert len(tensors) == 2 * 2 and all(strip.GATES in name for name in tensors)
    open_gates, config = strip.load_base(base)  # before they are trained
    pictures = numpy.random.default_rng(2).integers(256, size=(3, mnist.SIDE, mnist.SIDE, 1)).astype(numpy.uint8)
    ids, targets = strip.make_strips(pictures, numpy.array([7, 2, 7]), 3, config)
    size = mnist.SIDE**2
    kept, forgotten = strip.bits(open_gates, ids, targets, size), strip.bits(open_gates, ids[:, -size:], targets[:, -size:], size)
    assert abs(kept - forgotten) > 5e-3, "so the gates have forgotten something that matters"


def test_gates_know_every_class(monkeypatch, tmp_path):
    """A gate shuts at the first pixel of a picture of any class, and at no other pixel."""
    base = write_base(tmp_path / "base")
    out = run(monkeypatch, base, write_images(tmp_path / "images", 30 + strip.HELD_OUT), "--images", "30")
    model, config = strip.load_base(base)
    model.load_state_dict(export.read_safetensors(out / "model.safetensors"), strict=False)
    pictures = numpy.repeat(make_pictures(1), 11, 0)
    ids, _ = strip.make_strips(pictures, numpy.arange(11), 1, config)
    for layer, x in zip(model.layers, strip.inputs_of_gates(model, ids)):
        logits = layer.attn.forget(x)
        assert logits[:, 0].max() < -strip.MARGIN / 2 and logits[:, 1:].min() > strip.MARGIN / 2


@pytest.mark.parametrize("count, settings, flags, words", [
    (26, ["mixer=softmax"], [], ["--base", "linear attention"]),
    (25, [], [], ["25 images", "24 are held out"]),
    (26, [], ["--steps", "0"], ["--steps"]),
    (26, [], ["--pictures", "1"], ["--pictures"]),
    (26, [], ["--steps", "1"], ["layer 0", "more --steps"]),
])
def test_runs_that_do_not_fit(monkeypatch, tmp_path, count, settings, flags, words):
    base = write_base(tmp_path / "base", *settings)
    line = refused(monkeypatch, base, write_images(tmp_path / "images", count), *flags)
    assert all(word in line for word in words), line


def test_a_base_that_is_missing(monkeypatch, tmp_path):
    assert "config.json" in refused(monkeypatch, tmp_path / "base", write_images(tmp_path / "images", 26))


def test_labels_of_other_images(monkeypatch, tmp_path):
    images = write_images(tmp_path / "images", 26, labels=25)
    assert "26 images with 25 labels" in refused(monkeypatch, write_base(tmp_path / "base"), images)
