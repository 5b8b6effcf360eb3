"""Requests that models of text refuse, on every route that takes a text. Each gets a clear 4xx that names its field, a
running stream does not notice, and the server keeps no data of the request."""

import concurrent.futures
import json

import pytest

import text_model
from client import call, complete_ok, join_stream, stream_ok
from server import Server
from test_chat_templates import with_template

pytestmark = pytest.mark.asan

MIB = 1 << 20
LARGE = "ab" * (2 * MIB)  # 4 MB
JSON = {"Content-Type": "application/json"}


def completion(text):
    return "/v1/completions", {"prompt": text}


def chat(text):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": text}]}


def response(text):
    return "/v1/responses", {"input": text}


def instructed(text):
    return "/v1/responses", {"input": "a", "instructions": text}


def score(text):
    return "/v1/score", {"prompt": text, "completion": "a"}


def scored(text):
    return "/v1/score", {"prompt": "a", "completion": text}


def state(text):
    return "/v1/states", {"prompt": text}


def tokens(text):
    return "/tokenize", {"content": text}


FIELDS = {completion: "prompt", chat: "messages", response: "input", instructed: "input", score: "prompt",
          scored: "completion", state: "prompt", tokens: "content"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts")
    with_template(text_model.write_bytes(path / "bytes"), "rwkv")
    text_model.write_bpe(path / "words")
    with Server("--models", path, "--max-body", str(8 * MIB), "--slots", "4") as started:
        yield started
        started.wait_idle()


def ask(port, route, text, **fields):
    path, body = route(text)
    return call(port, "POST", path, {"model": "bytes", **body, **fields})


def check_refused(reply, param, words=""):
    assert reply.status == 400, reply.text
    assert reply.error["param"] == param and words in reply.error["message"], reply.error


@pytest.mark.parametrize("route", [r for r in FIELDS if r is not tokens])
def test_megabytes(port, route):
    fields = {"model": "bytes", "prompt": "春", "seed": 1, "max_tokens": 200, "ignore_eos": True}
    alone = complete_ok(port, **fields)["choices"][0]["text"]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        beside = pool.submit(stream_ok, port, **fields)
        check_refused(ask(port, route, LARGE), FIELDS[route], "more than")
        assert join_stream(beside.result())[0][0] == alone


def test_megabytes_of_tokens_and_of_another_family(port):
    check_refused(call(port, "POST", "/v1/completions", {"model": "words", "prompt": LARGE}), "prompt", "more than")
    many = call(port, "POST", "/v1/completions", {"model": "bytes", "prompt": [5] * (2 * MIB)})
    check_refused(many, "prompt", "values")
    reply = ask(port, tokens, LARGE)  # that route reads any text whose tokens its answer may have
    assert reply.status == 200 and len(reply.json()["tokens"]) == len(LARGE)


def test_megabytes_are_too_many_unless_they_are_allowed(tmp_path):
    text_model.write_bytes(tmp_path / "bytes")
    with Server("--models", tmp_path) as server:
        for route in FIELDS:
            reply = ask(server.port, route, LARGE)
            assert reply.status == 413 and reply.error["code"] == "body_too_large" and "1048576" in reply.error["message"], reply.text
        server.wait_idle()


@pytest.mark.parametrize("route", FIELDS)
@pytest.mark.parametrize("bad", [b"\xe6\x98", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\\ud800"],
                         ids=["cut", "ff", "overlong", "surrogate", "escaped"])
def test_text_that_is_not_utf8(port, route, bad):
    path, body = route("HERE")
    data = json.dumps({"model": "bytes", **body}).encode().replace(b"HERE", bad)
    reply = call(port, "POST", path, data, JSON)
    assert reply.status == 400 and reply.error["message"], reply.text


@pytest.mark.parametrize("route", FIELDS)
def test_a_nul_is_a_character(port, route):
    """An answer may have one, and comes back. Names have none."""
    reply = ask(port, route, "a\0b")
    assert reply.status in (200, 201), reply.text
    check_refused(ask(port, route, "a", model="bytes\0"), "model", "model has a NUL")


@pytest.mark.parametrize("token, words", [(260, "260"), (-1, "whole number"), (1 << 31, "whole number"), (1.5, "whole number"),
                                          ("5", "mix"), (None, "")])
def test_tokens_outside_the_vocabulary(port, token, words):
    check_refused(call(port, "POST", "/v1/completions", {"model": "bytes", "prompt": [5, token]}), "prompt")
    check_refused(call(port, "POST", "/v1/completions", {"model": "bytes", "prompt": [[5], [5, token]]}), "prompt")
    check_refused(call(port, "POST", "/detokenize", {"model": "bytes", "tokens": [5, token]}), "tokens")


@pytest.mark.parametrize("route", [completion, chat, response])
@pytest.mark.parametrize("field, value", [
    ("frequency_penalty", 2.01), ("presence_penalty", -2.01), ("repetition_penalty", 0), ("repetition_penalty", 10.5),
    ("min_p", 1.01), ("min_p", -0.01), ("typical_p", 0), ("top_p", 0), ("top_p", 1.01), ("temperature", -0.1),
    ("temperature", 10.1), ("top_k", -2), ("frequency_penalty", "1"), ("presence_penalty", True)])
def test_sampling_out_of_range(port, route, field, value):
    check_refused(ask(port, route, "a", **{field: value}), field, field)


@pytest.mark.parametrize("route, model", [(chat, "bytes"), (response, "bytes"), (response, "words")])  # which has no template
def test_a_stop_across_the_border_of_tokens(port, route, model):
    """Its characters have several tokens, and its last one may be a part of a token that continues."""
    path, body = route("hello")
    limit = "max_output_tokens" if route is response else "max_tokens"

    def said(**fields):
        reply = call(port, "POST", path, {"model": model, **body, "seed": 3, limit: 60, "ignore_eos": True, "temperature": 1.5, **fields})
        assert reply.status == 200, reply.text
        answer = reply.json()
        return answer["output"][0]["content"][0]["text"] if route is response else answer["choices"][0]["message"]["content"]

    whole = said()
    assert len(whole) > 8
    for begin in range(len(whole) - 3):
        stop = whole[begin : begin + 3]
        assert said(stop=stop) == whole[: whole.index(stop)]
