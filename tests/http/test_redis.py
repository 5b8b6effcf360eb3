"""States in a real Redis: they outlive their server, any other continues them byte for byte, and an
outage of Redis is an outage of the routes for states only."""

import signal
import time
from pathlib import Path

import pytest

import client
import server as server_module
from client import call, complete, complete_ok, stream_ok
from cluster import Redis
from conversations import UPPER, Conversation, next_turn, state_of, text_of, whole
from images import (
    COLOUR,
    COLOUR_HEIGHT,
    COLOUR_WIDTH,
    SPECKS,
    SPECKS_SIDE,
    files,
    generate_ok,
    picture_from,
    states_of_every_value,
)
from server import Server, run, wait_until
from settings import MODEL_DIR
from test_reload import Folder

pytestmark = pytest.mark.asan

TIMEOUT = 2.0


def server_with(redis, *flags):
    return Server("--slots", "4", "--state-store", redis.url, "--state-store-timeout", str(TIMEOUT),
                  *flags)


@pytest.fixture(scope="module")
def shared_redis():
    with Redis() as redis:
        yield redis


@pytest.fixture(scope="module")
def pair(shared_redis):
    with server_with(shared_redis) as a, server_with(shared_redis) as b:
        yield a, b


def states_of_every_boundary(port, prompt, seed):
    """(text so far, state) after 1, 2, ... tokens, each from the one before."""
    talk = Conversation(prompt, seed, 1)
    found = []
    while not talk.done:
        talk.turn(port)
        found.append((talk.text, talk.state))
    return found


def check_rest(port, states, expected):
    for text, state in states:
        assert expected.startswith(text)
        if text != expected:
            assert text + text_of(complete_ok(port, state=state)) == expected


# --- the other server, the next server ---------------------------------------------------------------


def test_second_server_continues_at_every_token(pair):
    a, b = pair
    expected = whole(a.port, UPPER, 5)
    states = states_of_every_boundary(a.port, UPPER, 5)
    check_rest(b.port, states, expected)


def test_turns_alternate(pair):
    a, b = pair
    talk = Conversation(UPPER, 6, 1)
    while not talk.done:
        talk.turn((a, b)[len(talk.text) % 2].port)
    assert talk.text == whole(b.port, UPPER, 6)


def test_fork_on_one_continue_on_the_other(pair):
    a, b = pair
    talk = Conversation(UPPER, 7, 10)
    talk.turn(a.port)
    fork = call(b.port, "POST", f"/v1/states/{talk.state}/fork", {"n": 3})
    assert fork.status in (200, 201), fork.text
    ids = [state["id"] for state in fork.json()["data"]]
    assert len(set(ids)) == 3 and talk.state not in ids
    rests = []
    for i in ids:  # each is a sample of its own, equal on either server
        one, other = (text_of(complete_ok(server.port, state=i)) for server in pair)
        assert one == other
        rests.append(one)
    assert len(set(rests)) == 3
    whole_text = whole(a.port, UPPER, 7)  # and the forked state is unchanged
    assert talk.text + text_of(complete_ok(b.port, state=talk.state)) == whole_text


def test_deleted_on_one_is_gone_on_the_other(pair):
    a, b = pair
    talk = Conversation(UPPER, 8, 4)
    talk.turn(a.port)
    path = f"/v1/states/{talk.state}"
    assert call(b.port, "GET", path).json()["tokens"] == 4
    assert call(b.port, "DELETE", path).status in (200, 204)
    assert call(a.port, "GET", path).status == 404
    assert complete(a.port, state=talk.state).status == 404


@pytest.mark.parametrize("how", [pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL])
def test_states_outlive_the_server(shared_redis, how):
    with server_with(shared_redis) as first:
        expected = whole(first.port, UPPER, 9)
        states = states_of_every_boundary(first.port, UPPER, 9)
        # and one that is running at the end: no client has its id, and no trace is left
        with client.connect(first.port) as sock:
            body = {"model": client.MODEL, "prompt": UPPER, "n": 64, "stream": True}
            sock.sendall(client.encode_request("POST", "/v1/completions", body, port=first.port))
            assert sock.recv(100)
            first.signal(how)
        assert first.wait() == (-how if how == signal.SIGKILL else 0)
        first.process.returncode = 0
    with server_with(shared_redis) as second:
        check_rest(second.port, states, expected)


@pytest.mark.parametrize("how, model, size", [
    (signal.SIGKILL, SPECKS, SPECKS_SIDE**2),
    (signal.SIGKILL, COLOUR, 3 * COLOUR_WIDTH * COLOUR_HEIGHT),
    (signal.SIGTERM, SPECKS, SPECKS_SIDE**2),
])
def test_images_go_on_at_every_value(shared_redis, image_models, how, model, size):
    """In a second server next to the first, and in a server that starts when the first has ended."""
    store = "--slots", "4", "--state-store", shared_redis.url

    def check(server):
        assert {picture_from(server.port, state, model=model) for state in states} == {expected}

    with Folder(image_models, *store) as first:
        states = states_of_every_value(first.port, size, model=model, seed=9)
        with Folder(image_models, *store) as second:
            (expected,) = files(generate_ok(second.port, model=model, seed=9))
            check(second)
        first.signal(how)
        assert first.wait() == (-how if how == signal.SIGKILL else 0)
        first.process.returncode = 0
    with Folder(image_models, *store) as after:
        check(after)


