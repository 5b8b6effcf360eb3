"""Guessed tokens: the same answers with them and without, alone and among others, with any number of threads."""

import os
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

import png
from client import call
from images import EDITS, GENERATIONS, data_url, stream_ok, told_values
from server import Server
from settings import ROOT

SIDE = 28
LINES = ["海上明月", "千里云中日，年年花不去", "山山水水，花花草草", "春风，春雨", "月"]
REQUESTS = int(os.environ.get("LINNET_DRAFT_REQUESTS", "28"))
OTHERS = 64


def a_drawing(rng, rows):
    """The first rows of something with strokes."""
    values = [255 if abs(x - 14 - y % 5) < 2 and y > 3 else 0 for y in range(rows) for x in range(SIDE)]
    return data_url(png.write(SIDE, rows, bytes(v if rng.random() > 0.02 else 128 for v in values)))


def a_picture(rng):
    fields = {"model": "mnist", "seed": rng.randrange(100), "temperature": rng.choice([0, 0.5, 1, 1, 1.5, 2])}
    if rng.random() < 0.3:
        fields["n"] = rng.randrange(2, 4)
    if rng.random() < 0.4:
        fields |= {"max_tokens": rng.randrange(1, 500), "return_state": True}
    if rng.random() < 0.4:
        return EDITS, fields | {"images": [{"image_url": a_drawing(rng, rng.randrange(1, 27))}]}
    return GENERATIONS, fields


def a_couplet(rng):
    fields = {"model": "couplet", "prompt": rng.choice(LINES), "seed": rng.randrange(100)}
    fields |= {"temperature": rng.choice([0, 0.7, 1, 2]), "n": rng.randrange(1, 4)}
    extra = [{}, {"logprobs": 3}, {"stop": ["风", "花"]}, {"max_tokens": rng.randrange(1, 6)}, {"rules": False},
             {"return_state": True}, {"frequency_penalty": 0.5}, {"logit_bias": {"100": 5}}]
    return "/v1/completions", fields | rng.choice(extra)


def requests():
    rng = random.Random(5)
    return [a_picture(rng) if rng.random() < 0.6 else a_couplet(rng) for _ in range(REQUESTS)]


def settled(value):
    """An answer without its times, random names and states' ids."""
    if isinstance(value, dict):
        gone = {"id", "created", "created_at", "timings", "expires_in", "states", "usage"}
        return {k: settled(v) for k, v in value.items() if k not in gone}
    return [settled(v) for v in value] if isinstance(value, list) else value


def state_bytes(port, answer):
    """The contents of its states, without the place and the time of their making."""
    found = [s["id"] for s in answer.get("states") or []]
    return [call(port, "GET", f"/v1/states/{i}", headers={"Accept": "application/octet-stream"}).body for i in found]


def ask(port, request):
    path, fields = request
    reply = call(port, "POST", path, fields)
    assert reply.status == 200, (fields, reply.text)
    return reply.json()


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """Starts a server of the couplets and the digits."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "mnist").symlink_to(ROOT / "weights" / "mnist")
    return lambda *flags: Server("--models", folder, "--slots", 80, "--max-states", 4096, *flags)


@pytest.fixture(scope="module")
def without(serve):
    with serve("--draft", 0, "--threads", 1) as server:
        answers = [ask(server.port, r) for r in requests()]
        assert not any("draft_n" in a["timings"] for a in answers)
        assert server.metric("linnet_draft_tokens_total", model="mnist") == 0
        yield answers, [state_bytes(server.port, a) for a in answers]


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.long), 2])
def test_the_same_answers_alone_and_among_others(serve, without, threads):
    answers, states = without
    with serve("--threads", threads) as server:
        for request, want, kept in zip(requests(), answers, states):
            got = ask(server.port, request)
            assert settled(got) == settled(want), request
            assert state_bytes(server.port, got) == kept, request
        assert server.metric("linnet_draft_accepted_tokens_total", model="mnist") > 1000
        with ThreadPoolExecutor(OTHERS) as pool:
            together = list(pool.map(lambda r: ask(server.port, r), requests()))
        assert [settled(a) for a in together] == [settled(a) for a in answers]


def test_what_is_guessed_is_told_and_can_be_refused(serve):
    with serve() as server:
        told = [ask(server.port, (GENERATIONS, {"model": "mnist", "seed": i}))["timings"] for i in range(4)]
        assert all(t["total_steps"] + t.get("draft_n_accepted", 0) == SIDE * SIDE for t in told)
        sums = tuple(sum(t.get(name, 0) for t in told) for name in ("draft_n", "draft_n_accepted"))
        assert sums[0] >= sums[1] > 400  # a busy machine's times may stop guessing for a while
        assert (server.metric("linnet_draft_tokens_total", model="mnist"),
                server.metric("linnet_draft_accepted_tokens_total", model="mnist")) == sums
        plain = ask(server.port, (GENERATIONS, {"model": "mnist", "seed": 3, "draft": False}))["timings"]
        assert "draft_n" not in plain and plain["total_steps"] == SIDE * SIDE
        reply = call(server.port, "POST", GENERATIONS, {"model": "mnist", "draft": 3})
        assert reply.status == 400 and reply.json()["error"]["param"] == "draft", reply.text


def test_streams_get_every_token_of_a_step(serve):
    with serve() as server:
        told = []
        for draft in (False, True, True, True):
            fields = {"model": "mnist", "seed": 2, "stream_unit": "pixel", "draft": draft}
            told.append(told_values(stream_ok(server.port, **fields), 0))
        assert all(values == told[0] for values in told)
        assert server.metric("linnet_draft_accepted_tokens_total", model="mnist") > 100
