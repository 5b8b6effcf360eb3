"""`llm`, the command: a model of its own list of OpenAI's, asked whole and as a stream, and a conversation that
continues."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import said
from conftest import TALK

LLM = Path(sys.executable).parent / "llm"
OPTIONS = ["-o", "seed", str(said.SEED), "-o", "max_tokens", str(said.LENGTH)]


@pytest.fixture
def llm(base, tmp_path):
    user = tmp_path / "llm"
    user.mkdir()
    (user / "extra-openai-models.yaml").write_text(
        f"- model_id: linnet\n  model_name: {TALK}\n  api_base: {base}\n"
        f"- model_id: linnet-text\n  model_name: {TALK}\n  api_base: {base}\n  completion: true\n")

    def run(*args):
        result = subprocess.run([LLM, *args], capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
                                env={**os.environ, "LLM_USER_PATH": str(user)})
        assert result.returncode == 0, result.stderr.decode()
        return result.stdout.decode().removesuffix("\n")

    return run


@pytest.mark.parametrize("flags", [[], ["--no-stream"]], ids=["stream", "whole"])
def test_chat_goes_on(llm, port, flags):
    system, user = said.MESSAGES
    first = said.chat(port, TALK)
    assert llm("-m", "linnet", "-s", system["content"], *OPTIONS, *flags, user["content"]) == first
    talk = [*said.MESSAGES, {"role": "assistant", "content": first}, {"role": "user", "content": "more"}]
    assert llm("-c", "-s", system["content"], *OPTIONS, *flags, "more") == said.chat(port, TALK, talk)


def test_completions(llm, port):
    assert llm("-m", "linnet-text", *OPTIONS, "Once") == said.text(port, TALK, "Once")


def test_it_is_listed(llm):
    assert "linnet" in llm("models")
