"""A server in the memory of a container: its possible needs are shared out of the limit, and no load of allowed
requests makes the kernel end it."""

import random
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

import client
import images
import large_folder
import lines
import sounds
from client import call
from cluster import Redis
from container import Container
from server import Server, wait_until
from settings import ROOT

MIB = 1 << 20
MODELS = [ROOT / "weights" / name for name in ("mnist", "poem", "digits-spoken")]
PLAN = re.compile(r"memory: (\d+) MiB may be needed of (\d+)")
LINE = lines.of_length(7)
JSON = {"Content-Type": "application/json"}
BODY = 1 << 20  # --max-body
PATIENT = ("--state-store-timeout", "60")

# Answers of a server that is not harmed: done, too large for this container, no room now.
ALLOWED = {200, 400, 429, 503, 504}  # 504: a busy machine does not come to a request within its minute

pytestmark = pytest.mark.heavy  # a build with sanitizers has memory of its own


def start(container, *flags):
    return Server("--models", ":".join(map(str, MODELS)), *flags, container=container)


def check_plan(server):
    """The sum of the parts, and the whole, in MiB."""
    found = PLAN.search(server.log)
    assert found, server.log
    return int(found.group(1)), int(found.group(2))


def check_unharmed(server, container):
    assert server.process.poll() is None and container.kills() == 0, server.log[-4000:]
    assert call(server.port, "GET", "/livez").status == 200
    server.wait_idle()
    server.check_unharmed()


def requests():
    """One of each kind that takes memory of its own: (path, body, headers). A state has the same size after two tokens as at its end."""
    form_headers, form = sounds.form_of(sounds.wav(sounds.babble(20)), model="digits-spoken")
    couplet = {"model": "couplet", "prompt": LINE}
    poem = {"model": "poem", "prompt": "唐《春夜》", "form": "5x8"}
    picture = {"model": "mnist"}
    return [
        ("/v1/completions", {**couplet, "n": 128, "max_tokens": 2, "return_state": True}, {}),
        ("/v1/completions", {**couplet, "n": 16, "return_state": True}, {}),
        ("/v1/completions", {**couplet, "n": 16, "return_state": True, "stream": True}, {}),
        ("/v1/completions", {**couplet, "prompt": [LINE] * 64, "n": 8, "max_tokens": 2, "logprobs": 5}, {}),
        ("/v1/completions", {**poem, "n": 32, "logprobs": 5, "return_state": True}, {}),
        (images.GENERATIONS, {**picture, "n": 100, "max_tokens": 2, "return_state": True}, {}),
        (images.GENERATIONS, {**picture, "n": 200, "max_tokens": 1}, {}),
        ("/v1/score", {**couplet, "completion": LINE}, {}),
        ("/tokenize", {"model": "poem", "content": "山" * 100_000, "with_pieces": True}, {}),
        ("/v1/completions", b'{"model":"couplet","x":[' + b",".join([b"{}"] * 32000) + b"]}", JSON),
        ("/v1/completions", b'{"model":"couplet","prompt":"' + b"a" * (BODY - 64) + b'"}', JSON),
        (sounds.ROUTE, form, form_headers),
    ]


def ask_all(server, n_clients, asked, rounds):
    """Each client asks in an order of its own. The statuses of all answers."""

    def work(number):
        order = random.Random(number)
        replies = []
        for _ in range(rounds):
            for path, body, headers in order.sample(asked, len(asked)):
                replies.append(call(server.port, "POST", path, body, headers, timeout=client.PATIENCE).status)
        return replies

    with ThreadPoolExecutor(n_clients) as pool:
        return [status for replies in pool.map(work, range(n_clients)) for status in replies]


def half_heads(port, n):
    """Connections that have sent most of a large head, as many as the server takes."""
    sockets = []
    for _ in range(n):
        sock = client.connect(port)
        try:
            sock.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\n" + b"X-A: " + b"a" * 15_000)
        except OSError:  # refused
            pass
        sockets.append(sock)
    return sockets


@pytest.mark.parametrize("mib, store", [
    (192, "memory"), (192, "redis"), (1024, "memory"),
    *(pytest.param(*case, marks=pytest.mark.long) for case in ((256, "redis"), (512, "memory"), (512, "redis")))])
def test_mixed_clients(mib, store):
    with Redis() as redis, Container(mib * MIB) as container:
        flags = ("--state-store", redis.url if store == "redis" else "memory")
        with start(container, *flags) as server:
            parts, whole = check_plan(server)
            assert parts <= whole <= mib, server.log
            statuses = ask_all(server, 10, requests(), 2 if mib < 512 else 1)
            assert set(statuses) <= ALLOWED and 200 in statuses, sorted(set(statuses))
            check_unharmed(server, container)


