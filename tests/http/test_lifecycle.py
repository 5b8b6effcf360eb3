"""Start, readiness, SIGTERM, and starts that must fail with one clear line."""

import shutil
import signal
import socket
import struct
import time

import pytest

import client
import holding
from holding import ENDLESS, LONG, hold, send
from server import STOP_TIMEOUT, Server, run, wait_until
from settings import MODEL_DIR

pytestmark = [pytest.mark.quick, pytest.mark.asan]

# Seconds for immediate work, on a machine of any speed: less than any time that the server waits for a request (30 for
# clients, more for connections).
AT_ONCE = 20


def open_stream(port, **fields):
    """A stream that has begun: the socket and the bytes that have arrived."""
    sock = client.connect(port)
    body = {"model": client.MODEL, "prompt": LONG, **fields, "stream": True}
    sock.sendall(client.encode_request("POST", "/v1/completions", body, port=port))
    received = b""
    while b"data: " not in received:
        part = sock.recv(65536)
        assert part, received
        received += part
    return sock, received


def read_to_end(sock, received):
    while True:
        replies, rest = client.parse_replies(received)
        if replies and not rest:
            return replies[0]
        part = sock.recv(65536)
        assert part, "the stream was cut"
        received += part


def test_server_is_ready_soon():
    start = time.monotonic()
    with Server():
        assert time.monotonic() - start < AT_ONCE


def test_port_and_model_are_in_the_log():
    with Server() as server:
        assert str(server.port) in server.log
        assert client.MODEL in server.log


def test_sigterm_when_idle_ends_at_once():
    with Server("--probe-interval", "0") as server:
        start = time.monotonic()
        server.signal()
        assert server.wait() == 0
        assert time.monotonic() - start < AT_ONCE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_running_streams_finish(number):
    with Server("--slots", "1", "--queue", "16", *holding.DRAIN) as server:
        idle = client.connect(server.port)
        idle.sendall(client.encode_request("GET", "/health", port=server.port))
        assert idle.recv(65536).startswith(b"HTTP/1.1 200")
        expected = client.complete_ok(server.port, prompt=LONG, n=16, seed=1)["choices"]
        streams = [open_stream(server.port, n=16, seed=1)]
        server.signal(number)
        wait_until(lambda: refuses(server.port), AT_ONCE, "new connections refused")
        check_draining(idle, server.port)
        for sock, received in streams:
            texts, _ = client.join_stream(client.parse_events(read_to_end(sock, received).body))
            assert sorted(texts.values()) == sorted(choice["text"] for choice in expected)
            sock.close()
        assert server.wait() == 0


def test_nobody_new_is_sent_before_anybody_is_refused():
    """--drain-delay: a balancer hears that the server goes while it still answers; a second signal ends it."""
    with Server("--drain-delay", "600", *holding.DRAIN) as server:
        expected = client.complete_ok(server.port, prompt=LONG, seed=1)["choices"]
        server.signal()
        wait_until(lambda: client.call(server.port, "GET", "/readyz").status == 503, AT_ONCE, "not ready")
        assert "about to shut down" in client.call(server.port, "GET", "/health").error["message"]
        assert client.call(server.port, "GET", "/livez").status == 200
        assert client.call(server.port, "GET", "/v1/capacity").json()["status"] == "draining"
        assert "linnet_ready 0" in client.call(server.port, "GET", "/metrics").text
        assert client.complete_ok(server.port, prompt=LONG, seed=1)["choices"] == expected
        start = time.monotonic()
        server.signal()
        assert server.wait() == 0
        assert time.monotonic() - start < AT_ONCE


def test_a_delay_ends_by_itself():
    with Server("--drain-delay", "0.2", *holding.DRAIN) as server:
        server.signal()
        assert server.wait() == 0
        assert "for 0.2 s" in server.log and "draining" in server.log


def refuses(port):
    """True when a new connection is refused or its request is answered with 503."""
    try:
        return client.call(port, "GET", "/readyz").status == 503
    except TimeoutError:
        raise  # silence is no refusal
    except (OSError, AssertionError):
        return True


def check_draining(idle, port):
    """A connection that is still open learns that the server is going: 503, then closed."""
    try:
        body = {"model": client.MODEL, "prompt": "月下"}
        idle.sendall(client.encode_request("POST", "/v1/completions", body, port=port))
        received = client.read_all(idle, 5)
    except OSError:
        return
    for reply in client.parse_replies(received)[0]:
        assert reply.status == 503, reply
        assert reply.headers["connection"].lower() == "close"
        assert reply.error["message"]


def test_queued_work_finishes_too():
    """Its turn comes after the signal: until then a client holds the only slot, who leaves."""
    with Server("--slots", "1", "--queue", "8", *holding.FLAGS, *holding.DRAIN) as server:
        holder = hold(server, stream=True)
        queued = [send(server.port, {"prompt": LONG, "seed": i}, stream=True) for i in range(3)]
        wait_until(lambda: server.metric("linnet_queue_length") == 3, 60, "three wait")
        assert server.metric("linnet_requests_total") == 0
        server.signal()
        wait_until(lambda: refuses(server.port), AT_ONCE, "new connections refused")
        client.reset(holder)
        for sock in queued:
            events = client.parse_events(read_to_end(sock, b"").body)
            assert {len(text) for text in client.join_stream(events)[0].values()} == {len(LONG)}
            sock.close()
        assert server.wait() == 0


