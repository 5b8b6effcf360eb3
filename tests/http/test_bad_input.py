"""Bad input of clients: each gets a 4xx that names the field, and the server stays as well as before.

The `server` fixture checks after every test that the server is alive, idle and answers.
"""

import json

import pytest

import client
from client import call, complete
from settings import MODEL

pytestmark = [pytest.mark.quick, pytest.mark.asan]

GOOD = "海上明月"
JSON = json.dumps({"model": MODEL, "prompt": GOOD}).encode()


def check_refused(reply, param, status=400):
    assert reply.status == status, (reply.status, reply.text)
    assert reply.headers["content-type"].startswith("application/json")
    error = reply.error
    assert error["param"] == param, error
    return error


def post_raw(port, body):
    return call(port, "POST", "/v1/completions", body, {"Content-Type": "application/json"})


def with_prompt(value):
    """A body with the JSON `value` as prompt, put in as bytes."""
    return b'{"model": "%s", "prompt": %s}' % (MODEL.encode(), value)


# --- the prompt --------------------------------------------------------------------------------

PROMPTS = {
    "empty": "",
    "blank": "   ",
    "full-width blank": "\u3000",
    "33 characters": "山" * 33,
    "33 with a rare one": "山" * 32 + "龘",
    "a thousand characters": "山水" * 500,
    "nul": "海上\0明月",
    "escape": "海上\x1b[31m明月",
    "delete": "海上\x7f明月",
    "c1 control": "海上\x85明月",
    "line break inside": "海上\n明月",
    "line break and a space": "海上 \n明月",
    "emoji": "海上😀明月",
    "emoji alone": "😀",
    "family emoji": "👨\u200d👩\u200d👧",
    "zero-width joiner": "海上\u200d明月",
    "byte-order mark inside": "海上\ufeff明月",
    "right-to-left override": "海上\u202e明月",
    "latin": "hello",
    "combining mark": "e\u0301海上",
    "private use": "海上\ue000明月",
    "noncharacter": "海上\uffff明月",
    "replacement character": "海上\ufffd明月",
    "special by name": "<s>",
    "number": 5,
    "null": None,
    "true": True,
    "object": {"text": GOOD},
    "list of numbers": [1, 2],
    "empty list": [],
    "nested list": [[GOOD]],
}


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS.keys())
def test_bad_prompt(port, prompt):
    check_refused(complete(port, prompt=prompt), "prompt")


def test_missing_prompt(port):
    check_refused(complete(port), "prompt")


def test_bad_prompt_of_a_stream_is_no_stream(port):
    check_refused(complete(port, prompt="", stream=True), "prompt")


INVALID_UTF8 = {
    "lone continuation": b"\x80",
    "cut sequence": b"\xe6\xb5",
    "overlong slash": b"\xc0\xaf",
    "overlong nul": b"\xc0\x80",
    "surrogate": b"\xed\xa0\x80",
    "beyond unicode": b"\xf4\x90\x80\x80",
    "never used byte": b"\xff",
    "gb18030": "海上明月".encode("gb18030"),
    "utf-16": "海上明月".encode("utf-16"),
}


@pytest.mark.parametrize("data", INVALID_UTF8.values(), ids=INVALID_UTF8.keys())
def test_invalid_utf8(port, data):
    reply = post_raw(port, with_prompt(b'"' + data + b'"'))
    assert reply.status == 400, reply.text
    assert reply.error["param"] in ("prompt", "body")


@pytest.mark.parametrize("escape", [r"\ud800", r"\udc00", r"\ud800\ud800", r"\ud83d海"])
def test_lone_surrogate_escape(port, escape):
    reply = post_raw(port, with_prompt(b'"' + escape.encode() + b'"'))
    assert reply.status == 400
    assert reply.error["param"] in ("prompt", "body")


# --- other fields ------------------------------------------------------------------------------

HUGE = 2**70
FIELDS = [
    ("model", ["no-such-model", "", "../couplet", "couplet\0", 5, [MODEL], "x" * 10_000]),
    ("n", [0, -1, 1_000_000, HUGE, 1.5, "3", True, [1], {}]),
    ("temperature", [-1, -0.001, 1e9, HUGE, "hot", "NaN", True, [], {}]),
    ("top_p", [0, -0.1, 2, 1.0001, "all", False, []]),
    ("top_k", [-2, 1.5, HUGE, "5", True, []]),
    ("seed", [-2, 1.5, HUGE, 2**64, "7", True, []]),
    ("max_tokens", [0, -1, 1.5, HUGE, "5", True, []]),
    ("stream", ["yes", 1, 0, "true", [], {}]),
    ("rules", ["no", 0, 1, [], {}]),
    ("normalize", ["no", 0, 1, [], {}]),
    ("timeout_ms", [0, -1, 1.5, HUGE, "5", True, []]),
    ("stream_options", ["usage", 1, [], {"include_usage": "yes"}]),
]
CASES = [(name, value) for name, values in FIELDS for value in values]


