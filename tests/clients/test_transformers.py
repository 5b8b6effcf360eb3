"""A tokenizer that `transformers` saves, with its chat template in a file of its own, as it writes it: a chat is a
completion of the tokens that its apply_chat_template makes of the messages."""

import json

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import said
import text_model
import vocabularies
from client import call, complete_ok
from server import Server
from test_chat_templates import CHATML, LLAMA3, LLAMA3_TOKENS

TEMPLATES = {"chatml": (CHATML, ["<|im_start|>", "<|im_end|>"], "<|im_end|>"), "llama3": (LLAMA3, LLAMA3_TOKENS, "<|eot_id|>")}
TALKS = [
    said.MESSAGES,
    [{"role": "user", "content": "\n hello\u3000"}, {"role": "assistant", "content": "\x1cHi!\u200b "}, {"role": "user", "content": "a\n\n b"}],
    [{"role": "system", "content": " "}, {"role": "user", "content": ""}],
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved")
    for name, (template, tokens, end) in TEMPLATES.items():
        made = vocabularies.qwen2()
        made.add_special_tokens(tokens)
        text_model.write(path / name, made.get_vocab_size(), {"tokenizer": "tokenizer.json", "context": text_model.CONTEXT}, made)
        fast = PreTrainedTokenizerFast(tokenizer_object=made, bos_token=tokens[0], eos_token=end, chat_template=template)
        fast.save_pretrained(path / name)
        assert "chat_template" not in json.loads((path / name / "tokenizer_config.json").read_text())
        assert (path / name / "chat_template.jinja").read_text() == template
    return path


@pytest.fixture(scope="module")
def port(saved):
    with Server("--models", saved) as server:
        yield server.port
        server.wait_idle()


@pytest.mark.parametrize("model", TEMPLATES)
@pytest.mark.parametrize("messages", TALKS, ids=["plain", "white-space", "nothing"])
def test_a_chat_is_what_the_library_makes_of_it(port, saved, model, messages):
    tokenizer = AutoTokenizer.from_pretrained(saved / model)
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
    reply = call(port, "POST", "/v1/chat/completions", {"model": model, "messages": messages, "seed": said.SEED, "max_tokens": said.LENGTH})
    assert reply.status == 200, reply.text
    want = complete_ok(port, model=model, prompt=ids, seed=said.SEED, max_tokens=said.LENGTH)
    assert reply.json()["usage"]["prompt_tokens"] == len(ids)
    assert reply.json()["choices"][0]["message"]["content"] == want["choices"][0]["text"]
