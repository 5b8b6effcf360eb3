"""Times tell nothing about other keys: a request for another key's object takes as long as one for an object that is not
there. In each pair of requests, in random order, it is a toss-up which is slower, on a busy machine too."""

import random
import time
import uuid

import pytest

import text_model
from client import call, connect, encode_request, parse_replies
from server import Server
from states import without_sqlite
from test_chat_templates import with_template
from test_keys import bearer

PAIRS = 400
FLAT = 0.15  # of all pairs, 6 standard deviations of tosses
MODEL = {"model": "rwkv", "input": "hello", "max_output_tokens": 1}


@pytest.fixture(scope="module", params=["memory", "file"])
def server(request, tmp_path_factory):
    if request.param == "file":
        without_sqlite()
    folder = tmp_path_factory.mktemp("timing")
    with_template(text_model.write_bytes(folder / "models" / "rwkv"), "rwkv")
    (folder / "keys").write_text("alice ka\nbob kb\n")
    store = "memory" if request.param == "memory" else folder / "states.db"
    flags = "--models", folder / "models", "--api-key-file", folder / "keys", "--public", "/readyz"
    with Server(*flags, "--state-store", store) as started:
        yield started


@pytest.fixture(scope="module")
def ids(server):
    """Alice's objects. The conversation has 2 MB, so that to read it takes longer than to find none."""
    def post(path, body):
        return call(server.port, "POST", path, body, bearer("ka")).json()["id"]

    response = post("/v1/responses", MODEL)
    items = {"items": [{"role": "user", "content": "x" * 25_000}] * 20}
    talk = post("/v1/conversations", items)
    for _ in range(3):
        assert call(server.port, "POST", f"/v1/conversations/{talk}/items", items, bearer("ka")).status == 200
    return {"resp_": response, "conv_": talk}


def seconds(sock, data):
    """Of one request on an open connection, and its status."""
    start, received = time.perf_counter(), b""
    sock.sendall(data)
    while not (replies := parse_replies(received)[0]):
        received += sock.recv(65536)
    return time.perf_counter() - start, replies[0].status


def slower(server, key, known, method, path, body=None, pairs=PAIRS, attempts=1):
    """The share of pairs in which the request for the known id is slower than that for a random id, and the statuses. Of some
    attempts the fastest counts."""
    def encode(name):
        named = {field: name if value == "{}" else value for field, value in body.items()} if body else None
        return encode_request(method, path.format(name), named, bearer(key), server.port)

    count, statuses, prefix = 0, set(), known[:5]
    with connect(server.port) as sock:
        for _ in range(pairs):
            pair = [known, prefix + uuid.uuid4().hex]
            times = [float("inf"), float("inf")]
            for i in random.sample((0, 1) * attempts, 2 * attempts):
                took, status = seconds(sock, encode(pair[i]))
                times[i] = min(times[i], took)
                statuses.add((i, status))
            count += times[0] > times[1]
    return count / pairs, statuses


@pytest.mark.parametrize("prefix, method, path, body", [
    ("resp_", "GET", "/v1/responses/{}", None), ("resp_", "GET", "/v1/responses/{}/input_items", None),
    ("resp_", "POST", "/v1/responses", MODEL | {"previous_response_id": "{}"}), ("resp_", "GET", "/v1/states/{}", None),
    ("conv_", "GET", "/v1/conversations/{}", None), ("conv_", "GET", "/v1/conversations/{}/items", None),
    ("conv_", "POST", "/v1/responses", MODEL | {"conversation": "{}"}), ("conv_", "DELETE", "/v1/conversations/{}", None),
])
def test_another_keys_objects_take_as_long_as_none(server, ids, prefix, method, path, body):
    share, statuses = slower(server, "kb", ids[prefix], method, path, body)
    assert statuses == {(0, 404), (1, 404)}
    assert abs(share - 0.5) < FLAT


def test_the_measure_sees_a_difference(server, ids):
    """Of one's own object. On a busy machine most requests wait longer than the difference; of eight one does not."""
    share, statuses = slower(server, "ka", ids["conv_"], "GET", "/v1/conversations/{}", pairs=PAIRS // 4, attempts=8)
    assert statuses == {(0, 200), (1, 404)}
    assert share > 0.5 + 2 * FLAT  # as many standard deviations for a quarter of the pairs
