"""park: SIGTERM ends a request where it stands, its state goes to the store, and any other server makes
the rest of the same answer."""

import signal

import pytest

import client
import holding
from client import complete, complete_ok
from cluster import Redis
from conversations import UPPER, text_of, whole
from server import Server, wait_until
from test_lifecycle import refuses

pytestmark = pytest.mark.asan

REQUESTS = 12
ONE_SLOT = "--slots", "1", *holding.FLAGS


@pytest.fixture(scope="module")
def redis():
    with Redis() as process:
        yield process


SPELLINGS = ["suspend", "park"]  # the field, and its first name; the requests of a test take turns


def body_of(seed, **fields):
    return {"model": client.MODEL, "prompt": UPPER, "seed": seed, SPELLINGS[seed % 2]: True, **fields}


def send(port, body):
    sock = client.connect(port)
    sock.sendall(client.encode_request("POST", "/v1/completions", body, port=port))
    return sock


def first_token(sock):
    """The bytes of a stream up to its first token: it runs, and waits in no queue."""
    data = b""
    while b"data: " not in data:
        part = sock.recv(65536)
        assert part, data
        data += part
    return data


def send_behind_another(server, stream):
    """(the long request, REQUESTS of them): all wait or take turns on a server with one slot, after as many answers."""
    busy = holding.hold(server)
    socks = [send(server.port, body_of(seed, stream=stream)) for seed in range(REQUESTS)]
    wait_until(lambda: server.metric("linnet_queue_length") + server.requests("ok") >= 2 * REQUESTS, 60,
               "all have come")
    return busy, socks


def close_all(*socks):
    for sock in socks:
        sock.close()


def read_answer(sock, data=b""):
    """(text so far, finish reason, id of the state or None) of a whole or a streamed answer."""
    while part := sock.recv(65536):
        data += part
        if client.parse_replies(data)[0]:
            break
    (reply,), _ = client.parse_replies(data)
    assert reply.status == 200, reply.text
    if reply.headers["content-type"].startswith("text/event-stream"):
        events = client.parse_events(reply.body)
        texts, reasons = client.join_stream(events)
        states = [state for event in events for state in event.get("states") or []]
        text, reason = texts[0], reasons[0]
    else:
        answer = reply.json()
        text, reason = text_of(answer), answer["choices"][0]["finish_reason"]
        states = answer.get("states") or []
    assert (reason == "parked") == bool(states), (reason, states)
    return text, reason, states[0]["id"] if states else None


def check_parts(port, expected, answers):
    """The parts together are the answers that were interrupted."""
    for whole_text, (text, reason, state) in zip(expected, answers, strict=True):
        assert whole_text.startswith(text)
        if reason == "parked":
            rests = [text_of(complete_ok(port, state=state)) for _ in range(2)]
            assert rests[0] == rests[1]  # no lock, no owner: twice is the same twice
            text += rests[0]
        assert text == whole_text


@pytest.mark.parametrize("stream", [True, False])
def test_queued_requests_are_parked(redis, stream):
    store = "--state-store", redis.url
    with Server(*ONE_SLOT, *store) as first:
        expected = [whole(first.port, UPPER, seed) for seed in range(REQUESTS)]
        busy, socks = send_behind_another(first, stream)
        first.signal(signal.SIGTERM)
        answers = [read_answer(sock) for sock in socks]
        close_all(busy, *socks)
        assert first.wait() == 0
    assert {reason for _, reason, _ in answers} <= {"parked", "stop"}
    with Server("--slots", "2", *store) as second:
        check_parts(second.port, expected, answers)


@pytest.mark.heavy
def test_running_requests_are_parked(redis):
    """The signal comes when each has its first token; the reference back end takes its time for the rest."""
    flags, seeds = ("--backend", "reference", "--state-store", redis.url), range(2)
    with Server("--slots", "2", *flags) as first:
        expected = [whole(first.port, UPPER, seed) for seed in seeds]
        socks = [send(first.port, body_of(seed, stream=True)) for seed in seeds]
        begun = [first_token(sock) for sock in socks]
        first.signal(signal.SIGTERM)
        answers = [read_answer(sock, data) for sock, data in zip(socks, begun, strict=True)]
        close_all(*socks)
        assert first.wait() == 0
    with Server("--slots", "2", *flags) as second:
        check_parts(second.port, expected, answers)
    assert any(0 < len(text) < len(UPPER) for text, _, _ in answers), "none was parked in its middle"


