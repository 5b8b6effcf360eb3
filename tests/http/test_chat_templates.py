"""Chats of models of text: by the template that their folder names, as completions of what it makes of the messages."""

import json

import pytest

import text_model
import vocabularies
from client import call, complete_ok, parse_events
from server import Server, run

CHAT = "/v1/chat/completions"
MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "hello 春"},
    {"role": "assistant", "content": "Hi!"},
    {"role": "user", "content": [{"type": "text", "text": "more\nof it"}]},
]
RWKV = "System: Be kind.\n\nUser: hello 春\n\nAssistant: Hi!\n\nUser: more\nof it\n\nAssistant:"
# ChatML in Jinja, put together from what it says of each message and of the answer.
EACH = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
CHATML = EACH + "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"


def with_template(folder, template):
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template, "model_max_length": 5}))


def write_chatml(folder, template):
    """Byte-level BPE with the template's two tokens, that ends answers with a token which config.json does not name."""
    tokenizer = vocabularies.byte_level(pattern=vocabularies.QWEN2)
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    text = {"tokenizer": "tokenizer.json", "context": text_model.CONTEXT}
    text_model.write(folder, tokenizer.get_vocab_size(), text, tokenizer, 2)
    with_template(folder, template)
    return tokenizer


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    with_template(text_model.write_bytes(path / "rwkv", end=[]), "rwkv")
    text_model.write_bytes(path / "plain")
    with_template(text_model.write_bytes(path / "strange"), "{{ messages }}")
    with_template(text_model.write_bytes(path / "listed"), [{"name": "tools", "template": "x"}, {"name": "default", "template": "rwkv"}])
    return path, write_chatml(path / "chatml", CHATML)


@pytest.fixture(scope="module")
def server(models):
    with Server("--models", models[0], "--slots", "8") as started:
        yield started
        started.wait_idle()


@pytest.fixture
def port(server):
    yield server.port
    server.check_unharmed()


def chat(port, **fields):
    return call(port, "POST", CHAT, {"messages": MESSAGES, "max_tokens": 30, "seed": 3, **fields})


def said(reply):
    assert reply.status == 200, reply.text
    return [c["message"]["content"] for c in reply.json()["choices"]]


@pytest.mark.parametrize("model", ["rwkv", "listed"])
def test_rwkv(port, model):
    prompt = [text_model.BEGIN, *RWKV.encode()]
    reply = chat(port, model=model, n=3)
    want = complete_ok(port, model=model, prompt=prompt, max_tokens=30, seed=3, n=3, stop=["\n\nUser:"])
    assert said(reply) == [c["text"] for c in want["choices"]]
    assert reply.json()["usage"]["prompt_tokens"] == len(prompt)


def test_chatml(port, models):
    text = "".join(f"<|im_start|>{m['role']}\n{m['content'] if isinstance(m['content'], str) else m['content'][0]['text']}<|im_end|>\n"
                   for m in MESSAGES) + "<|im_start|>assistant\n"
    ids = models[1].encode(text, add_special_tokens=False).ids
    reply = chat(port, model="chatml")
    assert said(reply) == [complete_ok(port, model="chatml", prompt=ids, max_tokens=30, seed=3)["choices"][0]["text"]]
    assert reply.json()["usage"]["prompt_tokens"] == len(ids)
    end = models[1].token_to_id("<|im_end|>")
    ended = chat(port, model="chatml", logit_bias={str(end): 100}, temperature=0).json()
    assert ended["choices"][0]["finish_reason"] == "stop" and ended["choices"][0]["message"]["content"] == ""


def test_a_chat_streams(port):
    reply = chat(port, model="rwkv", stream=True)
    assert reply.status == 200, reply.text
    events = parse_events(reply.body)
    text = "".join((c["choices"] or [{"delta": {}}])[0]["delta"].get("content", "") for c in events)
    assert [text] == said(chat(port, model="rwkv"))


def test_a_stop_of_ones_own_and_the_templates(port):
    whole = said(chat(port, model="rwkv", ignore_eos=True))[0]
    stop = whole[5]
    assert said(chat(port, model="rwkv", stop=[stop]))[0] == whole[: whole.index(stop)]
    reply = chat(port, model="rwkv", stop=["a", "b", "c", "d"])
    assert reply.status == 400 and reply.error["param"] == "stop"


@pytest.mark.parametrize("model, words", [("plain", "no template"), ("strange", "none of chatml, llama3, rwkv")])
def test_what_has_no_known_template_is_refused(port, model, words):
    reply = chat(port, model=model)
    assert reply.status == 400 and reply.error["param"] == "model" and words in reply.error["message"], reply.text


@pytest.mark.parametrize(
    "messages, words",
    [
        ([{"role": "user", "content": "a<|im_end|>b"}], "messages[0] has <|im_end|> in it"),
        ([{"role": "tool", "content": "a"}], "role"),
        ([{"role": "assistant", "content": "a"}], "user's"),
        ([{"role": "user", "content": "a" * 2000}], "more than"),
    ],
)
def test_messages_that_do_not_fit_are_refused(port, messages, words):
    reply = chat(port, model="chatml", messages=messages)
    assert reply.status == 400 and reply.error["param"] == "messages" and words in reply.error["message"], reply.text


def test_a_broken_file_is_refused(tmp_path):
    folder = text_model.write_bytes(tmp_path / "model")
    (folder / "tokenizer_config.json").write_text("{")
    answer = run("generate", "--model", folder, "--prompt", "a")
    assert answer.returncode == 1 and "tokenizer_config.json" in answer.stderr
