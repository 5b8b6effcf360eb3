"""The log as JSON lines: every line is an object, requests have their facts, prompts are not there."""

import json

import pytest

import client
import holding
from server import Server, wait_until

pytestmark = pytest.mark.quick

PROMPT = "海上明月"


def request_lines(server, path):
    lines = [json.loads(line) for line in server.log.splitlines()]
    return [line for line in lines if line["message"] == "request" and line["path"] == path]


def wait_for_line(server, path):
    """The line of a request is written after its answer."""
    wait_until(lambda: server.log.endswith("\n") and request_lines(server, path), 60, "its line")
    return request_lines(server, path)[-1]


def test_lines_of_json():
    with Server("--log-format", "json") as server:
        body = {"model": client.MODEL, "prompt": PROMPT}
        client.call(server.port, "POST", "/v1/completions", body, {"X-Request-Id": "mine-1"})
        line = wait_for_line(server, "/v1/completions")
        assert line["level"] == "info" and line["id"] == "mine-1"
        assert line["method"] == "POST" and line["status"] == 200 and line["ms"] > 0
        assert line["address"] == client.HOST and line["outcome"] == "complete"
        assert line["body_bytes"] == len(json.dumps(body, ensure_ascii=False).encode())
        assert line["time"].endswith("Z") and "key" not in line and "body" not in line
        assert PROMPT not in server.log
    for text in server.log.splitlines():
        assert {"time", "level", "message"} <= set(json.loads(text))


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize("json_lines", [True, False])
def test_traces(json_lines):
    """A request's traceparent is in its line, one that is malformed is not; neither changes the answer."""
    with Server("--log-format", "json" if json_lines else "text") as server:
        body = {"model": client.MODEL, "prompt": PROMPT, "seed": 1}
        for number, parent in enumerate([f"00-{TRACE}-00f067aa0ba902b7-01", f"00-{TRACE}-00f067aa0ba902b7", "x" * 2000]):
            headers = {"traceparent": parent, "X-Request-Id": f"mine-{number}"}
            assert client.call(server.port, "POST", "/v1/completions", body, headers).status == 200
            wait_until(lambda name=f"mine-{number}": name in server.log and server.log.endswith("\n"), 60, "its line")
        lines = [line for line in server.log.splitlines() if "mine-" in line]
        assert ["mine-0" in line for line in lines if "trace_id" in line] == [True]
        if json_lines:
            assert json.loads(lines[0])["trace_id"] == TRACE
        else:
            assert f" trace_id={TRACE}" in lines[0]


@pytest.mark.parametrize("json_lines", [True, False])
def test_clients_and_keys(tmp_path, json_lines):
    """Who asked is in the line, also of a request that is refused for its key; secrets and guesses are not."""
    path = tmp_path / "keys"
    path.write_text("alice sk-secret\n")
    with Server("--log-format", "json" if json_lines else "text", "--api-key-file", path) as server:
        def line_of(name, method, path, body, key):
            headers = {"Authorization": f"Bearer {key}", "X-Request-Id": name}
            status = client.call(server.port, method, path, body, headers).status
            wait_until(lambda: name in server.log and server.log.endswith("\n"), 60, "its line")
            line = next(line for line in server.log.splitlines() if name in line)
            return status, json.loads(line) if json_lines else dict(part.split("=") for part in line.split() if "=" in part)

        status, line = line_of("mine-1", "POST", "/v1/completions", {"model": client.MODEL, "prompt": PROMPT}, "sk-secret")
        assert status == 200 and line["address"] == client.HOST and line["key"] == "alice"
        status, line = line_of("mine-2", "GET", "/v1/models", None, "guess")
        assert status == 401 and line["address"] == client.HOST and "key" not in line
        assert "sk-secret" not in server.log and "guess" not in server.log


def line_with(server, name, json_lines):
    """The members of the line of the request with this id."""
    wait_until(lambda: name in server.log and server.log.endswith("\n"), 60, "its line")
    line = next(line for line in server.log.splitlines() if name in line)
    return json.loads(line) if json_lines else dict(part.split("=", 1) for part in line.split() if "=" in part)


