"""The borders of requests: bytes that two parsers could read in two ways are refused, whole and in single bytes, plain
and within TLS. Legal requests are read, and each request gets an answer."""

import contextlib
import json
import ssl

import pytest

import client
from server import Server
from settings import MODEL
from test_tls import TlsServer, make_pair

pytestmark = [pytest.mark.quick, pytest.mark.asan]

JSON = json.dumps({"model": MODEL, "prompt": "海上明月", "seed": 1}).encode()
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
LENGTH = b"Content-Length: %d" % len(JSON)
GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
ONE_CHUNK = b"%x\r\n%s\r\n0\r\n\r\n" % (len(JSON), JSON)

# bytes, status, param
REFUSED = {
    "folded name": (POST + b"Transfer-Enc: chunked\r\n oding\r\n\r\n" + ONE_CHUNK + SMUGGLED, 400, "headers"),
    "folded length": (POST + LENGTH + b"\r\n 0\r\n\r\n" + JSON + SMUGGLED, 400, "headers"),
    "folded name of a length": (POST + b"Content-Len: 5\r\n gth\r\n\r\n" + SMUGGLED, 400, "headers"),
    "folded by a tab": (GET + b"A: b\r\n\tc\r\n\r\n", 400, "headers"),
    "folded behind the first line": (b"GET /livez HTTP/1.1\r\n Host: localhost\r\n\r\n", 400, "headers"),
    "NUL in a value": (POST + b"Transfer-Encoding: chunked\0, identity\r\n\r\n" + ONE_CHUNK, 400, "headers"),
    "NUL in a length": (POST + LENGTH + b"\x000\r\n\r\n" + JSON, 400, "headers"),
    "NUL in an unused header": (GET + b"A: \0\r\n\r\n" + SMUGGLED, 400, "headers"),
    "NUL in the URL": (b"GET /livez\0x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "request"),
    "bare LF in the head": (b"GET /livez HTTP/1.1\nHost: localhost\n\n", 400, "request"),
    "bare CR in a value": (GET + b"A: b\rTransfer-Encoding: chunked\r\n\r\n", 400, "headers"),
    "bare LF behind a chunk's size": (CHUNKED + b"%x\n%s\r\n0\r\n\r\n" % (len(JSON), JSON) + SMUGGLED, 400, "body"),
    "bare LF behind a chunk": (CHUNKED + b"%x\r\n%s\n0\r\n\r\n" % (len(JSON), JSON) + SMUGGLED, 400, "body"),
    "bare LF in an extension": (CHUNKED + b"%x;a\n%s\r\n0\r\n\r\n" % (len(JSON), JSON) + SMUGGLED, 400, "body"),
    "bare LF at the end": (CHUNKED + b"%x\r\n%s\r\n0\n\r\n" % (len(JSON), JSON), 400, "body"),
    "long chunk line": (CHUNKED + b"1;" + b"a" * 40_000 + b"\r\n{\r\n", 400, "body"),
    "long chunk line without an end": (CHUNKED + b"1;" + b"a" * 2_000, 400, "body"),
    "folded trailer": (CHUNKED + ONE_CHUNK[:-2] + b"A: b\r\n c\r\n\r\n" + SMUGGLED, 400, "headers"),
    "chunks in HTTP/1.0": (CHUNKED.replace(b"/1.1", b"/1.0") + ONE_CHUNK, 400, "Transfer-Encoding"),
    "300 query arguments": (b"GET /livez?" + b"&".join(b"a=%d" % i for i in range(300))
                            + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414, "url"),
    "URL of 20,000 bytes": (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414, "url"),
    "user in the URL": (b"GET http://a@localhost/livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "request"),
    "authority as the URL": (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "request"),
    **{f"header of {n} bytes": (GET + b"A: " + b"a" * n + b"\r\n\r\n", 431, "headers")
       for n in (16_000, 16_100, 16_300, 16_384, 16_500, 17_000, 24_000, 32_000)},
    **{f"{name.decode()} twice, {value.decode()}": (
           GET + b"%s: a\r\n%s: %s\r\n\r\n" % (name, name.lower(), value) + SMUGGLED, 400, name.decode())
       for name in (b"Authorization", b"X-Api-Key", b"Content-Type", b"Origin", b"Sec-Fetch-Site", b"Anthropic-Version")
       for value in (b"a", b"b")},
    "65 headers": (GET + b"Accept: */*\r\n" * 65 + b"\r\n", 431, "headers"),
}

# bytes, how many answers of 200
SERVED = {
    "white space behind a length": (POST + LENGTH + b" \t\r\n\r\n" + JSON, 1),
    "absolute URL": (GET.replace(b"/livez", b"http://localhost/livez") + b"\r\n", 1),
    "absolute URL with a query": (GET.replace(b"/livez", b"HTTP://localhost:80/livez?a") + b"\r\n", 1),
    "absolute URL without a path": (GET.replace(b"/livez", b"http://localhost") + b"\r\n", 1),
    "extension and trailer": (CHUNKED + b"%x;a=\"b\"\r\n%s\r\n0\r\nA: b\r\n\r\n" % (len(JSON), JSON) + GET + b"\r\n", 2),
    "pipelined": (POST + LENGTH + b"\r\n\r\n" + JSON + GET + b"\r\n" + CHUNKED + ONE_CHUNK + GET + b"\r\n", 4),
    "empty line between": (POST + LENGTH + b"\r\n\r\n" + JSON + b"\r\n" + GET + b"\r\n", 2),
    "header of 15,000 bytes": (GET + b"A: " + b"a" * 15_000 + b"\r\n\r\n" + GET + b"\r\n", 2),
    "full head": (b"GET /livez?" + b"a&" * 31 + b"a" * 8_000 + b" HTTP/1.1\r\nHost: localhost\r\n"
                  + (b"Accept: " + b"b" * 110 + b"\r\n") * 62 + b"\r\n" + (GET + b"\r\n") * 3, 4),
}


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    with TlsServer(make_pair(tmp_path_factory.mktemp("tls"), "one")) as server:
        yield server


@pytest.fixture(params=["plain", "tls"])
def connect(request):
    """Opens a connection; the server is well afterwards."""
    if request.param == "tls":
        tls = request.getfixturevalue("tls")
        yield tls.connect
        assert tls.is_ready()
    else:
        server = request.getfixturevalue("server")
        yield lambda: client.connect(server.port)


def send(sock, data, single):
    with contextlib.suppress(OSError):  # refused while sending: the answer has arrived nevertheless
        if not single:
            return sock.sendall(data)
        for i in range(len(data)):
            sock.sendall(data[i : i + 1])


def answers(connect, data, single, least=1):
    with connect() as sock:
        send(sock, data, single)
        with contextlib.suppress(ssl.SSLError):  # its end within TLS
            return client.parse_replies(client.read_all(sock, client.PATIENCE, least))


@pytest.mark.parametrize("single", [False, True], ids=["whole", "bytes"])
@pytest.mark.parametrize("data, status, param", REFUSED.values(), ids=REFUSED.keys())
def test_refused_and_closed(connect, data, status, param, single):
    replies, rest = answers(connect, data[:18_000] if single else data, single)
    assert [reply.status for reply in replies] == [status] and not rest
    assert replies[0].headers["connection"].lower() == "close"
    assert replies[0].headers["x-request-id"]
    assert replies[0].error["param"] == param


@pytest.mark.parametrize("single", [False, True], ids=["whole", "bytes"])
@pytest.mark.parametrize("data, count", SERVED.values(), ids=SERVED.keys())
def test_served(connect, data, count, single):
    replies, rest = answers(connect, data, single, count)
    assert [reply.status for reply in replies] == [200] * count and not rest


def test_refused_behind_answers(connect):
    """In order: the requests before it get answers, the bytes after it are not read."""
    data = POST + LENGTH + b"\r\n\r\n" + JSON + GET + b"A: b\r\n c\r\n\r\n" + SMUGGLED
    replies, rest = answers(connect, data, False, 2)
    assert [reply.status for reply in replies] == [200, 400] and not rest


def test_white_space_around_a_key():
    with Server("--api-key", "secret") as server:
        for value in (b"Bearer secret", b"Bearer secret \t", b" \tBearer   secret", b"bearer secret  "):
            data = GET.replace(b"/livez", b"/v1/models") + b"Authorization:" + value + b"\r\n\r\n"
            replies, _ = client.parse_replies(client.exchange(server.port, data, 10))
            assert replies[0].status == 200, value
        data = data.replace(b"secret", b"sec ret")
        assert client.parse_replies(client.exchange(server.port, data, 10))[0][0].status == 401
