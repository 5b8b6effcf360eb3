"""Prompts of every form and how an answer can be asked for, as OpenAI's completions have it."""

import json
import math

import pytest

from client import call, complete, complete_ok, join_stream, stream_ok
from settings import MODEL, MODEL_DIR

pytestmark = pytest.mark.quick

UPPER = "山远云低，归舟一叶"
OTHER = "海上明月"
VOCAB = (MODEL_DIR / "vocab.txt").read_text(encoding="utf-8").split("\n")


def ids_of(text):
    return [VOCAB.index(c) for c in text]


def texts(answer):
    return [choice["text"] for choice in answer["choices"]]


def chat(port, text, **fields):
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}
    reply = call(port, "POST", "/v1/chat/completions", body)
    assert reply.status == 200, reply.text
    return reply.json()


# --- prompts


def test_each_prompt_of_a_list_is_answered_as_if_alone(port):
    lines = [UPPER, OTHER, "月", UPPER]
    answer = complete_ok(port, prompt=lines, n=3, seed=5)
    assert [choice["index"] for choice in answer["choices"]] == list(range(12))
    for i, line in enumerate(lines):
        alone = complete_ok(port, prompt=line, n=3, seed=5)
        assert texts(answer)[3 * i : 3 * i + 3] == texts(alone)
    alone = [complete_ok(port, prompt=line, n=3, seed=5)["usage"] for line in lines]
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert answer["usage"][name] == sum(usage[name] for usage in alone)


def test_tokens_mean_the_characters(port):
    text = complete_ok(port, prompt=UPPER, seed=2)
    assert texts(complete_ok(port, prompt=ids_of(UPPER), seed=2)) == texts(text)
    both = complete_ok(port, prompt=[ids_of(OTHER), ids_of(UPPER)], seed=2)
    assert texts(both)[1:] == texts(text)


def test_a_drawn_seed_serves_all_prompts(port):
    answer = complete_ok(port, prompt=[OTHER, UPPER])
    again = complete_ok(port, prompt=[UPPER, OTHER], seed=answer["seed"])
    assert texts(answer) == texts(again)[::-1]


@pytest.mark.parametrize(
    "prompt, words",
    [
        ([OTHER, ""], "prompt[1]"),
        ([OTHER, UPPER, "a b"], "prompt[2]"),
        ([], "1 to 256"),
        (["月"] * 257, "1 to 256"),
        ([1, "月"], "prompt[1] is not a whole number that is a token"),
        (["月", [5]], "do not mix"),
        ([10**9], "token 1 is 1000000000"),
        ([[5], [0]], "prompt[1]: token 1 is 0 (<unk>): a line has only characters"),
        ([[]], "empty"),
        ([5] * 2000, "at most"),
        ([[[5]]], "prompt[0][0] is not a whole number that is a token"),
    ],
)
def test_bad_lists_are_refused(server, prompt, words):
    reply = complete(server.port, prompt=prompt)
    assert reply.status == 400, reply.text
    assert reply.error["param"] == "prompt"
    assert words in reply.error["message"]


def test_a_refused_list_leaves_nothing_running(server):
    for _ in range(20):
        assert complete(server.port, prompt=[UPPER] * 50 + ["a b"], n=8).status == 400
    server.wait_idle()


def test_the_best_of_some(port):
    all_of_them = complete_ok(port, prompt=UPPER, n=8, seed=3, temperature=1.2)
    best = complete_ok(port, prompt=UPPER, n=2, best_of=8, seed=3, temperature=1.2)
    assert texts(best) == texts(all_of_them)[:2]
    assert best["usage"] == all_of_them["usage"]
    assert complete(port, prompt=UPPER, n=2, best_of=1).error["param"] == "best_of"


# --- stop


