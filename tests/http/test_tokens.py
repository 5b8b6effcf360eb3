"""POST /tokenize and /detokenize, compared with the reference tokenizer and with the tokens that a completion reads."""

import random

import pytest

import text_model
import vocabularies
from client import call, complete_ok
from server import Server
from settings import MODEL, MODEL_DIR

pytestmark = pytest.mark.quick

LINES = (MODEL_DIR / "vocab.txt").read_text(encoding="utf-8").split("\n")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    text_model.write_bytes(path / "bytes")
    reference = text_model.write_bpe(path / "words")
    with Server("--models", path, "--answer-memory", "4") as started:
        started.reference = reference
        yield started
        started.wait_idle()
        assert started.metric("linnet_answer_bytes") == 0


def ask(server, path, **fields):
    reply = call(server.port, "POST", path, fields)
    assert reply.status == 200, reply.text
    return reply.json()


def texts():
    rng = random.Random(3)
    return ["", " ", "Hello", "春江\n花月 😀", "<s>a</s> <|end|>", *[vocabularies.text(rng, 20) for _ in range(30)]]


@pytest.mark.parametrize("special", [False, True])
def test_tokens_are_the_reference_s(server, special):
    for text in texts():
        want = server.reference.encode(text, add_special_tokens=special).ids
        assert ask(server, "/tokenize", model="words", content=text, add_special=special) == {"tokens": want}
        data = list(text.encode())
        want = [text_model.BEGIN, *data] if special else data
        assert ask(server, "/tokenize", model="bytes", content=text, add_special=special) == {"tokens": want}


def said(server, tokens):
    """The reference's text, in which an added token may be no character: its letters stand for bytes there."""
    return server.reference.decode(tokens, skip_special_tokens=False)


def test_text_comes_back(server):
    for text in texts():
        tokens = ask(server, "/tokenize", model="words", content=text)["tokens"]
        assert ask(server, "/detokenize", model="words", tokens=tokens) == {"content": said(server, tokens)}
        tokens = ask(server, "/tokenize", model="bytes", content=text)["tokens"]
        assert ask(server, "/detokenize", model="bytes", tokens=tokens) == {"content": text}


def test_couplets_have_characters(server):
    tokens = ask(server, "/tokenize", model=MODEL, content="海上明月")
    assert tokens == {"tokens": [LINES.index(c) for c in "海上明月"]}
    assert ask(server, "/detokenize", model=MODEL, **tokens) == {"content": "海上明月"}
    assert ask(server, "/detokenize", model=MODEL, tokens=[LINES.index("<s>")]) == {"content": "<s>"}


def test_pieces_are_the_text(server):
    for text in texts():
        answer = ask(server, "/tokenize", model="words", content=text, with_pieces=True)
        pieces = [p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"]) for p in answer["tokens"]]
        tokens = [p["id"] for p in answer["tokens"]]
        assert b"".join(pieces).decode("utf-8", "replace") == said(server, tokens)
        assert tokens == ask(server, "/tokenize", model="words", content=text)["tokens"]
    answer = ask(server, "/tokenize", model="bytes", content="春", with_pieces=True)
    assert answer["tokens"] == [{"id": b, "piece": [b]} for b in "春".encode()]


def test_names_of_specials_can_be_text(server):
    plain = ask(server, "/tokenize", model="words", content="<s>a", parse_special=False)["tokens"]
    assert 2 not in plain and ask(server, "/detokenize", model="words", tokens=plain) == {"content": "<s>a"}
    assert ask(server, "/tokenize", model="words", content="<s>a")["tokens"][0] == 2


def test_what_is_no_character_is_replaced(server):
    assert ask(server, "/detokenize", model="bytes", tokens=[97, 0xE6, 98, 0xE6, 0x98]) == {"content": "a\ufffdb\ufffd"}
    assert ask(server, "/detokenize", model="bytes", tokens=[]) == {"content": ""}


def test_a_completion_reads_the_same_tokens(server):
    tokens = ask(server, "/tokenize", model="words", content="春 day", add_special=True)["tokens"]
    both = [complete_ok(server.port, model="words", prompt=prompt, seed=1) for prompt in ("春 day", tokens)]
    assert both[0]["choices"] == both[1]["choices"] and both[0]["usage"]["prompt_tokens"] == len(tokens)


@pytest.mark.parametrize(
    "path, fields, status, param",
    [
        ("/tokenize", {}, 400, "content"),
        ("/tokenize", {"content": 5}, 400, "content"),
        ("/tokenize", {"content": ["a"]}, 400, "content"),
        ("/tokenize", {"content": "a", "add_special": 1}, 400, "add_special"),
        ("/tokenize", {"content": "a", "with_pieces": "yes"}, 400, "with_pieces"),
        ("/tokenize", {"content": "a", "model": "none"}, 404, "model"),
        ("/tokenize", {"content": "a" * 100_000, "with_pieces": True}, 400, "content"),
        ("/detokenize", {}, 400, "tokens"),
        ("/detokenize", {"tokens": "a"}, 400, "tokens"),
        ("/detokenize", {"tokens": ["a"]}, 400, "tokens"),
        ("/detokenize", {"tokens": [1.0]}, 400, "tokens"),
        ("/detokenize", {"tokens": [-1]}, 400, "tokens"),
        ("/detokenize", {"tokens": [256]}, 400, "tokens"),
        ("/detokenize", {"tokens": [2**31]}, 400, "tokens"),
        ("/detokenize", {"tokens": [1], "model": ""}, 404, "model"),
    ],
)
def test_what_does_not_fit_is_refused(server, path, fields, status, param):
    reply = call(server.port, "POST", path, {"model": "bytes", **fields})
    assert reply.status == status and reply.error["param"] == param, reply.text


def test_bodies_that_are_no_json(server):
    for path in ("/tokenize", "/detokenize"):
        assert call(server.port, "POST", path, b'{"content": "\xff"}', {"Content-Type": "application/json"}).status == 400
        assert call(server.port, "POST", path, b"a", {"Content-Type": "text/plain"}).status == 415


def test_a_slow_expression_is_cut_short(tmp_path):
    """A tokenizer's own splitting that looks at all the rest of the text at each of its places."""
    tokenizer = vocabularies.byte_level(pattern="a+b|a")
    text = {"tokenizer": "tokenizer.json", "context": text_model.CONTEXT}
    text_model.write(tmp_path / "slow", tokenizer.get_vocab_size(), text, tokenizer)
    with Server("--models", tmp_path) as own:
        assert len(ask(own, "/tokenize", model="slow", content="a" * 2000)["tokens"]) == 2000
        before = own.cpu_seconds()
        reply = call(own.port, "POST", "/tokenize", {"model": "slow", "content": "a" * 100_000})
        assert reply.status == 400 and reply.error["param"] == "content", reply.text[:200]
        assert "splitting expression takes too long" in reply.error["message"]
        assert own.cpu_seconds() - before < 2
