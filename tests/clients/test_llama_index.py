"""LlamaIndex, through its package for OpenAI: a chat by responses, its stream, and a conversation that follows stored
responses."""

import openai
import pytest
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai import OpenAIResponses

import said
from conftest import CONTEXT, TALK


@pytest.fixture
def make(base):
    def make_(**more):
        return OpenAIResponses(api_base=base, api_key="none", model=TALK, max_output_tokens=said.LENGTH, temperature=0.8, max_retries=0,
                               context_window=CONTEXT, additional_kwargs={"extra_body": {"seed": said.SEED}}, **more)

    return make_


MESSAGES = [ChatMessage(role="system", content="Be kind."), ChatMessage(role="user", content="hello 春")]


def test_a_chat(make, port):
    want = said.chat(port, TALK)
    assert make().chat(MESSAGES).message.content == want
    assert "".join(part.delta for part in make().stream_chat(MESSAGES)) == want


def test_a_conversation(make, base):
    """It sends the id of the last response with the new message."""
    model = make(track_previous_responses=True)
    first = model.chat([ChatMessage(role="user", content="hello 春")])
    later = model.chat([ChatMessage(role="user", content="more")])
    assert first.message.content != later.message.content
    with openai.OpenAI(base_url=base, api_key="none") as api:
        kept = api.responses.retrieve(later.raw.id)
        assert kept.previous_response_id == first.raw.id and kept.output_text == later.message.content
        assert kept.usage.input_tokens_details.cached_tokens > 0