def test_stop_ends_the_text_before_it(port):
    whole = complete_ok(port, prompt=UPPER, seed=1)["choices"][0]["text"]
    answer = complete_ok(port, prompt=UPPER, seed=1, stop=whole[5])
    (choice,) = answer["choices"]
    at = whole.index(whole[5])
    assert choice["text"] == whole[:at]
    assert choice["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == at + 1
    two = complete_ok(port, prompt=UPPER, seed=1, stop=["q", whole[2:4], whole[6]])
    assert texts(two) == [whole[:2]]


def test_a_stop_string_that_never_comes(port):
    whole = complete_ok(port, prompt=UPPER, seed=1)
    for stop in ("never", [], ["never", whole["choices"][0]["text"] + "。"], None):
        assert texts(complete_ok(port, prompt=UPPER, seed=1, stop=stop)) == texts(whole)


def test_stop_at_the_first_character(port):
    whole = complete_ok(port, prompt=UPPER, seed=1)["choices"][0]["text"]
    answer = complete_ok(port, prompt=UPPER, seed=1, stop=whole[0])
    assert texts(answer) == [""] and answer["usage"]["completion_tokens"] == 1


def test_every_sample_stops_for_itself(port):
    whole = complete_ok(port, prompt=UPPER, n=16, seed=1, temperature=1.5)
    first = whole["choices"][0]["text"][3]
    stopped = complete_ok(port, prompt=UPPER, n=16, seed=1, temperature=1.5, stop=first)
    assert sorted(texts(stopped)) == sorted(text.split(first)[0] for text in texts(whole))


@pytest.mark.parametrize("held", [(5, 7), (4, 5), (0, 1), (8, 9)])
def test_a_stream_never_shows_a_stop_string(port, held):
    whole = complete_ok(port, prompt=UPPER, seed=1)["choices"][0]["text"]
    for stop in (whole[held[0] : held[1]], whole[held[0] : held[1]] + "q"):
        want = complete_ok(port, prompt=UPPER, seed=1, stop=stop)["choices"][0]
        chunks = stream_ok(port, prompt=UPPER, seed=1, stop=stop, logprobs=1)
        assert join_stream(chunks)[0][0] == want["text"]
        reasons = [c["choices"][0]["finish_reason"] for c in chunks]
        assert reasons[-1] == "stop" and set(reasons[:-1]) <= {None}
        told = [t for c in chunks for t in (c["choices"][0]["logprobs"] or {"tokens": []})["tokens"]]
        assert "".join(told) == want["text"]


# --- echo


def test_echo_puts_the_prompt_first(port):
    plain = complete_ok(port, prompt=[UPPER, OTHER], n=2, seed=1)
    echo = complete_ok(port, prompt=[UPPER, OTHER], n=2, seed=1, echo=True)
    lines = [UPPER, UPPER, OTHER, OTHER]
    assert texts(echo) == [a + b for a, b in zip(lines, texts(plain))]
    assert echo["usage"] == plain["usage"]
    chunks = stream_ok(port, prompt=[UPPER, OTHER], n=2, seed=1, echo=True)
    streamed = join_stream(chunks)[0]
    assert sorted(streamed[i] for i in range(4)) == sorted(texts(echo))


# --- logprobs


def check_logprobs(choice, n_top, begin=0):
    told = choice["logprobs"]
    assert "".join(told["tokens"]) == choice["text"]
    assert told["text_offset"] == list(range(begin, begin + len(choice["text"])))
    assert len(told["token_logprobs"]) == len(told["tokens"])
    if n_top == 0:
        assert told["top_logprobs"] is None
    return told


def test_logprobs_of_a_completion(port):
    answer = complete_ok(port, prompt=UPPER, seed=1, logprobs=5)
    (choice,) = answer["choices"]
    told = check_logprobs(choice, 5)
    assert math.isclose(
        sum(told["token_logprobs"]) / len(UPPER), choice["mean_logprob"], rel_tol=1e-5
    )
    for token, logprob, top in zip(told["tokens"], told["token_logprobs"], told["top_logprobs"]):
        assert top[token] == logprob
        likeliest = sorted(top.values(), reverse=True)
        assert len(top) in (5, 6) and likeliest[4] >= logprob or token in list(top)[:5]
        assert sum(math.exp(x) for x in likeliest) <= 1 + 1e-6
    assert choice["text"] == complete_ok(port, prompt=UPPER, seed=1)["choices"][0]["text"]
    check_logprobs(complete_ok(port, prompt=UPPER, seed=1, logprobs=0)["choices"][0], 0)


def test_logprobs_are_what_score_says(port):
    (choice,) = complete_ok(port, prompt=UPPER, seed=1, logprobs=0)["choices"]
    body = {"model": MODEL, "prompt": UPPER, "completion": choice["text"]}
    score = call(port, "POST", "/v1/score", body).json()
    got = choice["logprobs"]["token_logprobs"]
    assert math.isclose(sum(got), -score["nats_per_character"] * len(UPPER), rel_tol=1e-5)


def test_without_rules_greedy_takes_the_top(port):
    answer = complete_ok(port, prompt=UPPER, temperature=0, rules=False, logprobs=2)
    told = check_logprobs(answer["choices"][0], 2)
    for logprob, top in zip(told["token_logprobs"], told["top_logprobs"]):
        assert logprob == max(top.values()) and len(top) == 2


def test_an_echoed_prompt_has_no_logprobs(port):
    answer = complete_ok(port, prompt=OTHER, seed=1, logprobs=1, echo=True)
    told = check_logprobs(answer["choices"][0], 1)
    assert told["token_logprobs"][:4] == told["top_logprobs"][:4] == [None] * 4
    assert all(x is not None for x in told["token_logprobs"][4:])


@pytest.mark.parametrize("echo", [False, True])
def test_logprobs_of_a_stream_are_those_of_the_whole(port, echo):
    whole = complete_ok(port, prompt=OTHER, seed=1, logprobs=3, echo=echo)["choices"][0]
    parts = {name: [] for name in whole["logprobs"]}
    for chunk in stream_ok(port, prompt=OTHER, seed=1, logprobs=3, echo=echo):
        for name, values in chunk["choices"][0]["logprobs"].items():
            parts[name] += values
    assert parts == whole["logprobs"]


def test_logprobs_of_a_chat(port):
    same = complete_ok(port, prompt=OTHER, seed=1, logprobs=4)["choices"][0]["logprobs"]
    choice = chat(port, OTHER, seed=1, logprobs=True, top_logprobs=4)["choices"][0]
    content = choice["logprobs"]["content"]
    assert [entry["token"] for entry in content] == same["tokens"]
    assert [entry["logprob"] for entry in content] == same["token_logprobs"]
    for entry, top in zip(content, same["top_logprobs"]):
        assert bytes(entry["bytes"]).decode() == entry["token"]
        got = {t["token"]: t["logprob"] for t in entry["top_logprobs"]}
        assert len(got) == 4 and got.items() <= top.items()
    plain = chat(port, OTHER, seed=1, logprobs=True)["choices"][0]["logprobs"]["content"]
    assert all(entry["top_logprobs"] == [] for entry in plain)
    assert chat(port, OTHER, seed=1)["choices"][0]["logprobs"] is None


# --- logit_bias


def test_a_bias_decides_what_rules_leave_open(port):
    letter = "风"
    bias = {str(VOCAB.index(letter)): 100}
    text = complete_ok(port, prompt="山远云低", seed=1, logit_bias=bias)["choices"][0]["text"]
    assert text[0] == letter and text.count(letter) == 1  # the rules allow no second one
    free = complete_ok(port, prompt="山远云低", seed=1, rules=False, logit_bias=bias)
    assert texts(free) == [letter * 4]


def test_a_bias_bans(port):
    greedy = complete_ok(port, prompt=UPPER, temperature=0)["choices"][0]["text"]
    bias = {str(VOCAB.index(greedy[0])): -100}
    other = complete_ok(port, prompt=UPPER, temperature=0, logit_bias=bias)["choices"][0]["text"]
    assert greedy[0] not in other
    same = complete_ok(port, prompt=UPPER, temperature=0, logit_bias={})
    assert texts(same) == [greedy]


def test_logprobs_are_without_the_bias(port):
    text = complete_ok(port, prompt=UPPER, temperature=0)["choices"][0]["text"]
    bias = {str(VOCAB.index(text[0])): 50}
    plain = complete_ok(port, prompt=UPPER, temperature=0, logprobs=1)["choices"][0]["logprobs"]
    biased = complete_ok(port, prompt=UPPER, temperature=0, logprobs=1, logit_bias=bias)
    got = biased["choices"][0]["logprobs"]
    assert got["token_logprobs"][0] == plain["token_logprobs"][0]


@pytest.mark.parametrize("key", [str(len(VOCAB) + 5), "x", "-1", "1.0"])
def test_a_bias_for_no_token_is_refused(port, key):
    reply = complete(port, prompt=UPPER, logit_bias={key: 1})
    assert reply.status == 400 and reply.error["param"] == "logit_bias"


# --- usage and timings


def test_timings_have_the_usual_names(port):
    answer = complete_ok(port, prompt=[UPPER, OTHER], n=2, seed=1)
    t = answer["timings"]
    assert answer["usage"]["prompt_tokens_details"].keys() == {"cached_tokens"}
    assert t["cache_n"] == answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert t["prompt_n"] + t["cache_n"] == answer["usage"]["prompt_tokens"]
    assert t["predicted_n"] == answer["usage"]["completion_tokens"]
    for what in ("prompt", "predicted"):
        n, ms = t[f"{what}_n"], t[f"{what}_ms"]
        assert math.isclose(t[f"{what}_per_token_ms"], ms / n, rel_tol=1e-6)
        if ms > 0:
            assert math.isclose(t[f"{what}_per_second"], n * 1000 / ms, rel_tol=1e-6)
    parts = t["queue_ms"] + t["prompt_ms"] + t["predicted_ms"]
    assert math.isclose(parts, t["total_ms"], rel_tol=1e-6, abs_tol=1e-3)


def test_the_last_event_of_a_stream_has_them_too(port):
    chunks = stream_ok(port, prompt=OTHER, stream_options={"include_usage": True})
    assert chunks[-1]["choices"] == [] and chunks[-1]["timings"]["predicted_n"] == 4
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert json.dumps(chunks[-1]["usage"])
