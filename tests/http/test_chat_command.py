"""`linnet chat` and `linnet generate --interactive`: their texts equal the API's; lines with a history; ^C ends an
answer; no text of a model controls the terminal."""

import json
import re
import signal

import pytest

import text_model
from client import call, complete_ok
from server import Server, run, wait_until
from settings import MODEL_DIR
from terminal import Terminal
from test_chat_templates import CHATML, with_template, write_chatml

pytestmark = pytest.mark.asan

SEED = ("--seed", "1")
TEN = ("--max-tokens", "10")
CONTROL_1 = re.compile("[\x80-\x9f]")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    with_template(text_model.write_bytes(path / "rwkv", end=[]), "rwkv")
    with_template(text_model.write_bytes(path / "strange"), "{{ messages | nothing }}")
    with_template(text_model.write_bytes(path / "long", end=[], context=200_000), "rwkv")
    text_model.write_bytes(path / "plain")
    write_chatml(path / "chatml", CHATML)
    return path


@pytest.fixture(scope="module")
def port(models):
    with Server("--models", models) as server:
        yield server.port
        server.wait_idle()


def chat(model, text, *flags):
    return run("chat", "--model", model, *SEED, *flags, input=text)


def served(port, messages, **fields):
    body = {"seed": 1, "max_tokens": 10, "messages": [{"role": r, "content": t} for r, t in messages], **fields}
    reply = call(port, "POST", "/v1/chat/completions", body)
    assert reply.status == 200, reply.text
    return reply.json()["choices"][0]["message"]["content"]


