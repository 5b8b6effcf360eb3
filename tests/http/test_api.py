"""A completion, a stream and the small routes, as a client sees them."""

import gzip
import json
from urllib.parse import quote

import pytest

import client
from client import call, complete_ok, join_stream, stream_ok
from couplet_rules import broken_rules
from settings import MODEL

pytestmark = pytest.mark.quick

UPPER = "山远云低，归舟一叶"


def test_completion_has_the_documented_shape(port):
    answer = complete_ok(port, model=MODEL, prompt=UPPER, seed=7)
    assert answer["object"] == "text_completion"
    assert answer["id"].startswith("cmpl-")
    assert answer["model"] == MODEL
    assert isinstance(answer["created"], int) and answer["created"] > 1_700_000_000
    assert answer["system_fingerprint"]
    assert answer["seed"] == 7
    (choice,) = answer["choices"]
    assert choice["index"] == 0
    assert choice["finish_reason"] == "stop"
    assert choice["logprobs"] is None
    assert choice["mean_logprob"] < 0
    assert broken_rules(UPPER, choice["text"]) == set()


def test_usage_counts_tokens(port):
    usage = complete_ok(port, prompt="海上明月", n=3, seed=1)["usage"]
    assert usage["completion_tokens"] == 12
    assert usage["prompt_tokens"] >= 4
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    longer = complete_ok(port, prompt="海上明月夜", seed=1)["usage"]
    assert longer["completion_tokens"] == 5
    assert longer["prompt_tokens"] == usage["prompt_tokens"] + 1


def test_ids_are_unique(port):
    ids = {complete_ok(port, prompt="月下", seed=1)["id"] for _ in range(20)}
    assert len(ids) == 20


def test_samples_come_best_first(port):
    choices = complete_ok(port, prompt=UPPER, n=8, seed=3, temperature=1.2)["choices"]
    assert [choice["index"] for choice in choices] == list(range(8))
    scores = [choice["mean_logprob"] for choice in choices]
    assert scores == sorted(scores, reverse=True)
    assert len({choice["text"] for choice in choices}) > 1


def test_greedy_samples_are_all_the_same(port):
    choices = complete_ok(port, prompt=UPPER, n=4, temperature=0)["choices"]
    assert len({choice["text"] for choice in choices}) == 1


def test_top_k_one_is_greedy(port):
    greedy = complete_ok(port, prompt=UPPER, temperature=0)["choices"][0]["text"]
    for seed in range(3):
        answer = complete_ok(port, prompt=UPPER, temperature=5, top_k=1, seed=seed)
        assert answer["choices"][0]["text"] == greedy


def test_tiny_top_p_is_greedy(port):
    greedy = complete_ok(port, prompt=UPPER, temperature=0)["choices"][0]["text"]
    answer = complete_ok(port, prompt=UPPER, temperature=1, top_p=0.0001, seed=9)
    assert answer["choices"][0]["text"] == greedy


def test_high_temperature_changes_more(port):
    def variety(temperature):
        choices = complete_ok(port, prompt=UPPER, n=16, temperature=temperature, seed=1)["choices"]
        return len({choice["text"] for choice in choices})

    assert variety(0) == 1 < variety(2)


def test_rules_can_be_switched_off(port):
    """At a high temperature the free model breaks rules that the sampler otherwise enforces."""
    answer = complete_ok(port, prompt=UPPER, rules=False, temperature=3, n=16, seed=1)
    texts = [choice["text"] for choice in answer["choices"]]
    assert all(len(text) == len(UPPER) for text in texts)
    assert any(broken_rules(UPPER, text) for text in texts)
    answer = complete_ok(port, prompt=UPPER, rules=True, temperature=3, n=16, seed=1)
    assert not any(broken_rules(UPPER, choice["text"]) for choice in answer["choices"])


def test_max_tokens_cuts_the_same_answer(port):
    whole = complete_ok(port, prompt=UPPER, seed=4)["choices"][0]
    answer = complete_ok(port, prompt=UPPER, seed=4, max_tokens=3)
    cut = answer["choices"][0]
    assert whole["finish_reason"] == "stop"
    assert cut["finish_reason"] == "length"
    assert cut["text"] == whole["text"][:3]
    assert answer["usage"]["completion_tokens"] == 3


def test_more_max_tokens_than_needed_changes_nothing(port):
    whole = complete_ok(port, prompt=UPPER, seed=4)["choices"]
    assert complete_ok(port, prompt=UPPER, seed=4, max_tokens=4096)["choices"] == whole


