"""The command line with image models: `generate --png`, `eval` of idx files, `bench --positions`."""

import gzip
import json
import os
import struct
import subprocess
import sys

import pytest

import images
import png
from images import COLOUR, COLOUR_HEIGHT, COLOUR_WIDTH, HEIGHT, PIXELS, SMALL, WIDTH, a_picture
from server import environment, run, run_on_terminal
from settings import LINNET, MODEL_DIR, ROOT

MNIST = ROOT / "weights" / "mnist"
BORDER = 2
VALUES = a_picture()
TOP_ROWS = 5
TOP = png.write(WIDTH, TOP_ROWS, VALUES[: TOP_ROWS * WIDTH])


@pytest.fixture
def model(image_models):
    return image_models / SMALL


def paint(model, file, *flags):
    """The PNG file that generate writes."""
    result = run("generate", "--model", model, "--png", file, *flags)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    return file.read_bytes()


def refusal(*args, status=2):
    result = run(*args)
    assert result.returncode == status, result
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    return line


def save(folder, data, name="given.png"):
    path = folder / name
    path.write_bytes(data)
    return path


# --- generate ------------------------------------------------------------------------------------


def test_one_image(model, tmp_path):
    first = paint(model, tmp_path / "a.png", "--seed", 1)
    picture = png.read(first)
    assert (picture.width, picture.height, picture.channels) == (WIDTH, HEIGHT, 1)
    assert paint(model, tmp_path / "b.png", "--seed", 1, "--threads", 1) == first
    assert paint(model, tmp_path / "c.png", "--seed", 2) != first


def test_colour(image_models, tmp_path):
    picture = png.read(paint(image_models / COLOUR, tmp_path / "a.png", "--seed", 1))
    assert (picture.width, picture.height, picture.channels) == (COLOUR_WIDTH, COLOUR_HEIGHT, 3)


def test_without_a_seed_each_run_differs(model, tmp_path):
    assert paint(model, tmp_path / "a.png") != paint(model, tmp_path / "b.png")


def test_the_same_bytes_as_the_server(model, image_port, tmp_path):
    """With the usual temperature, which is 1 for images on both sides."""
    (served,) = images.files(images.generate_ok(image_port, seed=5))
    assert paint(model, tmp_path / "a.png", "--seed", 5) == served
    assert paint(model, tmp_path / "b.png", "--seed", 5, "--temperature", 1) == served
    assert paint(model, tmp_path / "c.png", "--seed", 5, "--temperature", 0.2) != served


