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


def test_transcriptions(api, port):
    sound = sounds.wav(sounds.babble(2))
    want = sounds.transcribe_ok(port, sound)["text"]
    fields = {"model": sounds.MODEL, "file": ("said.wav", sound)}
    assert api.audio.transcriptions.create(**fields).text == want
    deltas = [e.delta for e in api.audio.transcriptions.create(**fields, stream=True) if e.type == "transcript.text.delta"]
    assert "".join(deltas) == want
