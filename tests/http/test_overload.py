"""More work than fits: honest refusals, nothing lost; and clients that leave in every phase."""

import asyncio
import threading
import time

import pytest

import client
import lines
from client import Connection
from server import Server, wait_until

LONG = lines.of_length(32)
BIG = {"prompt": LONG, "n": 64}
BIG_TOKENS = 64 * 32
FREED_WITHIN = 1.0  # seconds, less than the abandoned work would take


def send(port, fields, stream):
    """A request whose answer nobody reads yet."""
    sock = client.connect(port)
    body = {"model": client.MODEL, **fields, "stream": stream}
    sock.sendall(client.encode_request("POST", "/v1/completions", body, port=port))
    return sock


def test_only_answers_and_refusals_under_overload():
    with Server("--slots", "2", "--queue", "4") as server:
        requests = [{"prompt": LONG, "seed": i, "stream": i % 2 == 0} for i in range(100)]

        async def ask(fields):
            async with Connection(server.port) as connection:
                return await connection.complete(**fields)

        async def ask_all():
            return await asyncio.gather(*(ask(fields) for fields in requests))

        replies = asyncio.run(ask_all())
        refused = [reply for reply in replies if reply.status == 429]
        answered = [reply for reply in replies if reply.status == 200]
        assert len(refused) + len(answered) == len(replies), {r.status for r in replies}
        assert len(answered) >= 6 and len(refused) >= 20
        for reply in refused:
            assert 1 <= int(reply.headers["retry-after"]) <= 60
            assert reply.error["type"] == "rate_limit_error"
        for reply in answered:
            if reply.headers["content-type"].startswith("text/event-stream"):
                client.join_stream(client.parse_events(reply.body))
        server.wait_idle()
        assert server.requests("busy") == len(refused)
        assert server.requests("ok") == len(answered)
        assert server.metric("linnet_queue_limit") == 4
        server.check_unharmed()