def test_time_to_live_is_redis_own(shared_redis):
    with server_with(shared_redis, "--state-ttl", "600") as server:
        talk = Conversation(UPPER, 1, 4)
        talk.turn(server.port)
        key = f"linnet:state:{talk.state}"
        assert 500_000 < int(shared_redis.command("PTTL", key)) <= 600_000
        shared_redis.command("PEXPIRE", key, 100_000)
        assert text_of(complete_ok(server.port, state=talk.state))
        assert int(shared_redis.command("PTTL", key)) > 500_000  # used, so its time begins anew
        shared_redis.command("DEL", key)
        assert call(server.port, "GET", f"/v1/states/{talk.state}").status == 404


def test_damaged_value_is_refused(pair, shared_redis):
    """A state that another program put there is trusted no more than an upload."""
    a, _ = pair
    talk = Conversation(UPPER, 2, 4)
    talk.turn(a.port)
    key = f"linnet:state:{talk.state}"
    blob = shared_redis.command("GET", key)
    for bad in (b"", blob[:-1], blob[:100], bytes(len(blob)), blob[:500] + b"?" + blob[501:]):
        shared_redis.command("SET", key, bad)
        reply = complete(a.port, state=talk.state)
        assert reply.status == 400 and reply.error["param"] == "state", reply.text
    shared_redis.command("DEL", key)
    shared_redis.command("LPUSH", key, "x")
    assert complete(a.port, state=talk.state).status == 503
    shared_redis.command("DEL", key)
    assert complete(a.port, state=talk.state).status == 404


def test_password_and_database():
    with Redis("--requirepass", "s@cret", login=":s%40cret@") as redis:
        url = redis.url[:-1] + "3"
        with Server("--state-store", url) as server:
            talk = Conversation(UPPER, 3, 4)
            talk.turn(server.port)
            assert "cret" not in server.log
            assert "cret" not in call(server.port, "GET", "/metrics").text
        with Server("--state-store", f"redis://:wrong@{client.HOST}:{redis.port}") as server:
            reply = complete(server.port, state=talk.state)
            assert reply.status == 503, reply.text
            assert "wrong" not in server.log.replace("WRONGPASS", "")
            server.check_unharmed()


def shown_to_others(server):
    """The process in ps and /proc."""
    return b"".join(Path(f"/proc/{server.pid}/{name}").read_bytes() for name in ("cmdline", "environ"))


def test_the_password_stays_out_of_the_process_table(monkeypatch):
    with Redis("--requirepass", "s@cret", login=":s%40cret@") as redis:
        flags = "--state-store", redis.url, "--state-key", "a-key-of-states"
        with Server(*flags) as server:
            Conversation(UPPER, 3, 4).turn(server.port)
            shown = shown_to_others(server)
            assert b"cret" not in shown and b"a-key-of-states" not in shown
            assert f":********@{client.HOST}".encode() in shown
        own = server_module.environment()
        own.update(LINNET_STATE_STORE=redis.url, LINNET_STATE_KEY="a-key-of-states")
        monkeypatch.setattr(server_module, "environment", lambda: own)
        with Server() as server:
            Conversation(UPPER, 3, 4).turn(server.port)
            shown = shown_to_others(server)
            assert b"cret" not in shown and b"a-key-of-states" not in shown


@pytest.mark.parametrize("text", ["s@cret", "s@cret\n", "s@cret\r\n"])
def test_a_password_from_a_file(tmp_path, text):
    path = tmp_path / "password"
    path.write_bytes(text.encode())
    with Redis("--requirepass", "s@cret", login=":s%40cret@") as redis:
        plain = f"redis://{client.HOST}:{redis.port}"
        with Server("--state-store", plain, "--state-store-password-file", path) as server:
            Conversation(UPPER, 3, 4).turn(server.port)
            assert "cret" not in server.log


@pytest.mark.parametrize("url, text", [("redis://:x@h", "y"), ("redis://h", ""), ("memory", "y"),
                                       ("redis://h", None)])
def test_bad_password_files(tmp_path, url, text):
    path = tmp_path / "password"
    if text is not None:
        path.write_text(text)
    result = run("serve", "--port", "0", "--state-store", url, "--state-store-password-file", path)
    assert result.returncode == 2
    assert "--state-store-password-file" in result.stderr.splitlines()[-1]


# --- Redis is down, or slow ---------------------------------------------------------------------------


