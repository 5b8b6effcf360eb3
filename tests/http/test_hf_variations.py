"""Random values of the keys of every family's config.json. The server gives the log-probabilities of the equations
(tests/golden/kinds.py and hybrids.py, in float64), or refuses the folder and names a changed key."""

import json
import os
import random

import numpy
import pytest

import hf_model
import variations  # of tests/golden, whose folder hf_model adds
from client import call
from kinds import make_tensors
from server import Server, run

DRAWS = int(os.environ.get("VARIATIONS", 8))  # for each family; more by night
SHARE = min(1, DRAWS / 24)  # of the keys that get a value of a wrong type
BOUND = 2e-4  # nats
TEXT = "".join(random.Random(5).choices("abcdefgh ,.", k=40))
GIVEN = 3
MOST = 60  # models of a server


def write(folder, config, tensors):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    hf_model.write_safetensors(folder / "model.safetensors", {
        name: (list(t.shape), t.astype("<f4").tobytes()) for name, t in tensors.items()})


def surprise(logits):
    """Nats of each byte of the text after the given bytes."""
    ids = list(TEXT.encode())
    top = logits.max(1, keepdims=True)
    logs = logits - top - numpy.log(numpy.exp(logits - top).sum(1, keepdims=True))
    return numpy.array([-logs[i - 1, ids[i]] for i in range(GIVEN, len(ids))])


@pytest.mark.parametrize("family", variations.FAMILIES)
def test_served_right_or_refused_by_name(family, tmp_path):
    rng = random.Random(f"{family}{DRAWS}")
    base, tensors_of, logits_of, _ = variations.FAMILIES[family]
    drawn = [variations.draw(family, rng) for _ in range(DRAWS)]
    drawn += [(config, base, [key]) for config, key in variations.wrong(family, rng, SHARE)]
    want = {}
    for i, (config, meant, keys) in enumerate(drawn):
        folder = tmp_path / f"models{i // MOST}" / f"v{i}"
        try:
            weights = make_tensors(tensors_of(meant), i + 1)
        except (ArithmeticError, LookupError):  # sizes that fit no model
            weights = {}
        write(folder, config, weights)
        said = run("inspect", folder)
        if said.returncode:
            assert any(key in said.stderr for key in keys), (keys, said.stderr)
            folder.rename(tmp_path / f"refused{i}")
            continue
        want[folder] = surprise(logits_of(weights, meant, list(TEXT.encode())))
    assert len(want) >= DRAWS // 4, "most are refused"
    for models in {folder.parent for folder in want}:
        with Server("--models", models, "--precision", "f32", "--slots", "2") as server:
            for folder, theirs in want.items():
                if folder.parent != models:
                    continue
                score = {"model": folder.name, "prompt": TEXT[:GIVEN], "completion": TEXT[GIVEN:]}
                reply = call(server.port, "POST", "/v1/score", score)
                assert reply.status == 200, reply.text
                off = abs(numpy.array(reply.json()["surprise"]) - theirs).max()
                assert off < BOUND, (drawn[int(folder.name[1:])][2], off)