def test_resumed_request_is_parked_again(redis):
    """As often as it takes: here by three servers on which it takes turns, then by one that ends it."""
    store, state, parts = ("--state-store", redis.url), None, []
    for _ in range(3):
        with Server(*ONE_SLOT, *store) as server:
            expected = whole(server.port, UPPER, 0)
            busy = holding.hold(server)
            begin = {"prompt": UPPER, "seed": 0} if state is None else {"state": state}
            sock = send(server.port, {"model": client.MODEL, "suspend": True, **begin})
            wait_until(lambda: server.metric("linnet_queue_length") == 1 or server.requests("ok") > 1, 60,
                       "it has come")
            server.signal(signal.SIGTERM)
            text, reason, state = read_answer(sock)
            parts.append(text)
            close_all(busy, sock)
        if reason != "parked":  # it was at its end before the signal
            break
    else:
        with Server(*store) as last:
            parts.append(text_of(complete_ok(last.port, state=state)))
    assert "".join(parts) == expected


def test_nothing_is_parked_without_a_signal(redis):
    with Server("--state-store", redis.url) as server:
        answer = complete_ok(server.port, **body_of(3))
        assert answer["choices"][0]["finish_reason"] == "stop" and "states" not in answer


@pytest.mark.parametrize("name", SPELLINGS)
def test_it_needs_a_store_that_outlives_the_server(port, name):
    reply = complete(port, model=client.MODEL, prompt=UPPER, **{name: True})
    assert reply.status == 400 and reply.error["param"] == name
    assert "--state-store" in reply.error["message"]


@pytest.mark.parametrize("name", SPELLINGS)
def test_bad_requests(redis, name):
    with Server("--state-store", redis.url) as server:
        for fields in [{"n": 2, name: True}, {"prompt": [UPPER, UPPER], name: True}, {name: "yes"}, {name: 1}]:
            reply = complete(server.port, **{"model": client.MODEL, "prompt": UPPER, **fields})
            assert reply.status == 400 and reply.error["param"] == name, reply.text


def test_without_its_store_a_request_runs_to_its_end():
    """Redis dies, and before that is noticed the server is stopped: nothing is suspended."""
    with Redis() as own:
        with Server(*ONE_SLOT, *holding.DRAIN, "--state-store", own.url) as server:
            expected = [whole(server.port, UPPER, seed) for seed in range(REQUESTS)]
            busy, socks = send_behind_another(server, stream=False)
            own.kill()
            server.signal(signal.SIGTERM)
            wait_until(lambda: refuses(server.port), 60, "it has heard")
            client.reset(busy)
            answers = [read_answer(sock) for sock in socks]
            close_all(*socks)
            assert server.wait() == 0
    assert answers == [(text, "stop", None) for text in expected]


def test_a_store_that_takes_no_state_is_told():
    """It answers, so requests are suspended, but it is full: waiting requests get an error, and may be sent to another
    server. So many come that most still wait when the signal does."""
    with Redis("--maxmemory", "1", "--maxmemory-policy", "noeviction") as full:
        with Server(*ONE_SLOT, "--state-store", full.url) as server:
            busy = holding.hold(server)
            socks = [send(server.port, body_of(seed)) for seed in range(4 * REQUESTS)]
            wait_until(lambda: server.metric("linnet_queue_length") >= REQUESTS, 60, "they are queued")
            server.signal(signal.SIGTERM)
            told = 0
            for seed, sock in enumerate(socks):
                data = b""
                while not client.parse_replies(data)[0]:
                    data += sock.recv(65536)
                (reply,), _ = client.parse_replies(data)
                if reply.status == 200:  # it was served before the signal
                    continue
                assert reply.status == 503, reply.text
                if reply.error["message"] in ("the server is stopping", "the server is shutting down"):
                    continue  # it came after the signal
                assert reply.error["param"] == SPELLINGS[seed % 2], reply.text
                assert int(reply.headers["retry-after"]) >= 1
                told += 1
            assert told > 0
            close_all(busy, *socks)
            assert server.wait() == 0
