"""The `anthropic` package: messages, streams, tools, thoughts, counted tokens, errors. More of the route: tests/http/test_messages.py. The official
JavaScript client is in neither Debian nor PyPI, so ANTHROPIC_JS names its built folder (dist)."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import anthropic
import pytest

import said
import tools as families
from client import call
from conftest import TALK
from server import Server

TOOL = {"name": "weather", "description": "The weather of a city.", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"]}}
SEED = {"seed": said.SEED}


def client_of(port, key="none"):
    return anthropic.Anthropic(base_url=f"http://127.0.0.1:{port}", api_key=key, max_retries=0)


@pytest.fixture
def api(port):
    with client_of(port) as client:
        yield client


@pytest.fixture(scope="module")
def callers(tmp_path_factory):
    """Models with tools, one of them with thoughts."""
    path = tmp_path_factory.mktemp("callers")
    calls, marks, special = families.FAMILIES["hermes"]
    families.write(path / "hermes", families.HEAD + families.MESSAGE.replace("CALLS", calls) + families.TAIL, marks, special)
    families.write(path / "thinking", families.THINKING, marks, special, ["<think>", "</think>"])
    with Server("--models", path, "--max-tokens", "2000", "--api-key", "sk-own", "--public", "/health,/readyz,/metrics") as started:
        yield started
        started.wait_idle()


def test_a_message(api, port):
    system, user = said.MESSAGES
    fields = {"model": TALK, "system": system["content"], "messages": [user], "max_tokens": said.LENGTH, "extra_body": SEED}
    want = said.chat(port, TALK)
    message = api.messages.create(**fields)
    assert [b.text for b in message.content] == [want] and message.role == "assistant"
    assert message.usage.cache_read_input_tokens + message.usage.cache_creation_input_tokens + message.usage.input_tokens == api.messages.count_tokens(
        model=TALK, system=system["content"], messages=[user]).input_tokens
    with api.messages.stream(**fields) as stream:
        assert "".join(stream.text_stream) == want
        final = stream.get_final_message()
    assert final.content[0].text == want and final.stop_reason == message.stop_reason
    assert final.usage.output_tokens == message.usage.output_tokens
    raw = list(api.messages.create(**fields, stream=True))
    assert raw[0].type == "message_start" and raw[-1].type == "message_stop"


def test_another_turn(api):
    first = api.messages.create(model=TALK, messages=[said.MESSAGES[1]], max_tokens=said.LENGTH, extra_body=SEED)
    messages = [said.MESSAGES[1], {"role": "assistant", "content": first.content}, {"role": "user", "content": "more"}]
    second = api.messages.create(model=TALK, messages=messages, max_tokens=said.LENGTH, extra_body=SEED,
                                 system=[{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}], metadata={"user_id": "me"})
    assert second.type == "message" and "warnings" not in second.to_dict()
    third = api.messages.create(model=TALK, messages=messages, max_tokens=1, stop_sequences=["\n\nHuman:"])
    assert third.usage.cache_read_input_tokens > 0 and third.stop_reason == "max_tokens"


def test_tools(callers):
    """The loop of Anthropic's guide: a call, its result, an answer; whole and streamed."""
    fields = {"model": "hermes", "tools": [TOOL], "max_tokens": 1500, "extra_body": SEED | {"temperature": 1}}
    messages = [{"role": "user", "content": "What is the weather like in Paris?"}]
    with client_of(callers.port, "sk-own") as api:
        first = api.messages.create(messages=messages, tool_choice={"type": "tool", "name": "weather"}, **fields)
        assert first.stop_reason == "tool_use"
        (use,) = [b for b in first.content if b.type == "tool_use"]
        assert use.name == "weather" and isinstance(use.input["city"], str) and 1 <= use.input["days"] <= 9
        with api.messages.stream(messages=messages, tool_choice={"type": "tool", "name": "weather"}, **fields) as stream:
            parts = [e.partial_json for e in stream if e.type == "input_json"]
            final = stream.get_final_message()
        assert parts and [(b.name, b.input) for b in final.content] == [(use.name, use.input)]
        messages += [{"role": "assistant", "content": first.content},
                     {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "sun"}]}]
        second = api.messages.create(messages=messages, tool_choice={"type": "none"}, **fields | {"max_tokens": 10})
        assert all(b.type == "text" for b in second.content)


TURNS = 10


def test_an_agent_in_javascript(callers):
    """Ten calls under a grammar, streamed; each turn starts from kept states."""
    node = shutil.which("node")
    if node is None or "ANTHROPIC_JS" not in os.environ:
        pytest.skip("needs node, and the client's folder in ANTHROPIC_JS")
    script = Path(__file__).with_name("agent.mjs")
    ended = subprocess.run([node, script, f"http://127.0.0.1:{callers.port}", "hermes", str(TURNS)], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    got = json.loads(ended.stdout)
    assert len(got["inputs"]) == TURNS and got["inputs"] == got["parts"] and all(1 <= given["days"] <= 9 for given in got["inputs"])
    assert got["cached"] == sorted(got["cached"]) and got["cached"][1] > 0
    assert set(got["last"]) <= {"text"} and got["reason"] in ("end_turn", "max_tokens") and got["counted"] > 0
    assert got["missing"] == ["NotFoundError", 404]


def test_thoughts(callers):
    with client_of(callers.port, "sk-own") as api:
        kinds = set()
        for seed in range(8):
            fields = {"model": "thinking", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 60,
                      "thinking": {"type": "enabled", "budget_tokens": 1024},
                      "extra_body": {"seed": seed, "temperature": 1, "logit_bias": bias(callers.port)}}
            whole = api.messages.create(**fields)
            with api.messages.stream(**fields) as stream:
                thoughts = "".join(e.thinking for e in stream if e.type == "thinking")
            assert thoughts == "".join(b.thinking for b in whole.content if b.type == "thinking")
            kinds |= {b.type for b in whole.content}
        assert "thinking" in kinds


def bias(port):
    """The marks of thoughts are likely."""
    made = [call(port, "POST", "/tokenize", {"model": "thinking", "content": mark}, {"X-Api-Key": "sk-own"}).json() for mark in ("<think>", "</think>")]
    return {str(answer["tokens"][0]): 6 for answer in made}


def test_errors(api, callers):
    with pytest.raises(anthropic.NotFoundError) as caught:
        api.messages.create(model="no-such-model", messages=[said.MESSAGES[1]], max_tokens=1)
    assert caught.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError, match="image"):
        api.messages.create(model=TALK, max_tokens=1, messages=[{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "a"}}]}])
    with client_of(callers.port, "wrong") as wrong:
        fields = {"model": "hermes", "messages": [said.MESSAGES[1]], "max_tokens": 1}
        with pytest.raises(anthropic.AuthenticationError):
            wrong.messages.create(**fields)
        older = {"X-Api-Key": "sk-own", "Authorization": anthropic.omit}  # as versions before 2.0 send the key
        assert wrong.messages.create(**fields, extra_headers=older).type == "message"