@pytest.mark.parametrize("name, value", CASES, ids=[f"{n}={str(v)[:20]!r}" for n, v in CASES])
def test_bad_field(port, name, value):
    fields = {"prompt": GOOD, name: value}
    if name == "stream_options":
        fields["stream"] = True
    reply = complete(port, **fields)
    status = 404 if name == "model" and isinstance(value, str) and reply.status == 404 else 400
    error = check_refused(reply, reply.error["param"], status)
    assert error["param"].split(".")[0] == name


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e400",
                                    "0x10", "+1", ".5", "1.", "01", "1e", "--1", "1_000"])
def test_bad_number(port, number):
    reply = post_raw(port, with_prompt(f'"{GOOD}", "temperature": {number}'.encode()))
    assert reply.status == 400, reply.text
    assert reply.error["param"] in ("temperature", "body")
    assert ("a number that is too large" in reply.error["message"]) == number.lstrip("-").startswith(("1e9", "1e4")), reply.text


@pytest.mark.parametrize("ask", [
    lambda port: complete(port, model="coupelt", prompt="海上"),
    lambda port: client.call(port, "GET", "/v1/models/coupelt"),
], ids=["completion", "model"])
def test_a_model_that_is_not_there(port, ask):
    reply = ask(port)
    assert (reply.status, reply.error["param"], reply.error["code"]) == (404, "model", "model_not_found")
    assert client.MODEL in reply.error["message"]


def test_missing_model(port):
    """One model of text is served: test_fields.py has a server with several."""
    assert post_raw(port, json.dumps({"prompt": GOOD}).encode()).status == 200


def test_null_means_absent_and_unknown_fields_are_ignored(port):
    """As OpenAI's server has it; its clients send fields that mean nothing here."""
    plain = complete(port, prompt=GOOD, seed=3).json()
    nulls = dict.fromkeys(("n", "temperature", "top_p", "top_k", "max_tokens", "stream", "user"))
    reply = complete(port, prompt=GOOD, seed=3, **nulls, frequency_penalty=0, x={"y": [1]})
    assert reply.status == 200, reply.text
    assert reply.json()["choices"] == plain["choices"]


def test_stream_options_without_stream(port):
    reply = complete(port, prompt=GOOD, stream_options={"include_usage": True})
    check_refused(reply, "stream_options")


def test_the_largest_seed_is_exact(port):
    """Seeds stay below 2^53 because many clients read every number as a double."""
    reply = complete(port, prompt=GOOD, seed=2**53 - 1)
    assert reply.json()["seed"] == 2**53 - 1
    check_refused(complete(port, prompt=GOOD, seed=2**53), "seed")


# --- the body as JSON --------------------------------------------------------------------------

