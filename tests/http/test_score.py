"""Scores of given pictures and lines: they agree with generation and with eval."""

import base64
import json
import math
import struct

import pytest

import images
import png
from client import call
from images import CLASSES, COLOUR, COLOUR_HEIGHT, COLOUR_WIDTH, HEIGHT, PIXELS, SMALL, WIDTH, a_picture, data_url, generate_ok
from server import run
from settings import MODEL, MODEL_DIR

pytestmark = [pytest.mark.quick, pytest.mark.asan]

FULL = png.write(WIDTH, HEIGHT, a_picture())
UPPER, LOWER = "山远云低，归舟一叶", "水清月近，渔火千家"


def score_ok(port, **fields):
    reply = images.score(port, **fields)
    assert reply.status == 200, reply.text
    return reply.json()


def content(answer):
    return {k: v for k, v in answer.items() if k != "timings"}


def test_image(image_port):
    answer = score_ok(image_port, model=SMALL, image=data_url(FULL))
    assert answer["object"] == "score"
    assert answer["model"] == SMALL
    assert answer["system_fingerprint"].startswith("linnet-")
    assert len(answer["surprise"]) == PIXELS
    assert all(x >= 0 for x in answer["surprise"])
    assert answer["bits_per_dim"] == pytest.approx(sum(answer["surprise"]) / PIXELS, rel=1e-5)
    assert answer["usage"]["completion_tokens"] == PIXELS
    without = score_ok(image_port, image=data_url(FULL))  # the first that can be asked for its classes
    assert content(without) == content(score_ok(image_port, model=CLASSES, image=data_url(FULL)))


def test_upload(image_port):
    kind, body = images.encode_form({"model": SMALL, "image": images.File(FULL)})
    reply = call(image_port, "POST", images.SCORE, body, {"Content-Type": kind})
    assert reply.status == 200, reply.text
    told = score_ok(image_port, model=SMALL, image=data_url(FULL))
    assert content(reply.json()) == content(told)


@pytest.mark.parametrize("model", [SMALL, COLOUR])
def test_score_of_what_was_generated(image_port, model):
    """The same forward pass: the generated picture's own figure, value for value."""
    answer = generate_ok(image_port, model=model, n=3, seed=4)
    for item in answer["data"]:
        url = "data:image/png;base64," + item["b64_json"]
        assert score_ok(image_port, model=model, image=url)["bits_per_dim"] == pytest.approx(
            item["bits_per_dim"], rel=1e-5
        )


def test_a_changed_pixel_changes_only_what_comes_after(image_port):
    values, at = bytearray(a_picture()), 100
    before = score_ok(image_port, model=SMALL, image=data_url(FULL))["surprise"]
    values[at] ^= 0x80
    changed = data_url(png.write(WIDTH, HEIGHT, bytes(values)))
    after = score_ok(image_port, model=SMALL, image=changed)["surprise"]
    assert after[:at] == before[:at]
    assert after[at] != before[at] and after[at + 1] != before[at + 1]


def test_a_likely_picture_is_less_surprising(image_port):
    likely = generate_ok(image_port, temperature=0)["data"][0]["b64_json"]
    far = bytes((x + 128) % 256 for x in png.read(base64.b64decode(likely)).values)
    far = data_url(png.write(WIDTH, HEIGHT, far))
    likely = "data:image/png;base64," + likely
    figures = [score_ok(image_port, image=image)["bits_per_dim"] for image in (likely, far)]
    assert figures[0] < figures[1]


@pytest.mark.parametrize("model, width, height, channels", [(SMALL, WIDTH, HEIGHT, 1), (COLOUR, COLOUR_WIDTH, COLOUR_HEIGHT, 3)])
def test_image_matches_eval(image_port, image_models, tmp_path, model, width, height, channels):
    values = a_picture(width, height, channels)
    rasters = [values, bytes(len(values)), bytes(reversed(values))]
    shape = (len(rasters), height, width, channels)[: 3 if channels == 1 else 4]
    file = tmp_path / "images.idx"
    file.write_bytes(struct.pack(f">{1 + len(shape)}I", 2048 + len(shape), *shape) + b"".join(rasters))
    result = run("eval", "--model", image_models / model, "--json", file)
    assert result.returncode == 0, result.stderr
    kind = png.GREY if channels == 1 else png.RGB
    figures = [
        score_ok(image_port, model=model, image=data_url(png.write(width, height, raster, kind)))["bits_per_dim"]
        for raster in rasters
    ]
    report = json.loads(result.stdout)
    assert report["pixels"] == 3 * width * height
    assert report["bits_per_dim"] == pytest.approx(sum(figures) / 3, rel=1e-5)


def test_couplet(image_port):
    answer = score_ok(image_port, model=MODEL, prompt=UPPER, completion=LOWER)
    assert answer["object"] == "score" and answer["model"] == MODEL
    assert len(answer["surprise"]) == len(LOWER)
    mean = sum(answer["surprise"]) / len(LOWER)
    assert answer["nats_per_character"] == pytest.approx(mean, rel=1e-5)
    assert "bits_per_dim" not in answer
    worse = score_ok(image_port, model=MODEL, prompt=UPPER, completion="的" * len(LOWER))
    assert worse["nats_per_character"] > answer["nats_per_character"]


def test_couplet_matches_eval(port, tmp_path):
    pairs = [(UPPER, LOWER), ("海上明月", "天涯比邻"), ("春风", "的的")]
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{upper}\t{lower}\n" for upper, lower in pairs))
    result = run("eval", "--model", MODEL_DIR, "--json", "--no-answers", file)
    assert result.returncode == 0, result.stderr
    nats, count = 0.0, 0
    for upper, lower in pairs:
        surprise = score_ok(port, model=MODEL, prompt=upper, completion=lower)["surprise"]
        nats, count = nats + sum(surprise), count + len(surprise)
    told = json.loads(result.stdout)["nll"]
    assert nats / count == pytest.approx(told, abs=1e-4)
    assert math.isfinite(told)
