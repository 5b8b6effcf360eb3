"""Facts about a folder, which the start and `linnet inspect` print, and generation_config.json, which sets sampling of
requests."""

import json

import pytest

import text_model
from client import call, complete_ok, join_stream, stream_ok
from server import Server, run
from test_chat_templates import CHATML, with_template, write_chatml

GENERATION = {"temperature": 0, "top_p": 0.9, "top_k": 20, "min_p": None, "repetition_penalty": 1.5, "do_sample": True, "eos_token_id": [2, 5]}
THINKING = "{{ tools }}<think>"


def generation(folder, **fields):
    (folder / "generation_config.json").write_text(json.dumps(fields))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    write_chatml(path / "chatml", CHATML)
    generation(path / "chatml", **GENERATION)
    write_chatml(path / "own", THINKING)
    with_template(text_model.write_bytes(path / "strange", end=[]), "{{ messages | nothing }}")
    text_model.write_bytes(path / "plain")
    return path


FACTS = {
    "chatml": {"family": "linnet", "template": "chatml", "context": f"{text_model.CONTEXT} tokens", "ends": "<|im_end|>",
               "sampling": "temperature 0, top_p 0.9, top_k 20, repetition_penalty 1.5"},
    "own": {"template": "of its own, with tools, with thoughts"},
    "strange": {"template": "the filter nothing is not implemented", "ends": "none, so answers have the asked length"},
    "plain": {"template": "none, so chats are refused", "tokenizer": "bytes", "ends": "10"},
}


@pytest.mark.parametrize("model", FACTS)
def test_inspect_says_what_it_found(folder, model):
    text, found = run("inspect", "--model", folder / model).stdout, json.loads(run("inspect", "--model", folder / model, "--json").stdout)
    for name, words in FACTS[model].items():
        assert words in found[name]
        assert f"{name:<12} {found[name]}\n".replace("(\n)", "(\\x0a)") in text
    assert ("sampling" in found) == (model == "chatml")


def decoded(content, **flags):
    return {"1500": {"content": content, "special": True, "lstrip": False, "rstrip": False, "single_word": False, **flags}}


@pytest.mark.parametrize(("key", "value", "name"), [
    ("added_tokens_decoder", decoded("<|im_end|>"), None),  # of another id
    ("added_tokens_decoder", decoded("<new>"), "<new>"), ("added_tokens_decoder", decoded("<|im_start|>", rstrip=True), "<|im_start|>"),
    ("added_tokens_decoder", decoded("<|im_start|>", special=False), "<|im_start|>"), ("added_tokens_decoder", decoded("<|im_start|>"), ""),
    ("additional_special_tokens", ["<|im_end|>", "<new>"], "<new>"), ("additional_special_tokens", ["<|im_end|>"], ""),
    ("extra_special_tokens", {"image_token": "<new>"}, "<new>"), ("extra_special_tokens", {"image_token": "<|im_end|>"}, ""),
    ("split_special_tokens", True, "true"), ("split_special_tokens", False, ""), ("add_prefix_space", True, "")])
def test_settings_of_tokens_that_are_ignored(tmp_path, key, value, name):
    """tokenizer.json alone is read: another value in other files is named, and an equal one is not."""
    tokenizer = write_chatml(tmp_path / "model", CHATML)
    start = tokenizer.token_to_id("<|im_start|>")
    value = {str(start): value["1500"]} if key == "added_tokens_decoder" else value
    path = tmp_path / "model" / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    (tmp_path / "model" / "added_tokens.json").write_text(json.dumps({"<|im_start|>": start}))
    lines = [line for line in run("inspect", "--model", tmp_path / "model").stdout.splitlines() if line.startswith("ignored")]
    note = f'tokenizer_config.json: {key}: "{name or "<|im_end|>"}" is not so in tokenizer.json, which alone is read'
    assert lines == ([] if name == "" else [f"ignored      {note}"])
    if key == "split_special_tokens" and value:
        with Server("--models", tmp_path) as server:
            server.wait_idle()
            assert len([line for line in server.log.splitlines() if line.endswith(f"warn model model: {note}")]) == 1, server.log