def test_contact_sheet(model, image_port, tmp_path):
    n = 7
    data = paint(model, tmp_path / "sheet.png", "-n", n, "--seed", 3)
    (served,) = images.files(images.generate_ok(image_port, n=n, seed=3, contact_sheet=True))
    assert data == served
    sheet = png.read(data)
    assert sheet.width == 3 * (WIDTH + BORDER) + BORDER
    assert sheet.height == 3 * (HEIGHT + BORDER) + BORDER
    pictures = images.pictures(images.generate_ok(image_port, n=n, seed=3))
    for i, picture in enumerate(pictures):
        x, y = (BORDER + i % 3 * (WIDTH + BORDER), BORDER + i // 3 * (HEIGHT + BORDER))
        assert sheet.part(x, y, WIDTH, HEIGHT) == picture.values


def test_more_images_than_slots(model, tmp_path):
    sheet = png.read(paint(model, tmp_path / "sheet.png", "-n", 100, "--seed", 3))
    assert sheet.width == sheet.height == 10 * (WIDTH + BORDER) + BORDER


def test_standard_output(model, tmp_path):
    command = [LINNET, "generate", "--model", model, "--png", "-", "--seed", "1"]
    out = subprocess.run(command, capture_output=True, env=environment(), timeout=60, check=True)
    assert out.stdout == paint(model, tmp_path / "a.png", "--seed", 1)
    assert out.stderr == b""


def test_complete_fewer_rows(model, image_port, tmp_path):
    given = save(tmp_path, TOP)
    data = paint(model, tmp_path / "whole.png", "--complete", given, "--seed", 2)
    assert png.read(data).values.startswith(VALUES[: TOP_ROWS * WIDTH])
    (served,) = images.files(images.edit_ok(image_port, TOP, seed=2))
    assert data == served


def test_complete_what_is_not_transparent(model, tmp_path):
    kept = TOP_ROWS * WIDTH + 3
    alpha = bytes([255] * kept + [0] * (PIXELS - kept))
    file = png.write(WIDTH, HEIGHT, png.with_alpha(VALUES, alpha), png.GREY_ALPHA)
    given = save(tmp_path, file)
    sheet = png.read(paint(model, tmp_path / "a.png", "--complete", given, "-n", 2, "--seed", 2))
    pictures = [sheet.part(BORDER + i * (WIDTH + BORDER), BORDER, WIDTH, HEIGHT) for i in range(2)]
    assert all(values[:kept] == VALUES[:kept] for values in pictures)
    assert pictures[0] != pictures[1]


def test_what_cannot_be_completed(model, tmp_path):
    holes = bytes(255 * (i % 2) for i in range(PIXELS))
    files = {
        "wide.png": (png.write(WIDTH + 1, 3, bytes(3 * (WIDTH + 1))), f"{WIDTH}x{HEIGHT}"),
        "whole.png": (png.write(WIDTH, HEIGHT, VALUES), "kept pixels are not known"),
        "holes.png": (
            png.write(WIDTH, HEIGHT, png.with_alpha(VALUES, holes), png.GREY_ALPHA),
            "first pixels",
        ),
        "text.png": (b"not a picture", "PNG"),
        "cut.png": (TOP[:-20], "PNG"),
    }
    for name, (data, words) in files.items():
        given = save(tmp_path, data, name)
        out = tmp_path / "out.png"
        line = refusal("generate", "--model", model, "--png", out, "--complete", given)
        assert name in line and words in line.replace(" x ", "x"), line
        assert not out.exists()
    missing = ("--complete", tmp_path / "none.png")
    assert "none.png" in refusal("generate", "--model", model, "--png", "-", *missing, status=1)


def test_options_that_do_not_fit(model, tmp_path):
    assert "--png" in refusal("generate", "--model", model)
    out = ("--png", tmp_path / "a.png")
    assert "PROMPT does not fit" in refusal("generate", "--model", model, *out, "海上明月")
    for flag in (("--max-tokens", 3), ("--scores",), ("--json",), ("--no-rules",), ("--no-normalize",), ("--top-k", 3), ("--top-p", 0.5)):
        assert flag[0] in refusal("generate", "--model", model, *out, *flag)
    text = ("generate", "--model", MODEL_DIR, "--prompt", "海上明月")
    assert "--png" in refusal(*text, *out)
    assert "--complete" in refusal(*text, "--complete", save(tmp_path, TOP))
    assert "--n" in refusal("generate", "--model", model, *out, "-n", 1025)
    assert not out[1].exists()


def test_a_file_that_cannot_be_written(model, tmp_path):
    out = tmp_path / "no" / "a.png"
    line = refusal("generate", "--model", model, "--png", out, status=1)
    assert "--png" in line and "No such file" in line


def test_a_full_disk_is_noticed(model):
    line = refusal("generate", "--model", model, "--png", "/dev/full", status=1)
    assert "--png" in line


def terminal_words(*args):
    """The program's output to stderr when that is a terminal."""
    status, words, _ = run_on_terminal("stderr", *args)
    assert status == 0, words
    return words


def test_progress_on_a_terminal_only(model, tmp_path, idx):
    words = terminal_words(
        "generate", "--model", model, "--png", tmp_path / "a.png", "-n", 64, "--backend", "reference"
    )
    assert "%" in words and "pixels/s" in words
    assert words.endswith("\r\x1b[K"), "the bar is taken away"
    assert "pixels/s" in terminal_words("eval", "--model", model, idx)
    text = terminal_words("generate", "--model", MODEL_DIR, "--prompt", "海上明月")
    assert text == ""


# --- eval ------------------------------------------------------------------------------------------


def idx_file(rasters, width=WIDTH, height=HEIGHT):
    return struct.pack(">IIII", 2051, len(rasters), height, width) + b"".join(rasters)


RASTERS = [VALUES, bytes(PIXELS), bytes(reversed(VALUES)), bytes([255]) * PIXELS]


@pytest.fixture
def idx(tmp_path):
    return save(tmp_path, idx_file(RASTERS), "images.idx")


def evaluate(model, file, *flags):
    result = run("eval", "--model", model, "--json", file, *flags)
    assert (result.returncode, result.stderr) == (0, "")
    report = json.loads(result.stdout)
    return {k: v for k, v in report.items() if k not in ("seconds", "pixels_per_second")}


def test_eval(model, idx, tmp_path):
    report = evaluate(model, idx)
    assert report["images"] == 4 and report["pixels"] == 4 * PIXELS
    assert 1 < report["bits_per_dim"] < 40
    packed = save(tmp_path, gzip.compress(idx.read_bytes()), "images.idx.gz")
    assert evaluate(model, packed) == report
    assert evaluate(model, idx, "--threads", 1) == report
    text = run("eval", "--model", model, idx).stdout
    assert f"{report['bits_per_dim']:.4f}" in text and "images          4\n" in text


def test_eval_is_the_mean_of_its_images(model, idx, tmp_path):
    """However many there are: more than fit a step, more than are scored at once."""
    alone = [
        evaluate(model, save(tmp_path, idx_file([r]), f"{i}.idx"))["bits_per_dim"]
        for i, r in enumerate(RASTERS)
    ]
    assert len(set(alone)) == len(alone)
    assert evaluate(model, idx)["bits_per_dim"] == pytest.approx(sum(alone) / 4, abs=2e-6)
    assert evaluate(model, idx, "--limit", 1)["bits_per_dim"] == alone[0]
    many = evaluate(model, save(tmp_path, idx_file(RASTERS * 100), "many.idx"))
    assert many["images"] == 400
    assert many["bits_per_dim"] == pytest.approx(sum(alone) / 4, abs=2e-6)


def test_eval_refuses_other_files(image_models, model, idx, tmp_path):
    other = save(tmp_path, idx_file([bytes(9 * 7)], 9, 7), "other.idx")
    line = refusal("eval", "--model", model, other)
    assert "other.idx" in line and "9x7" in line and f"{WIDTH}x{HEIGHT}" in line
    assert "holds grey images" in refusal("eval", "--model", image_models / COLOUR, idx)
    coloured = save(tmp_path, struct.pack(">5I", 2052, 1, HEIGHT, WIDTH, 3) + bytes(3 * PIXELS), "coloured.idx")
    assert "holds colour images" in refusal("eval", "--model", model, coloured)
    for name, data in {
        "cut.idx": idx.read_bytes()[:-1],
        "labels.idx": struct.pack(">II", 2049, 4) + bytes(4),
        "text.idx": b"not images",
        "cut.gz": gzip.compress(idx.read_bytes())[:-12],
    }.items():
        assert name in refusal("eval", "--model", model, save(tmp_path, data, name), status=1)
    assert "none.idx" in refusal("eval", "--model", model, tmp_path / "none.idx", status=1)


# --- bench -----------------------------------------------------------------------------------------


def test_bench_positions(model):
    flags = ("--positions", "1,64,1500", "--threads", "1,2", "--steps", 3)
    result = run("bench", "--model", model, *flags, "--json")
    note = "linnet bench: note: --positions 1500 is beyond the 196 tokens that squares reads\n"
    assert (result.returncode, result.stderr) == (0, note)
    report = json.loads(result.stdout)
    assert report["state_bytes"] > 0
    order = [(row["threads"], row["position"]) for row in report["rows"]]
    assert order == [(t, p) for t in (1, 2) for p in (1, 64, 1500)]
    assert all(row["ms_per_token"] > 0 for row in report["rows"])
    assert all(row["resident_bytes"] > 1 << 20 for row in report["rows"])
    table = run("bench", "--model", model, *flags).stdout
    assert "position" in table and "resident MiB" in table
    assert len(table.strip().splitlines()) == 3 + 6


@pytest.mark.parametrize("text", ["", "0", "1,", "4,4", "64,1", "x", "99999999999"])
def test_bench_refuses_positions(model, text):
    assert "--positions" in refusal("bench", "--model", model, "--positions", text)


@pytest.mark.heavy
def test_constant_time_command():
    """The committed benchmark runs; its figures are not judged on a busy machine."""
    pytest.importorskip("numpy")
    script = ROOT / "tests" / "bench" / "constant_time.py"
    flags = ["--only", "linnet", "--positions", "1,64,700", "--steps", "5", "--tolerance", "1000"]
    command = [sys.executable, script, "--linnet", LINNET, *flags]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    rows = [line for line in result.stdout.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + 3
    assert "270,336 bytes" in result.stdout


# --- the shipped model -------------------------------------------------------------------------------


@pytest.mark.skipif(not (MNIST / "config.json").exists(), reason="no weights/mnist")
def test_shipped_digits(tmp_path):
    data = paint(MNIST, tmp_path / "a.png", "-n", 4, "--seed", 1)
    sheet = png.read(data)
    assert (sheet.width, sheet.height) == (2 * 30 + 2, 2 * 30 + 2)
    digits = [sheet.part(2 + i % 2 * 30, 2 + i // 2 * 30, 28, 28) for i in range(4)]
    # Ink on a black ground, away from the corners, as all handwritten digits have it.
    for values in digits:
        assert values[0] == values[27] == values[-1] == 0
        assert 0.03 < sum(x > 128 for x in values) / 784 < 0.5
    ink = save(tmp_path, idx_file(digits, 28, 28), "digits.idx")
    noise = bytes((i * 73 + i // 5 * 29) % 256 for i in range(784))
    other = save(tmp_path, idx_file([noise], 28, 28), "noise.idx")
    assert evaluate(MNIST, ink)["bits_per_dim"] < 2 < evaluate(MNIST, other)["bits_per_dim"]
