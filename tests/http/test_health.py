"""`linnet health`: its status and its one line, for a server that is ready and for everything else."""

import socket
import threading
import time

import pytest

import client
import server
from server import run

pytestmark = pytest.mark.quick


def health(*args):
    return run("health", *args)


def words(result, status):
    assert result.returncode == status, result
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


@pytest.fixture
def fake():
    """A listener whose answer the test gives: fake(bytes) is its port; None never answers."""
    listeners, threads = [], []

    def serve(listener, answer):
        connection = listener.accept()[0]
        connection.settimeout(client.PATIENCE)
        with connection:
            request = b""
            while b"\r\n\r\n" not in request:
                part = connection.recv(4096)
                if not part:
                    return
                request += part
            if answer is not None:
                connection.sendall(answer)
            else:
                connection.recv(1)  # until the client gives up

    def start(answer):
        listener = socket.create_server((client.HOST, 0))
        listener.settimeout(client.PATIENCE)
        thread = threading.Thread(target=serve, args=(listener, answer))
        thread.start()
        listeners.append(listener)
        threads.append(thread)
        return listener.getsockname()[1]

    yield start
    for thread in threads:
        thread.join(20)
    for listener in listeners:
        listener.close()


def free_port():
    with socket.create_server((client.HOST, 0)) as listener:
        return listener.getsockname()[1]


def test_ready(port):
    for host in ("127.0.0.1", "localhost", "0.0.0.0"):
        result = health("--port", port, "--host", host)
        assert (result.returncode, result.stdout, result.stderr) == (0, "ready\n", "")
    assert health("--port", port, "--path", "/livez").returncode == 0


def test_reads_the_servers_variables(port, monkeypatch):
    monkeypatch.setattr(server, "environment", lambda: {"LINNET_PORT": str(port)})
    assert health().returncode == 0


def test_nobody_listens():
    port = free_port()
    assert str(port) in words(health("--port", port), 1)


def test_another_path_is_not_ready(port):
    assert "404" in words(health("--port", port, "--path", "/nowhere"), 1)


@pytest.mark.parametrize("answer, name", [
    (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", "503"),
    (b"HTTP/1.1 302 Found\r\n\r\n", "302"),
    (b"220 a mail server\r\n", "HTTP"),
    (b"HTTP/1.1 2", "HTTP"),
    (b"\0" * 100, "HTTP"),
    (b"", "HTTP"),
])
def test_wrong_answers(fake, answer, name):
    assert name in words(health("--port", fake(answer)), 1)


def test_silence_ends_with_the_timeout(fake):
    start = time.monotonic()
    assert "did not answer within --timeout" in words(health("--port", fake(None), "--timeout", "0.2"), 1)
    assert "did not answer within --timeout" in words(
        health("--port", fake(None), "--timeout", "0.2", "--tls-cert", "server.pem"), 1)
    assert time.monotonic() - start < 10


def test_a_plain_server_speaks_no_tls(port):
    assert "TLS" in words(health("--port", port, "--tls-cert", "server.pem"), 1)


@pytest.mark.parametrize("args", [
    ["--port", "0"], ["--port", "web"], ["--timeout", "0"], ["--path", "readyz"],
    ["--path", "/x y"], ["--path", "/\r\nx: y"], ["--path", "/" + "x" * 2000], ["surplus"],
])
def test_bad_arguments(args):
    assert words(health(*args), 2)


def test_help():
    result = health("--help")
    assert result.returncode == 0 and result.stdout.startswith("usage: linnet health")