def test_added_tokens_that_are_ignored(tmp_path):
    write_chatml(tmp_path / "model", CHATML)
    (tmp_path / "model" / "added_tokens.json").write_text(json.dumps({"<|im_start|>": 3}))
    assert 'ignored      added_tokens.json: id: "<|im_start|>" is not so' in run("inspect", "--model", tmp_path / "model").stdout


def test_a_name_stays_on_its_line(tmp_path):
    """Control characters in a token's name stay on the line."""
    tokenizer = write_chatml(tmp_path / "model", CHATML, tokens=("<|im_start|>", "<|im_end|>", "a\nb"))
    generation(tmp_path / "model", eos_token_id=tokenizer.token_to_id("a\nb"))
    assert "a\\x0ab" in run("inspect", "--model", tmp_path / "model").stdout
    assert "a\nb" in json.loads(run("inspect", "--model", tmp_path / "model", "--json").stdout)["ends"]


def test_the_start_says_what_it_found(folder):
    with Server("--models", folder) as server:
        server.wait_idle()
        log = server.log
    for model, facts in FACTS.items():
        for name, words in facts.items():
            lines = [line for line in log.splitlines() if f"model {model}: family " in line]
            assert len(lines) == 1 and f"{name} " in lines[0] and words in lines[0], (model, name)


def said(port, path="/v1/chat/completions", **fields):
    reply = call(port, "POST", path, {"model": "chatml", "messages": [{"role": "user", "content": "a"}], "max_tokens": 24, "seed": 3, **fields})
    assert reply.status == 200, reply.text
    return reply.json()["choices"][0]["message"]["content"]


def test_sampling_of_the_model_is_an_option(folder):
    """A field of the request goes first; without the option the file changes nothing."""
    own = {"temperature": 0, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.5}
    usual = {"temperature": 0.8, "top_p": 1, "top_k": 0, "repetition_penalty": 1}
    with Server("--models", folder) as off, Server("--models", folder, "--model-sampling") as on:
        assert said(off.port) == said(off.port, **usual) != said(off.port, **own)
        assert said(on.port) == said(off.port, **own)
        assert said(on.port, **usual) == said(off.port)
        assert said(on.port, temperature=None, top_k=-1) == said(off.port, **own | {"top_k": -1})
        assert said(on.port, temperature=2, repetition_penalty=1) == said(off.port, **own | {"temperature": 2, "repetition_penalty": 1})
        prompt = {"model": "chatml", "prompt": "hello", "max_tokens": 12, "seed": 4}
        assert complete_ok(on.port, **prompt)["choices"][0]["text"] == complete_ok(off.port, **prompt, **own)["choices"][0]["text"]
        streamed = join_stream(stream_ok(on.port, **prompt))[0][0]
        assert streamed == complete_ok(off.port, **prompt, **own)["choices"][0]["text"]
        response = call(on.port, "POST", "/v1/responses", {"model": "chatml", "input": "a", "max_output_tokens": 2}).json()
        assert (response["temperature"], response["top_p"]) == (0, 0.9)
        other = {"model": "plain", "prompt": "hello", "max_tokens": 12, "seed": 4}
        assert complete_ok(on.port, **other)["choices"] == complete_ok(off.port, **other)["choices"]
        for server in (on, off):
            server.wait_idle()


@pytest.mark.parametrize("field, value", [("temperature", "hot"), ("temperature", -1), ("top_p", 1.1), ("top_k", -2), ("min_p", []),
                                          ("repetition_penalty", 0)])
def test_bad_values_are_refused_by_name(tmp_path, field, value):
    generation(write_folder(tmp_path), **{field: value})
    answer = run("inspect", "--model", tmp_path / "model")
    assert answer.returncode == 1 and f"generation_config.json: {field} must be a number from" in answer.stderr


def write_folder(path):
    return text_model.write_bytes(path / "model")
