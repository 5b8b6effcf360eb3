"""--precision: answers with weights as whole numbers of 8 and 4 bits, on every instruction set, and where there are none."""

import pytest

import text_model
from client import call, complete_ok
from server import Server, run
from settings import ROOT
from states import without_sqlite
from test_chat_templates import with_template

pytestmark = pytest.mark.asan

FIELDS = {"prompt": "海上明月", "seed": 1, "n": 4, "logprobs": 1}


def answers(*options):
    with Server(*options, model_dir=ROOT / "weights" / "couplet") as server:
        said = complete_ok(server.port, **FIELDS)
    return said["choices"], said["system_fingerprint"]


def test_whole_numbers_answer_alike_on_every_instruction_set():
    """Each precision has its own bits, and its name is in the fingerprint."""
    found = {}
    for precision in ("f32", "int8", "int4"):
        found[precision], fingerprint = answers("--precision", precision)
        assert fingerprint.endswith(f"-{precision}") == (precision != "f32"), fingerprint
        assert all(len(choice["text"]) == 4 for choice in found[precision])
    assert found["int4"] not in (found["int8"], found["f32"])
    assert answers("--precision", "int4", "--isa", "plain")[0] == found["int4"]


def test_a_conversation_keeps_its_precision(tmp_path):
    """Responses of another precision are refused, also where both are whole numbers. A conversation object reads its messages
    again. Nothing is lost: the first precision continues both."""
    without_sqlite()
    folder = text_model.write_bytes(tmp_path / "text", end=[], context=4000)
    with_template(folder, "rwkv")
    fields, store = {"input": "春風", "max_output_tokens": 2}, ("--state-store", tmp_path / "states.db")
    with Server(*store, "--precision", "int8", model_dir=folder) as server:
        first = call(server.port, "POST", "/v1/responses", fields)
        assert first.status == 200, first.text
        talk = {"conversation": call(server.port, "POST", "/v1/conversations", {}).json()["id"]}
        assert call(server.port, "POST", "/v1/responses", fields | talk).status == 200
    following = fields | {"previous_response_id": first.json()["id"]}

    def cached(reply):
        assert reply.status == 200, reply.text
        return reply.json()["usage"]["input_tokens_details"]["cached_tokens"]

    with Server(*store, "--precision", "int4", "--prefix-cache-mb", "0", model_dir=folder) as server:
        said = call(server.port, "POST", "/v1/responses", following)
        assert said.status == 400 and said.error["param"] == "previous_response_id", said.text
        assert "another precision" in said.error["message"]
        assert cached(call(server.port, "POST", "/v1/responses", fields | talk)) == 0
        assert cached(call(server.port, "POST", "/v1/responses", fields | talk)) > 0
    with Server(*store, "--precision", "int8", "--prefix-cache-mb", "0", model_dir=folder) as server:
        assert cached(call(server.port, "POST", "/v1/responses", following)) > 0
        assert cached(call(server.port, "POST", "/v1/responses", fields | talk)) == 0
        items = call(server.port, "GET", f"/v1/conversations/{talk['conversation']}/items?limit=100").json()["data"]
        assert len(items) == 8


@pytest.mark.parametrize("backend", ["reference", "cuda"])
def test_four_bits_are_for_the_cpu(backend):
    said = run("generate", "--model", ROOT / "weights" / "couplet", "--precision", "int4", "--backend", backend, "--prompt", "海")
    assert said.returncode != 0
    assert said.stderr.strip().endswith(f"precision int4 is for the back end cpu, not {backend}"), said.stderr