def check_outage(server, state):
    """State routes answer 503 with the reason, all others work as before."""
    for method, path, body in [
        ("GET", f"/v1/states/{state}", None),
        ("DELETE", f"/v1/states/{state}", None),
        ("POST", f"/v1/states/{state}/fork", {"n": 1}),
        ("POST", "/v1/states", {"model": client.MODEL, "prompt": UPPER}),
        ("POST", "/v1/completions", {"model": client.MODEL, **next_turn(state, 2)}),
    ]:
        reply = call(server.port, method, path, body)
        assert reply.status == 503, (method, path, reply.text)
        assert "state store" in reply.error["message"]
        assert int(reply.headers["retry-after"]) >= 1
    assert server.metric("linnet_state_store_up") == 0
    assert call(server.port, "GET", "/readyz").status == 200
    assert len(text_of(complete_ok(server.port, prompt=UPPER))) == 32
    server.check_unharmed()


@pytest.mark.parametrize("stream", [False, True])
def test_a_state_that_is_not_kept_is_warned_about(stream):
    """The answer is made already, so it is given; that its state is missing stands where clients look for warnings."""
    with Redis() as redis, server_with(redis) as server:
        redis.kill()
        wait_until(lambda: server.metric("linnet_state_store_up") == 0, 60, "outage noticed")
        fields = {"model": client.MODEL, "prompt": UPPER, "return_state": True, "n": 2}
        if stream:
            answer = stream_ok(server.port, **fields)[-1]
        else:
            answer = complete_ok(server.port, **fields)
        assert [state["id"] for state in answer["states"]] == [None, None]
        assert "state store" in answer["states"][0]["error"]["message"]
        assert [w["param"] for w in answer["warnings"]] == ["return_state"] and "kept: 2" in answer["warnings"][0]["message"]


def test_redis_dies_and_comes_back():
    with Redis() as redis, server_with(redis) as server:
        talk = Conversation(UPPER, 4, 8)
        talk.turn(server.port)
        redis.kill()
        wait_until(lambda: server.metric("linnet_state_store_up") == 0, 60, "outage noticed")
        check_outage(server, talk.state)
        redis.start_again()  # empty: it kept nothing on disk
        wait_until(lambda: server.metric("linnet_state_store_up") == 1, 60, "store is back")
        assert complete(server.port, state=talk.state).status == 404
        again = Conversation(UPPER, 4, 8)
        while not again.done:
            again.turn(server.port)
        assert again.text == whole(server.port, UPPER, 4)


def test_redis_hangs_and_goes_on():
    with Redis() as redis, server_with(redis) as server:
        talk = Conversation(UPPER, 4, 8)
        talk.turn(server.port)
        redis.pause()
        start = time.monotonic()
        reply = complete(server.port, state=talk.state)
        assert reply.status == 503 and time.monotonic() - start < TIMEOUT + 20
        check_outage(server, talk.state)
        redis.resume()
        wait_until(lambda: server.metric("linnet_state_store_up") == 1, 60, "store is back")
        while not talk.done:
            talk.turn(server.port)
        assert talk.text == whole(server.port, UPPER, 4)


def test_starts_without_its_redis():
    with Redis() as redis:
        redis.kill()
        with server_with(redis) as server:
            check_outage(server, "state-1")
            redis.start_again()
            wait_until(lambda: server.metric("linnet_state_store_up") == 1, 60, "store found")
            Conversation(UPPER, 4, 8).turn(server.port)


def test_full_redis_refuses_new_states_and_keeps_old_ones():
    with Redis("--maxmemory", "3mb", "--maxmemory-policy", "noeviction") as redis:
        with server_with(redis) as server:
            acknowledged, refused = [], None
            for seed in range(40):
                reply = complete(server.port, prompt=UPPER, seed=seed, max_tokens=4,
                                 return_state=True)
                if reply.status != 200 or not reply.json()["states"][0]["id"]:
                    refused = reply
                    break
                acknowledged.append((seed, reply.json()))
            assert refused is not None and acknowledged
            for seed, answer in acknowledged:
                rest = text_of(complete_ok(server.port, state=state_of(answer)))
                assert text_of(answer) + rest == whole(server.port, UPPER, seed)


@pytest.mark.parametrize("url, word", [
    ("redis", "redis://"),
    ("http://127.0.0.1", "redis://"),
    ("redis://", "host"),
    ("redis://h:0", "port"),
    ("redis://h:x", "port"),
    ("redis://h/x", "database"),
    ("redis://tellnobody@h", "password"),
    ("rediss://h", "rediss"),
])
def test_malformed_url_is_told(url, word):
    result = run("serve", "--port", "0", "--model", MODEL_DIR, "--state-store", url, timeout=60)
    assert result.returncode in (1, 2), result
    last = result.stderr.strip().splitlines()[-1]
    assert "--state-store" in last and word in last, last
    assert "tellnobody" not in last
