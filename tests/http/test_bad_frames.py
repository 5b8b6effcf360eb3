"""Requests whose frame is wrong, too large or late: refused, or closed, with nothing held and nothing smuggled.

The `server` fixture checks after every test that the server is alive, idle and answers.
"""

import json
import resource
import socket
import time

import pytest

import client
from server import Server, wait_until
from settings import MODEL

pytestmark = pytest.mark.asan

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
JSON = json.dumps({"model": MODEL, "prompt": "海上明月"}).encode()


def post_head(*lines):
    head = ["POST /v1/completions HTTP/1.1", "Content-Type: application/json", *lines]
    return "\r\n".join([*head, "", ""]).encode("latin-1")


HOST = "Host: x"
FRAMES = {
    "both lengths": post_head(HOST, "Content-Length: 4", "Transfer-Encoding: chunked")
    + b"0\r\n\r\n" + SMUGGLED,
    "both lengths, other order": post_head(HOST, "Transfer-Encoding: chunked", "Content-Length: 4")
    + b"0\r\n\r\n" + SMUGGLED,
    "two lengths": post_head(HOST, "Content-Length: 4", "Content-Length: 40") + b"abcd" + SMUGGLED,
    "same length twice": post_head(HOST, "Content-Length: 4", "Content-Length: 4") + b"abcd",
    "list of lengths": post_head(HOST, "Content-Length: 4, 4") + b"abcd" + SMUGGLED,
    "space before colon": post_head(HOST, "Content-Length : 4") + b"abcd" + SMUGGLED,
    "negative length": post_head(HOST, "Content-Length: -1") + SMUGGLED,
    "signed length": post_head(HOST, "Content-Length: +4") + b"abcd" + SMUGGLED,
    "hex length": post_head(HOST, "Content-Length: 0x4") + b"abcd" + SMUGGLED,
    "empty length": post_head(HOST, "Content-Length: ") + SMUGGLED,
    "length beyond 64 bits": post_head(HOST, "Content-Length: 99999999999999999999999") + b"abcd",
    "unknown encoding": post_head(HOST, "Transfer-Encoding: gzip") + SMUGGLED,
    "chunked and gzip": post_head(HOST, "Transfer-Encoding: chunked, gzip") + b"0\r\n\r\n",
    "chunked twice": post_head(HOST, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked")
    + b"0\r\n\r\n" + SMUGGLED,
    "quoted chunked": post_head(HOST, 'Transfer-Encoding: "chunked"') + b"0\r\n\r\n" + SMUGGLED,
    "vertical tab chunked": post_head(HOST, "Transfer-Encoding: \x0bchunked") + b"0\r\n\r\n",
    "bad chunk size": post_head(HOST, "Transfer-Encoding: chunked") + b"zz\r\nabcd\r\n0\r\n\r\n",
    "chunk size beyond 64 bits": post_head(HOST, "Transfer-Encoding: chunked")
    + b"fffffffffffffffff\r\n" + b"a" * 64,
    "no host": post_head("Content-Length: 2") + b"{}",
    "two hosts": post_head(HOST, "Host: y", "Content-Length: 2") + b"{}",
    "name with a space": post_head(HOST, "X y: z", "Content-Length: 2") + b"{}",
    "name with a nul": post_head(HOST, "X\0y: z", "Content-Length: 2") + b"{}",
    "line without colon": post_head(HOST, "nonsense", "Content-Length: 2") + b"{}",
    "not http": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n",
    "nonsense": b"hello\r\n\r\n",
    "http/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "http/9.9": b"GET /health HTTP/9.9\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("data", FRAMES.values(), ids=FRAMES.keys())
def test_bad_frame_is_refused_and_nothing_is_smuggled(port, data):
    """At most one answer, a refusal in the envelope, then closed: later bytes are no second request."""
    replies, rest = client.parse_replies(client.exchange(port, data, 10))
    assert len(replies) <= 1 and not rest
    for reply in replies:
        assert reply.status in {400, 413, 431, 501, 505}
        assert reply.headers["connection"].lower() == "close"
        assert reply.error["message"] and reply.error["param"]


def test_proper_chunked_body_is_served(port):
    parts = [JSON[:7], JSON[7:11], JSON[11:]]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    data = post_head(HOST, "Transfer-Encoding: chunked", "Connection: close") + chunks + b"0\r\n\r\n"
    assert client.parse_replies(client.exchange(port, data))[0][0].status == 200


def refused(port, data, status, param):
    """The refusal arrives whole although the client was still sending."""
    replies, rest = client.parse_replies(client.exchange(port, data, 10))
    assert [reply.status for reply in replies] == [status] and not rest
    assert replies[0].error["param"] == param


@pytest.mark.parametrize("size", [20_000, 100_000, 1 << 20, 16 << 20])
def test_huge_header(port, size):
    refused(port, b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * size + b"\r\n\r\n", 431, "headers")


def test_ten_thousand_headers(port):
    refused(port, b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 10_000 + b"\r\n", 431, "headers")


@pytest.mark.parametrize("size", [20_000, 1 << 20])
def test_huge_url(port, size):
    refused(port, b"GET /" + b"a" * size + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "url")


def test_refusals_hold_no_descriptor():
    """Sockets that are read on after a refusal are closed at last, also when the client never ends."""
    with Server() as server:
        before = server.open_files()
        data = b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 100_000
        sockets = []
        for _ in range(100):
            sock = client.connect(server.port, 10)
            sock.sendall(data)
            sockets.append(sock)
        wait_until(lambda: server.open_files() <= before, 60, "all closed")
        for sock in sockets:
            sock.close()
        server.check_unharmed()


# --- clients that take their time ----------------------------------------------------------------

READ_TIMEOUT = 2
SLACK = 20  # seconds that a slow machine may add; without a limit it would be for ever


@pytest.fixture(scope="module")
def impatient():
    with Server("--read-timeout", str(READ_TIMEOUT), "--connection-timeout", "3") as server:
        yield server
        server.check_unharmed()


def seconds_until_closed(sock, limit):
    """Reads until the server closes; (seconds, bytes received)."""
    start, received = time.monotonic(), b""
    sock.settimeout(limit)
    try:
        while part := sock.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return time.monotonic() - start, received


@pytest.mark.parametrize("data", [
    b"GET /hea",
    b"GET /health HTTP/1.1\r\nHost: x\r\nX-Half",
    post_head(HOST, "Content-Length: 40") + JSON[:10],
    post_head(HOST, "Transfer-Encoding: chunked") + b"5\r\nab",
], ids=["line", "head", "body", "chunk"])
def test_request_that_stops_halfway_is_closed(impatient, data):
    with client.connect(impatient.port) as sock:
        sock.sendall(data)
        seconds, received = seconds_until_closed(sock, READ_TIMEOUT + 2 * SLACK)
    assert seconds < READ_TIMEOUT + SLACK
    for reply in client.parse_replies(received)[0]:
        assert reply.status in (400, 408)


@pytest.mark.parametrize("data", [
    b"GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: " + b"a" * 100,
    post_head(HOST, "Content-Length: 200") + b" " * 100,
], ids=["head", "body"])
def test_request_of_one_byte_now_and_then_is_closed(impatient, data):
    """Each byte alone is in time; the request as a whole is not."""
    with client.connect(impatient.port) as sock:
        start = time.monotonic()
        position = len(data) - 100
        sock.sendall(data[:position])
        closed = False
        while not closed and position < len(data):
            try:
                sock.sendall(data[position : position + 1])
                sock.settimeout(0.2)  # check-tests: the time between two bytes
                closed = sock.recv(4096) == b"" or True
            except TimeoutError:
                position += 1
            except OSError:
                closed = True
        assert closed
        assert time.monotonic() - start < READ_TIMEOUT + SLACK


def test_body_that_stops_and_closes_is_forgotten(server):
    files = server.open_files()
    for cut in (1, len(JSON) // 2, len(JSON) - 1):
        for leave in (socket.socket.close, client.reset):
            sock = client.connect(server.port)
            sock.sendall(post_head(HOST, f"Content-Length: {len(JSON)}") + JSON[:cut])
            leave(sock)
    wait_until(lambda: server.open_files() <= files, 60, "connections closed")


def rests(server):
    """Half a second in which the server has hardly worked."""
    before = server.cpu_seconds()
    time.sleep(0.5)  # check-tests: the test measures this span
    return server.cpu_seconds() - before < 0.1


@pytest.mark.heavy
def test_ten_thousand_idle_connections():
    """As many as this machine's limit on open files allows; a proper request is still answered."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(10_000, hard - 200)
    print(f"{count} idle connections")
    sockets = []
    try:
        patience = ("--read-timeout", "120", "--connection-timeout", "120")
        with Server("--max-connections", "12000", *patience) as server:
            before = server.resident_bytes()
            for i in range(count):
                sockets.append(client.connect(server.port))
                if i % 3 == 1:
                    sockets[-1].send(b"POST /v1/completions HT")
            server.check_unharmed()
            grown = server.resident_bytes() - before
            assert grown < count * 40_000, f"{grown} bytes for {count} connections"
            wait_until(lambda: rests(server), 60, "idle connections do not keep the server busy")
            for sock in sockets:
                sock.close()
            wait_until(lambda: server.open_files() < 200, 60, "connections closed", server.describe_sockets)
            server.check_unharmed()
    finally:
        for sock in sockets:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_more_connections_than_allowed():
    """At its limit of connections the server serves again as soon as clients have gone."""
    with Server("--max-connections", "64") as server:
        sockets = [client.connect(server.port) for _ in range(200)]
        wait_until(lambda: server.open_files() > 64, 60, "as many connections as are allowed")
        for sock in sockets:
            sock.close()
        wait_until(lambda: server.open_files() < 100, 60, "connections closed")
        server.check_unharmed()
