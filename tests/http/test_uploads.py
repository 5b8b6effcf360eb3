"""--max-upload: forms may be larger than other bodies, where a route takes them, and nothing else comes in with them."""

import json

import pytest

import client
import images
import speech_model
from client import call
from server import Server, run, wait_until
from sounds import MODEL, ROUTE, babble, form_of, transcribe, transcribe_ok, wav

pytestmark = pytest.mark.quick

BODY, UPLOAD = 1 << 20, 8 << 20
SECONDS = 30


@pytest.fixture(scope="module")
def long_models(tmp_path_factory):
    """A model that hears more than half a minute."""
    folder = tmp_path_factory.mktemp("long")
    speech_model.write(folder / MODEL, rows=1200)
    return folder


@pytest.fixture(scope="module")
def long_server(long_models):
    with Server("--models", long_models) as server:
        yield server
        server.check_unharmed()


def check_refused(reply, limit, flag):
    assert reply.status == 413, (reply.status, reply.text[:300])
    assert reply.error["code"] == "body_too_large" and reply.error["param"] == "body"
    assert str(limit) in reply.error["message"] and f"(--{flag})" in reply.error["message"], reply.error


def post(port, path, body, kind, framing="length"):
    if framing == "length":
        return call(port, "POST", path, body, {"Content-Type": kind})
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[i : i + 65536] for i in range(0, len(body), 65536)))
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    (reply,), rest = client.parse_replies(client.exchange(port, head.encode() + chunks + b"0\r\n\r\n"))
    assert rest == b""
    return reply


def form_of_size(size):
    """(content type, body) of a form of so many bytes, whose file is no sound."""
    headers, body = form_of(b"")
    headers, body = form_of(bytes(size - len(body)))
    assert len(body) == size
    return headers["Content-Type"], body


def large_json(size=2 << 20):
    return json.dumps({"model": MODEL, "prompt": "a" * size}).encode()


def test_half_a_minute_in_stereo(long_server, long_models, tmp_path):
    sound = wav(babble(1, rate=44100) * SECONDS, rate=44100, channels=2)
    assert len(sound) > 5 * BODY
    (tmp_path / "sound.wav").write_bytes(sound)
    said = run("transcribe", tmp_path / "sound.wav", "--model", long_models / MODEL, "--json")
    assert said.returncode == 0, said.stderr
    answer = transcribe_ok(long_server.port, sound)
    assert answer["text"] == json.loads(said.stdout)["text"] != ""
    assert answer["usage"]["seconds"] == pytest.approx(SECONDS, abs=0.001)  # it is heard at another rate


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_the_limit_is_exact(long_server, framing):
    kind, body = form_of_size(UPLOAD)
    read = post(long_server.port, ROUTE, body, kind, framing)
    assert read.status == 400 and read.error["param"] == "file", read.text
    kind, body = form_of_size(UPLOAD + 1)
    check_refused(post(long_server.port, ROUTE, body, kind, framing), UPLOAD, "max-upload")


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("path", ["/v1/completions", images.EDITS, ROUTE, "/v1/score"])
def test_json_keeps_its_limit(long_server, path, framing):
    check_refused(post(long_server.port, path, large_json(), "application/json", framing), BODY, "max-body")


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_form_where_none_is_taken(long_server, framing):
    for path in ("/v1/completions", "/v1/chat/completions", "/v1/images/generations", "/v1/states", "/nowhere"):
        reply = post(long_server.port, path, large_json(), "multipart/form-data; boundary=x", framing)
        check_refused(reply, BODY, "max-body")


@pytest.mark.parametrize("path", [images.EDITS, ROUTE, "/v1/score"])
def test_json_that_is_said_to_be_a_form(long_server, path):
    """It comes in, as any form, and is read as one."""
    reply = post(long_server.port, path, large_json(), "multipart/form-data; boundary=x")
    assert reply.status == 400 and reply.error["param"] == "body", reply.text
    assert "boundary" in reply.error["message"]


@pytest.mark.parametrize("kinds", [("multipart/form-data; boundary=x", "application/json"),
                                   ("application/json", "multipart/form-data; boundary=x")])
def test_two_kinds_at_once(long_server, kinds):
    body = large_json()
    lines = "".join(f"Content-Type: {kind}\r\n" for kind in kinds)
    head = f"POST {images.EDITS} HTTP/1.1\r\nHost: x\r\n{lines}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    (reply,), _ = client.parse_replies(client.exchange(long_server.port, head.encode()))
    assert (reply.status, reply.error["param"]) == (400, "Content-Type"), reply.text


def test_the_flag(long_models):
    with Server("--models", long_models, "--max-upload", "65536") as server:
        sound = wav(babble(6))
        check_refused(transcribe(server.port, sound), 65536, "max-upload")
        assert transcribe_ok(server.port, wav(babble(3)))["text"] != ""


def test_all_bodies_share_one_budget(long_models):
    """Two clients' uploads that do not end take most of the budget. A third client's upload is refused before it is
    read, and its small request is answered."""
    with Server("--models", long_models, "--body-memory", "25") as server:
        kind, body = form_of_size(UPLOAD)
        request = client.encode_request("POST", ROUTE, body, {"Content-Type": kind}, server.port)
        held = []
        for host in ("127.0.0.2", "127.0.0.3"):
            held.append(client.connect(server.port, source=host))
            held[-1].sendall(request[:-1])
        wait_until(lambda: server.metric("linnet_body_bytes") >= 2 * UPLOAD, 60, "two bodies reserved")
        with client.connect(server.port) as sock:
            sock.sendall(request[: -len(body)])
            (reply,), _ = client.parse_replies(client.read_all(sock, client.PATIENCE))
        assert reply.status == 503 and "--body-memory" in reply.error["message"], reply.text
        server.check_unharmed()
        for sock in held:
            client.reset(sock)
        wait_until(lambda: server.metric("linnet_body_bytes") == 0, 60, "the budget given back")
        server.check_unharmed()


def test_more_than_the_budget_is_refused_at_the_start():
    result = run("serve", "--body-memory", "128", "--max-upload", str(64 << 20), "--port", "0")
    assert result.returncode == 2 and "one body of --max-upload may need 193" in result.stderr, result.stderr
