"""deploy/haproxy.cfg: streams come through at once, and the server notices a client that leaves the proxy. A server
that is gone or drains costs no request that it had not begun to work on, and no request is worked on twice."""

import contextlib
import json
import signal
import statistics
import subprocess
import time

import pytest

import client
import holding
from cluster import HAProxy
from holding import LONG
from server import Server, wait_until
from test_lifecycle import refuses


@contextlib.contextmanager
def two_servers():
    flags = "--slots", "4", *holding.FLAGS, *holding.DRAIN
    with Server(*flags) as a, Server(*flags) as b:
        with HAProxy(a.port, b.port) as proxy:
            yield proxy, a, b


@pytest.fixture(scope="module")
def pair():
    with two_servers() as all_three:
        yield all_three


@pytest.fixture
def own_pair():
    with two_servers() as all_three:
        yield all_three


def test_configuration_is_clean():
    env = {"LINNET_1": "127.0.0.1:1", "LINNET_2": "127.0.0.1:2"}
    result = subprocess.run([HAProxy.program(), "-c", "-f", str(HAProxy.CONFIG)], env=env,
                            capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert "WARNING" not in result.stderr, result.stderr


def answered(server):
    return server.requests("ok")


def test_both_servers_answer_alike(pair):
    proxy, a, b = pair
    alone = client.complete_ok(a.port, prompt=LONG, seed=7)
    for _ in range(8):
        answer = client.complete_ok(proxy.port, prompt=LONG, seed=7)
        assert answer["choices"] == alone["choices"]
    assert answered(a) > 1 and answered(b) > 0


def chunk_times(port, **fields):
    """Seconds from the request to each event of a stream."""
    with client.connect(port) as sock:
        body = {"model": client.MODEL, **fields, "stream": True}
        start = time.monotonic()
        sock.sendall(client.encode_request("POST", "/v1/completions", body, port=port))
        received, times = b"", []
        while b"[DONE]" not in received:
            part = sock.recv(65536)
            assert part, received
            received += part
            times += [time.monotonic() - start] * (received.count(b"data: ") - len(times))
        return times


def test_tokens_are_not_held_back(pair):
    """With Nagle in between, each small event would wait some 200 ms for the next."""
    proxy, *_ = pair
    chunk_times(proxy.port, prompt=LONG)
    gaps = []
    for seed in range(5):
        times = chunk_times(proxy.port, prompt=LONG, seed=seed)
        gaps += [b - a for a, b in zip(times, times[1:])]
    assert statistics.median(gaps) < 0.1, gaps


def test_leaving_client_is_noticed_behind_the_proxy(pair):
    proxy, a, b = pair
    with holding.send(proxy.port, holding.ENDLESS, stream=True) as sock:
        assert sock.recv(100)
        wait_until(lambda: a.slots_used() + b.slots_used() == 4, 60, "slots taken")
    wait_until(lambda: a.is_idle() and b.is_idle(), 60, "slots free")
    assert a.requests("cancelled") + b.requests("cancelled") == 1


def test_killed_server_costs_no_whole_answer(own_pair):
    proxy, a, b = own_pair
    a.kill()
    for seed in range(20):  # the first of them may meet the dead server, before a check has
        client.complete_ok(proxy.port, prompt="海上明月", seed=seed)
    assert answered(b) == 20
    a.process.returncode = 0  # it did not end by itself, and is not to


def test_request_of_a_killed_server_is_not_sent_again(own_pair):
    """It may be the request that killed it."""
    proxy, a, b = own_pair
    with holding.send(proxy.port, holding.ENDLESS, stream=False) as sock:
        wait_until(lambda: a.slots_used() + b.slots_used() == 4, 60, "slots taken")
        killed, other = (a, b) if a.slots_used() == 4 else (b, a)
        killed.kill()
        assert sock.makefile("rb").readline().split()[1] == b"502"
    assert other.slots_used() == 0 and other.metric("linnet_requests_total") == 0
    killed.process.returncode = 0  # it did not end by itself, and is not to


def test_draining_server_gets_no_more(own_pair):
    proxy, a, b = own_pair
    with client.connect(a.port) as sock:  # a stream that keeps it draining for a while
        body = {"model": client.MODEL, "prompt": LONG, "n": 64, "stream": True}
        sock.sendall(client.encode_request("POST", "/v1/completions", body, port=a.port))
        received = sock.recv(100)
        a.signal(signal.SIGTERM)
        wait_until(lambda: refuses(a.port), 60, "it has heard")
        for seed in range(10):
            client.complete_ok(proxy.port, prompt="海上明月", seed=seed)
        assert answered(b) == 10
        while part := sock.recv(65536):  # it ends whole
            received += part
        assert b"data: [DONE]" in received
    assert a.wait() == 0


def test_metrics_stay_behind_it(pair):
    proxy, *_ = pair
    assert client.call(proxy.port, "GET", "/metrics").status == 404


def test_request_id_is_passed_or_made(pair):
    proxy, *_ = pair
    ids = {"X-Request-Id": "one-two"}
    assert client.call(proxy.port, "GET", "/livez", headers=ids).headers["x-request-id"] == "one-two"
    made = client.call(proxy.port, "GET", "/livez").headers["x-request-id"]
    assert len(made) >= 8 and made != "one-two"
    assert json.loads(client.call(proxy.port, "GET", "/livez").body)


def error_of(reply, status, code):
    assert reply.status == status and reply.headers["content-type"] == "application/json"
    assert reply.error["code"] == code and reply.error["message"] and reply.error["param"] is None
    return reply


def test_its_own_errors_have_the_form_of_ours(own_pair):
    """No server, and a route that is not public: JSON with message, type and code."""
    proxy, a, b = own_pair
    error_of(client.call(proxy.port, "GET", "/metrics"), 404, "not_found")
    for server in (a, b):
        server.kill()
        server.process.returncode = 0  # it did not end by itself, and is not to
    wait_until(lambda: client.complete(proxy.port, prompt="海上明月").status == 503, 60, "both are known to be down")
    reply = error_of(client.complete(proxy.port, prompt="海上明月"), 503, "no_replica")
    assert reply.headers["retry-after"] == "1" and reply.error["type"] == "service_unavailable_error"


def test_the_error_of_a_lost_server_has_the_form_of_ours(own_pair):
    proxy, a, b = own_pair
    with holding.send(proxy.port, holding.ENDLESS, stream=False) as sock:
        wait_until(lambda: a.slots_used() + b.slots_used() == 4, 60, "slots taken")
        killed = a if a.slots_used() == 4 else b
        killed.kill()
        error_of(client.parse_replies(client.read_all(sock, 60))[0][0], 502, "replica_lost")
    killed.process.returncode = 0  # it did not end by itself, and is not to
