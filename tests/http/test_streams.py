"""A thousand clients streaming at once, some of whom leave, some of whom hardly read.

The memory bound, above the memory of the ready, idle process:

    slots x state        the model's state of each slot (touched on first use)
    clients x 48 KiB     connection memory of the HTTP library (28 KiB), exchange, job, plan, and
                         the allocator's overhead
    16 MiB               activations of the largest step, thread caches

Nothing in it grows with the number of tokens that were sent.
"""

import asyncio
import contextlib
import socket
import threading
import time
from pathlib import Path

import pytest

import client
import holding
import lines
import text_model
from client import Connection, call, join_stream
from couplet_rules import broken_rules
from server import Server, wait_until
from settings import LINNET

pytestmark = [pytest.mark.asan, pytest.mark.tsan]

CLIENTS = 1000
LEAVING = 200
LONG = lines.of_length(32)

# ThreadSanitizer keeps four bytes and more for each byte of the program.
SHADOW = 6 if b"__tsan_init" in LINNET.read_bytes() else 1


def state_bytes(server):
    return call(server.port, "GET", "/v1/models").json()["data"][0]["meta"]["state_bytes"]


def memory_bound(server, slots, clients):
    """A state for every slot, spare ones too (docs/adr/0020), the memory of a connection, and some to spare."""
    total = slots + min(max(slots, 64), 256)
    return SHADOW * (total * state_bytes(server) + clients * 48 * 1024 + (16 << 20))


def requests_of(count, step=1):
    """Different requests: many prompts, and every client a seed of its own."""
    short = [line for line in lines.OWN if 2 <= len(line) <= 9]
    return [{"prompt": short[(i * step) % len(short)], "seed": 1000 + i} for i in range(count)]


async def stream_text(port, fields):
    """The text of a streamed answer; every event must be of the same completion."""
    events = []
    async with Connection(port) as connection:
        async for event in connection.events(**fields):
            events.append(event)
    assert len({event["id"] for event in events}) == 1
    assert {event["seed"] for event in events} == {fields["seed"]}
    texts, reasons = join_stream(events)
    assert reasons == {0: "stop"}
    return events[0]["id"], texts[0]


async def stream_all(port, requests):
    return await asyncio.gather(*(stream_text(port, fields) for fields in requests))


ALONE = {}  # texts of requests, which no number of slots changes


def texts_alone(port, requests):
    """Of these requests, in sequence on an idle server."""
    new = [fields for fields in requests if repr(fields) not in ALONE]
    for fields, reply in zip(new, asyncio.run(client.answer_all(port, new, in_flight=1)), strict=True):
        ALONE[repr(fields)] = reply.json()["choices"][0]["text"]
    return [ALONE[repr(fields)] for fields in requests]


def check_streams(server, slots, count):
    requests = requests_of(count)
    alone = texts_alone(server.port, requests)
    before = server.resident_bytes()
    answers = asyncio.run(stream_all(server.port, requests))
    grown = server.resident_bytes() - before
    assert len({name for name, _ in answers}) == count, "two clients share a completion"
    wrong = [(r, a, t) for r, a, (_, t) in zip(requests, alone, answers) if a != t]
    assert not wrong, f"{len(wrong)} differ from the answer alone: {wrong[:5]}"
    assert grown <= memory_bound(server, slots, count), f"memory grew by {grown} bytes"
    server.wait_idle()


def test_streams_at_once_with_few_slots():
    """More clients than slots and queue together hold at a moment: nothing is mixed up."""
    with Server("--slots", "8", "--queue", "100") as server:
        check_streams(server, 8, 100)


@pytest.mark.heavy
@pytest.mark.parametrize("slots", [pytest.param(64, marks=pytest.mark.long), CLIENTS])
def test_a_thousand_streams_at_once(slots):
    with Server("--slots", str(slots), "--queue", str(CLIENTS)) as server:
        new = sum(repr(fields) not in ALONE for fields in requests_of(CLIENTS))
        check_streams(server, slots, CLIENTS)
        assert server.requests("ok") == new + CLIENTS
        assert server.requests("cancelled") == 0


