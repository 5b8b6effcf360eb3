"""weights/train/image.py: pictures and idx files, the inputs of their values, and runs that are refused with one line.
tests/http/test_own_model.py tests that the server computes the trained model."""

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
pytest.importorskip("tqdm")
pytest.importorskip("matplotlib")
Image = pytest.importorskip("PIL.Image")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "weights" / "train"))

import image  # noqa: E402
import image_data as data  # noqa: E402
import trainer  # noqa: E402

pytestmark = pytest.mark.training

SMALL = ["--layers", "1", "--width", "16", "--heads", "2", "--batch-tokens", "96", "--tokens", "500", "--threads", "1",
         "--device", "cpu"]


def arguments(monkeypatch, source, *flags):
    run = source.parent / "run"
    monkeypatch.setattr(sys, "argv", ["image.py", "--data", str(source), "--run", str(run), *SMALL, *flags])
    return image.parse_arguments()


def values(count, height, width, channels=3):
    return numpy.random.default_rng(1).integers(256, size=(count, height, width, channels), dtype=numpy.uint8)


def write_pictures(folder, pictures, suffix="png", classes=("",)):
    for i, picture in enumerate(pictures):
        place = folder / classes[i % len(classes)]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture.squeeze()).save(place / f"{i:04}.{suffix}")


def write_idx(path, array):
    path.write_bytes(numpy.array([2048 + array.ndim, *array.shape], ">i4").tobytes() + array.astype(numpy.uint8).tobytes())


def refused(args):
    with pytest.raises(SystemExit) as ended:
        trainer.run(image.Images, args)
    line = str(ended.value)
    assert line.startswith("image.py: ") and "\n" not in line and not args.run.exists(), line
    return line


# --- reading


@pytest.mark.parametrize("suffix", ["png", "ppm", "bmp"])
def test_pictures_are_their_values_and_folders_their_classes(monkeypatch, tmp_path, suffix):
    want = values(6, 3, 4)
    write_pictures(tmp_path / "in", want, suffix, ["A_cat", "dog"])
    got = image.read(arguments(monkeypatch, tmp_path / "in", "--colour"))
    assert (got.values == want[[0, 2, 4, 1, 3, 5]]).all()
    assert got.labels.tolist() == [0, 0, 0, 1, 1, 1] and got.classes == ["a cat", "dog"]
    assert image.read(arguments(monkeypatch, tmp_path / "in")).values.shape == (6, 3, 4, 1)
    assert image.read(arguments(monkeypatch, tmp_path / "in", "--size", "5x2")).values.shape == (6, 5, 2, 1)


@pytest.mark.parametrize("channels", [1, 3])
def test_idx_files_are_their_values(monkeypatch, tmp_path, channels):
    want = values(6, 3, 4, channels)
    write_idx(tmp_path / "in.idx", want if channels > 1 else want[..., 0])
    write_idx(tmp_path / "labels.idx", numpy.array([0, 2, 1, 0, 0, 0]))
    got = image.read(arguments(monkeypatch, tmp_path / "in.idx", "--labels", str(tmp_path / "labels.idx")))
    assert (got.values == want).all() and got.labels.tolist() == [0, 2, 1, 0, 0, 0] and got.classes == ["0", "1", "2"]


def test_inputs_are_what_lies_before():
    pictures = values(2, 3, 4)
    names = ["token", *data.NEIGHBOURS, "row", "column", "channel", "position", "class"]
    ids, targets = data.make_inputs(torch.from_numpy(pictures), torch.tensor([5, 7]), names)
    assert ids.shape == (2, 36, len(names)) and (targets.numpy() == pictures.reshape(2, -1)).all()
    for b in range(2):
        for t in range(36):
            y, x, c = t // 12, t // 3 % 4, t % 3
            want = [targets[b, t - 1] if t else 256]
            for dy, dx in data.NEIGHBOURS.values():
                inside = 0 <= y + dy and 0 <= x + dx < 4
                want.append(pictures[b, y + dy, x + dx, c] if inside else 256)
            assert ids[b, t].tolist() == [*want, y, x, c, t, [5, 7][b]]


@pytest.mark.parametrize("levels, palette", [(2, [0, 255]), (4, [0, 85, 170, 255]), (7, [0, 43, 85, 128, 170, 213, 255]), (256, list(range(256)))])
def test_palettes_are_even(levels, palette):
    assert data.even_palette(levels) == palette
    got = data.to_levels(numpy.arange(256, dtype=numpy.uint8), palette)
    assert got.dtype == numpy.uint8 and got.tolist() == [min(range(levels), key=lambda i: abs(palette[i] - v)) for v in range(256)]


