"""Prompts share the states of what they begin with alike: what is counted, and the same bytes."""

import itertools

import pytest

from client import complete_ok
from server import Server

LINES = ["海上明月", "海上明月", "海上明月春风", "海上明花", "海上明雨", "海上"]


@pytest.fixture(scope="module")
def servers():
    """One that keeps no prefix, one that keeps ends and branches, one that keeps every token's."""
    flags = (["--prefix-cache-mb", 0], [], ["--prefix-every", 1])
    with Server("--slots", 4, *flags[0]) as a, Server("--slots", 4, *flags[1]) as b:
        with Server("--slots", 4, *flags[2]) as c:
            yield a, b, c


def cached(answer):
    usage, timings = answer["usage"], answer["timings"]
    n = usage["prompt_tokens_details"]["cached_tokens"]
    assert timings["cache_n"] == n
    assert timings["prompt_n"] == usage["prompt_tokens"] - n
    return n


def test_the_same_bytes_whatever_is_kept(servers):
    for line, n in itertools.product(LINES, (1, 3)):
        fields = {"prompt": line, "n": n, "seed": 9, "logprobs": 2}
        answers = [complete_ok(s.port, **fields) for s in servers]
        assert answers[0]["choices"] == answers[1]["choices"] == answers[2]["choices"]
        assert cached(answers[0]) == 0


def test_cached_tokens_are_those_that_prompts_share():
    with Server("--slots", 4) as own:
        rows = [cached(complete_ok(own.port, prompt=line)) for line in LINES]
        assert rows == [0, 5, 5, 0, 4, 0]
        assert own.metric("linnet_cached_prompt_tokens_total") == sum(rows)
        assert cached(complete_ok(own.port, prompt=["海上明月", "海上明月春风"])) == 5 + 7
    with Server("--slots", 4, "--prefix-every", 1) as own:
        rows = [cached(complete_ok(own.port, prompt=line)) for line in LINES]
        assert rows == [0, 5, 5, 4, 4, 3]
