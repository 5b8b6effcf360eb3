"""litellm: chat and completions, whole and streamed, responses; errors become its own."""

import litellm
import pytest

import said
from conftest import TALK

MODEL = f"openai/{TALK}"


@pytest.fixture
def where(base):
    return {"api_base": base, "api_key": "none", "num_retries": 0}


def test_chat(where, port):
    fields = {"model": MODEL, "messages": said.MESSAGES, "seed": said.SEED, "max_tokens": said.LENGTH, **where}
    want = said.chat(port, TALK)
    answer = litellm.completion(**fields)
    assert answer.choices[0].message.content == want and answer.usage.completion_tokens > 0
    assert "".join(e.choices[0].delta.content or "" for e in litellm.completion(**fields, stream=True)) == want


def test_completions(where, port):
    fields = {"model": f"text-completion-openai/{TALK}", "prompt": "Once", "seed": said.SEED, "max_tokens": said.LENGTH, **where}
    want = said.text(port, TALK, "Once")
    assert litellm.text_completion(**fields).choices[0].text == want
    assert "".join(e.choices[0].text or "" for e in litellm.text_completion(**fields, stream=True)) == want


def test_responses(where, port):
    system, user = said.MESSAGES
    fields = {"model": MODEL, "instructions": system["content"], "input": user["content"], "max_output_tokens": said.LENGTH,
              "extra_body": {"seed": said.SEED}, "api_base": where["api_base"], "api_key": "none"}
    want = said.chat(port, TALK)
    answer = litellm.responses(**fields)
    assert answer.output[0].content[0].text == want
    deltas = [e.delta for e in litellm.responses(**fields, stream=True) if e.type == "response.output_text.delta"]
    assert "".join(deltas) == want


def test_errors(where):
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(model="openai/no-such-model", messages=said.MESSAGES, **where)
    with pytest.raises(litellm.BadRequestError, match="temperature"):
        litellm.completion(model=MODEL, messages=said.MESSAGES, temperature=11, **where)