def test_second_signal_ends_at_once():
    flags = ["--slots", "1", "--queue", "16", "--drain-timeout", "3600", *holding.FLAGS]
    with Server(*flags) as server:
        socks = [hold(server), *(send(server.port, ENDLESS, stream=True) for _ in range(8))]
        wait_until(lambda: server.metric("linnet_queue_length") == 8, 60, "queue filled")
        server.signal()
        wait_until(lambda: refuses(server.port), AT_ONCE, "new connections refused")
        assert server.process.poll() is None, "ended without waiting for its streams"
        server.signal()
        server.wait(STOP_TIMEOUT)
        server.check_log()
        for sock in socks:
            sock.close()
        # Not leaving through stop(): a forced end may have a status of its own.
        server.process.returncode = 0


def test_clients_who_never_read_do_not_hold_up_the_end():
    with Server("--drain-timeout", "1") as server:
        sock = socket.socket()
        sock.settimeout(client.PATIENCE)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.connect((client.HOST, server.port))
        body = {"model": client.MODEL, "prompt": LONG, "n": 16, "stream": True}
        sock.sendall(client.encode_request("POST", "/v1/completions", body, port=server.port))
        wait_until(lambda: server.metric("linnet_generated_tokens_total") == 16 * 32, 60, "all made")
        start = time.monotonic()
        server.signal()
        server.wait()
        assert time.monotonic() - start < AT_ONCE
        sock.close()


def test_idle_connections_do_not_hold_up_the_end():
    with Server() as server:
        socks = [client.connect(server.port) for _ in range(50)]
        for sock in socks[::2]:
            sock.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Le")
        start = time.monotonic()
        server.signal()
        assert server.wait() == 0
        assert time.monotonic() - start < AT_ONCE
        for sock in socks:
            sock.close()


# --- starts that must fail -----------------------------------------------------------------------


def fail_to_start(*args, names):
    """The server does not start; its last words are one line that holds all of `names`."""
    result = run("serve", "--port", "0", *args)
    assert result.returncode not in (0, None) and result.returncode > 0, result
    words = [line for line in result.stderr.splitlines() if line.strip()]
    assert words, "it says nothing"
    for name in names:
        assert str(name) in words[-1], words
    assert len([w for w in words if "error" in w.lower() or w.startswith("linnet")]) <= 1, words
    return result


@pytest.fixture
def broken_model(tmp_path):
    folder = tmp_path / "broken"
    shutil.copytree(MODEL_DIR, folder)
    return folder


def test_missing_model(tmp_path):
    fail_to_start("--model", tmp_path / "nothing", names=["nothing"])


def test_folder_without_a_model(tmp_path):
    fail_to_start("--model", tmp_path, names=[tmp_path])


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.txt"])
def test_missing_file(broken_model, name):
    (broken_model / name).unlink()
    fail_to_start("--model", broken_model, names=[name])


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.txt"])
def test_empty_file(broken_model, name):
    (broken_model / name).write_bytes(b"")
    fail_to_start("--model", broken_model, names=[name])


def test_truncated_weights(broken_model):
    path = broken_model / "model.safetensors"
    data = path.read_bytes()
    for size in (7, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        fail_to_start("--model", broken_model, names=["model.safetensors"])


def test_oversized_weights(broken_model):
    path = broken_model / "model.safetensors"
    path.write_bytes(path.read_bytes() + b"\0")
    fail_to_start("--model", broken_model, names=["model.safetensors"])


def test_not_a_number_in_the_weights(broken_model):
    path = broken_model / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-4:] = struct.pack("<f", float("nan"))  # as bf16 its upper half is not a number either
    path.write_bytes(data)
    fail_to_start("--model", broken_model, names=["model.safetensors"])


@pytest.mark.parametrize("old, new, name", [
    (b'"d_model": 256', b'"d_model": 264', "model.safetensors"),
    (b'"n_layers": 8', b'"n_layers": 9', "layers"),
    (b'"elu+1"', b'"elu+2"', "feature_map"),
    (b'"couplet"', b'"poems"', "config.json"),
    (b'"format_version": 1', b'"format_version": 9', "format_version"),
])
def test_config_that_does_not_fit(broken_model, old, new, name):
    path = broken_model / "config.json"
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))
    fail_to_start("--model", broken_model, names=["broken", name])


def test_port_in_use():
    with socket.socket() as taken:
        taken.bind((client.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run("serve", "--port", port, "--model", MODEL_DIR)
    assert result.returncode == 1
    assert str(port) in result.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("flags, names", [
    (["--prot", "1"], ["--prot", "--port"]),
    (["--port", "99999"], ["port", "99999"]),
    (["--port", "http"], ["port", "http"]),
    (["--slots", "-1"], ["slots", "-1"]),
    (["--slots"], ["slots"]),
    (["--queue", "1e99"], ["queue"]),
    (["--backend", "gpu9000"], ["backend", "gpu9000"]),
    (["--host", "no such host"], ["host"]),
    (["surplus"], ["surplus"]),
])
def test_bad_flag(flags, names):
    result = run("serve", "--model", MODEL_DIR, *flags)
    assert result.returncode in (1, 2), result
    last = result.stderr.strip().splitlines()[-1]
    for name in names:
        assert name in last, last


def test_value_of_a_wrong_environment_variable_is_named(monkeypatch):
    import server

    monkeypatch.setattr(server, "environment", lambda: {"LINNET_PORT": "lots", "PATH": "/bin"})
    result = run("serve", "--model", MODEL_DIR)
    assert result.returncode == 2
    assert "LINNET_PORT" in result.stderr
