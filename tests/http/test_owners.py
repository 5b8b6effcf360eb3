"""Owners of states: a key sees, counts and fills its own only, in memory, in a file and in Redis. Acts on the whole server need a
key with that right."""

import base64
import contextlib

import pytest

import client
from cluster import Redis
from server import Server, run, wait_until
from states import without_sqlite
from test_states import MODEL, LINE, OCTETS
from test_keys import bearer

KEYS = "alice ka\nbob kb max-states=2\ncarol kc max-state-bytes=300000\nroot kr admin\n"


def write_keys(folder, text=KEYS):
    path = folder / "keys"
    path.write_text(text)
    return path


@pytest.fixture(scope="module", params=["memory", "file", "redis"])
def store(request, tmp_path_factory):
    """A function that makes a server's flags of the store; all servers of the module with Redis share one."""
    if request.param == "memory":
        yield lambda: []
    elif request.param == "file":
        without_sqlite()
        yield lambda: ["--state-store", tmp_path_factory.mktemp("store") / "states.db"]
    else:
        with Redis() as redis:
            yield lambda: ["--state-store", redis.url]


@pytest.fixture(scope="module")
def server(store, tmp_path_factory):
    keys = write_keys(tmp_path_factory.mktemp("keys"))
    with Server("--api-key-file", keys, "--public", "/health,/readyz,/metrics", *store()) as running:
        yield running


def ask(server, key, method, path, body=None, **headers):
    return client.call(server.port, method, path, body, {**(bearer(key) if key else {}), **headers})


def begun(server, key, **fields):
    body = {"model": MODEL, "prompt": LINE, "seed": 7, "max_tokens": 2, "return_state": True, **fields}
    return ask(server, key, "POST", "/v1/completions", body)


def state_of(reply):
    assert reply.status == 200, reply.text
    return reply.json()["states"][0]["id"]


def blob_of(server, key, state):
    reply = ask(server, key, "GET", f"/v1/states/{state}", Accept=OCTETS)
    assert reply.status == 200, reply.text
    return reply.body


def put(server, key, state, blob):
    return ask(server, key, "PUT", f"/v1/states/{state}", blob, **{"Content-Type": OCTETS})


def clear(server, key, *states):
    for state in states:
        assert ask(server, key, "DELETE", f"/v1/states/{state}").status == 204


def test_another_key_finds_nothing(server):
    state = state_of(begun(server, "ka"))
    for key in ("kb", "kc", "kr"):
        for method, path, body in [
            ("GET", "", None), ("DELETE", "", None), ("GET", "/inspect", None), ("GET", "/look", None), ("POST", "/fork", {"n": 2})
        ]:
            reply = ask(server, key, method, f"/v1/states/{state}{path}", body)
            assert (reply.status, reply.error["code"]) == (404, "not_found"), (key, method, path)
        for body in ({"state": state}, {"state": state, "stream": True}):
            assert ask(server, key, "POST", "/v1/completions", body).status == 404
    assert ask(server, "ka", "POST", "/v1/completions", {"state": state}).status == 200
    forks = ask(server, "ka", "POST", f"/v1/states/{state}/fork", {"n": 2}).json()["data"]
    for fork in forks:
        assert ask(server, "kr", "GET", f"/v1/states/{fork['id']}").status == 404
        assert ask(server, "ka", "GET", f"/v1/states/{fork['id']}").status == 200
    made = ask(server, "ka", "POST", "/v1/states", {"model": MODEL, "prompt": LINE}).json()["id"]
    assert ask(server, "kb", "GET", f"/v1/states/{made}").status == 404
    clear(server, "ka", state, made, *(fork["id"] for fork in forks))


def test_a_list_has_the_keys_own(server):
    mine, other = state_of(begun(server, "ka")), state_of(begun(server, "kb"))
    reply = ask(server, "ka", "GET", "/v1/states")
    if reply.status == 501:  # Redis knows no owners
        assert "cannot be listed" in reply.error["message"]
    else:
        assert [kept["id"] for kept in reply.json()["data"]] == [mine]
        assert [kept["id"] for kept in ask(server, "kb", "GET", "/v1/states").json()["data"]] == [other]
    clear(server, "ka", mine)
    clear(server, "kb", other)


def test_the_same_name_is_another_state(server):
    state = state_of(begun(server, "ka"))
    blob = blob_of(server, "ka", state)
    other = state_of(begun(server, "kb", seed=8))
    assert put(server, "ka", "conv-1", blob).status == 201
    assert put(server, "kb", "conv-1", blob_of(server, "kb", other)).status == 201
    assert blob_of(server, "ka", "conv-1") == blob != blob_of(server, "kb", "conv-1")
    clear(server, "kb", "conv-1", other)
    assert blob_of(server, "ka", "conv-1") == blob
    clear(server, "ka", "conv-1", state)


