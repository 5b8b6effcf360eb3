"""The `openai` package: completions, chat, responses, transcriptions, whole and streamed. More of it: tests/http/test_openai_client.py and
test_responses.py and test_openai_audio.py, which have the newest version of it; here is the newest that the other clients bear."""

import openai
import pytest

import said
import sounds
from conftest import TALK

PROMPT = "Once upon a time"


@pytest.fixture
def api(base):
    with openai.OpenAI(base_url=base, api_key="none", max_retries=0) as client:
        yield client


def test_completions(api, port):
    fields = {"model": TALK, "prompt": PROMPT, "seed": said.SEED, "max_tokens": said.LENGTH}
    want = said.text(port, TALK, PROMPT)
    assert api.completions.create(**fields).choices[0].text == want
    assert "".join(e.choices[0].text for e in api.completions.create(**fields, stream=True)) == want


def test_chat(api, port):
    fields = {"model": TALK, "messages": said.MESSAGES, "seed": said.SEED, "max_tokens": said.LENGTH}
    want = said.chat(port, TALK)
    assert api.chat.completions.create(**fields).choices[0].message.content == want
    assert "".join(e.choices[0].delta.content for e in api.chat.completions.create(**fields, stream=True)) == want


def test_responses(api, port):
    system, user = said.MESSAGES
    fields = {"model": TALK, "instructions": system["content"], "input": user["content"], "max_output_tokens": said.LENGTH,
              "extra_body": {"seed": said.SEED}}
    want = said.chat(port, TALK)
    assert api.responses.create(**fields).output_text == want
    deltas = [e.delta for e in api.responses.create(**fields, stream=True) if e.type == "response.output_text.delta"]
    assert "".join(deltas) == want


def test_a_conversation(api):
    """A stored response is followed, whole and as a stream, and by two responses."""
    fields = {"model": TALK, "max_output_tokens": said.LENGTH, "extra_body": {"seed": said.SEED}}
    first = api.responses.create(**fields, instructions="Be kind.", input="hello 春")
    later = api.responses.create(**fields, input="more", previous_response_id=first.id)
    assert later.previous_response_id == first.id and later.usage.input_tokens_details.cached_tokens > 0
    with api.responses.stream(**fields, input="more", previous_response_id=first.id) as stream:
        assert "".join(e.delta for e in stream if e.type == "response.output_text.delta") == later.output_text
    assert api.responses.retrieve(later.id).output_text == later.output_text
    assert [item.content[0].text for item in api.responses.input_items.list(later.id)] == ["more"]
    api.responses.delete(later.id)
    with pytest.raises(openai.NotFoundError):
        api.responses.retrieve(later.id)


def test_transcriptions(api, port):
    sound = sounds.wav(sounds.babble(2))
    want = sounds.transcribe_ok(port, sound)["text"]
    fields = {"model": sounds.MODEL, "file": ("said.wav", sound)}
    assert api.audio.transcriptions.create(**fields).text == want
    deltas = [e.delta for e in api.audio.transcriptions.create(**fields, stream=True) if e.type == "transcript.text.delta"]
    assert "".join(deltas) == want
