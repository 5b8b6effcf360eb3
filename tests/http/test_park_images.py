"""suspend, and its first name park, for images and chats; test_park.py tests completions."""

import base64
import signal

import pytest

import client
import holding
import image_model
import images
import png
import test_kinds
from client import complete_ok
from cluster import Redis
from conversations import UPPER, text_of, whole
from images import EDITS, GENERATIONS, SMALL
from server import Server, wait_until
from test_reload import Folder

SIDE = 256  # large enough that a signal comes before the end
KINDS = ("softmax", "window", "lsh", "flash", "compressed")  # of test_kinds.py
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def redis():
    with Redis() as process:
        yield process


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    image_model.write(folder / SMALL, SIDE, SIDE)
    image_model.write(folder / images.COLOUR, SIDE, SIDE // 4, channels=3, mixture=False)
    for kind in KINDS:
        image_model.write(folder / kind, SIDE // 4, SIDE // 4, attention=test_kinds.KINDS[kind])
    return folder


def begin(port, body):
    """(socket, bytes): a stream that has sent an event."""
    sock = images.connect_and_send(port, body)
    data = b""
    while b"event: " not in data:
        part = sock.recv(65536)
        assert part, data
        data += part
    return sock, data


def read_reply(sock, data=b""):
    while not client.parse_replies(data)[0]:
        part = sock.recv(65536)
        assert part, data
        data += part
    sock.close()
    (reply,), _ = client.parse_replies(data)
    assert reply.status == 200, reply.text
    return reply


def values_of(events):
    """(place of the first sent value, the values); each event begins where the last one ended."""
    told = images.of_kind(events, "values")
    start = told[0]["start"] if told else None
    return start, images.told_values(events, start).get(0, b"") if told else b""


@pytest.mark.parametrize("model, unit", [(SMALL, "row"), (images.COLOUR, "pixel"), *((kind, "row") for kind in KINDS)])
def test_a_stream_of_values_goes_on_where_it_was_parked(redis, large, model, unit):
    """The signal comes within the picture, unless the machine is too fast each time."""
    store, body = ("--state-store", redis.url), {"model": model, "stream_unit": unit}
    for seed in range(5):
        with Folder(large, *store) as first:
            expected = images.stream_ok(first.port, **body, seed=seed)
            sock, data = begin(first.port, {**body, "seed": seed, "suspend": True, "stream": True})
            first.signal(signal.SIGTERM)
            events = images.parse_events(read_reply(sock, data).body)
            assert first.wait() == 0
        (last,) = images.of_kind(events, "parked") or images.of_kind(events, "completed")
        if not last["type"].endswith("parked"):
            continue
        with Folder(large, *store) as second:
            rest = images.stream_ok(second.port, **body, state=last["states"][0]["id"])
            both = [values_of(e) for e in (expected, events, rest)]
            assert both[2][0] == len(both[1][1]) == last["states"][0]["tokens"]
            assert both[1][1] + both[2][1] == both[0][1]
            assert images.completed(rest) == images.completed(expected)
        break
    else:
        raise AssertionError("no picture was parked")


@pytest.mark.parametrize("path", [GENERATIONS, EDITS])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_pictures_that_take_turns_are_parked(redis, image_models, path, stream):
    """Or they were at their end before the signal."""
    store = "--state-store", redis.url
    given = {"images": [{"image_url": images.data_url(png.write(14, 3, bytes(42)))}]}
    body = {"model": SMALL, "seed": 3, **(given if path == EDITS else {})}
    with Folder(image_models, "--slots", "1", *holding.IMAGE_FLAGS, *store) as first:
        expected = images.files(client.call(first.port, "POST", path, body).json())[0]
        busy = images.connect_and_send(first.port, holding.ENDLESS_IMAGES)
        wait_until(first.slots_used, 60, "the slot is taken")
        sock = client.connect(first.port)
        body = {**body, "park": True, "stream": stream}
        sock.sendall(client.encode_request("POST", path, body, port=first.port))
        wait_until(lambda: first.metric("linnet_queue_length") == 1 or first.requests("ok") > 1, 60,
                   "it has come")
        first.signal(signal.SIGTERM)
        reply = read_reply(sock)
        busy.close()
        assert first.wait() == 0
    if stream:
        *_, (name, answer) = images.parse_events(reply.body)
        parked = name == ("image_edit" if path == EDITS else "image_generation") + ".parked"
        picture = answer.get("b64_json")
    else:
        answer = reply.json()
        parked = answer["data"][0].get("finish_reason") == "parked"
        picture = answer["data"][0].get("b64_json")
    if not parked:
        assert base64.b64decode(picture) == expected
        return
    (state,) = answer["states"]
    with Folder(image_models, *store) as second:
        rest = images.generate_ok(second.port, state=state["id"])
        assert base64.b64decode(rest["data"][0]["b64_json"]) == expected
        assert "finish_reason" not in rest["data"][0] and "states" not in rest


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_queued_chat_is_parked(redis, stream):
    store = "--state-store", redis.url
    body = {"model": client.MODEL, "seed": 5, "park": True, "stream": stream,
            "messages": [{"role": "user", "content": UPPER}]}
    with Server("--slots", "1", *holding.FLAGS, *store) as first:
        expected = whole(first.port, UPPER, 5)
        busy = holding.hold(first)
        sock = client.connect(first.port)
        sock.sendall(client.encode_request("POST", CHAT, body, port=first.port))
        wait_until(lambda: first.metric("linnet_queue_length") == 1 or first.requests("ok") > 1, 60,
                   "it has come")
        first.signal(signal.SIGTERM)
        reply = read_reply(sock)
        busy.close()
        assert first.wait() == 0
    answers = client.parse_events(reply.body) if stream else [reply.json()]
    choices = [c for a in answers for c in a["choices"]]
    text = "".join((c.get("delta") or c.get("message") or {}).get("content") or "" for c in choices)
    if choices[-1]["finish_reason"] != "parked":  # it was at its end before the signal
        assert text == expected
        return
    (state,) = answers[-1]["states"]
    with Server(*store) as second:
        assert text + text_of(complete_ok(second.port, state=state["id"])) == expected


@pytest.mark.parametrize("name", ["suspend", "park"])
def test_bad_requests(redis, image_models, name):
    with Folder(image_models, "--state-store", redis.url) as server:
        for fields in [{"n": 2, name: True}, {name: "maybe"}]:
            reply = images.generate(server.port, **fields)
            assert reply.status == 400 and reply.error["param"] == name, reply.text
            picture = png.write(14, 3, bytes(42))
            assert images.edit(server.port, picture, **fields).error["param"] == name


def test_needs_a_store_that_outlives_the_server(image_port):
    reply = images.generate(image_port, suspend=True)
    assert reply.status == 400 and "--state-store" in reply.error["message"]


@pytest.mark.parametrize("name", ["suspend", "park"])
def test_a_form_writes_it_as_any_other_boolean(image_port, name):
    """True is understood where the store is missing."""
    picture = png.write(14, 3, bytes(42))
    for value in ("True", "true", "1", "yes", "on"):
        reply = images.edit(image_port, picture, **{name: value})
        assert reply.status == 400 and "--state-store" in reply.error["message"], reply.text
    for value in ("False", "0", "no", "off", "null"):
        images.edit_ok(image_port, picture, **{name: value})
