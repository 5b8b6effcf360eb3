"""Images: answers, completions of given rows, events; the same request is the same PNG."""

import asyncio
import base64
import random
import time

import pytest

import client
import holding
import image_model
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
    WIDTH,
    a_picture,
    content,
    edit,
    edit_json,
    edit_ok,
    files,
    generate,
    generate_ok,
    of_kind,
    pictures,
    stream_ok,
)
from server import Server, wait_until
from settings import MODEL, ROOT

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
    """Not even the model: the first one that makes images is taken."""
    reply = call(image_port, "POST", images.GENERATIONS, {})
    assert reply.status == 200, reply.text
    assert reply.json()["model"] == SMALL
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
    assert set(listed) == {MODEL, SMALL, COLOUR, CLASSES}
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
    for i in (2, 3, 51, 97):  # and some of the others
        path, body = others[i]
        (again,) = asyncio.run(ask_all(image_port, [(path, body)]))
        beside = replies[i if i < 50 else i + 1].json()
        key = "choices" if path.endswith("completions") else "data"
        assert again.json()[key] == beside[key]


# --- completions of given rows ---------------------------------------------------------------


def mask_keeping(pixels):
    return png.write(
        WIDTH, HEIGHT, png.with_alpha(bytes(PIXELS), b"\xff" * pixels + bytes(PIXELS - pixels)),
        png.GREY_ALPHA,
    )  # fmt: skip


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


# --- streams ---------------------------------------------------------------------------------


def test_stream(image_port):
    whole = generate_ok(image_port, n=3, seed=SEED)
    events = stream_ok(image_port, n=3, seed=SEED)
    assert {name for name, _ in events} == {"image_generation.completed"}
    found = images.completed(events)
    assert [found[i] for i in range(3)] == files(whole)
    for _, event in events:
        assert event["size"] == "14x14"
        assert event["quality"] == "auto"
        assert event["background"] == "opaque"
        assert event["output_format"] == "png"
        assert event["seed"] == SEED
        assert event["bits_per_dim"] == pytest.approx(
            whole["data"][event["index"]]["bits_per_dim"], rel=1e-6
        )
        assert event["usage"]["output_tokens"] == PIXELS
        assert abs(event["created_at"] - time.time()) < 60


