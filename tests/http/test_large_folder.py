"""A folder of random weights as trainers write them, in shards: its rows are read and packed, so that no matrix is in
memory twice. From its start on the server takes the memory of weights and states, at most 64 MiB, and the rounding to
huge pages. With LARGE_FOLDER_MB=3000 it is one of 3 GB, of which the start is timed, too: less than 2 s with the files
in the page cache, on an idle machine. The best of some starts counts, as a virtual machine's host may take seconds for
pages that it gives for the first time. `tests/bench/start.py` measures larger ones."""

import json
import os
import time

import pytest

import large_folder
from client import complete_ok
from container import Container
from server import Server, run

TIMED = "LARGE_FOLDER_MB" in os.environ
SIZES = {"deltanet": 96, "experts": 160}  # MB: a second copy of the first, or of a layer's experts, is more than SLACK
SLOTS, SLACK, READY_SECONDS, STARTS = 4, 64 << 20, 2.0, 5
MIB = 1 << 20
# In memory, of a byte of bf16 in the file: at least and at most.
BYTES = {"auto": (0.99, 1.05)} if TIMED else {"auto": (0.99, 1.05), "f32": (0.99, 1.05), "int8": (0.5, 0.6), "int4": (0.28, 0.4)}

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module", params=list(SIZES))
def large(request, tmp_path_factory):
    """The folder, and the bytes of its weights."""
    megabytes = int(os.environ.get("LARGE_FOLDER_MB", SIZES[request.param]))
    config, tensors = large_folder.of_megabytes(megabytes, request.param, TIMED)
    folder = tmp_path_factory.mktemp(request.param) / "large"
    shards, weights = large_folder.write(folder, config, tensors), large_folder.bytes_of(tensors)
    assert shards > 2 and weights >= megabytes << 20
    return folder, weights


def flags(precision):
    return "--slots", SLOTS, "--prefix-cache-mb", "0", "--precision", precision


def measure(folder, precision, computed, rounded):
    """Seconds until a server is ready, and the most memory that it had up to an answer. A chunk of 32 MiB ends in a page of
    2 MiB, half of which is used."""
    start = time.monotonic()
    with Server(*flags(precision), model_dir=folder) as server:
        took = time.monotonic() - start
        complete_ok(server.port, model="large", prompt="Once", max_tokens=3, n=SLOTS, seed=1)
        resident, peak = server.resident_bytes(), server.peak_bytes()
    assert computed < resident <= peak < computed + rounded + SLACK
    return took, peak


@pytest.mark.parametrize("precision", BYTES)
def test_a_large_folder_is_in_memory_once(large, precision):
    folder, weights = large
    said = json.loads(run("inspect", folder, "--json").stdout)
    state, computed = 0 if said["state_page_bytes"] else said["state_bytes"], said["weight_bytes"][precision]  # pages: when used
    least, most = BYTES[precision]
    assert least * weights < computed < most * weights
    starts = STARTS if TIMED else 1
    took, peaks = zip(*[measure(folder, precision, computed + SLOTS * state, computed // 32) for _ in range(starts)])
    print(f"{weights >> 20} MiB, {precision}, {SLOTS} states of {state >> 10} KiB: ready in "
          + ", ".join(f"{seconds:.2f}" for seconds in took) + f" s, {max(peaks) >> 20} MiB at most")
    assert not TIMED or min(took) < READY_SECONDS


def test_weights_that_do_not_fit_are_refused(large):
    """Before any of them is packed, with the bytes that are needed and the bytes that are free."""
    folder, weights = large
    with Container(64 * MIB) as container:
        result = run("serve", "--model", folder, "--port", "0", *flags("auto"), preexec_fn=container.run_in)
        assert result.returncode == 1 and container.kills() == 0, result.stderr[-4000:]
    need = json.loads(run("inspect", folder, "--json").stdout)["weight_bytes"]["auto"]
    assert f"the weights need {-(-need // MIB)} MiB, and " in result.stderr and "MiB of memory are free" in result.stderr