@pytest.mark.heavy
def test_a_thousand_streams_of_text(tmp_path):
    """Of models of text: of rows that grow, of a state of one size, of tokens that are parts of characters; each client is
    answered as if it were alone."""
    text_model.write_bytes(tmp_path / "bytes")
    text_model.write_bytes(tmp_path / "rows", attention={"kind": "softmax"}, seed=3)
    text_model.write_bpe(tmp_path / "words")
    models = ["bytes", "rows", "words"]
    requests = [{"model": models[i % 3], "prompt": f"{lines.OWN[i % len(lines.OWN)]} and {i % 17}", "seed": i, "max_tokens": 8 + i % 25,
                 "temperature": 0.5 + i % 3, "stop": ["e春"]} for i in range(CLIENTS)]

    async def streamed(port, fields):
        async with Connection(port) as connection:
            events = [event async for event in connection.events(**fields)]
        texts, reasons = join_stream(events)
        return texts[0], reasons[0]

    async def all_streams(port):
        return await asyncio.gather(*(streamed(port, fields) for fields in requests))

    with Server("--models", tmp_path, "--slots", "64", "--queue", str(CLIENTS)) as server:
        replies = asyncio.run(client.answer_all(server.port, requests, in_flight=1))
        alone = [(c["text"], c["finish_reason"]) for c in (reply.json()["choices"][0] for reply in replies)]
        assert asyncio.run(all_streams(server.port)) == alone
        server.wait_idle()


async def leave_after(port, fields, n_events):
    """Reads some events of a stream, then goes without a word; how many had come by then. On a busy machine
    that may be all of them."""
    loop, sock, data = asyncio.get_running_loop(), socket.socket(), b""
    sock.setblocking(False)
    try:
        await loop.sock_connect(sock, (client.HOST, port))
        body = {"model": client.MODEL, **fields, "stream": True}
        await loop.sock_sendall(sock, client.encode_request("POST", "/v1/completions", body, port=port))
        while data.count(b"data: ") < n_events:
            part = await asyncio.wait_for(loop.sock_recv(sock, 1 << 16), client.PATIENCE)
            assert part, data
            data += part
        with contextlib.suppress(BlockingIOError):
            data += sock.recv(1 << 20)
    finally:
        client.reset(sock)
    return data.count(b"data: ")


async def leave_some(port, requests, leaving):
    tasks = []
    for i, fields in enumerate(requests):
        if i in leaving:
            tasks.append(leave_after(port, {**fields, "prompt": LONG}, 1 + i % 7))
        else:
            tasks.append(stream_text(port, fields))
    return await asyncio.gather(*tasks)