def test_few_levels_are_ids_and_config(monkeypatch, tmp_path):
    pictures = values(10, 3, 4)
    write_pictures(tmp_path / "in", pictures)
    made = image.Images(arguments(monkeypatch, tmp_path / "in", "--levels", "4"))
    assert made.config["image"]["palette"] == [0, 85, 170, 255] and made.config["head"] == {"kind": "categorical", "size": 4}
    sizes = {stream["name"]: stream["size"] for stream in made.config["inputs"]}
    assert (sizes["token"], sizes["nn"], sizes["row"], sizes["column"]) == (5, 5, 3, 4)
    assert set(made.train.unique().tolist()) <= set(range(4))
    ids, targets = data.make_inputs(made.train[:2], torch.tensor([0, 0]), made.streams, 4)
    assert ids[:, 0, 0].tolist() == [4, 4] and targets.max() <= 3 and ids[..., 0].max() == 4
    assert "--levels 1" in refused(arguments(monkeypatch, tmp_path / "in", "--levels", "1"))


def test_held_out_images_are_not_trained_on(monkeypatch, tmp_path):
    write_pictures(tmp_path / "in", values(40, 3, 4), classes=["a", "b"])
    made = image.Images(arguments(monkeypatch, tmp_path / "in", "--held-out", "0.25"))
    assert len(made.held_out) == 10 and len(made.train) == len(made.labels) == 30
    assert 0 < made.labels.sum() < 20  # of both classes
    assert not {v.numpy().tobytes() for v in made.train} & {v.numpy().tobytes() for v in made.held_out}


# --- refused runs


@pytest.mark.parametrize("flags, words", [
    (["--held-out", "0.95"], ["40 images are too few", "38", "8"]),
    (["--batch-tokens", "11"], ["--batch-tokens 11", "12"]),
    (["--held-out", "0"], ["--held-out 0"]),
    (["--heads", "3"], ["--width 16", "--heads 3"]),
    (["--classes", "a"], ["--classes has 1", "2"]),
    (["--labels", "labels.idx"], ["--labels", "idx"]),
    (["--size", "5000x2", "--batch-tokens", "100000"], ["5000 x 2", "4096"]),
    (["--streams", "token,left"], ["--streams", "left"]),
    (["--validate-on", "0"], ["--validate-on 0"]),
])
def test_options_that_do_not_fit(monkeypatch, tmp_path, flags, words):
    write_pictures(tmp_path / "in", values(40, 3, 4), classes=["a", "b"])
    line = refused(arguments(monkeypatch, tmp_path / "in", *flags))
    assert all(word in line for word in words), line


@pytest.mark.parametrize("flags", [["--size", "9999x9999"], ["--size", "1024x1024", "--colour"], ["--size", "0x5"]])
def test_a_size_is_judged_before_pictures_are_scaled(monkeypatch, tmp_path, flags):
    write_pictures(tmp_path / "in", values(40, 3, 4))
    monkeypatch.setattr(image.data, "read_picture", lambda *_: pytest.fail("a picture was scaled"))
    assert "values at most" in refused(arguments(monkeypatch, tmp_path / "in", *flags))


def test_pictures_that_do_not_fit(monkeypatch, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    assert "no picture" in refused(arguments(monkeypatch, folder))
    write_pictures(folder, values(3, 3, 4), classes=["a", "b"])
    write_pictures(folder, values(1, 5, 4), classes=["c"])
    assert "5 x 4 pixels" in refused(arguments(monkeypatch, folder))
    write_pictures(folder, values(1, 3, 4))
    assert "0000.png beside them" in refused(arguments(monkeypatch, folder))
    whole = (folder / "0000.png").read_bytes()
    (folder / "0000.png").write_bytes(whole[: len(whole) // 2])
    (folder / "a" / "0000.png").write_bytes(b"no picture")
    for line in (refused(arguments(monkeypatch, folder / "a")), refused(arguments(monkeypatch, folder))):
        assert "0000.png" in line


def test_idx_files_that_do_not_fit(monkeypatch, tmp_path):
    source = tmp_path / "in.idx"
    assert "No such file" in refused(arguments(monkeypatch, source))
    for broken in (b"", b"\0\0\10\4", b"no idx file at all, but long enough"):
        source.write_bytes(broken)
        assert "not an idx file" in refused(arguments(monkeypatch, source))
    write_idx(source, values(40, 3, 4, 2))
    assert "3 x 4 x 2 values" in refused(arguments(monkeypatch, source))
    write_idx(source, values(40, 3, 4, 1)[..., 0])
    assert "--size is 8 x 8" in refused(arguments(monkeypatch, source, "--size", "8x8"))
    write_idx(tmp_path / "labels.idx", numpy.zeros(39))
    assert "40 images have 39 labels" in refused(arguments(monkeypatch, source, "--labels", str(tmp_path / "labels.idx")))
