"""The client of `linnet_weights`, when a server leaves in the middle or answers with something else. Every fault is a Failure. Ids
stay whole in addresses. An answer whose state was not kept is an answer."""

import asyncio
import contextlib
import importlib.util
import json
import socket
import sys
import threading

import pytest

import client as http
from server import Server
from settings import ROOT

PROMPT = "海上明月"
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DATE = "Wed, 21 Oct 2065 07:28:00 GMT"
TEXT = {"choices": [{"index": 0, "text": "天", "finish_reason": None}]}
VALUES = {"type": "image_generation.values", "index": 0, "start": 0, "values": [1]}
PICTURE = {"type": "image_generation.completed", "index": 0, "b64_json": ""}


@pytest.fixture(scope="module")
def package():
    """The file itself, by a name of its own: test_weights_package.py imports the installed one."""
    spec = importlib.util.spec_from_file_location("client_of_the_clone", ROOT / "weights/linnet_weights/client.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def answering(answer, reset=False, waits=False):
    """The address of a server that has one answer to a request, and the requests' first lines."""
    lines, held = [], []
    with socket.create_server((http.HOST, 0)) as listener:
        listener.settimeout(60)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    peer.settimeout(60)
                    data = b""
                    while b"\r\n\r\n" not in data:
                        data += peer.recv(65536)
                    head, _, body = data.partition(b"\r\n\r\n")
                    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
                    while len(body) < length:
                        body += peer.recv(65536)
                    lines.append(head.split(b"\r\n")[0].decode())
                    peer.sendall(answer)
                    if reset:  # closing with this option resets the connection
                        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    held.append(peer) if waits else peer.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://{http.HOST}:{listener.getsockname()[1]}", lines
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(60)
            for peer in held:
                peer.close()


def chunks(*events, end=b""):
    lines = [b"data: " + (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n\n" for event in events]
    return CHUNKED + b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in lines) + end


def whole(status, body, *headers):
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]).encode() + body


# --- streams


@pytest.mark.parametrize("end", [b"", b"20\r\ndata: {", b"0\r\n\r\n"], ids=["between chunks", "in a chunk", "in order"])
def test_a_stream_without_its_end_is_a_failure(package, end):
    with answering(chunks(TEXT, TEXT, end=end)) as (url, _):
        pieces = []
        with pytest.raises(package.Failure) as failed:
            for piece in package.Client(url).stream("couplet", PROMPT):
                pieces.append(piece.text)
    assert pieces == ["天", "天"] and failed.value.status == 0


def test_a_stream_that_ends_well(package):
    with answering(chunks(TEXT, TEXT, b"[DONE]", end=b"0\r\n\r\n")) as (url, _):
        assert len(list(package.Client(url).stream("couplet", PROMPT))) == 2


@pytest.mark.parametrize("n, pictures, ends", [(None, 0, False), (None, 1, True), (2, 1, False), (2, 2, True)])
def test_a_painted_picture_has_its_end(package, n, pictures, ends):
    with answering(chunks(VALUES, *[PICTURE] * pictures)) as (url, _):
        parts = package.Client(url).paint("mnist", n=n)
        if ends:
            assert len(list(parts)) == 1 + pictures
        else:
            with pytest.raises(package.Failure):
                list(parts)


def test_an_asynchronous_stream_without_its_end_is_a_failure(package):
    async def read(url):
        return [piece async for piece in package.AsyncClient(url).stream("couplet", PROMPT)]

    with answering(chunks(TEXT, TEXT)) as (url, _), pytest.raises(package.Failure):
        asyncio.run(read(url))


# --- ids


@pytest.mark.parametrize("id", ["x?y", "x#y", "x%79", "x/fork", "ä b"])
def test_an_id_is_one_part_of_the_address(package, id):
    quoted = {"x?y": "x%3Fy", "x#y": "x%23y", "x%79": "x%2579", "x/fork": "x%2Ffork", "ä b": "%C3%A4%20b"}[id]
    calls = {"": lambda c: c.state(id), "/fork": lambda c: c.fork_state(id), "/inspect?layer=0&head=0": lambda c: c.inspect_state(id, 0, 0)}
    plain = [lambda c: c.fetch_state(id), lambda c: c.put_state(id, b""), lambda c: c.delete_state(id)]
    with answering(whole(404, b"{}")) as (url, lines):
        for call in [*calls.values(), *plain]:
            with pytest.raises(package.Failure):
                call(package.Client(url))
        with pytest.raises(package.Failure):
            asyncio.run(package.AsyncClient(url).delete_state(id))
    asked = [line.split(" ")[1] for line in lines]
    assert asked == [f"/v1/states/{quoted}{rest}" for rest in [*calls, "", "", "", ""]]


# --- states that were not kept


