"""A client that `openapi-python-client` makes of /openapi.json: it covers all routes but the pictures that are no JSON,
and answers come back in its own types."""

import importlib
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import said
import sounds
from client import call
from conftest import TALK

GENERATE = Path(sys.executable).parent / "openapi-python-client"


@pytest.fixture(scope="module")
def made(server, tmp_path_factory):
    """The folder of the client, and the output of its maker."""
    path = tmp_path_factory.mktemp("generated")
    document = path / "openapi.json"
    document.write_text(json.dumps(call(server.port, "GET", "/openapi.json").json()))
    run = subprocess.run([GENERATE, "generate", "--path", document, "--meta", "none", "--output-path", path / "generated_client"],
                         capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    return path, run.stdout + run.stderr


@pytest.fixture
def api(made, base, monkeypatch):
    """(a client, a function from "tag.operation" to its module, one from a model's name to its class)"""
    monkeypatch.syspath_prepend(str(made[0]))
    client = importlib.import_module("generated_client").Client(base_url=base.removesuffix("/v1"))
    models = importlib.import_module("generated_client.models")
    return client, lambda name: importlib.import_module(f"generated_client.api.{name}"), models


def test_nothing_is_left_out(made):
    """Except the link's picture, which is no JSON: the maker reports once that it cannot read it."""
    said_of = made[1]
    assert "Unable to process schema" not in said_of and "Failure to process" not in said_of, said_of
    assert said_of.count("WARNING parsing") == 1 and "WARNING parsing GET /link.png" in said_of, said_of


def test_texts(api, port):
    client, module, models = api
    asked = models.CompletionRequest(model=TALK, prompt="Once", seed=said.SEED, max_tokens=said.LENGTH)
    answer = module("text.create_completion").sync(client=client, body=asked)
    assert isinstance(answer, models.Completion)
    assert answer.choices[0].text == said.text(port, TALK, "Once") and answer.usage.completion_tokens > 0
    messages = [models.ChatMessage.from_dict(m) for m in said.MESSAGES]
    asked = models.ChatRequest(model=TALK, messages=messages, seed=said.SEED, max_tokens=said.LENGTH)
    want = said.chat(port, TALK)
    assert module("text.create_chat_completion").sync(client=client, body=asked).choices[0].message.content == want
    system, user = said.MESSAGES
    asked = models.ResponseRequest(model=TALK, input_=user["content"], instructions=system["content"], seed=said.SEED,
                                   max_output_tokens=said.LENGTH)
    answer = module("text.create_response").sync(client=client, body=asked)
    assert isinstance(answer, models.TextResponse) and answer.output[0].content[0].text == want


def test_sounds(api, port):
    client, module, models = api
    sound = sounds.wav(sounds.babble(2))
    types = importlib.import_module("generated_client.types")
    asked = models.TranscriptionForm(file=types.File(payload=io.BytesIO(sound), file_name="said.wav"), model=sounds.MODEL)
    answer = module("speech.create_transcription").sync(client=client, body=asked)
    assert isinstance(answer, models.Transcription) and answer.usage.seconds == 2
    assert answer.text == sounds.transcribe_ok(port, sound)["text"]


def test_the_rest(api):
    client, module, models = api
    listed = module("models.list_models").sync(client=client)
    assert TALK in [m.id for m in listed.data]
    tokens = module("text.tokenize").sync(client=client, body=models.TokenizeRequest(model=TALK, content="hello"))
    back = module("text.detokenize").sync(client=client, body=models.DetokenizeRequest(model=TALK, tokens=tokens.tokens))
    assert back.content == "hello"
    state = module("states.create_state").sync(client=client, body=models.StateRequest(model=TALK, prompt="hello"))
    assert module("states.retrieve_state").sync(state.id, client=client).id == state.id
    assert module("server.health").sync(client=client).status == "ok"


def test_errors_have_their_type(api):
    client, module, models = api
    answer = module("text.create_completion").sync(client=client, body=models.CompletionRequest(model="none", prompt="a"))
    assert isinstance(answer, models.Error) and answer.error.code == "model_not_found"
