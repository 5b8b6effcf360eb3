"""New weights while requests run: by POST /v1/models/reload and by SIGHUP."""

import json
import os
import shutil
import signal
import threading

import pytest

import client
import lines
from server import Server, wait_until
from settings import MODEL, MODEL_DIR, SANITIZED
from test_lifecycle import open_stream, read_to_end

pytestmark = [pytest.mark.quick, pytest.mark.asan]

LONG = lines.of_length(32)
SAMPLES = 32 if SANITIZED else 128  # of the long request


def weights_file(folder):
    (path,) = folder.glob("*.safetensors")
    return path


def other_weights(data):
    """The same file with the signs of its first tensor's values turned."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    tensor = min(header.values(), key=lambda t: t["data_offsets"][0])
    width = {"F32": 4, "BF16": 2, "F16": 2}[tensor["dtype"]]
    begin, end = (8 + size + offset for offset in tensor["data_offsets"])
    changed = bytearray(data)
    for i in range(begin + width - 1, end, width):
        changed[i] ^= 0x80
    return bytes(changed)


def replace(path, data):
    """As operators do it: written under a new name, then renamed."""
    beside = path.with_suffix(".new")
    beside.write_bytes(data)
    os.replace(beside, path)


@pytest.fixture
def models(tmp_path):
    folder = tmp_path / "models"
    shutil.copytree(MODEL_DIR, folder / MODEL)
    return folder


class Folder(Server):
    """Serves a folder of models, not one."""

    def __init__(self, models, *flags):
        super().__init__(*flags)
        self.args = [self.args[0], "serve", "--port", "0", "--models", models, *flags]


@pytest.fixture
def server(models):
    with Folder(models, "--slots", "4") as running:
        yield running


def reload(server):
    return client.call(server.port, "POST", "/v1/models/reload")


def answer(server, **fields):
    return client.complete_ok(server.port, prompt="海上明月", seed=1, **fields)


def facts(answer):
    return answer["system_fingerprint"], answer["choices"][0]["text"]


def test_nothing_new(server):
    before = answer(server)
    reply = reload(server)
    assert reply.status == 200, reply.text
    assert reply.json() == {
        "object": "reload", "status": "done",
        "models": [{"id": MODEL, "system_fingerprint": before["system_fingerprint"],
                    "changed": False}],
    }
    assert facts(answer(server)) == facts(before)


def test_new_weights_serve_new_requests_and_old_ones_end_on_the_old(server, models):
    old = answer(server)
    expected = client.complete_ok(server.port, prompt=LONG, n=SAMPLES, seed=2)
    texts = {c["index"]: c["text"] for c in expected["choices"]}
    counted = server.metric("linnet_generated_tokens_total")
    sock, received = open_stream(server.port, prompt=LONG, n=SAMPLES, seed=2)
    path = weights_file(models / MODEL)
    replace(path, other_weights(path.read_bytes()))
    reply = reload(server)
    assert reply.status == 200 and reply.json()["models"][0]["changed"], reply.text
    new = answer(server)
    assert new["system_fingerprint"] == reply.json()["models"][0]["system_fingerprint"]
    assert new["system_fingerprint"] != old["system_fingerprint"]
    events = client.parse_events(read_to_end(sock, received).body)
    sock.close()
    streamed, _ = client.join_stream(events)
    assert {event["system_fingerprint"] for event in events} == {old["system_fingerprint"]}
    assert sorted(streamed.values()) == sorted(texts.values())
    wait_until(lambda: "has ended" in server.log, 60, "the old model freed")
    assert server.metric("linnet_generated_tokens_total") == counted + SAMPLES * 32 + 4
    assert server.requests("ok") == 4


def bad_files(data):
    size = int.from_bytes(data[:8], "little")
    nan = bytearray(data)
    nan[-4:] = b"\xff\xff\xff\xff"
    return {
        "truncated": data[:-100],
        "empty": b"",
        "no header": b"\xff" * 64,
        "header only": data[: 8 + size],
        "not finite": bytes(nan),
    }


@pytest.mark.parametrize("in_place", [False, True], ids=["renamed", "in place"])
def test_a_bad_file_changes_nothing(server, models, in_place):
    before = facts(answer(server))
    path = weights_file(models / MODEL)
    good = path.read_bytes()
    for kind, bad in bad_files(good).items():
        if in_place:
            path.write_bytes(bad)
        else:
            replace(path, bad)
        reply = reload(server)
        assert reply.status == 422 and reply.error["code"] == "invalid_model", (kind, reply.text)
        assert f"{MODEL}/{path.name}: " in reply.error["message"], "the model and the file"
        assert str(models) in server.log, "the path is the log's"
        assert reply.error["message"].startswith(f"{MODEL}/"), "not even the end of a long path"
        assert client.call(server.port, "GET", "/readyz").status == 200
        assert facts(answer(server)) == before, kind
    assert server.log.count("the served models stay") == len(bad_files(good))
    replace(path, good)
    assert reload(server).status == 200
    assert facts(answer(server)) == before


def test_by_signal(server, models):
    old = answer(server)["system_fingerprint"]
    path = weights_file(models / MODEL)
    good = path.read_bytes()
    replace(path, b"nothing")
    server.signal(signal.SIGHUP)
    wait_until(lambda: "the served models stay" in server.log, 60, "a reload that failed")
    assert answer(server)["system_fingerprint"] == old
    replace(path, other_weights(good))
    server.signal(signal.SIGHUP)
    wait_until(lambda: answer(server)["system_fingerprint"] != old, 60, "the new weights")
    assert "no model has changed" not in server.log
    server.signal(signal.SIGHUP)
    wait_until(lambda: "reload: no model has changed" in server.log, 60, "a reload without news")


def test_models_come_and_go(server, models):
    shutil.copytree(models / MODEL, models / "second")
    reply = reload(server)
    assert [m["id"] for m in reply.json()["models"]] == [MODEL, "second"]
    assert client.complete(server.port, model="second", prompt="月下").status == 200
    sock, received = open_stream(server.port, model="second", prompt=LONG, n=SAMPLES, seed=2)
    shutil.rmtree(models / "second")
    reply = reload(server)
    assert reply.status == 200, reply.text
    assert [(m["id"], m["changed"], m.get("removed")) for m in reply.json()["models"]] == [
        (MODEL, False, None), ("second", True, True)]
    refused = client.complete(server.port, model="second", prompt="月下")
    assert refused.status == 404 and refused.error["code"] == "model_not_found"
    assert "second" not in client.call(server.port, "GET", "/v1/models").text
    client.parse_events(read_to_end(sock, received).body)  # its running request ends whole
    sock.close()
    wait_until(lambda: "model second: the last request" in server.log, 60, "the removed model freed")
    assert 'model="second"' not in client.call(server.port, "GET", "/metrics").text
    assert client.complete(server.port, prompt="月下").status == 200
    shutil.rmtree(models / MODEL)
    reply = reload(server)
    assert reply.status == 422, "a server keeps its last model"
    assert server.metric("linnet_reloads_total", part="models", result="failed") == 1
    assert client.complete(server.port, prompt="月下").status == 200
    shutil.copytree(MODEL_DIR, models / "third")
    reply = reload(server)
    assert [(m["id"], m.get("removed")) for m in reply.json()["models"]] == [(MODEL, True), ("third", None)]
    assert client.complete(server.port, model="third", prompt="月下").status == 200


@pytest.mark.tsan
def test_requests_do_not_notice(server, models):
    """Every request during four swaps is answered whole, by one of the two."""
    path = weights_file(models / MODEL)
    one = path.read_bytes()
    two = other_weights(one)
    known = {facts(answer(server))}
    replace(path, two)
    assert reload(server).status == 200
    known.add(facts(answer(server)))
    assert len({fingerprint for fingerprint, _ in known}) == 2
    seen, failures, stop = set(), [], threading.Event()

    def ask():
        try:
            while not stop.is_set():
                seen.add(facts(answer(server)))
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for i in range(4):
            replace(path, (one, two)[i % 2])
            assert reload(server).status == 200
    finally:
        stop.set()
        for thread in threads:
            thread.join(2 * client.PATIENCE)
    assert not failures
    assert seen <= known
    wait_until(lambda: server.log.count("has ended") == 5, 60, "old models freed")
