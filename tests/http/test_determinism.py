"""The same request gives the same bytes: alone, in company, streamed, with any number of threads."""

import asyncio

import pytest

import client
import lines
from client import complete_ok, join_stream, stream_ok
from server import Server

pytestmark = pytest.mark.tsan

UPPER = lines.of_length(17)
N = 5
SEED = 20240607


def content(answer):
    """All fields of an answer that the request decides: not id, times, speed and cached tokens."""
    kept = {k: v for k, v in answer.items() if k not in ("id", "created", "timings")}
    return kept | {"usage": {k: v for k, v in answer["usage"].items() if k != "prompt_tokens_details"}}


def company(count):
    """Other requests of mixed lengths, n, seeds and sampling."""
    return [
        {
            "prompt": line,
            "seed": i,
            "n": 1 + i % 4,
            "temperature": [0, 0.5, 0.8, 1.5][i % 4],
            "top_k": [0, 1, 50][i % 3],
            "rules": i % 5 != 0,
        }
        for i, line in enumerate(lines.mixed(count))
    ]


def ask_in_company(port, others):
    """One request in the middle of many, all at once; its answer, and the other answers."""
    asked = {"prompt": UPPER, "seed": SEED, "n": N}
    requests = [*others[: len(others) // 2], asked, *others[len(others) // 2 :]]
    replies = asyncio.run(client.answer_all(port, requests, len(requests)))
    answers = [content(reply.json()) for reply in replies]
    return answers.pop(len(others) // 2), answers


def test_asked_twice(port):
    first = complete_ok(port, prompt=UPPER, seed=SEED, n=N)
    second = complete_ok(port, prompt=UPPER, seed=SEED, n=N)
    assert content(first) == content(second)
    assert first["id"] != second["id"]


@pytest.mark.heavy  # test_all_65_are_what_they_are_alone sends these requests as well
def test_alone_and_among_64_others(port):
    alone = content(complete_ok(port, prompt=UPPER, seed=SEED, n=N))
    others = company(64)
    for _ in range(3):
        beside, _ = ask_in_company(port, others)
        assert beside == alone


def test_all_65_are_what_they_are_alone(port):
    others = company(64)
    _, beside = ask_in_company(port, others)
    alone = [content(complete_ok(port, **fields)) for fields in others]
    assert beside == alone


def test_streamed_and_whole_are_the_same(port):
    whole = complete_ok(port, prompt=UPPER, seed=SEED, n=N)["choices"]
    texts, _ = join_stream(stream_ok(port, prompt=UPPER, seed=SEED, n=N))
    assert sorted(texts.values()) == sorted(choice["text"] for choice in whole)


def test_fewer_samples_are_among_more(port):
    """Sample i depends on (seed, i) alone, not on n."""
    few = {c["text"] for c in complete_ok(port, prompt=UPPER, seed=SEED, n=2)["choices"]}
    many = {c["text"] for c in complete_ok(port, prompt=UPPER, seed=SEED, n=N)["choices"]}
    assert few <= many


def test_seed_is_told_and_can_be_used_again(port):
    first = complete_ok(port, prompt=UPPER, n=N)
    assert 0 <= first["seed"] < 2**53
    again = complete_ok(port, prompt=UPPER, n=N, seed=first["seed"])
    assert content(again) == content(first)


def test_seed_is_new_when_none_is_given(port):
    seeds = {complete_ok(port, prompt="月下")["seed"] for _ in range(8)}
    assert len(seeds) == 8
    assert stream_ok(port, prompt="月下")[0]["seed"] not in seeds


def test_other_seeds_give_other_answers(port):
    texts = {
        complete_ok(port, prompt=UPPER, seed=seed, temperature=1)["choices"][0]["text"]
        for seed in range(8)
    }
    assert len(texts) > 1


FLAGS = [("--threads", "1"), ("--threads", "2"), ("--threads", "2", "--slots", "3")]


@pytest.mark.heavy
def test_threads_and_slots_change_nothing():
    others = company(64)
    results = []
    for flags in FLAGS:
        with Server(*flags) as server:
            alone = content(complete_ok(server.port, prompt=UPPER, seed=SEED, n=N))
            beside, answers = ask_in_company(server.port, others)
            assert beside == alone
            results.append((alone, answers))
    assert results[0] == results[1] == results[2]


def test_threads_change_nothing_for_a_few():
    others = company(6)
    results = []
    for flags in FLAGS[:2]:
        with Server(*flags) as server:
            results.append(ask_in_company(server.port, others))
    assert results[0] == results[1]