def says(*args):
    """The text of `linnet generate`, byte for byte."""
    result = run("generate", *args, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["choices"][0]["text"]


def read(text):
    """As `run` reads a text, in which every line ends alike."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


# --- chat


@pytest.mark.parametrize("model", ["rwkv", "chatml"])
def test_every_turn_has_what_was_said(models, port, model):
    said, messages = [], [("system", "Be kind.")]
    for line in ("hello 春", "and you", "more"):
        messages.append(("user", line))
        said.append(served(port, messages, model=model))
        messages.append(("assistant", said[-1]))
    result = chat(models / model, "hello 春\n\nand you\nmore\n", *TEN, "--system", "Be kind.")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == read("".join(text + "\n" for text in said))


def test_a_new_conversation_and_the_end(models):
    once = chat(models / "rwkv", "hello\n", *TEN).stdout
    result = chat(models / "rwkv", "hello\n/clear\nhello\n/exit\nhello\n", *TEN)
    assert (result.returncode, result.stdout) == (0, once * 2)


def test_what_is_wrong_with_a_line_does_not_end_the_talk(models):
    right = chat(models / "chatml", "hello\n", *TEN).stdout
    result = chat(models / "chatml", f"a<|im_end|>b\n{'x' * 2000}\nhello\n", *TEN)
    assert (result.returncode, result.stdout) == (0, right)
    faults = result.stderr.splitlines()
    assert len(faults) == 2 and "<|im_end|>" in faults[0] and "more than" in faults[1]


@pytest.mark.parametrize("model, flags, words", [
    ("plain", (), "no template"), ("strange", (), "the filter nothing"), ("rwkv", ("--stop", ""), "--stop"),
    ("rwkv", ("--stop", "x" * 257), "--stop")])
def test_what_cannot_be_talked_with(models, model, flags, words):
    result = chat(models / model, "hello\n", *flags)
    assert result.returncode == 2 and words in result.stderr and result.stdout == ""


def test_a_couplet_is_no_talk():
    result = chat(MODEL_DIR, "月\n")
    assert result.returncode == 2 and "does not write text" in result.stderr


def test_on_a_terminal(models, port):
    """The answer equals the API's; the line before comes back with ^P, as with the arrow key."""
    said = visible(served(port, [("user", "hello")], model="rwkv")).replace("\n", "\r\n")
    with Terminal("chat", "--model", models / "rwkv", *SEED, *TEN) as terminal:
        terminal.until("> ")
        terminal.type("hello\r")
        terminal.until("\n" + re.escape(said) + "\r+\n> ")
        terminal.type("/clear\r")
        terminal.until("/clear\r*\n.*> ")
        terminal.type("\x10\x10\r")
        terminal.until("\n" + re.escape(said) + "\r+\n> ")
        terminal.type("\x04")
        assert terminal.status() == 0


def test_the_prompt_comes_when_keys_are_taken(models):
    """A ^D that came between the two would be no end but a mark of the editor."""
    with Terminal("chat", "--model", models / "rwkv", *SEED, *TEN) as terminal:
        for _ in range(20):
            terminal.until("> ")
            assert terminal.takes_keys()
            terminal.type("\r")
        terminal.until("> ")
        terminal.type("\x04")
        assert terminal.status() == 0


def visible(text):
    text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", lambda m: "^" + chr(ord(m[0]) ^ 0x40), text)
    return CONTROL_1.sub(lambda m: f"<U+{ord(m[0]):04X}>", text)


def test_an_interrupt_ends_the_answer_and_not_the_talk(models):
    with Terminal("chat", "--model", models / "long", *SEED) as terminal:
        terminal.until("> ")
        terminal.type("hello\r")
        terminal.until("hello\r*\n.{200}")
        terminal.type("\x03")
        terminal.until("\r\n> ")
        terminal.type("/exit\r")
        assert terminal.status() == 0


def test_an_interrupt_of_an_answer_that_nobody_reads(models):
    """The program waits for the terminal then; the interrupt must not look like a terminal that is gone."""
    with Terminal("chat", "--model", models / "long", *SEED) as terminal:
        terminal.until("> ")
        terminal.type("hello\r")
        wait_until(terminal.blocks, 60, "a terminal that takes no more")
        terminal.type("\x03")
        terminal.until("\r\n> ")
        terminal.type("/exit\r")
        assert terminal.status() == 0


def test_an_interrupt_at_the_prompt_ends_the_program(models):
    with Terminal("chat", "--model", models / "rwkv") as terminal:
        terminal.until("> ")
        terminal.type("\x03")
        assert terminal.status() == -signal.SIGINT


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_chinese_is_typed_and_taken_back(models, locale):
    right = run("generate", "--model", models / "rwkv", *SEED, *TEN, "--json", "春a").stdout
    with Terminal("generate", "--model", models / "rwkv", *SEED, *TEN, "--json", "-i", locale=locale) as terminal:
        terminal.until("> ")
        terminal.type("春江\x7fa\r")
        said = terminal.until("\\]\\}\r\n")
    assert said[said.index("{"):].replace("\r\n", "\n") == right


# --- generate


def test_interactive_is_a_prompt_a_line(models):
    result = run("generate", "--model", models / "plain", *SEED, *TEN, "-i", "--json", input="one\n\ntwo\n")
    alone = [run("generate", "--model", models / "plain", *SEED, *TEN, "--json", p).stdout for p in ("one", "two")]
    assert (result.returncode, result.stdout) == (0, "".join(alone))
    lines = run("generate", "--model", MODEL_DIR, *SEED, "-i", input="海上明月\na😀b\n月\n")
    assert lines.returncode == 0 and len(lines.stdout.splitlines()) == 2 and len(lines.stderr.splitlines()) == 1
    for flags in (("-i", "月"), ("-i", "--prompt", "月")):
        assert run("generate", "--model", MODEL_DIR, *flags).returncode == 2


@pytest.mark.parametrize("flag, field, value", [
    ("--min-p", "min_p", 0.2), ("--typical-p", "typical_p", 0.3), ("--frequency-penalty", "frequency_penalty", 1.5),
    ("--presence-penalty", "presence_penalty", -2), ("--repetition-penalty", "repetition_penalty", 9)])
def test_flags_are_the_fields_of_the_api(models, port, flag, field, value):
    """And change something: of some seed the answer is another one."""
    changed = False
    for seed in range(1, 6):
        args = ("--model", models / "plain", "--seed", seed, "--max-tokens", 60, "hello")
        fields = {"model": "plain", "prompt": "hello", "seed": seed, "max_tokens": 60}
        with_flag = says(*args, f"{flag}={value}")
        assert with_flag == complete_ok(port, **fields, **{field: value})["choices"][0]["text"]
        changed = changed or with_flag != says(*args)
    assert changed


def test_flags_have_the_ranges_of_the_api(models):
    for flag, value in (("--min-p", 1.5), ("--typical-p", 0), ("--frequency-penalty", 2.5), ("--presence-penalty", -3),
                        ("--repetition-penalty", 0)):
        result = run("generate", "--model", models / "plain", f"{flag}={value}", "a")
        assert result.returncode == 2 and flag in result.stderr
    for flag in ("--stop=a", "--min-p=0.5", "--repetition-penalty=2"):
        result = run("generate", "--model", MODEL_DIR.parent / "mnist", "--png", "-", flag)
        assert result.returncode == 2 and flag.split("=")[0] in result.stderr


def test_an_answer_ends_before_its_stop(models):
    for seed in range(50):
        args = ("--model", models / "plain", "--seed", seed, "--max-tokens", 60, "hello")
        whole = says(*args)
        if found := re.search("(?<=...)[0-9A-Za-z]{2}", whole, re.DOTALL):  # of two tokens
            break
    stop = found[0]
    cut = whole[: whole.index(stop)]
    assert says(*args, "--stop", stop) == cut
    assert '"finish_reason": "stop"' in run("generate", *args, "--json", "--stop", stop).stdout
    with Terminal("generate", *args, "--stop", stop) as terminal:
        assert terminal.status() == 0
        assert terminal.raw.decode() == visible(cut) + "\r\n"


def test_nothing_of_a_text_controls_the_terminal(models):
    """A model that writes an escape code, a bell and a C1 control: unchanged in a pipe, made visible on a terminal."""
    for seed in range(1000):
        args = ("--model", models / "plain", "--seed", seed, "--temperature", 3, "--max-tokens", 200, "\x1b[2J\x07")
        text = says(*args)
        if "\x1b" in text and "\x7f" in text and CONTROL_1.search(text):
            break
    with Terminal("generate", *args) as terminal:
        assert terminal.status() == 0
        shown = terminal.raw.decode().replace("\r\n", "\n")
    assert "^[" in shown and "^?" in shown and "<U+00" in shown and not CONTROL.search(shown)
    assert shown == visible(text) + "\n"
