"""Images: answers, completions of given rows, events; the same request is the same PNG."""

import asyncio
import time

import pytest

import images
import lines
import png
from client import Connection, call
from images import (
    CLASSES,
    COLOUR,
    COLOUR_HEIGHT,
    COLOUR_WIDTH,
    HEIGHT,
    PIXELS,
    SMALL,
    SPECKS,
    WIDTH,
    a_picture,
    content,
    edit,
    edit_json,
    edit_ok,
    files,
    generate,
    generate_ok,
    mask_keeping,
    pictures,
)
from server import Server
from settings import MODEL, ROOT

pytestmark = [pytest.mark.quick, pytest.mark.asan]

SEED = 20240607
HALF = HEIGHT // 2


def check_refused(reply, param, status=400):
    assert reply.status == status, (reply.status, reply.text[:300])
    assert reply.error["param"] == param, reply.error


# --- answers ---------------------------------------------------------------------------------


def test_answer(image_port):
    answer = generate_ok(image_port, prompt="a digit", n=3, seed=SEED, size="14x14", user="me")
    assert answer["seed"] == SEED
    assert answer["model"] == SMALL
    assert answer["size"] == "14x14"
    assert answer["background"] == "opaque"
    assert answer["output_format"] == "png"
    assert answer["system_fingerprint"].startswith("linnet-")
    assert abs(answer["created"] - time.time()) < 60
    assert answer["usage"] == {
        "input_tokens": 0,
        "input_tokens_details": {"image_tokens": 0, "text_tokens": 0, "cached_tokens": 0},
        "output_tokens": 3 * PIXELS,
        "total_tokens": 3 * PIXELS,
    }
    assert answer["timings"]["predicted_n"] == 3 * PIXELS
    assert len(answer["data"]) == 3
    for item, picture in zip(answer["data"], pictures(answer), strict=True):
        assert set(item) == {"b64_json", "bits_per_dim"}
        assert 0 < item["bits_per_dim"] < 30
        assert (picture.width, picture.height, picture.channels) == (WIDTH, HEIGHT, 1)
        assert len(set(picture.values)) > 10
    assert len(set(files(answer))) == 3


def test_nothing_is_required(image_port):
    """Not even the model: the first one that can be asked for its classes is taken."""
    reply = call(image_port, "POST", images.GENERATIONS, {})
    assert reply.status == 200, reply.text
    listed = [m["id"] for m in call(image_port, "GET", "/v1/models").json()["data"]]
    assert listed.index(SMALL) < listed.index(CLASSES)
    assert reply.json()["model"] == CLASSES
    assert len(reply.json()["data"]) == 1


def test_colour(image_port):
    answer = generate_ok(image_port, model=COLOUR, size="6x5", seed=1)
    (picture,) = pictures(answer)
    assert (picture.width, picture.height, picture.channels) == (COLOUR_WIDTH, COLOUR_HEIGHT, 3)
    assert answer["usage"]["output_tokens"] == COLOUR_WIDTH * COLOUR_HEIGHT
    image = png.write(COLOUR_WIDTH, 2, a_picture(COLOUR_WIDTH, 2, 3), png.RGB)
    answer = edit_ok(image_port, image, model=COLOUR, seed=1)
    assert pictures(answer)[0].values.startswith(a_picture(COLOUR_WIDTH, 2, 3))
    assert answer["usage"]["input_tokens"] == 2 * COLOUR_WIDTH


def test_temperature_zero_is_one_picture(image_port):
    assert len(set(files(generate_ok(image_port, n=3, temperature=0)))) == 1


def test_models(image_port):
    listed = {m["id"]: m for m in call(image_port, "GET", "/v1/models").json()["data"]}
    assert set(listed) == {MODEL, SMALL, SPECKS, COLOUR, CLASSES}
    image = listed[COLOUR]
    assert image["architecture"] == {"input_modalities": ["image"], "output_modalities": ["image"]}
    assert image["meta"]["task"] == "image"
    sizes = [image["meta"][name] for name in ("width", "height", "channels", "n_vocab")]
    assert sizes == [COLOUR_WIDTH, COLOUR_HEIGHT, 3, 256]
    assert "max_chars" not in image["meta"]
    couplet = listed[MODEL]
    assert couplet["architecture"] == {"input_modalities": ["text"], "output_modalities": ["text"]}
    assert couplet["meta"]["max_chars"] == 32
    assert "width" not in couplet["meta"]


def test_each_model_on_its_own_route(image_port):
    reply = call(image_port, "POST", "/v1/completions", {"model": SMALL, "prompt": "海"})
    check_refused(reply, "model")
    assert "/v1/images/generations" in reply.error["message"]
    reply = generate(image_port, model=MODEL)
    check_refused(reply, "model")
    assert "/v1/completions" in reply.error["message"]
    check_refused(edit(image_port, png.write(WIDTH, 1, bytes(WIDTH)), model=MODEL), "model")
    check_refused(generate(image_port, model="unknown"), "model", 404)


