"""The official Python client, unmodified: a sound written down, whole and streamed."""

import io

import pytest

from lazy import lazily
from sounds import MODEL, babble, transcribe_ok, wav

openai = lazily("openai")

SAID = wav(babble(2))


@pytest.fixture
def api(speech_port):
    with openai.OpenAI(base_url=f"http://127.0.0.1:{speech_port}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def want(speech_port):
    return transcribe_ok(speech_port, SAID)["text"]


def said():
    file = io.BytesIO(SAID)
    file.name = "said.wav"
    return file


def test_json(api, want):
    answer = api.audio.transcriptions.create(model=MODEL, file=said())
    assert answer.text == want and answer.usage.seconds == pytest.approx(2)


def test_text(api, want):
    assert api.audio.transcriptions.create(model=MODEL, file=said(), response_format="text") == want + "\n"


def test_verbose(api, want):
    answer = api.audio.transcriptions.create(
        model=MODEL, file=("said.wav", SAID), response_format="verbose_json", timestamp_granularities=["word", "segment"],
        language="en", temperature=0, prompt="digits")
    assert answer.text == want and answer.duration == pytest.approx(2) and answer.language == "en"
    assert "".join(word.word for word in answer.words) == want == "".join(s.text for s in answer.segments)
    assert all(word.end > word.start >= 0 for word in answer.words)


def test_stream(api, want):
    *deltas, done = api.audio.transcriptions.create(model=MODEL, file=said(), stream=True)
    assert "".join(event.delta for event in deltas) == want
    assert done.type == "transcript.text.done" and done.text == want and done.usage.output_tokens == len(deltas)


def test_own_field(api, want):
    assert api.audio.transcriptions.create(model=MODEL, file=said(), extra_body={"beam": 1}).text


def test_errors(api):
    with pytest.raises(openai.BadRequestError) as caught:
        api.audio.transcriptions.create(model=MODEL, file=("said.mp3", b"no sound"))
    assert caught.value.param == "file"
    with pytest.raises(openai.NotFoundError):
        api.audio.transcriptions.create(model="nothing", file=said())
    with pytest.raises(openai.APIError) as streamed:
        list(api.audio.transcriptions.create(model=MODEL, file=("said.wav", b"no sound"), stream=True))
    assert streamed.value.param == "file"
