"""Connections without a request fill no table: the oldest go when new clients come, running requests continue, and a
server with few descriptors neither spins nor refuses to answer."""

import contextlib
import resource
import signal
import time

import pytest

import client
import holding
from server import Server, run, wait_until

SOON = 5.0  # seconds for a new client's answer
PROBE = client.encode_request("GET", "/livez")


@contextlib.contextmanager
def limited(files, *flags):
    server = Server("--connection-timeout", "3600", *flags)
    server.args = ["prlimit", f"--nofile={files}:{files}", *server.args]
    with server:
        yield server


def asked(port):
    """A connection that has had an answer and is kept."""
    sock = client.connect(port)
    sock.sendall(PROBE)
    assert sock.recv(65536).startswith(b"HTTP/1.1 200")
    return sock


def is_open(sock):
    try:
        sock.sendall(PROBE)
        return sock.recv(65536).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


@pytest.mark.parametrize("silent", [False, True])
def test_the_oldest_idle_connections_give_way(silent):
    with limited(256, "--slots", "4", *holding.FLAGS) as server, contextlib.ExitStack() as stack:
        stream = stack.enter_context(holding.hold(server, stream=True))
        assert stream.recv(100).startswith(b"HTTP/1.1 200")
        connect = client.connect if silent else asked
        idle = [stack.enter_context(connect(server.port)) for _ in range(400)]
        start = time.monotonic()
        assert client.call(server.port, "GET", "/livez").status == 200
        assert time.monotonic() - start < SOON
        assert not is_open(idle[0]) and is_open(idle[-1])
        assert server.slots_used() == 4 and stream.recv(100)  # an older connection with a request stays
        assert 100 < server.metric("linnet_http_connections") < 256


def test_few_descriptors_cost_no_time():
    with limited(16) as server, contextlib.ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(asked(server.port))
        start, before = time.monotonic(), server.cpu_seconds()
        wait_until(lambda: time.monotonic() - start > 2, 10, "some time in which nothing is asked")
        assert server.cpu_seconds() - before < 0.2
        assert client.call(server.port, "GET", "/livez").status == 200
        body = {"model": client.MODEL, "prompt": "海上明月"}
        assert client.call(server.port, "POST", "/v1/completions", body).status == 200


def test_too_few_descriptors_end_the_start():
    result = run("serve", "--port", 0, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12)))
    assert result.returncode == 2
    assert "limit of open files is 12" in result.stderr and "raise it to" in result.stderr


def test_as_many_requests_as_the_library_takes_at_once_are_answered():
    """libmicrohttpd reads 128 events at a time. Twice as many arrive while the server is stopped, and then no other."""
    with Server("--http-threads", "1", "--connection-timeout", "600") as server, contextlib.ExitStack() as stack:
        socks = [stack.enter_context(asked(server.port)) for _ in range(256)]
        server.signal(signal.SIGSTOP)
        for sock in socks:
            sock.sendall(PROBE)
        server.signal(signal.SIGCONT)
        for sock in socks:
            assert sock.recv(65536).startswith(b"HTTP/1.1 200")
