"""Clients that leave, phase by phase: the slot is free, and /metrics says where the request was.
And limits of time, phase by phase."""

import select

import pytest

import client
import holding
import image_model
import images
import png
from holding import ENDLESS, LONG, hold, send
from server import Server, wait_until

pytestmark = pytest.mark.asan

SIDE = 512
MORE_THAN_PLACES = 80  # of a server with one slot, see docs/adr/0020
MANY = ("--slots", "1", "--queue", "200", "--answer-memory", "65536", *holding.FLAGS)  # takes so many requests


@pytest.fixture
def small():
    with Server("--slots", "2", "--queue", "8", *holding.FLAGS) as server:
        yield server


def abandoned(server, phase):
    return server.metric("linnet_requests_abandoned_total", phase=phase)


def wait_for(server, phase, count):
    wait_until(lambda: abandoned(server, phase) == count, 60, f"{count} left in phase {phase}")
    server.wait_idle()
    others = {"queue", "prompt", "decode", "answer"} - {phase}
    assert sum(abandoned(server, other) for other in others) == 0
    server.check_unharmed()


@pytest.mark.parametrize("leave", [lambda sock: sock.close(), client.reset], ids=["close", "reset"])
def test_in_the_request(small, leave):
    sock = client.connect(small.port)
    sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    wait_until(lambda: small.metric("linnet_http_requests_active") == 2, 60, "it is being read")
    leave(sock)
    wait_until(lambda: small.metric("linnet_http_requests_abandoned_total") == 1, 60, "its end")
    small.check_unharmed()


def test_right_after_the_request(small):
    """Each is counted once: as answered, or by its phase, or as left before it was read."""
    body = b'{"model": "couplet", "prompt": "\xe6\x98\xa5", "max_tokens": 1}'
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    n = 60
    for _ in range(n):
        sock = client.connect(small.port)
        sock.sendall(head + body)
        sock.close()

    def counted():
        ends = [small.metric("linnet_requests_total", outcome=end) for end in ("ok", "invalid", "busy", "error")]
        left = small.metric("linnet_requests_abandoned_total")
        return sum(ends) + left + small.metric("linnet_http_requests_abandoned_total")

    wait_until(lambda: counted() >= n, 60, "all are counted")
    small.wait_idle()
    assert counted() == n


def hold_places(server):
    """Requests without end for more places than there are: a new one waits in the queue."""
    return [send(server.port, ENDLESS, stream=False) for _ in range(MORE_THAN_PLACES)]


def test_in_the_queue():
    with Server(*MANY) as server:
        running = hold_places(server)
        last = len(running) - 1
        wait_until(lambda: server.metric("linnet_queue_length") == last, 60, "all but one wait or take turns")
        client.reset(running.pop())
        wait_until(lambda: abandoned(server, "queue") == 1, 60, "its end")
        wait_until(lambda: server.metric("linnet_queue_length") == last - 1, 60, "its place")
        for sock in running:
            client.reset(sock)
        phases = ("queue", "prompt", "decode")
        wait_until(lambda: sum(abandoned(server, p) for p in phases) == MORE_THAN_PLACES, 60, "the others' end")
        server.wait_idle()


def test_in_the_prompt(tmp_path):
    """A long prompt, and a state is kept at each of its tokens, which takes steps without end."""
    image_model.write(tmp_path / images.SMALL, SIDE, SIDE)
    picture = png.write(SIDE, SIDE - 1, bytes(SIDE * (SIDE - 1)))
    fields = {"model": images.SMALL, "images": [{"image_url": images.data_url(picture)}]}
    with Server("--models", tmp_path, "--prefix-every", "1") as server:
        sock = client.connect(server.port)
        sock.sendall(client.encode_request("POST", images.EDITS, fields, port=server.port))
        wait_until(lambda: server.metric("linnet_prompt_tokens_total") > 0, 60, "its beginning")
        client.reset(sock)
        wait_for(server, "prompt", 1)
        assert server.metric("linnet_prompt_tokens_total") < SIDE * (SIDE - 1)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_in_the_answer(small, stream):
    sock = send(small.port, ENDLESS, stream)
    wait_until(lambda: small.metric("linnet_generated_tokens_total") > 4, 60, "first tokens")
    client.reset(sock)
    wait_for(small, "decode", 1)


@pytest.mark.heavy
def test_when_all_is_made_but_not_read():
    """More than the buffers of two sockets hold."""
    with Server("--max-n", "1000") as server:
        leave_unread(server, 1000)


def leave_unread(server, n):
    sock = client.socket.socket()
    sock.settimeout(client.PATIENCE)
    sock.setsockopt(client.socket.SOL_SOCKET, client.socket.SO_RCVBUF, 2048)
    sock.connect((client.HOST, server.port))
    body = {"model": client.MODEL, "prompt": LONG, "n": n, "logprobs": 5, "stream": True}
    sock.sendall(client.encode_request("POST", "/v1/completions", body, port=server.port))
    wait_until(lambda: server.metric("linnet_generated_tokens_total") == n * 32, 60, "all made")
    server.wait_idle()
    assert server.requests("ok") == 0
    client.reset(sock)
    wait_for(server, "answer", 1)


def test_who_reads_all_has_not_left(small):
    client.stream_ok(small.port, prompt=LONG)
    client.complete_ok(small.port, prompt=LONG)
    assert small.metric("linnet_requests_abandoned_total") == 0
    assert small.metric("linnet_http_requests_abandoned_total") == 0


# --- limits of time ------------------------------------------------------------------------------


def first_refusal(running):
    """The answer to one of them: each that is answered is refused. A request sent now might find a place, on a machine so
    busy that others were refused while it was free."""
    answered, _, _ = select.select(running, [], [], client.PATIENCE)
    assert answered, "none has waited too long"
    replies, rest = client.parse_replies(client.read_all(answered[0], client.PATIENCE))
    assert len(replies) == 1 and not rest
    return replies[0]


def test_time_in_the_queue():
    with Server(*MANY, "--queue-timeout", "0.1") as server:
        running = hold_places(server)
        reply = first_refusal(running)
        assert server.requests("busy") >= 1
        assert reply.status == 429, reply.text
        assert reply.error["code"] == "server_is_overloaded"
        assert int(reply.headers["retry-after"]) >= 1
        for sock in running:
            client.reset(sock)
        server.wait_idle()
        few = {"prompt": LONG, "n": 64}
        wait_until(lambda: client.complete(server.port, **few).status == 200, 60,
                   "with a slot it may take longer than that")


@pytest.mark.long
def test_time_to_the_first_token():
    with Server(*MANY, "--first-token-timeout", "5") as server:
        running = hold_places(server)
        reply = first_refusal(running)
        assert server.requests("timeout") >= 1
        assert reply.status == 504, reply.text
        assert "for the first one" in reply.error["message"]
        for sock in running:
            client.reset(sock)
        server.wait_idle()
        wait_until(lambda: client.complete(server.port, prompt="月下").status == 200, 60, "a token")
