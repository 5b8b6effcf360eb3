"""The server soon closes the sockets of clients that are gone, with any unread bytes and any number of older idle
connections. The number of descriptors comes back to its start, and the other clients are served."""

import asyncio
import contextlib

import pytest

import client
import holding
from client import Connection
from holding import LONG
from server import Server, wait_until

pytestmark = pytest.mark.asan

OLDER = 8  # idle keep-alive connections that began before
LEAVING = 24
SOON = 30  # seconds; the connections' own time is an hour
FLAGS = ("--connection-timeout", "3600", "--http-threads", "1", *holding.FLAGS)


@pytest.fixture
def crowded():
    """A server with idle connections that are older than all later ones, and its descriptors with them."""
    with Server("--slots", "4", "--queue", "64", *FLAGS) as server, contextlib.ExitStack() as stack:
        for _ in range(OLDER):
            sock = stack.enter_context(client.connect(server.port))
            sock.sendall(client.encode_request("GET", "/livez", port=server.port))
            assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        settled(server)
        yield server, server.open_files()
        server.check_unharmed()


def settled(server):
    """Until no other connection than the idle ones is open."""
    wait_until(lambda: server.metric("linnet_http_connections") == OLDER + 1, SOON, "only idle connections")


def send(port, fields, version="1.1", more=b""):
    sock = client.connect(port)
    data = client.encode_request("POST", "/v1/completions", {"model": client.MODEL, **fields}, port=port)
    sock.sendall(data.replace(b"HTTP/1.1", b"HTTP/" + version.encode(), 1) + more)
    return sock


def leave_stream(server, version):
    sock = send(server.port, {**holding.ENDLESS, "stream": True}, version)
    assert sock.recv(100).startswith(b"HTTP/1.")
    return sock


def leave_waiting(server):
    """An answer that is not ready."""
    sock = send(server.port, holding.ENDLESS)
    wait_until(lambda: server.metric("linnet_http_requests_active") > 1, SOON, "it is being answered")
    return sock


def end_stream(server):
    """An HTTP/1.0 stream that is read to its end."""
    sock = send(server.port, {"prompt": LONG, "stream": True}, "1.0")
    received = b""
    while part := sock.recv(65536):
        received += part
    assert received.endswith(b"data: [DONE]\n\n")
    return sock


def refuse_next(server):
    """A malformed request after a whole answer."""
    sock = send(server.port, {"prompt": LONG, "max_tokens": 1}, more=b"GET / HTTP/1.1\r\nnonsense\r\n\r\n")
    assert b" 200 " in sock.recv(65536)
    return sock


def refuse(server):
    sock = client.connect(server.port)
    sock.sendall(b"GET / HTTP/1.1\r\nnonsense\r\n\r\n")
    return sock


def half_body(server):
    sock = client.connect(server.port)
    sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                 b"Content-Length: 100\r\n\r\n{")
    return sock


LEAVES = {
    "stream": lambda server: leave_stream(server, "1.1"),
    "stream of HTTP/1.0": lambda server: leave_stream(server, "1.0"),
    "end of HTTP/1.0": end_stream,
    "waiting": leave_waiting,
    "refused": refuse,
    "refused after an answer": refuse_next,
    "half a body": half_body,
    "nothing sent": lambda server: client.connect(server.port),
}


@pytest.mark.parametrize("leave", [client.socket.socket.close, client.reset], ids=["close", "reset"])
@pytest.mark.parametrize("begin", LEAVES.values(), ids=LEAVES.keys())
def test_sockets_of_who_left_are_closed(crowded, begin, leave):
    server, before = crowded
    for sock in [begin(server) for _ in range(LEAVING)]:
        leave(sock)
    wait_until(lambda: server.open_files() <= before, SOON, "descriptors as before")


STREAMS, ABORTS = 100, 200


async def abort_streams(port, count):
    """In sequence: a stream begins and its client goes without a word."""
    for _ in range(count):
        connection = await Connection(port).__aenter__()
        await connection.send("POST", "/v1/completions",
                              {"model": client.MODEL, **holding.ENDLESS, "stream": True})
        await asyncio.wait_for(connection.read_head(), client.PATIENCE)
        connection.abort()


async def read_stream(port, seed):
    async with Connection(port) as connection:
        return [event async for event in connection.events(prompt=LONG, seed=seed)]


async def abort_beside(port):
    aborts = [abort_streams(port, ABORTS // 4) for _ in range(4)]
    *streams, _, _, _, _ = await asyncio.gather(
        *(read_stream(port, seed) for seed in range(STREAMS)), *aborts)
    return streams


def test_aborts_beside_streams():
    """All other clients are served; tests/bench/aborts.py runs this with a thousand, for minutes."""
    with Server("--slots", "16", "--queue", "1000", *FLAGS) as server:
        idle = [client.connect(server.port) for _ in range(OLDER)]
        for sock in idle:
            sock.sendall(client.encode_request("GET", "/livez", port=server.port))
            assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        settled(server)
        before = server.open_files()
        streams = asyncio.run(abort_beside(server.port))
        for events in streams:
            text, reasons = client.join_stream(events)
            assert reasons == {0: "stop"} and len(text[0]) == len(LONG)
        wait_until(lambda: server.open_files() <= before, SOON, "descriptors as before")
        for sock in idle:
            sock.close()