def test_escaped_and_plain_json_mean_the_same(port):
    body = json.dumps({"model": MODEL, "prompt": UPPER, "seed": 2, "rank": False}, ensure_ascii=True).encode()
    headers = {"Content-Type": "application/json"}
    escaped = call(port, "POST", "/v1/completions", body, headers)
    assert escaped.json()["choices"] == complete_ok(port, prompt=UPPER, seed=2)["choices"]


# --- streams -----------------------------------------------------------------------------------


def test_stream_is_one_event_a_character(port):
    events = stream_ok(port, prompt=UPPER, seed=7)
    pieces = [c["text"] for event in events for c in event["choices"] if c["text"]]
    assert all(len(piece) == 1 for piece in pieces)
    assert len(pieces) == len(UPPER)
    texts, reasons = join_stream(events)
    assert reasons == {0: "stop"}
    assert texts[0] == complete_ok(port, prompt=UPPER, seed=7)["choices"][0]["text"]


def test_stream_events_agree_on_who_they_are(port):
    events = stream_ok(port, model=MODEL, prompt=UPPER, seed=7)
    for name in ("id", "object", "model", "created", "system_fingerprint", "seed"):
        assert len({event[name] for event in events}) == 1, name
    assert events[0]["object"] == "text_completion"
    assert events[0]["seed"] == 7


def test_stream_headers(port):
    reply = client.complete(port, prompt=UPPER, stream=True)
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert reply.headers["cache-control"] == "no-cache"
    assert reply.headers["x-accel-buffering"] == "no"
    assert "content-length" not in reply.headers


def test_stream_of_many_samples(port):
    events = stream_ok(port, prompt=UPPER, seed=7, n=5)
    texts, reasons = join_stream(events)
    assert reasons == dict.fromkeys(range(5), "stop")
    whole = complete_ok(port, prompt=UPPER, seed=7, n=5)["choices"]
    assert sorted(texts.values()) == sorted(choice["text"] for choice in whole)
    scores = {
        texts[choice["index"]]: choice["mean_logprob"]
        for event in events
        for choice in event["choices"]
        if choice.get("finish_reason")
    }
    for choice in whole:
        assert scores[choice["text"]] == pytest.approx(choice["mean_logprob"], rel=1e-5)


def test_stream_reports_usage_only_when_asked(port):
    assert all(not event.get("usage") for event in stream_ok(port, prompt=UPPER))
    events = stream_ok(port, prompt=UPPER, stream_options={"include_usage": True})
    *others, last = events
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == len(UPPER)
    assert all(event["choices"] and event["usage"] is None for event in others)


def test_cut_stream_says_length(port):
    texts, reasons = join_stream(stream_ok(port, prompt=UPPER, seed=4, max_tokens=2))
    assert reasons == {0: "length"}
    assert len(texts[0]) == 2


def test_keep_alive_serves_streams_and_answers_in_turn(port):
    fields = {"model": MODEL, "prompt": UPPER, "seed": 1, "rank": False}
    plain = client.encode_request("POST", "/v1/completions", fields, port=port)
    stream = client.encode_request("POST", "/v1/completions", {**fields, "stream": True}, port=port)
    with client.connect(port) as sock:
        texts = []
        for data in (plain, stream, stream, plain):
            sock.sendall(data)
            received = b""
            while not (found := client.parse_replies(received)[0]):
                part = sock.recv(65536)
                assert part, received
                received += part
            assert client.parse_replies(received)[1] == b""
            if data is plain:
                texts.append(found[0].json()["choices"][0]["text"])
            else:
                texts.append(join_stream(client.parse_events(found[0].body))[0][0])
    assert len(set(texts)) == 1


def test_http_1_0_stream_ends_with_the_connection(port):
    body = json.dumps({"model": MODEL, "prompt": UPPER, "seed": 1, "stream": True}).encode()
    head = f"POST /v1/completions HTTP/1.0\r\nContent-Length: {len(body)}\r\n"
    head += "Content-Type: application/json\r\n\r\n"
    received = client.exchange(port, head.encode() + body)
    head, _, events = received.partition(b"\r\n\r\n")
    status, headers = client.parse_head(head)
    assert status == 200 and "transfer-encoding" not in headers
    texts, _ = join_stream(client.parse_events(events))
    assert texts[0] == complete_ok(port, prompt=UPPER, seed=1)["choices"][0]["text"]