def test_many_states_at_once():
    """Sixteen clients whose answers have 35 MB of states each."""
    with Container(512 * MIB) as container, start(container) as server:
        asked = [("/v1/completions", {"model": "couplet", "prompt": LINE, "n": 128, "max_tokens": 2, "return_state": True}, {})]
        statuses = ask_all(server, 16, asked, 6)
        assert set(statuses) == {200, 429}, set(statuses)
        check_unharmed(server, container)


def test_all_states_of_an_answer_reach_redis():
    """As many as the memory for answers lets a request have: its copies on their way are part of that."""
    with Redis() as redis, Container(192 * MIB) as container, start(container, "--state-store", redis.url, *PATIENT) as server:
        fields = {"model": "couplet", "prompt": LINE, "return_state": True, "seed": 1}
        reply = call(server.port, "POST", "/v1/completions", {**fields, "n": 128})
        needed, most = map(int, re.search(r"need (\d+) bytes.* (\d+) \(", reply.error["message"]).groups())
        n = 128 * most // needed - 1
        assert n > 16
        done = server.metric("linnet_generated_tokens_total")
        redis.pause()  # so that all copies wait at once
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(client.complete_ok, server.port, **fields, n=n)
            wait_until(lambda: server.metric("linnet_generated_tokens_total") - done == n * len(LINE), 60, "all is generated")
            server.wait_idle()
            redis.resume()
        states = answer.result()["states"]
        assert len(states) == n and all(state["id"] for state in states), states
        check_unharmed(server, container)


def test_many_connections():
    """More clients than there is memory for, each with a request whose head does not end."""
    with Container(192 * MIB) as container, start(container, "--read-timeout", "60") as server:
        sockets = half_heads(server.port, 2000)
        assert server.process.poll() is None and container.kills() == 0
        for sock in sockets:
            client.reset(sock)
        check_unharmed(server, container)


def test_what_is_shared_out_fits_this_machine():
    """Where no container can be made: the parts come to no more than the whole, and limits are as they are said."""
    with start(None) as server:
        parts, whole = check_plan(server)
        assert parts <= whole, server.log
        capacity = call(server.port, "GET", "/v1/capacity").json()
        sizes = capacity["answer_bytes"]["limit"] + capacity["body_bytes"]["limit"]
        assert 0 < sizes <= parts * MIB


def test_too_much_is_said_in_one_line():
    with start(None, "--answer-memory", 1 << 20) as server:
        parts, whole = check_plan(server)
        assert parts > whole
        warnings = [line for line in server.log.splitlines() if " warn memory: " in line]
        assert len(warnings) == 1 and "answers 1048576" in warnings[0], server.log
        assert server.metric("linnet_answer_bytes_limit") == 1 << 40


def test_a_reload_is_in_the_plan(tmp_path):
    """Models that come with a reload take memory from answers; one that cannot fit is refused, and nothing changes."""
    def answers(server):
        return call(server.port, "GET", "/v1/capacity").json()["answer_bytes"]["limit"]

    def link(path):
        (tmp_path / path.name).symlink_to(path)

    def reload(server):
        return call(server.port, "POST", "/v1/models/reload", {})

    link(ROOT / "weights" / "mnist")
    with Container(256 * MIB) as container, Server("--models", tmp_path, container=container) as server:
        before = answers(server)
        link(ROOT / "weights" / "poem")
        link(ROOT / "weights" / "digits-spoken")
        reply = reload(server)
        assert reply.status == 200 and len(reply.json()["models"]) == 4, reply.text
        assert len(PLAN.findall(server.log)) == 2
        parts, whole = map(int, PLAN.findall(server.log)[-1])
        assert parts <= whole, server.log
        assert answers(server) < before - 10 * MIB
        after = answers(server)
        config, tensors = large_folder.of_megabytes(96)
        large_folder.write(tmp_path / "large", config, tensors)
        reply = reload(server)
        assert reply.status == 422 and reply.error["param"] == "models", reply.text
        assert re.search(r"\d+ MiB", reply.error["message"]) and "the served models stay" in server.log
        assert answers(server) == after
        assert len(call(server.port, "GET", "/v1/models").json()["data"]) == 4
        statuses = ask_all(server, 10, requests(), 1)
        assert set(statuses) <= ALLOWED and 200 in statuses, sorted(set(statuses))
        check_unharmed(server, container)