@pytest.mark.heavy
@pytest.mark.parametrize("slots", [64, pytest.param(CLIENTS, marks=pytest.mark.long)])
def test_two_hundred_of_a_thousand_leave(slots):
    requests = requests_of(CLIENTS, step=7)
    leaving = set(range(0, CLIENTS, CLIENTS // LEAVING))
    assert len(leaving) == LEAVING
    with Server("--slots", str(slots), "--queue", str(CLIENTS)) as server:
        results = asyncio.run(leave_some(server.port, requests, leaving))
        took = server.wait_idle()
        print(f"all slots free {took * 1000:.0f} ms after the last client")
        # An answer may be on its way as a whole when its client, busy with a thousand, leaves; hardly so
        # when less than half of it had come.
        early = sum(results[i] < len(LONG) / 2 for i in leaving)
        cancelled = server.requests("cancelled")
        print(f"{early} left before the half of their answers, {cancelled:.0f} were cancelled")
        assert early / 2 <= cancelled <= LEAVING
        assert server.requests("ok") == CLIENTS - cancelled
        for i, result in enumerate(results):
            if i not in leaving:
                assert broken_rules(requests[i]["prompt"], result[1]) == set()


def test_slots_of_those_who_left_serve_the_next():
    """Every slot is taken by a client who leaves; the next one does not wait for their answers."""
    with Server("--slots", "4", "--queue", "64", *holding.FLAGS) as server:

        async def run():
            leavers = [leave_after(server.port, {**holding.ENDLESS, "seed": i}, 1) for i in range(40)]
            await asyncio.gather(*leavers)
            await stream_text(server.port, {"prompt": "海上明月", "seed": 1})

        asyncio.run(run())
        server.wait_idle()
        assert server.requests("cancelled") == 40
        generated = server.metric("linnet_generated_tokens_total")
        assert generated < 40 * holding.TOKENS / 10, "the answers of clients who left were computed"


# --- slow readers ------------------------------------------------------------------------------


def slow_socket(port, fields):
    """A stream whose client has the smallest receive buffer there is and does not read."""
    sock = socket.socket()
    sock.settimeout(client.PATIENCE)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    sock.connect((client.HOST, port))
    body = {"model": client.MODEL, **fields, "stream": True}
    sock.sendall(client.encode_request("POST", "/v1/completions", body, port=port))
    return sock


class SlowReaders:
    """Clients that take one byte a second from their streams, from first to last."""

    def __init__(self, port, requests):
        self.sockets = [slow_socket(port, fields) for fields in requests]
        self.received = [b"" for _ in requests]
        self.rounds = 0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.read)

    def read(self):
        while not self.stopping.wait(1.0):  # check-tests: the test sends one byte per second
            for i, sock in enumerate(self.sockets):
                self.received[i] += sock.recv(1)
            self.rounds += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join(2 * client.PATIENCE)
        for sock in self.sockets:
            sock.close()


def cpu_in_rounds(server, slow):
    """Seconds that the server computes while each reader takes three bytes."""
    cpu, rounds = server.cpu_seconds(), slow.rounds
    wait_until(lambda: slow.rounds >= rounds + 3, 60, "some bytes more")
    return server.cpu_seconds() - cpu


def test_slow_readers_slow_nobody():
    """Clients that read a byte a second hold no slot longer than their answer takes to compute."""
    requests = requests_of(30)
    with Server("--slots", "16", "--queue", "200") as server:
        asyncio.run(stream_all(server.port, requests))

        def timed():
            start = time.monotonic()
            asyncio.run(stream_all(server.port, requests))
            return time.monotonic() - start

        usual = min(timed() for _ in range(3))
        generated = server.metric("linnet_generated_tokens_total")
        with SlowReaders(server.port, [{"prompt": LONG, "n": 8, "seed": i} for i in range(8)]) as slow:
            # The server is idle before it has read them, too.
            wait_until(lambda: server.metric("linnet_generated_tokens_total") == generated + 8 * 8 * 32, 60, "all made")
            server.wait_idle()
            beside = min(timed() for _ in range(3))
            used = min(cpu_in_rounds(server, slow) for _ in range(3))  # a real cost shows in each round
        assert beside < 5 * usual + 5, f"{usual:.2f} s alone, {beside:.2f} s next to slow readers"
        assert used < 0.2, "slow readers keep the server busy"
        for received in slow.received:
            assert len(received) == slow.rounds and b"HTTP/1.1 200".startswith(received[:12])


def test_slow_reader_gets_everything():
    """The bytes that a sleeping client had not read are still there when it wakes."""
    fields = {"prompt": LONG, "n": 8, "seed": 5}
    with Server("--slots", "16") as server:
        sock = slow_socket(server.port, fields)
        wait_until(lambda: server.metric("linnet_generated_tokens_total") == 8 * 32, 60, "all made")
        received = client.read_all(sock, 20)
        sock.close()
        (reply,), rest = client.parse_replies(received)
        assert not rest
        texts, _ = join_stream(client.parse_events(reply.body))
        whole = client.complete_ok(server.port, **fields)["choices"]
        assert sorted(texts.values()) == sorted(choice["text"] for choice in whole)


def test_first_token_comes_before_the_last_is_made():
    """A stream is a stream: when its first event arrives most of a long answer is still to be made."""
    with Server("--slots", "1", *holding.FLAGS) as server:

        async def tokens_made_at_first_event():
            async with Connection(server.port) as connection:
                async for _ in connection.events(**holding.ENDLESS, seed=1):
                    return server.metric("linnet_generated_tokens_total")

        made = asyncio.run(tokens_made_at_first_event())
        assert made < holding.TOKENS / 2, "the first event came when all was made"


EVENTS = 2000


def cost_of_events(n):
    """Nanoseconds of processor time that the only HTTP thread needs for so many events of a stream of n samples."""
    with Server("--slots", "4", "--http-threads", "1", *holding.FLAGS) as server:
        (thread,) = [task for task in Path(f"/proc/{server.pid}/task").iterdir() if "MHD" in (task / "comm").read_text()]
        with holding.send(server.port, {"prompt": LONG, "n": n}, stream=True) as sock:
            events = 0
            while events < EVENTS:
                events += sock.recv(1 << 16).count(b"data: ")
            return int((thread / "schedstat").read_text().split()[0]) / events


@pytest.mark.heavy
def test_an_event_costs_no_more_among_thousands_of_samples():
    """A pull of a stream looks at the samples that have begun and not ended."""
    assert cost_of_events(4096) < 2.5 * cost_of_events(64)