@pytest.mark.parametrize("n", [2, 4])
def test_a_fork_that_does_not_fit_keeps_no_copy(server, n):
    """The client learns no id of it."""
    state = state_of(begun(server, "kb"))
    for _ in range(3):
        refused = ask(server, "kb", "POST", f"/v1/states/{state}/fork", {"n": n})
        assert refused.status == 429 and "2 states" in refused.error["message"], refused.text
    if ask(server, "kb", "GET", "/v1/states").status != 501:
        assert [kept["id"] for kept in ask(server, "kb", "GET", "/v1/states").json()["data"]] == [state]
    (copy,) = ask(server, "kb", "POST", f"/v1/states/{state}/fork", {"n": 1}).json()["data"]
    clear(server, "kb", state, copy["id"])


def test_limits_of_a_key(server):
    kept = [state_of(begun(server, "kb")) for _ in range(2)]
    full = begun(server, "kb").json()["states"][0]
    assert full["id"] is None and "2 states" in full["error"]["message"], full
    assert ask(server, "kb", "POST", f"/v1/states/{kept[0]}/fork", {"n": 1}).status == 429
    blob = blob_of(server, "kb", kept[0])
    assert put(server, "kb", "more", blob).status == 429
    assert put(server, "kb", kept[1], blob).status == 201, "in place of one"
    mine = state_of(begun(server, "ka"))
    clear(server, "kb", kept[0])
    kept[0] = state_of(begun(server, "kb"))
    one = state_of(begun(server, "kc"))  # 270,560 bytes
    full = begun(server, "kc").json()["states"][0]
    assert full["id"] is None and "300000" in full["error"]["message"], full
    clear(server, "kb", *kept)
    clear(server, "kc", one)
    clear(server, "ka", mine)


def test_no_key_fills_the_memory_of_others(tmp_path):
    keys = write_keys(tmp_path, "alice ka\nbob kb\n")
    with Server("--api-key-file", keys, "--max-states", "3", "--public", "/readyz") as server:
        assert [begun(server, "kb").json()["states"][0]["id"] is None for _ in range(4)] == [
            False, False, True, True]
        reply = begun(server, "kb").json()["states"][0]["error"]["message"]
        assert "this key keeps 2 states" in reply
        assert state_of(begun(server, "ka"))
        refused = begun(server, "ka").json()["states"][0]["error"]["message"]
        assert "limits of all: 3 states" in refused


def test_flags_limit_every_key(store, tmp_path):
    keys = write_keys(tmp_path, "dave kd\nerin ke max-states=2\n")
    flags = ["--api-key-file", keys, "--key-states", "1", "--public", "/readyz", *store()]
    with Server(*flags) as server:
        def kept(key):
            return begun(server, key).json()["states"][0]["id"] is not None

        assert [kept("kd"), kept("kd")] == [True, False]
        assert [kept("ke"), kept("ke"), kept("ke")] == [True, True, False]


