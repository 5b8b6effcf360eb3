"""Ten thousand states at once: memory use is as computed, and no state is mixed up with another. New weights refuse the
states of the old ones."""

import random

import pytest

import client
import images
from client import call, complete, complete_ok
from images import PIXELS, SMALL, generate_ok
from settings import MODEL
from test_reload import Folder, models, other_weights, reload, replace, weights_file  # noqa: F401

N, BATCH = 10_000, 1_000


def fork(port, state, seeds):
    reply = call(port, "POST", f"/v1/states/{state}/fork", {"n": len(seeds), "seeds": seeds})
    assert reply.status == 201, reply.text
    return [copy["id"] for copy in reply.json()["data"]]


@pytest.mark.heavy  # a build with sanitizers has memory of its own
def test_ten_thousand(image_models):
    seeds = random.Random(1).sample(range(1 << 53), N)
    with Folder(image_models, "--max-n", str(BATCH), "--max-states", str(N + 1)) as server:
        first = generate_ok(server.port, model=SMALL, seed=1, max_tokens=PIXELS // 2, return_state=True)
        root = first["states"][0]
        ids = fork(server.port, root["id"], seeds[:BATCH])
        before = server.resident_bytes()
        for begin in range(BATCH, N, BATCH):
            ids += fork(server.port, root["id"], seeds[begin : begin + BATCH])
        grown = server.resident_bytes() - before
        kept = (N - BATCH) * root["bytes"]
        assert kept * 0.9 < grown < kept * 1.15 + (8 << 20), (kept, grown)
        assert server.metric("linnet_states") == N + 1
        for i in random.Random(2).sample(range(N), 300):
            facts = call(server.port, "GET", f"/v1/states/{ids[i]}").json()
            assert (facts["id"], facts["seed"]) == (ids[i], seeds[i])
        for i in random.Random(3).sample(range(N), 10):
            ends = [generate_ok(server.port, **how)["data"][0]["b64_json"]
                    for how in ({"state": ids[i]}, {"state": root["id"], "seed": seeds[i]})]
            assert ends[0] == ends[1]
        reply = images.generate(server.port, model=SMALL, max_tokens=1, return_state=True)
        assert "limits" in reply.json()["states"][0]["error"]["message"]


def test_new_weights_refuse_old_states(models):  # noqa: F811
    with Folder(models, "--slots", "4") as server:
        fields = {"prompt": "海上明月", "seed": 1, "max_tokens": 2, "return_state": True}
        state = complete_ok(server.port, **fields)["states"][0]["id"]
        assert complete(server.port, state=state, model=MODEL).status == 200
        path = weights_file(models / MODEL)
        replace(path, other_weights(path.read_bytes()))
        assert reload(server).status == 200
        reply = complete(server.port, state=state, model=MODEL)
        assert reply.status == 400 and reply.error["param"] == "state", reply.text
        assert "other weights" in reply.error["message"] or "not served" in reply.error["message"]
        facts = client.call(server.port, "GET", f"/v1/states/{state}").json()
        assert facts["model"] is None
