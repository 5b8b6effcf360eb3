"""States as large as those of models that people train, 68 MB per request, of a narrow model. Kept states are counted
in bytes. They can be forked, survive their server, and are shared by prompts, byte for byte."""

import pytest

import large_folder
from client import call, complete_ok
from cluster import Redis
from hf_model import folders
from server import Server, wait_until
from test_states import blob_of, fork_one

pytestmark = pytest.mark.heavy

# Layers and heads of a Gated DeltaNet of 340 million parameters.
CONFIG = folders.GATED | {"num_hidden_layers": 21, "num_heads": 6, "head_dim": 256, "expand_v": 2.0, "eos_token_id": None}
STATE_BYTES = 21 * (6 * 256 * 512 + 3 * (2 * 6 * 256 + 6 * 512)) * 4
FLAGS = ("--slots", "2")
PROMPT = "The moon over the river rises with the tide; "
FIELDS = {"model": "wide", "seed": 4, "max_tokens": 12}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("states") / "wide"
    large_folder.write(folder, CONFIG, folders.in_bf16(folders.delta_tensors(CONFIG)))
    return folder


@pytest.fixture(scope="module")
def whole(model):
    with Server(*FLAGS, "--prefix-cache-mb", "0", model_dir=model) as server:
        assert call(server.port, "GET", "/v1/models/wide").json()["meta"]["state_bytes"] == STATE_BYTES
        assert "prefix-cache-mb" not in server.log  # an option that was not set causes no message
        return text(complete_ok(server.port, prompt=PROMPT, **FIELDS))


def text(answer):
    return answer["choices"][0]["text"]


def begun(port):
    answer = complete_ok(port, prompt=PROMPT, return_state=True, **FIELDS | {"max_tokens": 5})
    return text(answer), answer["states"][0]["id"]


def rest(port, state):
    return text(complete_ok(port, state=state, model="wide", max_tokens=7))


def test_kept_states_are_counted_in_bytes(model, whole):
    """Three fit; a fourth is refused, until one goes."""
    limit = 3 * STATE_BYTES + (1 << 20)
    flags = ("--prefix-cache-mb", "0", "--max-state-bytes", str(limit), "--probe-interval", "2")
    with Server(*FLAGS, *flags, model_dir=model) as server:
        empty = server.resident_bytes()
        first, state = begun(server.port)
        probes = server.metric("linnet_probe_steps_total")  # the request's own copy of the state is freed after its answer
        wait_until(lambda: server.metric("linnet_probe_steps_total") > probes, 60, "an idle engine has probed")
        before = server.resident_bytes()
        assert before - empty < 2 * STATE_BYTES + (32 << 20), "a place and a kept state; a probe has none of its own"
        copies = [fork_one(server.port, state) for _ in range(2)]
        assert 2 * STATE_BYTES < server.metric("linnet_state_bytes") <= limit
        assert server.resident_bytes() - before < 2 * STATE_BYTES + (32 << 20)
        refused = call(server.port, "POST", f"/v1/states/{state}/fork", {"n": 1})
        assert refused.status == 429 and str(limit) in refused.error["message"], refused.text
        assert call(server.port, "DELETE", f"/v1/states/{copies[0]}").status in (200, 204)
        for start in (state, copies[1], fork_one(server.port, copies[1])):
            assert first + rest(server.port, start) == whole


def test_nothing_is_lost_with_the_server(model, whole):
    with Redis() as redis:
        # 68 MB of a state on a busy machine take longer than the 2 s that a Redis next door is given by default.
        store = ("--state-store", redis.url, "--state-store-timeout", "60")
        first = Server(*FLAGS, *store, model_dir=model).start()
        try:
            beginning, state = begun(first.port)
        finally:
            first.kill()
        with Server(*FLAGS, *store, model_dir=model) as second:
            assert beginning + rest(second.port, state) == whole


def test_one_goes_on_elsewhere(model, whole):
    """As bytes that a client takes from one server to another."""
    larger = ("--max-body", STATE_BYTES + (1 << 20))
    with Server(*FLAGS, model_dir=model) as one, Server(*FLAGS, *larger, model_dir=model) as other:
        beginning, state = begun(one.port)
        blob = blob_of(one.port, state)
        assert STATE_BYTES < len(blob) < STATE_BYTES + (64 << 10)
        put = call(other.port, "PUT", "/v1/states/mine", blob, {"Content-Type": "application/octet-stream"})
        assert put.status == 201, put.text
        assert beginning + rest(other.port, "mine") == whole


def test_prompts_share_as_many_as_fit(model, whole):
    with Server(*FLAGS, "--prefix-cache-mb", "140", model_dir=model) as server:
        answers = [complete_ok(server.port, prompt=PROMPT, **FIELDS) for _ in range(2)]
        assert [text(answer) for answer in answers] == [whole, whole]
        assert [answer["timings"]["cache_n"] for answer in answers] == [0, len(PROMPT) - 1]


def test_where_none_fits_the_log_says_so(model, whole):
    with Server(*FLAGS, "--prefix-cache-mb", "32", model_dir=model) as server:
        warning = f"a state has {STATE_BYTES} bytes, and the cache may have {32 << 20} (--prefix-cache-mb)"
        assert server.log.count(warning) == 1, server.log
        answers = [complete_ok(server.port, prompt=PROMPT, **FIELDS) for _ in range(2)]
        assert [text(answer) for answer in answers] == [whole, whole]
        assert [answer["timings"]["cache_n"] for answer in answers] == [0, 0]