def test_without_an_image_model(port):
    check_refused(call(port, "POST", images.GENERATIONS, {}), "model", 404)
    check_refused(generate(port, model=MODEL), "model")


# --- the same bytes --------------------------------------------------------------------------


def test_asked_twice(image_port):
    first, second = (generate_ok(image_port, seed=SEED, n=3) for _ in range(2))
    assert content(first) == content(second)
    assert files(generate_ok(image_port, seed=SEED + 1, n=3)) != files(first)


def test_seed_is_told_and_can_be_used_again(image_port):
    first = generate_ok(image_port)
    assert 0 <= first["seed"] < 2**53
    assert content(generate_ok(image_port, seed=first["seed"])) == content(first)
    assert generate_ok(image_port)["seed"] != first["seed"]


def test_fewer_samples_are_the_first_of_more(image_port):
    """Sample i depends on (seed, i) alone, and the order is that of the samples."""
    many = generate_ok(image_port, seed=SEED, n=5)["data"]
    assert generate_ok(image_port, seed=SEED, n=3)["data"] == many[:3]


def test_more_samples_than_slots(image_models):
    with Server("--models", image_models, "--slots", "3") as server:
        few = generate_ok(server.port, seed=SEED, n=10)
    with Server("--models", image_models, "--slots", "16", "--threads", "1") as server:
        assert content(generate_ok(server.port, seed=SEED, n=10)) == content(few)


def mixed_requests(count):
    """(path, body) of couplets, digits and tiles in turn, with n, seeds and temperatures."""
    short = [line for line in lines.OWN if len(line) < 12]
    for i in range(count):
        common = {"seed": i, "n": 1 + i % 3, "temperature": [0.5, 1, 0][i % 3]}
        if i % 4 < 2:
            prompt = short[i % len(short)]
            yield "/v1/completions", {"model": MODEL, "prompt": prompt, **common}
        else:
            yield images.GENERATIONS, {"model": [SMALL, COLOUR][i % 2], **common}


async def ask_all(port, requests):
    async def ask(path, body):
        async with Connection(port) as connection:
            return await connection.request("POST", path, body)

    return await asyncio.gather(*(ask(path, body) for path, body in requests))


def test_alone_and_among_a_hundred_couplets_and_images(image_port):
    asked = (images.GENERATIONS, {"model": SMALL, "seed": SEED, "n": 2})
    alone = content(generate_ok(image_port, seed=SEED, n=2))
    others = list(mixed_requests(100))
    replies = asyncio.run(ask_all(image_port, [*others[:50], asked, *others[50:]]))
    assert all(reply.status == 200 for reply in replies), {r.status for r in replies}
    assert content(replies[50].json()) == alone
    for i in (2, 3, 51, 97):  # and a few more
        path, body = others[i]
        (again,) = asyncio.run(ask_all(image_port, [(path, body)]))
        beside = replies[i if i < 50 else i + 1].json()
        key = "choices" if path.endswith("completions") else "data"
        assert again.json()[key] == beside[key]


# --- completions of given rows ---------------------------------------------------------------