@pytest.mark.heavy
def test_ten_thousand_requests_against_a_queue_of_64():
    """200s and 429s only, every one of them counted, and no memory grows with their number."""
    clients = 250

    async def ask_many(server, count):
        statuses = []

        async def ask(n):
            async with Connection(server.port) as connection:
                for _ in range(n):
                    reply = await connection.complete(prompt=LONG, max_tokens=8)
                    statuses.append(reply.status)

        await asyncio.gather(*(ask(count // clients) for _ in range(clients)))
        return statuses

    with Server("--slots", "4", "--queue", "64") as server:
        statuses = asyncio.run(ask_many(server, 2000))
        server.wait_idle()
        before = server.resident_bytes()
        statuses += asyncio.run(ask_many(server, 8000))
        server.wait_idle()
        assert server.resident_bytes() - before < 4 << 20
        assert len(statuses) == 10000 and set(statuses) == {200, 429}
        assert server.requests("ok") == statuses.count(200)
        assert server.requests("busy") == statuses.count(429)
        server.check_unharmed()


def test_queue_never_exceeds_its_limit():
    with Server("--slots", "1", "--queue", "3") as server:
        socks = [send(server.port, BIG, stream=True) for _ in range(30)]
        end = time.monotonic() + 1
        while time.monotonic() < end:
            metrics = server.metrics()
            values = {name: value for (name, _), value in metrics.items()}
            assert values["linnet_queue_length"] <= 3
            assert values["linnet_slots_used"] <= 1
        for sock in socks:
            client.reset(sock)
        server.wait_idle()
        server.check_unharmed()


def test_client_that_obeys_retry_after_is_served():
    with Server("--slots", "1", "--queue", "1") as server:
        answers = []

        def persist(seed):
            for _ in range(60):
                reply = client.complete(server.port, prompt="春江夜雨", n=4, seed=seed)
                if reply.status == 200:
                    answers.append(seed)
                    return
                assert reply.status == 429
                time.sleep(0.05)

        threads = [threading.Thread(target=persist, args=(i,)) for i in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == list(range(10))


# --- leaving -------------------------------------------------------------------------------------

LEAVE = {"close": lambda sock: sock.close(), "reset": client.reset}


def check_freed(server, cancelled):
    """Soon idle, the cancellations are counted, and most of the work was never done."""
    took = server.wait_idle(FREED_WITHIN)
    assert server.requests("cancelled") == cancelled
    server.check_unharmed()
    return took


@pytest.fixture
def small():
    with Server("--slots", "2", "--queue", "8") as server:
        yield server


@pytest.mark.parametrize("leave", LEAVE.values(), ids=LEAVE.keys())
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_leaving_while_generating(small, leave, stream):
    sock = send(small.port, BIG, stream)
    wait_until(lambda: small.metric("linnet_generated_tokens_total") > 4, 20, "first tokens")
    before = small.metric("linnet_generated_tokens_total")
    leave(sock)
    took = small.wait_idle(FREED_WITHIN)
    steps = (small.metric("linnet_generated_tokens_total") - before) / 2
    assert steps <= 50, f"{steps} steps, {took * 1000:.1f} ms after the client left"
    check_freed(small, 1)


@pytest.mark.parametrize("leave", LEAVE.values(), ids=LEAVE.keys())
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_leaving_while_queued(small, leave, stream):
    running = send(small.port, BIG, stream=True)
    wait_until(lambda: small.slots_used() == 2, 20, "slots taken")
    waiting = [send(small.port, BIG, stream) for _ in range(4)]
    wait_until(lambda: small.metric("linnet_queue_length") == 4, 20, "queue filled")
    for sock in waiting:
        leave(sock)
    wait_until(lambda: small.metric("linnet_queue_length") == 0, FREED_WITHIN, "queue emptied")
    leave(running)
    check_freed(small, 5)
    assert small.metric("linnet_generated_tokens_total") < BIG_TOKENS


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_leaving_at_once(small, stream):
    """The client has gone before the engine has seen the request."""
    for _ in range(20):
        sock = send(small.port, BIG, stream)
        client.reset(sock)
    small.wait_idle(FREED_WITHIN)
    small.check_unharmed()
    assert small.metric("linnet_generated_tokens_total") < 20 * BIG_TOKENS / 4


def test_half_closed_client_is_answered_or_cancelled_but_never_forgotten(small):
    sock = send(small.port, {"prompt": LONG}, stream=False)
    sock.shutdown(client.socket.SHUT_WR)
    client.read_all(sock, 5)
    sock.close()
    small.wait_idle(FREED_WITHIN)
    small.check_unharmed()


def test_files_are_closed_after_clients_left(small):
    files = small.open_files()
    for i in range(50):
        sock = send(small.port, {"prompt": LONG, "n": 2}, stream=i % 2 == 0)
        if i % 3:
            sock.settimeout(0.01)
            try:
                sock.recv(64)
            except TimeoutError:
                pass
        client.reset(sock)
    small.wait_idle(FREED_WITHIN)
    wait_until(lambda: small.open_files() <= files, 5, "files closed")
    small.check_unharmed()


@pytest.mark.heavy
def test_no_memory_is_lost_when_clients_come_and_go(small):
    def round_of(count):
        for i in range(count):
            client.reset(send(small.port, BIG, stream=i % 2 == 0))
            if i % 10 == 0:
                client.complete(small.port, prompt=LONG, seed=i)
        small.wait_idle()

    round_of(300)
    before = small.resident_bytes()
    round_of(1500)
    assert small.resident_bytes() - before < 4 << 20


# --- time ----------------------------------------------------------------------------------------


def test_deadline_passes_while_generating(small):
    reply = client.complete(small.port, **BIG, timeout_ms=30)
    assert reply.status == 504, reply.text
    assert reply.error["type"]
    small.wait_idle(FREED_WITHIN)
    assert small.requests("timeout") == 1
    small.check_unharmed()


def test_deadline_passes_while_queued(small):
    running = send(small.port, BIG, stream=True)
    wait_until(lambda: small.slots_used() == 2, 20, "slots taken")
    start = time.monotonic()
    reply = client.complete(small.port, prompt="月下", timeout_ms=20)
    assert reply.status == 504, reply.text
    assert time.monotonic() - start < 2
    client.reset(running)
    small.wait_idle(FREED_WITHIN)
    assert small.requests("timeout") == 1


def test_deadline_of_a_stream_is_an_error_event(small):
    reply = client.complete(small.port, **BIG, timeout_ms=100, stream=True)
    assert reply.status == 200
    parser = client.EventParser()
    events = parser.feed(reply.body)
    assert parser.buffer == b""
    last = client.Reply(200, {}, events[-1].encode())
    assert last.error["message"]
    small.wait_idle(FREED_WITHIN)
    assert small.requests("timeout") == 1
    small.check_unharmed()