@pytest.mark.parametrize("count", [1, 2, 3])
def test_partial_images(image_port, count):
    events = stream_ok(image_port, n=2, seed=SEED, partial_images=count)
    final = {index: png.read(data).values for index, data in images.completed(events).items()}
    assert set(final) == {0, 1}
    for index in final:
        partial = [e for e in of_kind(events, "partial_image") if e["index"] == index]
        assert [e["partial_image_index"] for e in partial] == list(range(count))
        for k, event in enumerate(partial):
            assert event["size"] == "14x14" and event["output_format"] == "png"
            made = -(-(k + 1) * PIXELS // (count + 1))
            picture = png.read(base64.b64decode(event["b64_json"]))
            assert picture.values == final[index][:made] + bytes(PIXELS - made)


def test_partial_images_do_not_depend_on_the_reader(image_port):
    told = []
    for unit in ("pixel", "row"):
        events = stream_ok(image_port, n=2, seed=SEED, partial_images=3, stream_unit=unit)
        partial = of_kind(events, "partial_image")
        told.append({(e["index"], e["partial_image_index"]): e["b64_json"] for e in partial})
    assert told[0] == told[1] and len(told[0]) == 6


@pytest.mark.parametrize("unit", ["pixel", "row"])
def test_values_add_up(image_port, unit):
    events = stream_ok(image_port, n=3, seed=SEED, stream_unit=unit, partial_images=1)
    final = {index: png.read(data).values for index, data in images.completed(events).items()}
    assert images.told_values(events, 0) == final
    if unit == "row":
        for event in of_kind(events, "values"):
            assert event["start"] % WIDTH == 0 and len(event["values"]) % WIDTH == 0
    for index in final:
        kinds = [name.rpartition(".")[2] for name, e in events if e["index"] == index]
        assert kinds[-1] == "completed" and kinds.count("completed") == 1


def test_values_of_colours_are_whole_pixels(image_port):
    for unit, step in (("pixel", 3), ("row", 3 * COLOUR_WIDTH)):
        events = stream_ok(image_port, model=COLOUR, seed=1, stream_unit=unit)
        for event in of_kind(events, "values"):
            assert event["start"] % step == len(event["values"]) % step == 0
        final = png.read(images.completed(events)[0]).values
        assert images.told_values(events, 0) == {0: final}


@pytest.mark.parametrize("pixels", [HALF * WIDTH, 3 * WIDTH + 5])
@pytest.mark.parametrize("unit", ["pixel", "row"])
def test_stream_of_a_completion(image_port, pixels, unit):
    image, mask = png.write(WIDTH, HEIGHT, a_picture()), mask_keeping(pixels)
    whole = edit_ok(image_port, image, mask, seed=SEED, n=2)
    reply = edit(
        image_port, image, mask, seed=SEED, n=2, stream=True, partial_images=1, stream_unit=unit
    )
    images.check_stream_head(reply)
    events = images.parse_events(reply.body)
    assert {name.partition(".")[0] for name, _ in events} == {"image_edit"}
    found = images.completed(events)
    assert [found[i] for i in range(2)] == files(whole)
    told = images.told_values(events, pixels)
    for index, data in found.items():
        assert a_picture()[:pixels] + told[index] == png.read(data).values
    for event in of_kind(events, "partial_image"):
        picture = png.read(base64.b64decode(event["b64_json"]))
        made = pixels + (PIXELS - pixels + 1) // 2
        assert picture.values[:pixels] == a_picture()[:pixels]
        assert picture.values[made:] == bytes(PIXELS - made)
    for event in of_kind(events, "completed"):
        assert event["usage"]["input_tokens"] == pixels
        assert event["usage"]["output_tokens"] == PIXELS - pixels


def read_late(sock, ready):
    """Reads nothing until `ready` holds, then everything; the window is small."""
    sock.settimeout(client.PATIENCE)
    wait_until(ready, client.PATIENCE, "all is computed")
    received = b""
    while part := sock.recv(65536):
        received += part
    return received


@pytest.mark.heavy
def test_a_slow_reader_gets_everything_in_fewer_events(image_server):
    """Values wait as values, not as events: what was not read in time comes in larger pieces."""
    n, port = 800, image_server.port
    fields = {"n": n, "seed": SEED, "stream": True, "stream_unit": "pixel"}
    body = client.encode_request(
        "POST", images.GENERATIONS, {"model": SMALL, **fields}, {"Connection": "close"}, port
    )
    computed = image_server.metric("linnet_generated_tokens_total", model=SMALL) + n * PIXELS
    with client.connect(port) as sock:
        sock.setsockopt(client.socket.SOL_SOCKET, client.socket.SO_RCVBUF, 65536)
        sock.sendall(body)
        received = read_late(
            sock,
            lambda: image_server.metric("linnet_generated_tokens_total", model=SMALL) >= computed,
        )
    (reply,), rest = client.parse_replies(received)
    assert rest == b""
    events = images.parse_events(reply.body)
    final = {index: png.read(data).values for index, data in images.completed(events).items()}
    assert len(final) == n
    assert images.told_values(events, 0) == final
    assert len(of_kind(events, "values")) < n * PIXELS / 2


def test_a_picture_larger_than_a_piece_of_the_stream(tmp_path):
    """Its events are handed out in pieces; nothing is lost between them."""
    side, given = 160, 159
    image_model.write(tmp_path / "large", side, side)
    with Server("--models", tmp_path) as server:
        values = random.Random(1).randbytes(side * given)
        image = png.write(side, given, values)
        whole = edit_ok(server.port, image, model="large", seed=SEED)
        fields = {"stream": True, "partial_images": 3, "stream_unit": "row"}
        reply = edit(server.port, image, model="large", seed=SEED, **fields)
        images.check_stream_head(reply)
        events = images.parse_events(reply.body)
        assert images.completed(events)[0] == files(whole)[0]
        assert len(files(whole)[0]) > 24_000
        told = images.told_values(events, len(values))[0]
        (picture,) = pictures(whole)
        assert values + told == picture.values
        assert len(of_kind(events, "partial_image")) == 3


def test_values_come_while_the_picture_is_made(image_models):
    """The first event is there long before the last pixel."""
    with Server("--models", image_models, "--slots", "1", *holding.IMAGE_FLAGS) as server:
        fields = {**holding.ENDLESS_IMAGES, "stream": True, "stream_unit": "row"}
        with images.connect_and_send(server.port, fields) as sock:
            sock.settimeout(client.PATIENCE)
            data = b""
            while b'"values":' not in data:
                data += sock.recv(4096)
            wait_until(lambda: server.slots_used() == 1, 60, "it goes on")


# --- leaving, waiting, refusing --------------------------------------------------------------


@pytest.fixture(scope="module")
def one_slot(image_models):
    """A server on which a request for very many images takes very long."""
    with Server("--models", image_models, "--slots", "1", *holding.IMAGE_FLAGS) as server:
        yield server


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_the_slots(one_slot, stream):
    fields = {**holding.ENDLESS_IMAGES, "stream": stream}
    if stream:
        fields["stream_unit"] = "pixel"
    cancelled = one_slot.requests("cancelled")
    sock = images.connect_and_send(one_slot.port, fields)
    wait_until(one_slot.slots_used, 60, "it is being worked on")
    client.reset(sock)
    one_slot.wait_idle()
    assert one_slot.requests("cancelled") == cancelled + 1


def test_deadline(one_slot):
    endless = holding.ENDLESS_IMAGES
    reply = generate(one_slot.port, **endless, timeout_ms=30)
    assert reply.status == 504, reply.text[:200]
    reply = generate(one_slot.port, **endless, timeout_ms=150, stream=True, stream_unit="row")
    images.check_stream_head(reply)
    events = images.parse_events(reply.body)
    name, last = events[-1]
    assert name == "error" and last["error"]["code"] == "deadline_exceeded"
    assert all(name != "error" for name, _ in events[:-1])


def test_queue_full(image_models):
    flags = "--slots", "1", "--queue", "1", *holding.IMAGE_FLAGS
    with Server("--models", image_models, *flags) as server:
        socks = [images.connect_and_send(server.port, holding.ENDLESS_IMAGES) for _ in range(4)]
        wait_until(lambda: server.requests("busy") == 2, 60, "the queue is full")
        reply = generate(server.port)
        assert reply.status == 429
        assert int(reply.headers["retry-after"]) >= 1
        for sock in socks:
            client.reset(sock)
        server.wait_idle()


def test_requests_are_counted(image_server):
    before = {kind: image_server.requests(kind) for kind in ("ok", "invalid")}
    generate_ok(image_server.port)
    stream_ok(image_server.port)
    generate(image_server.port, n=0)
    generate(image_server.port, size="1x1")
    edit(image_server.port, b"")
    assert image_server.requests("ok") == before["ok"] + 2
    assert image_server.requests("invalid") == before["invalid"] + 3


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
