"""Reloads that come at once, or before requests on older weights have ended. At most two versions of a model are in
memory, and in the end memory use is back at its start."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import client
import holding
import large_folder
from server import Server, wait_until
from settings import MODEL
from test_reload import Folder, answer, models, other_weights, reload, replace, weights_file  # noqa: F401

AT_ONCE, CHANGES = 40, 4
WEIGHTS_MB, SLACK = 96, 24 << 20


def reload_at_once(server, n):
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(lambda _: reload(server), range(n)))


def test_reloads_at_once_are_all_answered(models):  # noqa: F811
    with Folder(models, "--slots", "4") as server:
        path = weights_file(models / MODEL)
        old = answer(server)["system_fingerprint"]
        replace(path, other_weights(path.read_bytes()))
        replies = reload_at_once(server, AT_ONCE)
        assert [reply.status for reply in replies] == [200] * AT_ONCE, replies
        prints = {m["system_fingerprint"] for reply in replies for m in reply.json()["models"]}
        assert prints == {answer(server)["system_fingerprint"]} and old not in prints
        assert server.log.count("is now") == 1


def test_a_reload_waits_for_requests_on_older_weights(models):  # noqa: F811
    with Folder(models, "--slots", "4", *holding.FLAGS, "--timeout", "600") as server:
        path = weights_file(models / MODEL)
        first = path.read_bytes()
        sock = holding.hold(server, stream=True)
        replace(path, other_weights(first))
        assert reload(server).json()["models"][0]["changed"]
        second = answer(server)["system_fingerprint"]
        assert reload(server).status == 200, "nothing new: nothing to wait for"
        replace(path, first)
        replies = []
        thread = threading.Thread(target=lambda: replies.append(reload(server)))
        thread.start()
        wait_until(lambda: "reload: waiting for requests" in server.log, 60, "the reload waits")
        assert answer(server)["system_fingerprint"] == second and not replies
        sock.close()
        thread.join(client.PATIENCE)
        assert replies[0].status == 200 and replies[0].json()["models"][0]["changed"]
        assert answer(server)["system_fingerprint"] != second


def test_the_end_does_not_wait_for_a_reload_that_waits(models):  # noqa: F811
    with Folder(models, "--slots", "4", *holding.FLAGS, "--timeout", "600", "--drain-timeout", "0") as server:
        path = weights_file(models / MODEL)
        first = path.read_bytes()
        sock = holding.hold(server, stream=True)
        replace(path, other_weights(first))
        assert reload(server).status == 200
        replace(path, first)
        replies = []
        thread = threading.Thread(target=lambda: replies.append(reload(server)))
        thread.start()
        wait_until(lambda: "reload: waiting for requests" in server.log, 60, "the reload waits")
        server.stop()
        thread.join(client.PATIENCE)
        sock.close()
        assert not replies or replies[0].status in (200, 503), replies


@pytest.fixture
def folder(tmp_path):
    config, tensors = large_folder.of_megabytes(WEIGHTS_MB)
    large_folder.write(tmp_path / "large", config, tensors)
    return tmp_path / "large"


def change(folder):
    """The sign of the last number of the last shard."""
    path = max(folder.glob("*.safetensors"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 0x80
    replace(path, data)


@pytest.mark.heavy
def test_memory_holds_two_versions_and_then_one(folder):
    weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    with Server("--slots", "2", "--prefix-cache-mb", "0", model_dir=folder) as server:
        client.complete_ok(server.port, model="large", prompt="Once", max_tokens=3, seed=1)
        first = server.resident_bytes()
        for ended in range(1, CHANGES + 1):
            change(folder)
            server.forget_peak()
            replies = reload_at_once(server, AT_ONCE if ended == 1 else 1)
            assert {reply.status for reply in replies} == {200}, replies
            assert replies[0].json()["models"][0]["changed"] or ended == 1
            wait_until(lambda ended=ended: server.log.count("has ended") == ended, 60, "the weights before are freed")
            peak = server.peak_bytes()
            print(f"first {first >> 20} MiB, weights {weights >> 20}, peak {peak >> 20}, {server.resident_bytes() >> 20} after")
            assert peak < first + weights + weights // 16 + SLACK
            wait_until(lambda: server.resident_bytes() < first + SLACK, 60, "as much memory as before")
