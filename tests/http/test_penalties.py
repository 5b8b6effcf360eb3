"""Penalties and cuts of models of text: they change an answer as biases would."""

import pytest

from client import complete, complete_ok, join_stream, stream_ok
from test_text import PROMPT, models, only, port, server, tokens_of  # noqa: F401 (fixtures)

pytestmark = pytest.mark.asan


def penalized(tokens, frequency, presence):
    """The equal logit_bias of a client."""
    return {str(t): -frequency * tokens.count(t) - presence for t in set(tokens)}


@pytest.mark.parametrize("model", ["bytes", "rows", "words"])
@pytest.mark.parametrize("frequency, presence, temperature", [(0.5, 0, 0), (0, 2, 1), (-0.25, -0.5, 0.8), (2, -1, 1.5)])
def test_penalties_are_biases_that_are_counted_anew_for_every_token(port, model, frequency, presence, temperature):
    fields = {"model": model, "temperature": temperature, "ignore_eos": True, "return_state": True}
    penalties = {"frequency_penalty": frequency, "presence_penalty": presence}
    whole = complete_ok(port, prompt=PROMPT, seed=5, max_tokens=30, **fields, **penalties)
    answer = complete_ok(port, prompt=PROMPT, seed=5, max_tokens=1, **fields)
    tokens = tokens_of(port, answer)
    while len(tokens) < 30:
        bias = penalized(tokens, frequency, presence)
        answer = complete_ok(port, state=answer["states"][0]["id"], max_tokens=1, logit_bias=bias, **fields)
        tokens = tokens_of(port, answer)
    assert tokens == tokens_of(port, whole)
    begun = complete_ok(port, prompt=PROMPT, seed=5, max_tokens=11, **fields, **penalties)
    rest = complete_ok(port, state=begun["states"][0]["id"], max_tokens=19, **fields, **penalties)
    assert tokens_of(port, rest) == tokens


def test_penalties_and_biases_of_every_sample(port):
    fields = {"model": "words", "prompt": PROMPT, "seed": 8, "max_tokens": 30, "ignore_eos": True, "frequency_penalty": 2,
              "presence_penalty": 2, "logit_bias": {"70": 2, "5": -3}}
    many = [c["text"] for c in complete_ok(port, **fields, n=6)["choices"]]
    texts, _ = join_stream(stream_ok(port, **fields, n=6))
    assert sorted(texts.values()) == sorted(many) and len(set(many)) == 6
    assert only(complete_ok(port, **fields))["text"] == texts[0]
    plain = complete_ok(port, **{**fields, "frequency_penalty": 0, "presence_penalty": 0})
    assert plain["choices"] == complete_ok(port, **{k: v for k, v in fields.items() if "penalty" not in k})["choices"]
    assert only(plain)["text"] != texts[0]


@pytest.mark.parametrize("model", ["bytes", "words"])
@pytest.mark.parametrize("temperature", [0, 1])
def test_a_repetition_penalty_counts_prompt_and_answer(port, model, temperature):
    fields = {"model": model, "temperature": temperature, "ignore_eos": True, "return_state": True, "repetition_penalty": 3}
    whole = complete_ok(port, prompt=PROMPT, seed=5, max_tokens=30, **fields)
    begun = complete_ok(port, prompt=PROMPT, seed=5, max_tokens=11, **fields)
    rest = complete_ok(port, state=begun["states"][0]["id"], max_tokens=19, **fields)
    assert tokens_of(port, rest) == tokens_of(port, whole)
    one = complete_ok(port, prompt=PROMPT, seed=5, max_tokens=30, **{**fields, "repetition_penalty": 1})
    plain = complete_ok(port, prompt=PROMPT, seed=5, max_tokens=30, model=model, temperature=temperature, ignore_eos=True)
    assert only(one)["text"] == only(plain)["text"] != only(whole)["text"]


def test_what_the_prompt_has_is_penalized(port):
    """The likeliest next token stands in a prompt of 200 others only once, and that is enough to lose its place."""
    fields = {"model": "bytes", "temperature": 0, "max_tokens": 1, "logprobs": 5, "ignore_eos": True}
    for seed in range(40):
        prompt = [(seed * 7 + i) % 256 for i in range(20)]
        first = tokens_of(port, complete_ok(port, prompt=prompt, return_state=True, **fields))[0]
        again = complete_ok(port, prompt=prompt, return_state=True, repetition_penalty=10, **fields)
        if first in prompt:
            assert tokens_of(port, again)[0] != first
            return
    pytest.fail("no prompt had the likeliest token")


def test_min_p_and_typical_p_leave_one_token(port):
    fields = {"model": "words", "prompt": PROMPT, "max_tokens": 20, "ignore_eos": True}
    greedy = only(complete_ok(port, **fields, temperature=0))["text"]
    assert only(complete_ok(port, **fields, temperature=5, min_p=1, seed=3))["text"] == greedy
    typical = {only(complete_ok(port, **fields, temperature=1.5, typical_p=1e-6, seed=s))["text"] for s in range(4)}
    assert len(typical) == 1
    free = {only(complete_ok(port, **fields, temperature=1.5, typical_p=1, min_p=0, seed=s))["text"] for s in range(4)}
    assert len(free) == 4


@pytest.mark.parametrize("field, values", [("repetition_penalty", (0, 11, "1")), ("min_p", (-0.1, 1.5, [1])), ("typical_p", (0, 1.01, True))])
def test_cuts_out_of_range_are_refused(port, field, values):
    for value in values:
        reply = complete(port, model="bytes", prompt="a", **{field: value})
        assert reply.status == 400 and reply.error["param"] == field, reply.text


@pytest.mark.parametrize("field", ["frequency_penalty", "presence_penalty"])
def test_penalties_out_of_range_are_refused(port, field):
    for value in (2.5, -2.01, "1", [1], True):
        reply = complete(port, model="bytes", prompt="a", **{field: value})
        assert reply.status == 400 and reply.error["param"] == field, reply.text
