"""All shipped models in one server: ready soon, with no more memory than weights, states and 32 MiB per model."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import client
from server import Server, run
from settings import ROOT

SLOTS, SLACK = 16, 32 << 20  # bytes per model: activations, tokenizer, its share of the program
PATIENCE = 120.0  # seconds for one answer
# docs/benchmarks.md has the time on an idle machine; this limit only finds a start that does needless work, on machines
# of any speed.
READY_SECONDS = 20

WEIGHTS = ROOT / "weights"


def shipped():
    return [folder.parent for folder in sorted(WEIGHTS.glob("*/config.json"))]


def weights_of(folder):
    """The file of its tensors; a folder with a base has that of its base."""
    own = folder / "model.safetensors"
    return own if own.exists() else folder / json.loads((folder / "config.json").read_text())["base"] / own.name


def allowed_bytes():
    total = 0
    for folder in shipped():
        described = json.loads(run("inspect", "--model", folder, "--json").stdout)
        weights = weights_of(folder).stat().st_size
        total += SLACK + weights + (SLOTS + 1) * described["state_bytes"]  # one more for shared prompts
    return total


def ask(port, path, **fields):
    reply = client.call(port, "POST", path, fields, timeout=PATIENCE)
    assert reply.status == 200, reply.text
    return reply.json()


def work_all_slots(port):
    """Every slot of every model at the same time, so that every state is written."""
    asked = {"n": SLOTS, "seed": 1}
    with ThreadPoolExecutor(3) as pool:
        pictures = pool.submit(ask, port, "/v1/images/generations", model="mnist", **asked)
        lines = pool.submit(ask, port, "/v1/completions", model="couplet", prompt="海上明月", **asked)
        poems = pool.submit(ask, port, "/v1/completions", model="poem", prompt="唐《春夜》", form="5x8", **asked)
        assert len(pictures.result()["data"]) == SLOTS
        assert len(lines.result()["choices"]) == len(poems.result()["choices"]) == SLOTS


@pytest.mark.heavy
def test_all_models_in_little_memory(tmp_path):
    first, *others = shipped()
    for other in others:
        (tmp_path / other.name).symlink_to(other)
    start = time.monotonic()
    with Server("--models", tmp_path, "--slots", SLOTS, "--timeout", PATIENCE, model_dir=first) as server:
        took = time.monotonic() - start
        allowed = allowed_bytes()
        work_all_slots(server.port)
        resident = server.resident_bytes()
        print(f"ready in {took:.2f} s, {resident / 2**20:.0f} MiB resident, {allowed / 2**20:.0f} allowed")
        assert took < READY_SECONDS
        assert resident < allowed
