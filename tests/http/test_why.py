"""The faults of other servers of recurrent models in docs/why-linnet.md, on models of three kinds made on the spot:
each row of its table names a test here."""

import concurrent.futures
import re
from pathlib import Path

import pytest

import hf_model
from client import call, complete_ok
from hf_model import folders
from server import Server
from test_states import blob_of

KINDS = {
    "gated_deltanet": (folders.GATED, folders.delta_tensors),
    "mamba2": (folders.MAMBA2, folders.mamba2_tensors),
    "hybrid": (folders.GLA | {"attn": folders.ATTN}, folders.gla_tensors),
}
BEGINNING = "The moon over the river, 春江花月夜, rises with the tide; "
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("why")
    for kind, parts in KINDS.items():
        hf_model.write(path / kind, *parts)
    return path


@pytest.fixture(scope="module")
def server(folder):
    with Server("--models", folder, "--slots", "8") as started:
        yield started
        started.wait_idle()


def answer(server, kind, prompt=BEGINNING, **fields):
    return complete_ok(server.port, model=kind, prompt=prompt, ignore_eos=True, **{"max_tokens": 24, "seed": 3, **fields})


def numbers(said):
    """All parts that depend on the model: tokens, texts, log-probabilities."""
    return [(choice["text"], choice["logprobs"]) for choice in said["choices"]]


@kinds
def test_log_probabilities_do_not_depend_on_other_streams(server, kind):
    alone = numbers(answer(server, kind, logprobs=5))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        others = [pool.submit(answer, server, kind, prompt=str(i) * (5 + 9 * i), seed=i, max_tokens=60) for i in range(7)]
        assert numbers(answer(server, kind, logprobs=5)) == alone
        assert len({other.result()["choices"][0]["text"] for other in others}) == 7


@kinds
def test_reading_gives_what_writing_gave(server, kind):
    """A text's tokens at once, and the same tokens drawn one by one: of many samples those whose text is its tokens."""
    compared = 0
    for seed in range(120):
        if compared == 4:
            break
        for choice in answer(server, kind, prompt="Once", logprobs=0, max_tokens=3, n=8, seed=seed, temperature=1)["choices"]:
            text, drawn = choice["text"], choice["logprobs"]["token_logprobs"]
            if not text.isascii() or compared == 4:
                continue
            read = call(server.port, "POST", "/tokenize", {"model": kind, "content": text, "with_pieces": True}).json()
            if [piece["piece"] for piece in read["tokens"]] == choice["logprobs"]["tokens"]:
                reply = call(server.port, "POST", "/v1/score", {"model": kind, "prompt": "Once", "completion": text})
                assert reply.status == 200, reply.text
                assert reply.json()["surprise"] == pytest.approx([-x for x in drawn], abs=2e-6)
                compared += 1
    assert compared == 4


@kinds
def test_what_prompts_share_is_computed_once(server, folder, kind):
    """Prompts that part in the middle share their beginning from the third one on; the answers equal those without
    sharing."""
    with Server("--models", folder) as other:
        ends = [f"{n} {n * n} and {n + 7} more" for n in range(5)]
        kept = [answer(other, kind, prompt=BEGINNING * 3 + end) for end in ends]
        plain = [answer(server, kind, prompt=BEGINNING * 3 + end) for end in reversed(ends)][::-1]
        assert [numbers(said) for said in kept] == [numbers(said) for said in plain]
        assert kept[-1]["timings"]["cache_n"] > 0.6 * kept[-1]["usage"]["prompt_tokens"], kept[-1]["timings"]


@kinds
def test_a_saved_state_is_used_and_goes_on_byte_for_byte(server, folder, kind):
    whole = answer(server, kind)["choices"][0]["text"]
    begun = answer(server, kind, max_tokens=9, return_state=True)
    blob = blob_of(server.port, begun["states"][0]["id"])
    with Server("--models", folder) as restarted:
        put = call(restarted.port, "PUT", "/v1/states/mine", blob, {"Content-Type": "application/octet-stream"})
        state = put.json()["id"] if put.status in (200, 201) else None
        assert state is not None, put.text
        rest = complete_ok(restarted.port, model=kind, state=state, max_tokens=15, ignore_eos=True)
        assert begun["choices"][0]["text"] + rest["choices"][0]["text"] == whole
        assert rest["timings"]["prompt_n"] <= 1, rest["timings"]


@kinds
def test_a_seed_gives_the_same_text_in_any_slot(server, kind):
    once = answer(server, kind, temperature=1.0)["choices"][0]["text"]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        texts = {text["choices"][0]["text"] for text in pool.map(lambda _: answer(server, kind, temperature=1.0), range(16))}
    assert texts == {once}


def test_every_row_of_the_page_has_its_test():
    page = (Path(__file__).resolve().parents[2] / "docs" / "why-linnet.md").read_text()
    named = re.findall(r"test_why\.py -k (\w+)", page)
    assert sorted(named) == sorted(name[5:] for name in globals() if name.startswith("test_") and "page" not in name)