def ways_to_give(pixels):
    """(image, mask) that keep the first pixels of a_picture, in every way there is."""
    values = a_picture()
    yield png.write(WIDTH, HEIGHT, values), mask_keeping(pixels)
    alpha = b"\x01" * pixels + bytes(PIXELS - pixels)
    yield png.write(WIDTH, HEIGHT, png.with_alpha(values, alpha), png.GREY_ALPHA), None
    if pixels % WIDTH == 0:
        yield png.write(WIDTH, pixels // WIDTH, values[:pixels]), None


@pytest.mark.parametrize("pixels", [WIDTH, HALF * WIDTH, 3 * WIDTH + 5, PIXELS - 1])
def test_given_pixels_come_back_byte_for_byte(image_port, pixels):
    given, answers = a_picture()[:pixels], []
    for image, mask in ways_to_give(pixels):
        for ask in (edit, edit_json):
            reply = ask(image_port, image, mask, n=2, seed=SEED, prompt="finish it")
            assert reply.status == 200, reply.text
            answers.append(reply.json())
    for answer in answers:
        assert content(answer) == content(answers[0])
    assert len(answers) >= 4
    for picture in pictures(answers[0]):
        assert picture.values[:pixels] == given
        assert len(picture.values) == PIXELS
    usage = answers[0]["usage"]
    assert usage["input_tokens"] == pixels
    details = usage["input_tokens_details"]
    assert (details["image_tokens"], details["text_tokens"]) == (pixels, 0)
    assert usage["output_tokens"] == 2 * (PIXELS - pixels)
    assert usage["total_tokens"] == pixels + 2 * (PIXELS - pixels)


def test_nothing_kept_is_a_picture_from_nothing(image_port):
    image = png.write(WIDTH, HEIGHT, a_picture())
    answer = edit_ok(image_port, image, mask_keeping(0), seed=SEED)
    assert answer["data"] == generate_ok(image_port, seed=SEED)["data"]


def test_what_is_given_matters(image_port):
    top = [png.write(WIDTH, HALF, bytes([x]) * (HALF * WIDTH)) for x in (0, 255)]
    made = [pictures(edit_ok(image_port, image, seed=SEED))[0].values for image in top]
    assert made[0][HALF * WIDTH :] != made[1][HALF * WIDTH :]


def test_names_of_the_image_field(image_port):
    image = images.File(png.write(WIDTH, HALF, a_picture(WIDTH, HALF)))
    answers = []
    for name in ("image", "image[]"):
        kind, body = images.encode_form({name: image, "model": SMALL, "seed": 3})
        reply = call(image_port, "POST", images.EDITS, body, {"Content-Type": kind})
        assert reply.status == 200, reply.text
        answers.append(content(reply.json()))
    assert answers[0] == answers[1]


def converted_files():
    """Files of other kinds that hold a_picture's first rows, and the values they hold."""
    values = a_picture(WIDTH, HALF)
    dark = bytes(x // 16 for x in values)
    palette = b"".join(bytes([x, x, x]) for x in reversed(range(256)))
    wide = b"".join(bytes([x, x]) for x in values)
    rgb = b"".join(bytes([x, x, x]) for x in values)
    nibbles = bytes(a << 4 | b for a, b in zip(dark[::2], dark[1::2], strict=True))
    turned = bytes(255 - x for x in values)
    yield "16 bits", png.write(WIDTH, HALF, wide, depth=16), values
    yield "colour", png.write(WIDTH, HALF, rgb, png.RGB), values
    yield "interlaced", png.write_interlaced(WIDTH, HALF, values), values
    yield "4 bits", png.write(WIDTH, HALF, nibbles, depth=4), bytes(17 * x for x in dark)
    yield (
        "palette",
        png.write(WIDTH, HALF, values, png.PALETTE, extra=png.chunk(b"PLTE", palette)),
        turned,
    )


@pytest.mark.parametrize("name, image, values", list(converted_files()), ids=images.name_of)
def test_other_kinds_of_png_are_converted(image_port, name, image, values):
    (picture,) = pictures(edit_ok(image_port, image, seed=1))
    assert picture.values[: len(values)] == values


# --- contact sheet ---------------------------------------------------------------------------


def test_contact_sheet(image_port):
    count = 7
    single = [p.values for p in pictures(generate_ok(image_port, n=count, seed=SEED))]
    answer = generate_ok(image_port, n=count, seed=SEED, contact_sheet=True)
    (sheet,) = pictures(answer)
    assert answer["usage"]["output_tokens"] == count * PIXELS
    assert 0 < answer["data"][0]["bits_per_dim"] < 30
    places = [
        (y, x)
        for values in single
        for y in range(sheet.height - HEIGHT + 1)
        for x in range(sheet.width - WIDTH + 1)
        if sheet.part(x, y, WIDTH, HEIGHT) == values
    ]
    assert len(places) == count and places == sorted(places), places
    assert min(places) == (2, 2)


@pytest.mark.heavy
def test_a_thousand_images(image_port):
    answer = generate_ok(image_port, n=1000, seed=SEED)
    assert len(answer["data"]) == 1000
    assert answer["data"][:2] == generate_ok(image_port, n=2, seed=SEED)["data"]
    sheet = generate_ok(image_port, n=1000, seed=SEED, contact_sheet=True)
    (picture,) = pictures(sheet)
    assert picture.width * picture.height >= 1000 * (WIDTH + 2) * (HEIGHT + 2)


# --- the shipped model -----------------------------------------------------------------------

MNIST = ROOT / "weights" / "mnist"


@pytest.fixture(scope="module")
def mnist():
    if not (MNIST / "config.json").exists():
        pytest.skip("weights/mnist is not there")
    with Server(model_dir=MNIST) as server:
        yield server


def test_digits(mnist):
    answer = generate_ok(mnist.port, model="mnist", n=4, seed=1)
    for item, picture in zip(answer["data"], pictures(answer), strict=True):
        assert (picture.width, picture.height) == (28, 28)
        assert item["bits_per_dim"] < 3
        edge = picture.row(0) + picture.row(27)
        assert sum(edge) / len(edge) < 16, "the border of a digit is dark"
        assert max(picture.values) > 128, "a digit has light strokes"


def test_completed_digit_keeps_its_rows(mnist):
    (whole,) = pictures(generate_ok(mnist.port, model="mnist", seed=1))
    top = whole.values[: 14 * 28]
    answer = edit_ok(mnist.port, png.write(28, 14, top), model="mnist", n=3, seed=2)
    assert all(picture.values[: 14 * 28] == top for picture in pictures(answer))
    assert len(set(files(answer))) == 3
