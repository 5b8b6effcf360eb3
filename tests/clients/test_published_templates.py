"""Conversations by the chat templates that llama.cpp collects. They lie in the sources of the package llama-cpp-python,
which are fetched once into build/clients. The server renders each conversation as Python's jinja2 does, to the byte. By
every template that keeps its history the prompt of a turn reuses all rows of the turn before."""

import copy
import datetime
import itertools
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import text_model
import vocabularies
from client import call
from server import Server
from settings import ROOT

sys.path.append(str(Path(__file__).parents[1] / "golden"))

import jinja  # noqa: E402

PACKAGE = "llama-cpp-python==0.3.36"
FETCHED = ROOT / "build/clients/llama.cpp"
MEMBERS = re.compile(r"/vendor/llama\.cpp/(models/templates/.*\.jinja|grammars/.*\.gbnf|models/ggml-vocab-.*)$")
KEEP = 38  # of the 70 templates leave the text of earlier turns unchanged
CONTEXT, TURNS = 20000, 3
OWN = {"bos_token": "<s>", "eos_token": "</s>"}
LATER = copy.deepcopy(jinja.TOOL)
LATER["function"]["name"] = "get_time"
EXTRAS = [{}, {"tools": [jinja.TOOL]}, {"tools": [jinja.TOOL, LATER], "enable_thinking": False}, {"enable_thinking": True}]
NOT_IMPLEMENTED = 5  # templates at most


@pytest.fixture(scope="session")
def sources():
    """The folder with llama.cpp's templates, grammars and vocabularies."""
    if not FETCHED.is_dir():
        into = FETCHED.with_name("fetched")
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "llama-cpp-python", "-d", into, PACKAGE],
                       check=True, timeout=1200)
        FETCHED.mkdir()
        with tarfile.open(next(into.glob("llama_cpp_python-*.tar.gz"))) as packed:
            for member in packed:
                if MEMBERS.search(member.name):
                    (FETCHED / Path(member.name).name).write_bytes(packed.extractfile(member).read())
    return FETCHED


@pytest.fixture(scope="module")
def templates(sources):
    """{name: text}"""
    found = {path.stem: path.read_text() for path in sorted(sources.glob("*.jinja"))}
    assert len(found) > 60
    return found


@pytest.fixture(scope="module")
def tokenizer():
    return vocabularies.qwen2()


@pytest.fixture(scope="module")
def ports(templates, tokenizer, tmp_path_factory):
    """{name: port of the server of that model}: a server has at most 64 models."""
    path = tmp_path_factory.mktemp("published")
    halves = {name: path / str(i % 2) for i, name in enumerate(templates)}
    for name, half in halves.items():
        text_model.write(half / name, tokenizer.get_vocab_size(), {"tokenizer": "tokenizer.json", "context": CONTEXT}, tokenizer)
        (half / name / "tokenizer_config.json").write_text(json.dumps(OWN))
        (half / name / "chat_template.jinja").write_text(templates[name])
    with Server("--models", path / "0") as first, Server("--models", path / "1") as second:
        yield {name: (first, second)[half == path / "1"].port for name, half in halves.items()}


@pytest.fixture(scope="module")
def digits(tokenizer):
    """Answers of digits: they are the same tokens when they are read again."""
    return {str(tokenizer.token_to_id(str(d))): 100 for d in range(10)}


def as_read(messages):
    """The server joins the parts of a content, and a content that is null is empty. A mark that is no special token of the
    model is refused, so no user writes one."""
    def text(content):
        whole = content if isinstance(content, str) else "".join(part["text"] for part in content or [])
        return whole.replace("<|im_end|>", "im_end")

    return [{**message, "content": text(message["content"])} for message in messages]


def test_every_template_is_rendered_as_jinja2_does(ports, templates):
    environment, wrong, missing = jinja.make_environment(), [], []
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    talks = {name: as_read(messages) for name, messages in jinja.CONVERSATIONS.items() if messages}
    for name, template in templates.items():
        counts = {"equal": 0, "refused by both": 0, "refused for its marks": 0, "has no tools": 0}
        for (talk_name, messages), (more, answers) in itertools.product(talks.items(), [*((more, True) for more in EXTRAS), ({}, False)]):
            client = {"tools": None, "documents": None, **more, "messages": messages}
            theirs = jinja.render(environment, template, OWN | {"add_generation_prompt": answers}, client)
            reply = call(ports[name], "POST", "/apply-template", {
                "model": name, "messages": messages, "add_generation_prompt": answers, "continue_final_message": False, **more})
            if reply.status == 400 and "is not implemented" in reply.text:
                missing.append((name, reply.error["message"]))
                break
            if reply.status == 400 and " in it" in reply.text:
                counts["refused for its marks"] += 1
            elif reply.status == 400 and "tools" in more and "tools" not in template:
                counts["has no tools"] += 1
            elif reply.status == 400 and "error" in theirs:
                counts["refused by both"] += 1
            elif reply.status == 200 and reply.json()["prompt"] == theirs.get("text"):
                counts["equal"] += 1
            else:
                wrong.append((name, talk_name, list(more), answers, theirs, reply.text))
        print(f"{name}: " + ", ".join(f"{count} {how}" for how, count in counts.items() if count))
    assert not wrong, wrong[:3]
    assert len(missing) <= NOT_IMPLEMENTED, missing


def talk(port, name, digits):
    """A conversation of some turns: of each the messages, the answer, and the reply; None where the template has no place
    for such messages."""
    messages, turns = [{"role": "user", "content": "hello"}], []
    for turn in range(TURNS):
        reply = call(port, "POST", "/v1/chat/completions", {"model": name, "messages": messages, "seed": turn, "max_tokens": 8,
                                                           "logit_bias": digits, "ignore_eos": True})
        if reply.status != 200:
            return None, reply.text
        answer = reply.json()["choices"][0]["message"]
        said = {key: answer[key] for key in ("role", "content", "reasoning_content") if answer.get(key)}
        turns.append((list(messages), said, reply.json()["usage"]))
        messages += [{"content": "", **said}, {"role": "user", "content": f"and {turn}"}]
    return turns, ""


def test_every_template_that_keeps_its_history_reuses_all_rows(ports, templates, digits):
    environment, kept, wrong = jinja.make_environment(), [], []
    for name, template in templates.items():
        turns, refused = talk(ports[name], name, digits)
        if turns is None:
            print(f"{name}: refused: {refused[:200]}")
            continue
        for (messages, said, usage), (more, _, later) in zip(turns, turns[1:]):
            written, again = (jinja.render(environment, template, OWN | {"add_generation_prompt": True}, {"messages": m}).get("text")
                              for m in (messages, more))
            answer = said.get("reasoning_content", "") + said.get("content", "")
            keeps = written is not None and again is not None and again.startswith(written + answer)
            reused, all_rows = later["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"] + usage["completion_tokens"] - 1
            print(f"{name}: {'keeps' if keeps else 'changes'} its history, {reused} of {all_rows} rows reused")
            if keeps:
                kept.append(name)
                wrong += [(name, reused, all_rows)] * (reused != all_rows)
    assert not wrong and len(set(kept)) >= KEEP, (wrong, len(set(kept)))