@pytest.mark.parametrize("keys", ["{}\n", "frank {} max-states=3\n"], ids=["unnamed", "named"])
def test_replicas_agree(tmp_path, keys):
    """By the name, with another secret and another place in the file too; by the key without one."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(keys.format("k1") + "bob kb\n")
    second.write_text("bob kb\n" + keys.format("k2" if "frank" in keys else "k1"))
    new = "k2" if "frank" in keys else "k1"
    with Redis() as redis, contextlib.ExitStack() as stack:
        flags = "--state-store", redis.url, "--public", "/readyz"
        a = stack.enter_context(Server("--api-key-file", first, *flags))
        b = stack.enter_context(Server("--api-key-file", second, *flags))
        state = state_of(begun(a, "k1"))
        assert ask(b, new, "GET", f"/v1/states/{state}").status == 200
        assert ask(b, "kb", "GET", f"/v1/states/{state}").status == 404
        assert ask(b, new, "POST", "/v1/completions", {"state": state}).status == 200
        clear(b, new, state)
        assert ask(a, "k1", "GET", f"/v1/states/{state}").status == 404


def test_a_use_puts_off_the_end_that_is_counted(tmp_path):
    keys = write_keys(tmp_path)
    with Redis() as redis, Server("--api-key-file", keys, "--public", "/readyz", "--state-store",
                                  redis.url) as server:
        state = state_of(begun(server, "kb"))

        def end():
            return float(redis.command("ZSCORE", "linnet:ends:bob", state))

        first = end()

        def later():
            assert ask(server, "kb", "GET", f"/v1/states/{state}").status == 200
            return end() > first

        wait_until(later, 60, "a later end")
        assert redis.command("HGET", "linnet:sizes:bob", state) == redis.command(
            "HGET", "linnet:sizes:bob", "") != b""
        assert 3_500_000 < int(redis.command("PTTL", "linnet:ends:bob")) <= 3_600_000
        redis.command("DEL", f"linnet:state:bob:{state}")  # as an eviction does
        assert ask(server, "kb", "GET", f"/v1/states/{state}").status == 404
        assert redis.command("ZCARD", "linnet:ends:bob") == b"0"
        assert redis.command("HGET", "linnet:sizes:bob", "") == b"0"


def test_states_without_an_owner(tmp_path):
    """Those of a server without keys, and of versions that knew no owners, are the key `default`'s."""
    keys = write_keys(tmp_path, "alice ka admin\n")
    with Redis() as redis, contextlib.ExitStack() as stack:
        flags = "--state-store", redis.url, "--public", "/readyz"
        open_to_all = stack.enter_context(Server("--state-store", redis.url))
        state = state_of(begun(open_to_all, None))
        assert redis.command("EXISTS", f"linnet:state:{state}") == b"1"
        locked = stack.enter_context(Server("--api-key", "kd", "--api-key-file", keys, *flags))
        assert ask(locked, "kd", "GET", f"/v1/states/{state}").status == 200
        assert ask(locked, "ka", "GET", f"/v1/states/{state}").status == 404


def test_a_public_path_has_states_of_its_own(tmp_path):
    keys = write_keys(tmp_path)
    with Server("--api-key-file", keys, "--public", "/readyz,/metrics,/v1/*") as server:
        mine, anyones = state_of(begun(server, "ka")), state_of(begun(server, None))
        assert ask(server, None, "GET", f"/v1/states/{mine}").status == 404
        assert ask(server, "wrong", "GET", f"/v1/states/{mine}").status == 404
        assert ask(server, "ka", "GET", f"/v1/states/{anyones}").status == 404
        assert ask(server, None, "GET", f"/v1/states/{anyones}").status == 200
        assert ask(server, None, "POST", "/v1/models/reload").status == 403
        assert ask(server, "ka", "GET", f"/v1/states/{mine}").status == 200


def test_bytes_are_whose_holds_them(server):
    """A state as bytes needs no store: a client that has them continues it."""
    state = state_of(begun(server, "ka"))
    text = base64.b64encode(blob_of(server, "ka", state)).decode()
    assert ask(server, "kr", "POST", "/v1/completions", {"state": text}).status == 200
    clear(server, "ka", state)


# --- rights --------------------------------------------------------------------------------------


def test_reload_wants_the_right(server):
    for key in ("ka", "kb", "kc"):
        reply = ask(server, key, "POST", "/v1/models/reload")
        assert reply.status == 403 and reply.error["type"] == "permission_error", reply.text
        assert reply.error["code"] == "admin_key_needed" and "admin" in reply.error["message"]
    assert ask(server, None, "POST", "/v1/models/reload").status == 401
    assert ask(server, "kr", "POST", "/v1/models/reload").status == 200


def test_without_a_key_that_has_it(tmp_path):
    keys = write_keys(tmp_path, "alice ka\n")
    with Server("--api-key-file", keys, "--public", "/readyz") as server:
        assert ask(server, "ka", "POST", "/v1/models/reload").status == 403
        assert "no API key has the right admin" in server.log
    with Server("--api-key", "ka", "--api-key-file", write_keys(tmp_path, "bob kb\n"),
                "--public", "/readyz") as server:
        assert ask(server, "kb", "POST", "/v1/models/reload").status == 403
        assert ask(server, "ka", "POST", "/v1/models/reload").status == 200
        assert "no API key has the right admin" not in server.log
    with Server() as server:
        assert ask(server, None, "POST", "/v1/models/reload").status == 200


@pytest.mark.parametrize("option", ["amdin", "max-states", "max-states=0", "max-states=many",
                                    "max-state-bytes=-1", "admin=1", "sk-another-secret"])
def test_bad_options(tmp_path, option):
    result = run("serve", "--port", "0", "--api-key-file", write_keys(tmp_path, f"a k {option}\n"))
    assert result.returncode == 2 and str(tmp_path) in result.stderr.splitlines()[-1]
    assert "secret" not in result.stderr