GOOD_BODY = with_prompt(f'"{GOOD}"'.encode())
BODIES = {
    "empty": b"",
    "blank": b"  \n",
    "text": b"hello",
    "array": b"[]",
    "string": b'"prompt"',
    "number": b"1",
    "null": b"null",
    "unclosed": b'{"prompt": "a"',
    "unclosed string": b'{"prompt": "a',
    "single quotes": b"{'prompt': 'a'}",
    "trailing comma": with_prompt(b'"a",'),
    "trailing garbage": GOOD_BODY + b" x",
    "two objects": GOOD_BODY + b"{}",
    "trailing nul": GOOD_BODY + b"\0",
    "comment": with_prompt('"海上明月" /* */'.encode()),
    "duplicate key": with_prompt('"海上明月", "prompt": "春江夜雨"'.encode()),
    "duplicate n": with_prompt('"海上明月", "n": 1, "n": 1000'.encode()),
    "byte-order mark": b"\xef\xbb\xbf" + GOOD_BODY,
    "utf-16": GOOD_BODY.decode().encode("utf-16"),
    "1000 arrays deep": with_prompt(b"[" * 1000 + b"]" * 1000),
    "1000 objects deep": b'{"a":' * 1000 + b"1" + b"}" * 1000,
    "50000 brackets": b"[" * 50_000,
    "raw control character": with_prompt(b'"\x01"'),
    "raw line break": with_prompt('"海上\n明月"'.encode()),
    "bad escape": with_prompt(rb'"\x41"'),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_bad_json(port, body):
    reply = post_raw(port, body)
    assert reply.status == 400, (reply.status, reply.text)
    assert reply.error["param"] in ("body", "prompt", "a", "n"), reply.error


DEEP = b"[" * 100


@pytest.mark.parametrize("body, param", [
    (b'{"seed":1,"my key":' + DEEP, "body"), ('{"seed":1,"月":'.encode() + DEEP, "body"), (rb'{"seed":1,"a\nb":' + DEEP, "body"),
    (b'{"seed":1,"' + b"k" * 99 + b'":' + DEEP, "body"), (b'["a","seed",' + DEEP, "body"), (b'{"my key":1,"seed":' + DEEP, "seed")])
def test_only_the_field_at_fault_is_named(port, body, param):
    refused = post_raw(port, body)
    assert refused.status == 400 and refused.error["param"] == param and "deep" in refused.error["message"], refused.text


def test_many_keys(port):
    body = json.dumps({f"k{i}": i for i in range(5000)}).encode()
    assert post_raw(port, body).status in (400, 413)


def test_what_the_client_sent_is_not_sent_back_whole(port):
    reply = complete(port, prompt=GOOD, model="x\n\"<" + "y" * 20_000)
    assert 400 <= reply.status < 500
    assert len(reply.body) < 2000
    assert reply.error


def test_ten_megabytes_are_refused_unread(port):
    body = b'{"prompt": "' + b"a" * 10_000_000 + b'"}'
    replies, _ = client.parse_replies(
        client.exchange(port, client.encode_request("POST", "/v1/completions", body, port=port), 20)
    )
    assert replies[0].status == 413
    assert replies[0].error["param"] == "body"


def test_ten_megabytes_in_chunks_are_refused(server):
    before = server.resident_bytes()
    chunk = b"10000\r\n" + b"a" * 65536 + b"\r\n"
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    data = head + chunk * 160 + b"0\r\n\r\n"
    replies, _ = client.parse_replies(client.exchange(server.port, data, 20))
    assert replies[0].status == 413
    assert replies[0].error["param"] == "body"
    assert server.resident_bytes() - before < 8 << 20


def test_announced_giant_is_refused_before_it_is_sent(port):
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {10**12}\r\n"
    for expect in ("", "Expect: 100-continue\r\n"):
        received = client.exchange(port, f"{head}{expect}\r\n".encode(), 10)
        assert b" 100 " not in received
        assert client.parse_replies(received)[0][0].status == 413


def test_expect_continue_is_served(port):
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(JSON)}\r\n")
    with client.connect(port) as sock:
        sock.sendall(f"{head}Expect: 100-continue\r\nConnection: close\r\n\r\n".encode())
        assert b" 100 " in sock.recv(65536)
        sock.sendall(JSON)
        received = client.read_all(sock, 10)
    assert client.parse_replies(received)[0][0].status == 200


# --- routes and methods ------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/nothing", "/v1", "/v1/", "/v1/completions/", "/v1/completion",
                                  "//v1/completions", "/../etc/passwd", "/%2e%2e/etc/passwd",
                                  "/index.html/..", "/app.js%00.html", "/v1/completions%00"])
def test_unknown_route(port, path):
    for method in ("GET", "POST"):
        reply = call(port, method, path, b"" if method == "POST" else None)
        assert reply.status in (400, 404), (path, reply.status)
        assert reply.error["message"]


WRONG_METHODS = [("GET", "/v1/completions"), ("PUT", "/v1/completions"),
                 ("DELETE", "/v1/completions"), ("PATCH", "/v1/completions"),
                 ("POST", "/v1/models"), ("POST", "/health"), ("POST", "/metrics"),
                 ("DELETE", "/"), ("BREW", "/v1/completions")]


@pytest.mark.parametrize("method, path", WRONG_METHODS)
def test_wrong_method(port, method, path):
    reply = call(port, method, path, b"{}" if method in ("POST", "PUT", "PATCH") else None)
    assert reply.status == 405, reply.text
    allowed = [m.strip() for m in reply.headers["allow"].split(",")]
    assert allowed and method not in allowed
    assert reply.error["message"]


@pytest.mark.parametrize("path", ["/", "/health", "/v1/models", "/metrics", "/app.js"])
def test_head_is_get_without_the_body(port, path):
    head, get = call(port, "HEAD", path), call(port, "GET", path)
    assert head.status == get.status == 200
    assert head.headers["content-type"] == get.headers["content-type"]


def test_head_of_a_stream_route_has_no_body(port):
    reply = call(port, "HEAD", "/v1/completions")
    assert reply.status == 405
    assert "POST" in reply.headers["allow"]


def test_options_names_the_methods(port):
    reply = call(port, "OPTIONS", "/v1/completions")
    assert reply.status in (200, 204, 405)
    assert "POST" in reply.headers["allow"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp"])
def test_completion_of_another_type(port, kind):
    """A page of another origin can post these types without asking first; JSON it cannot."""
    reply = call(port, "POST", "/v1/completions", JSON, {"Content-Type": kind})
    assert reply.status == 415, reply.text
    assert reply.error["message"]


@pytest.mark.parametrize("kind", ["", "text/html", "multipart/form-data; boundary=x"])
def test_form_of_another_type(port, kind):
    reply = call(port, "POST", "/", b"upper=%E6%9C%88", {"Content-Type": kind})
    assert reply.status == 415, reply.text
    assert reply.error["message"]
