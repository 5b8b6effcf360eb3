"""Folders of the families that people download, with random numbers, in the shape of a download: the config of
transformers, a template that the family's authors published, and ends that only generation_config.json names. The
`openai` package chats with each of them: whole, as a stream, and with tools."""

import json
import re

import openai
import pytest

import hf_model
import vocabularies
from hf_model import folders
from server import Server
from test_chat_templates import CHATML
from test_published_templates import sources, templates  # noqa: F401 (fixtures)

# Family: config, tensors, the template's name (none: ChatML, as the authors' own), and the token that ends an answer.
FAMILIES = {
    "qwen3.5": (folders.WHOLE_QWEN, folders.qwen_tensors, "Qwen3.5-4B", "<|im_end|>"),
    "lfm2": (folders.LFM2, folders.lfm2_tensors, "LFM2-8B-A1B", "<|im_end|>"),
    "lfm2.5": (folders.LFM2, folders.lfm2_tensors, "LFM2.5-Instruct", "<|im_end|>"),
    "lfm3": (folders.LFM3, folders.lfm3_tensors, "LFM2.5-8B-A1B", "<|im_end|>"),
    "granite-4.0-h": (folders.GRANITE, folders.granite_tensors, "ibm-granite-granite-4.0", "<|end_of_text|>"),
    "falcon-h1": (folders.FALCON_H1, folders.falcon_h1_tensors, None, "<|im_end|>"),
    "falcon-mamba": (folders.FALCON_MAMBA, folders.mamba1_tensors, None, "<|im_end|>"),
    "olmo-hybrid": (folders.OLMO_HYBRID, folders.olmo_hybrid_tensors, None, "<|im_end|>"),
    "rwkv7": (folders.RWKV7, folders.rwkv7_tensors, "llama-cpp-rwkv-world", "</s>"),
}
WITH_TOOLS = [name for name, parts in FAMILIES.items() if parts[2] not in (None, "llama-cpp-rwkv-world")]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "the weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]}}}]
PLAIN_MARKS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]  # tokens with a text
LFM_CALLS = ["<|tool_call_start|>", "<|tool_call_end|>"]  # special tokens of LFM2, of which its templates say nothing
MESSAGES = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hello 春"}]


def write(folder, config, tensors, template, end):
    """A family's folder: its special tokens are the marks of its template."""
    tokenizer = vocabularies.qwen2()
    tokenizer.add_special_tokens(sorted({end, *re.findall(r"<\|[a-z_]+\|>", template), *(LFM_CALLS if config["model_type"] == "lfm2" else [])}))
    tokenizer.add_tokens([mark for mark in PLAIN_MARKS if mark in template])
    hf_model.write(folder, config, tensors, tokenizer=tokenizer)
    (folder / "chat_template.jinja").write_text(template)
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": {"content": end}}))
    ends = {"bos_token_id": 2, "eos_token_id": [tokenizer.token_to_id(end), 3], "temperature": 0.6, "top_p": 0.95, "do_sample": True}
    (folder / "generation_config.json").write_text(json.dumps(ends))
    return tokenizer


@pytest.fixture(scope="module")
def models(templates, tmp_path_factory):  # noqa: F811
    path = tmp_path_factory.mktemp("families")
    return path, {name: write(path / name, config, tensors, templates[template] if template else CHATML, end)
                  for name, (config, tensors, template, end) in FAMILIES.items()}


@pytest.fixture(scope="module")
def client(models):
    with Server("--models", models[0], "--slots", "4") as server:
        yield openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)
        server.wait_idle()


def likely(tokenizer, end):
    """Digits, of which each is a token that is read again as it was written, and the end."""
    return {str(tokenizer.token_to_id(text)): 100 for text in [*map(str, range(10)), end]}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_chat_ends_where_the_model_ends_it(client, models, name):
    """Five turns, each whole and as a stream: the end's mark is in no answer, and the next turn reads it as a message."""
    messages, bias = list(MESSAGES), likely(models[1][name], FAMILIES[name][3])
    for turn in range(5):
        asked = {"model": name, "messages": messages, "seed": turn, "max_tokens": 400, "temperature": 1, "logit_bias": bias}
        answer = client.chat.completions.create(**asked).choices[0]
        assert answer.finish_reason == "stop"
        said = (getattr(answer.message, "reasoning_content", None) or "") + (answer.message.content or "")
        assert re.fullmatch(r"\d*", said), said
        events = [event.choices[0] for event in client.chat.completions.create(**asked, stream=True)]
        parts = [(getattr(event.delta, "reasoning_content", None) or "") + (event.delta.content or "") for event in events]
        assert "".join(parts) == said and events[-1].finish_reason == "stop"
        messages += [{"role": "assistant", "content": answer.message.content or ""}, {"role": "user", "content": f"and {turn}"}]


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_a_published_template_calls_tools(client, name):
    messages = [{"role": "user", "content": "What is the weather like in Paris today?"}]
    asked = {"model": name, "messages": messages, "tools": TOOLS, "temperature": 1, "seed": 3, "max_tokens": 2000,
             "extra_body": {"enable_thinking": False}}
    answer = client.chat.completions.create(**asked, tool_choice="required").choices[0]
    assert answer.finish_reason == "tool_calls", answer
    for called in answer.message.tool_calls:
        assert called.function.name == "weather" and json.loads(called.function.arguments).keys() == {"city"}
        messages += [answer.message] if messages[-1] != answer.message else []
    messages += [{"role": "tool", "tool_call_id": called.id, "content": "sun"} for called in answer.message.tool_calls]
    later = client.chat.completions.create(**{**asked, "max_tokens": 5}, tool_choice="none").choices[0]
    assert later.message.role == "assistant" and not later.message.tool_calls
