"""One server for all clients: a couplet's model, and small models with random weights, one of text that has a template
for chats and one of speech. Their words make no sense; that every client gets them whole does not depend on that."""

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "http"))

import sounds  # noqa: E402
import speech_model  # noqa: E402
import text_model  # noqa: E402
import vocabularies  # noqa: E402
from server import Server  # noqa: E402
from test_chat_templates import CHATML  # noqa: E402

CONTEXT = 2000
TALK = "talk"


def write(folder):
    """Byte-level BPE with ChatML, as transformers opens it, too: its tokenizer ends texts with <|im_end|>."""
    tokenizer = vocabularies.qwen2()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    end = tokenizer.token_to_id("<|im_end|>")
    text_model.write(folder, tokenizer.get_vocab_size(), {"tokenizer": "tokenizer.json", "context": CONTEXT, "end": [end]},
                     tokenizer, 2)
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "chat_template": CHATML, "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}))
    return tokenizer


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    write(path / TALK)
    speech_model.write(path / sounds.MODEL)
    return path


@pytest.fixture(scope="session")
def server(folder):
    with Server("--models", folder, "--max-tokens", "300") as started:
        yield started
        started.wait_idle()


@pytest.fixture
def base(server):
    return f"http://127.0.0.1:{server.port}/v1"


@pytest.fixture
def port(server):
    return server.port


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """No key, no proxy, no account of the machine's user."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
