"""Images as streams: events, readers that are slow, clients that leave, deadlines, a full queue."""

import base64
import random
import time

import pytest

import client
import holding
import image_model
import images
import png
from images import (
    COLOUR,
    COLOUR_WIDTH,
    HEIGHT,
    PIXELS,
    SMALL,
    WIDTH,
    a_picture,
    edit,
    edit_ok,
    files,
    generate,
    generate_ok,
    mask_keeping,
    of_kind,
    pictures,
    stream_ok,
)
from server import Server, wait_until

pytestmark = pytest.mark.asan

SEED = 20240607
HALF = HEIGHT // 2


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
    """Values wait as values, not as events: values that were not read in time come in larger pieces."""
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
    """The first event arrives long before the last pixel."""
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
