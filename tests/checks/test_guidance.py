"""weights/train/guidance.py: targets equal those of the equation. A model that learns them obeys its classes more than
its teacher does. Its rows of classes can be moved (classes.py). Bad runs are refused with one line."""

import json
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
pytest.importorskip("tqdm")
pytest.importorskip("matplotlib")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "weights" / "train"))

import classes  # noqa: E402
import export  # noqa: E402
import guidance  # noqa: E402
import image  # noqa: E402
import linear_transformer  # noqa: E402
import trainer  # noqa: E402

pytestmark = pytest.mark.training

SIDE, BRIGHT = 4, 0.6  # of the values of the first class; of the second one as many are dark


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pictures of two levels, of which the class says little."""
    where = tmp_path_factory.mktemp("guidance")
    rng = numpy.random.default_rng(1)
    labels = rng.integers(2, size=2000)
    bright = rng.random((len(labels), SIDE, SIDE)) < numpy.where(labels, 1 - BRIGHT, BRIGHT)[:, None, None]
    pictures = numpy.where(bright, 255, 0).astype(numpy.uint8)
    (where / "in.idx").write_bytes(numpy.array([2051, *pictures.shape], ">i4").tobytes() + pictures.tobytes())
    (where / "labels.idx").write_bytes(numpy.array([2049, len(labels)], ">i4").tobytes() + labels.astype(numpy.uint8).tobytes())
    return where


def train(folder, name, *flags, levels=2):
    command = ["image.py", "--data", folder / "in.idx", "--labels", folder / "labels.idx", "--run", folder / f"run-{name}", "--out",
               folder / name, "--levels", levels, "--layers", 1, "--width", 16, "--heads", 2, "--batch-tokens", 960, "--tokens", 120000,
               "--threads", 1, "--device", "cpu", "--no-compile", "--streams", "row,column,class", *flags]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", list(map(str, command)))
        trainer.run(image.Images, image.parse_arguments())
    return folder / name


@pytest.fixture(scope="module")
def teacher(folder):
    return train(folder, "teacher", "--class-lr", 0.01)


def read(path):
    config = json.loads((path / "config.json").read_text())
    model = linear_transformer.LinearTransformer(config)
    export.load_exported(path, model)
    return config, model


def ids_of(class_):
    at = torch.arange(SIDE * SIDE)
    return torch.stack([at // SIDE, at % SIDE, torch.full_like(at, class_)], -1)[None]


@torch.no_grad()
def bright(model, class_):
    """How likely a value is bright, in the mean over places."""
    return model(ids_of(class_)).softmax(-1)[..., 1].mean().item()


def test_targets_are_those_of_the_equation(teacher):
    config, _ = read(teacher)
    c, u, p = (guidance.Teacher(teacher, weight, config, "cpu").targets(ids_of(0), ids_of(2)).double() for weight in (1, 0, 4))
    want = u * (c / u) ** 4
    assert torch.allclose(p, want / want.sum(-1, keepdim=True), atol=1e-6)
    assert (c - u).abs().max() > 0.02


def test_a_guided_model_obeys_more_and_is_the_same_without_a_class(folder, teacher):
    _, before = read(teacher)
    _, after = read(train(folder, "guided", "--init", teacher, "--guide", teacher, "--guidance", 4))
    odds = (BRIGHT / 0.5) ** 4, ((1 - BRIGHT) / 0.5) ** 4
    for class_, likely in ((0, BRIGHT), (1, 1 - BRIGHT)):
        assert abs(bright(before, class_) - likely) < 0.05
        guided = odds[class_] / sum(odds)
        assert abs(bright(after, class_) - guided) < 0.06
    assert abs(bright(before, 2) - 0.5) < 0.04 and abs(bright(after, 2) - 0.5) < 0.04


def test_scaled_classes_are_further_from_none(folder, teacher, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["classes.py", str(teacher), str(folder / "scaled"), "--scale", "2"])
    classes.main()
    _, plain = read(teacher)
    _, scaled = read(folder / "scaled")
    rows, moved = (m.embed["class"].weight.detach() for m in (plain, scaled))
    assert torch.allclose(moved[:2] - moved[2], 2 * (rows[:2] - rows[2]), atol=0.02)  # bf16
    assert (moved[:2] - rows[:2]).abs().max() > 0.05
    assert bright(scaled, 2) == bright(plain, 2)


@pytest.mark.parametrize("flags, levels, words", [
    (["--guide", "nowhere"], 2, "nowhere"),
    (["--guide", "teacher"], 3, "its inputs, head or image"),
    (["--guide", "teacher", "--head", "logistic_mixture"], 2, "categorical"),
    (["--guide", "teacher", "--guidance", 0], 2, "--guidance 0.0 is not"),
    (["--class-lr", -1], 2, "--class-lr -1.0 is not"),
])
def test_what_does_not_fit_is_refused(folder, teacher, flags, levels, words):
    with pytest.raises(SystemExit) as ended:
        train(folder, "refused", *(folder / f if f in ("teacher", "nowhere") else f for f in flags), levels=levels)
    line = str(ended.value)
    assert line.startswith("image.py: ") and "\n" not in line and words in line, line