def test_pipelined_requests_are_answered_in_order(port):
    seeds = [3, 1, 2]
    fields = {"model": MODEL, "prompt": UPPER}
    data = b"".join(
        client.encode_request("POST", "/v1/completions", {**fields, "seed": seed}, port=port)
        for seed in seeds
    )
    with client.connect(port) as sock:
        sock.sendall(data)
        received = b""
        while len(replies := client.parse_replies(received)[0]) < 3:
            part = sock.recv(65536)
            assert part, received
            received += part
    assert [reply.json()["seed"] for reply in replies] == seeds


# --- small routes ------------------------------------------------------------------------------


def test_models(port):
    listing = call(port, "GET", "/v1/models").json()
    assert listing["object"] == "list"
    (model,) = [model for model in listing["data"] if model["id"] == MODEL]
    assert model["object"] == "model"
    assert isinstance(model["created"], int)
    assert model["owned_by"]


@pytest.mark.parametrize("path", ["/health", "/livez", "/readyz", "/v1/health", "/v2/health/ready", "/v2/health/live"])
def test_health_routes(port, path):
    reply = call(port, "GET", path)
    assert reply.status == 200
    assert reply.json()["status"] == "ok"


def test_page_and_its_files(port):
    page = call(port, "GET", "/")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy or "default-src 'self'" in policy
    assert "unsafe-inline" not in policy and "unsafe-eval" not in policy and "*" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "{{" not in page.text and "<!--linnet" not in page.text
    for path, kind in (("/app.js", "javascript"), ("/style.css", "text/css"),
                       ("/favicon.svg", "image/svg+xml")):
        reply = call(port, "GET", path)
        assert reply.status == 200 and kind in reply.headers["content-type"], path
        assert reply.body


def post_form(port, form):
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return call(port, "POST", "/", form.encode(), headers)


def test_form_without_javascript(port):
    reply = post_form(port, "upper=%E6%B5%B7%E4%B8%8A%E6%98%8E%E6%9C%88&n=3&temperature=0.8&seed=7")
    assert reply.status == 200
    assert reply.text.count('class="line"') == 3
    best = complete_ok(port, prompt="海上明月", n=3, temperature=0.8, seed=7)["choices"][0]["text"]
    assert best in reply.text


def test_form_escapes_what_it_shows(port):
    attack = "%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E"
    reply = post_form(port, f"upper={attack}&n=1")
    assert 400 <= reply.status < 500
    assert "<script>alert" not in reply.text
    assert 'role="alert"' in reply.text


@pytest.mark.parametrize("form", ["", "upper=", "upper=%FF%FE", "upper=%zz", "upper=a", "n=3",
                                  "upper=%E6%9C%88&n=0", "upper=%E6%9C%88&n=abc",
                                  "upper=%E6%9C%88&temperature=nan", "upper=a%00b"])
def test_bad_form_is_a_4xx_page(port, form):
    reply = post_form(port, form)
    assert 400 <= reply.status < 500
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert 'role="alert"' in reply.text


def test_the_text_of_a_chat(port):
    body = {"model": MODEL, "messages": [{"role": "user", "content": "海上明月"}]}
    reply = call(port, "POST", "/apply-template", body)
    assert reply.status == 200 and reply.json() == {"prompt": "海上明月"}, reply.text


def test_scripts_come_packed_where_the_client_takes_it(port):
    """The packed file has a tag of its own, and unpacked it is the plain one."""
    plain = call(port, "GET", "/common.js")
    packed = call(port, "GET", "/common.js", headers={"Accept-Encoding": "br, gzip;q=0.5"})
    assert packed.headers["content-encoding"] == "gzip" and packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert gzip.decompress(packed.body) == plain.body and len(packed.body) < len(plain.body) / 2
    assert packed.headers["etag"] != plain.headers["etag"]
    assert call(port, "GET", "/common.js", headers={"Accept-Encoding": "gzip", "If-None-Match": packed.headers["etag"]}).status == 304
    for codings in ("gzip;q=0", "gzip; q=0.0", "identity", ""):
        refused = call(port, "GET", "/common.js", headers={"Accept-Encoding": codings})
        assert refused.body == plain.body and "content-encoding" not in refused.headers


def test_the_page_comes_packed_where_the_client_takes_it(port):
    path = f"/?line={quote('海上明月')}"
    plain = call(port, "GET", path)
    packed = call(port, "GET", path, headers={"Accept-Encoding": "gzip, deflate"})
    assert packed.headers["content-encoding"] == "gzip" and packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert gzip.decompress(packed.body) == plain.body and "海上明月" in plain.text and len(packed.body) < len(plain.body) / 2
    refused = call(port, "GET", path, headers={"Accept-Encoding": "gzip;q=0"})
    assert refused.body == plain.body and "content-encoding" not in refused.headers