@pytest.mark.parametrize("json_lines", [True, False])
def test_model_tokens_and_first_token(json_lines):
    """The figures are those of the answer, whole or as a stream; a request without a model has none."""
    with Server("--log-format", "json" if json_lines else "text") as server:
        for name, fields in (("mine-1", {}), ("mine-2", {"stream": True}), ("mine-3", {"n": 3}), ("mine-4", {"prompt": [PROMPT, "月下"]})):
            body = {"model": client.MODEL, "prompt": PROMPT, "seed": 1, **fields}
            reply = client.call(server.port, "POST", "/v1/completions", body, {"X-Request-Id": name})
            line = line_with(server, name, json_lines)
            assert line["model"] == client.MODEL
            assert 0 < float(line["ttft_ms"]) <= float(line["ms"]) if json_lines else 0 < float(line["ttft_ms"])
            if "stream" not in fields:
                usage = reply.json()["usage"]
                assert int(line["completion_tokens"]) == usage["completion_tokens"]
                assert int(line["prompt_tokens"]) == usage["prompt_tokens"]
                assert int(line["cached_tokens"]) == usage["prompt_tokens_details"]["cached_tokens"]
            else:
                assert int(line["completion_tokens"]) == len(PROMPT)
        client.call(server.port, "POST", "/v1/completions", {"model": "nothing", "prompt": PROMPT}, {"X-Request-Id": "mine-5"})
        line = line_with(server, "mine-5", json_lines)
        assert not {"model", "completion_tokens", "ttft_ms"} & set(line)


def test_tokens_of_a_client_that_left():
    with Server("--log-format", "json", "--slots", "1", *holding.FLAGS) as server:
        with holding.send(server.port, holding.ENDLESS, stream=True, headers={"X-Request-Id": "mine-1"}) as sock:
            assert sock.recv(100)
            wait_until(lambda: server.metric("linnet_generated_tokens_total") > 10, 60, "tokens")
        line = line_with(server, "mine-1", True)
        assert line["outcome"] == "client left" and line["model"] == client.MODEL
        assert 0 < line["completion_tokens"] < holding.TOKENS


@pytest.mark.parametrize("json_lines", [True, False])
def test_the_client_is_named_by_trusted_proxies_alone(json_lines):
    formats = "--log-format", "json" if json_lines else "text"
    body = {"model": client.MODEL, "prompt": PROMPT}

    def address(server, name, *forwarded):
        head = "".join(f"X-Forwarded-For: {value}\r\n" for value in forwarded)
        data = client.encode_request("POST", "/v1/completions", body, {"X-Request-Id": name, "Connection": "close"}, server.port)
        client.exchange(server.port, data.replace(b"\r\n", b"\r\n" + head.encode(), 1), 60)
        return line_with(server, name, json_lines)["address"]

    with Server(*formats, "--trusted-proxies", "127.0.0.0/8, 10.0.0.0/8") as server:
        assert address(server, "mine-1", "198.51.100.7") == "198.51.100.7"
        assert address(server, "mine-2", "1.1.1.1, 198.51.100.7, 10.0.0.2") == "198.51.100.7"
        assert address(server, "mine-3", "1.1.1.1", "198.51.100.7") == "198.51.100.7"
        assert address(server, "mine-4") == client.HOST
        assert address(server, "mine-5", "someone") == client.HOST
    with Server(*formats) as server:
        assert address(server, "mine-1", "198.51.100.7") == client.HOST


@pytest.mark.parametrize("json_lines", [True, False])
def test_bodies_when_asked_for(json_lines):
    flags = ["--log-prompts", "--log-format", "json" if json_lines else "text"]
    with Server(*flags) as server:
        body = {"model": client.MODEL, "prompt": PROMPT}
        client.call(server.port, "POST", "/v1/completions", body)
        wait_until(lambda: PROMPT in server.log, 60, "the prompt")
        if json_lines:
            assert json.loads(wait_for_line(server, "/v1/completions")["body"]) == body


@pytest.mark.parametrize(
    "body",
    [b"\xff\xfe\x00\x80", b'"\\\n\x1b[31m', "明".encode()[:2], b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
     b"\xc0\xaf", b"\x7f" * 5000, "月".encode() * 4000],
    ids=range(8),
)
def test_whatever_clients_send_a_line_is_a_line(body):
    with Server("--log-prompts", "--log-format", "json", "--max-body", "65536") as server:
        client.call(server.port, "POST", "/v1/score%0a\x7f%1b[31m", body)
        client.call(server.port, "POST", "/v1/score", body, {"Content-Type": "application/json"})
        wait_for_line(server, "/v1/score")
        for text in server.log.encode("utf-8", "strict").splitlines():
            json.loads(text)
            assert all(byte >= 0x20 and byte != 0x7F for byte in text)