def test_an_answer_comes_without_a_state_that_was_not_kept(package):
    with Server("--key-states", "1") as server:
        speaker = package.Client(f"http://{http.HOST}:{server.port}")
        answer = speaker.complete("couplet", PROMPT, n=2, seed=3, return_state=True)
        assert len(answer.texts) == len(answer.states) == 2 and answer.states.count(None) == 1
        assert len(answer.warnings) == 1 and answer.warnings[0]["param"] == "return_state"
        assert answer.texts == speaker.complete("couplet", PROMPT, n=2, seed=3, rank=False).texts
        assert speaker.complete("couplet", PROMPT).warnings == []


# --- other faults


FAULTS = {
    "no answer": (b"", 0), "no http": (b"what?\r\n\r\n", 0), "cut": (OK + b"Content-Length: 100\r\n\r\n{", 0),
    "html": (whole(200, b"<html>hello</html>"), 200), "empty": (whole(200, b""), 200), "no object": (whole(200, b"[1]"), 200),
    "other fields": (whole(200, b'{"choices": [5]}'), 200), "events": (chunks(TEXT, b"[DONE]", end=b"0\r\n\r\n"), 200),
    "html error": (whole("502 Bad Gateway", b"<html>"), 502), "odd error": (whole(400, b'{"error": ["x"]}'), 400),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_answer_of_another_kind_is_a_failure(package, name):
    answer, status = FAULTS[name]
    calls = [lambda c: c.complete("couplet", PROMPT), lambda c: c.images("mnist"), lambda c: c.state("x"), lambda c: list(c.states()),
             lambda c: c.fork_state("x"), lambda c: c.inspect_state("x", 0, 0)]
    with answering(answer) as (url, _):
        for call in calls:
            with pytest.raises(package.Failure) as failed:
                call(package.Client(url))
            assert failed.value.status == status


@pytest.mark.parametrize("answer", [whole(200, b"<html>\nhello</html>\n"), whole(200, b""), whole(200, json.dumps(TEXT).encode())], ids=["html", "empty", "whole"])
def test_an_answer_that_is_no_stream_is_a_failure(package, answer):
    with answering(answer) as (url, _), pytest.raises(package.Failure):
        list(package.Client(url).stream("couplet", PROMPT))


@pytest.mark.parametrize("event", [{"error": "no"}, {"error": None}, {"error": {"code": 1}}, b"{", b"5", {"choices": [{}]}])
def test_an_odd_event_is_a_failure(package, event):
    with answering(chunks(event)) as (url, _), pytest.raises(package.Failure) as failed:
        list(package.Client(url).stream("couplet", PROMPT))
    assert failed.value.status == 200


@pytest.mark.parametrize("call", [lambda c: c.complete("couplet", PROMPT), lambda c: c.fetch_state("x"), lambda c: list(c.stream("couplet"))])
@pytest.mark.parametrize("sent", [b"", OK + b"Content-Length: 100\r\n\r\n{"], ids=["nothing", "a part"])
def test_a_server_that_says_nothing_more_is_a_failure(package, call, sent):
    with answering(sent, waits=True) as (url, _), pytest.raises(package.Failure) as failed:
        call(package.Client(url, timeout=0.2))  # check-tests: the server never sends more
    assert failed.value.status == 0 and "timed out" in str(failed.value)


def test_an_error_that_breaks_off_keeps_its_status(package):
    with answering(b"HTTP/1.1 503 Away\r\nContent-Length: 100\r\n\r\n{", reset=True) as (url, _), pytest.raises(package.Failure) as failed:
        package.Client(url).complete("couplet", PROMPT)
    assert failed.value.status == 503 or failed.value.status == 0  # the reset may come before the head is read


@pytest.mark.parametrize("wait, least, most", [("7", 7, 7), (DATE, 1e6, 1e10), ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0), ("soon", None, None)])
def test_the_time_to_wait_may_be_a_date(package, wait, least, most):
    body = json.dumps({"error": {"message": "the server is full", "param": None, "code": "full"}}).encode()
    with answering(whole("503 Away", body, f"Retry-After: {wait}")) as (url, _), pytest.raises(package.Failure) as failed:
        package.Client(url).complete("couplet", PROMPT)
    assert str(failed.value) == "the server is full" and failed.value.code == "full"
    assert failed.value.retry_after is None if least is None else least <= failed.value.retry_after <= most


@pytest.mark.parametrize("url, key", [("", None), ("http://127.0.0.1:x", None), ("http://127.0.0.1:1", "a\nb"), ("http://127.0.0.1:1", "漢")])
def test_an_address_or_a_key_that_cannot_be(package, url, key):
    with pytest.raises(ValueError):
        package.Client(url, api_key=key).complete("couplet", PROMPT)
