"""Models of the copy task: tokens in and out, refused requests, and states. eval's counts are compared with the
server's answers to the same sequences. The shipped models copy."""

import concurrent.futures
import json
import math
import shutil

import pytest

import copy_model
import image_model
from client import call, complete, complete_ok, join_stream, stream_ok
from copy_model import LENGTH, SYMBOLS
from server import Server, run
from settings import ROOT
from test_states import fork_one

pytestmark = pytest.mark.asan

KINDS = {
    "linear": {"attention": image_model.LINEAR},
    "rows": {"attention": {"kind": "softmax"}, "streams": ("position", "token"), "seed": 2},
    "window": {"attention": {"kind": "sliding_window", "window": 7}, "streams": ("token",), "seed": 3},
}
SEQUENCE = "海7abcaab"
IDS = [SYMBOLS.index(c) for c in SEQUENCE]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("copies")
    for name, how in KINDS.items():
        copy_model.write(path / name, **how)
    return path


@pytest.fixture(scope="module")
def server(folder):
    with Server("--models", folder, "--slots", "8") as started:
        yield started
        started.wait_idle()


@pytest.fixture
def port(server):
    return server.port


def only(answer):
    (choice,) = answer["choices"]
    return choice


def philox(key, *counter):
    """Philox4x32-10 (Salmon et al. 2011): its first word."""
    c, mask = list(counter), 2**32 - 1
    k = [key & mask, key >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & mask, (p0 >> 32) ^ c[3] ^ k[1], p0 & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c[0]


def sequence(seed, index, length, alphabet=len(SYMBOLS)):
    """The sequences that eval draws, by docs/weights-format.md."""
    return [(philox(seed, i, index, 0, 0) >> 8) * alphabet >> 24 for i in range(length)]


# --- answers


@pytest.mark.parametrize("model", KINDS)
def test_an_answer_is_as_long_as_the_sequence(port, model):
    for n in (1, 2, len(SEQUENCE)):
        answer = complete_ok(port, model=model, prompt=SEQUENCE[:n], seed=1, temperature=2)
        assert len(only(answer)["text"]) == n and set(only(answer)["text"]) <= set(SYMBOLS)
        assert only(answer)["finish_reason"] == "stop"
        assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (n + 1, n)
    cut = complete_ok(port, model=model, prompt=SEQUENCE, seed=1, temperature=2, max_tokens=3)
    assert only(cut)["text"] == only(answer)["text"][:3] and only(cut)["finish_reason"] == "length"
    longest = complete_ok(port, model=model, prompt="a" * LENGTH)
    assert len(only(longest)["text"]) == LENGTH


@pytest.mark.parametrize("model", KINDS)
def test_tokens_and_text_are_the_same_prompt(port, model):
    text = complete_ok(port, model=model, prompt=SEQUENCE, seed=4, logprobs=2, echo=True)
    tokens = complete_ok(port, model=model, prompt=IDS, seed=4, logprobs=2, echo=True)
    assert text["choices"] == tokens["choices"]
    lists = only(text)["logprobs"]
    assert "".join(lists["tokens"]) == only(text)["text"] and only(text)["text"].startswith(SEQUENCE)
    assert lists["token_logprobs"][: len(IDS)] == [None] * len(IDS)
    assert all(x <= 0 for x in lists["token_logprobs"][len(IDS) :])
    assert call(port, "POST", "/tokenize", {"model": model, "content": SEQUENCE}).json() == {"tokens": IDS}


@pytest.mark.parametrize("model", KINDS)
def test_a_stream_says_what_an_answer_says(port, model):
    fields = [{"model": model, "prompt": SEQUENCE[:n], "seed": n, "temperature": 1.5} for n in range(1, len(SEQUENCE))]
    alone = [only(complete_ok(port, **f))["text"] for f in fields]
    with concurrent.futures.ThreadPoolExecutor(len(fields)) as pool:
        assert list(pool.map(lambda f: join_stream(stream_ok(port, **f))[0][0], fields)) == alone


def test_several_sequences(port):
    answer = complete_ok(port, model="linear", prompt=["ab", SEQUENCE], n=3, seed=1, temperature=2)
    assert [len(c["text"]) for c in answer["choices"]] == [2] * 3 + [len(SEQUENCE)] * 3


def test_the_separator_is_never_drawn(port):
    answer = complete_ok(port, model="linear", prompt="a" * LENGTH, logit_bias={str(copy_model.SEPARATOR): 100}, n=8)
    assert all(set(c["text"]) <= set(SYMBOLS) for c in answer["choices"])


@pytest.mark.parametrize(
    "prompt, words",
    [
        ("", "empty"),
        ([], "1 to 256"),
        ("ab ab", 'character 3, " ", is no symbol'),
        ("ab\u0301", "character 3"),
        ("a" * (LENGTH + 1), "more than 20 symbols"),
        ([0] * (LENGTH + 1), "at most 20"),
        ([0, copy_model.SEPARATOR], "token 2 is 7, but symbols are 0 to 6"),
        ([0, 99], "token 2 is 99"),
    ],
)
def test_what_is_no_sequence_is_refused(port, prompt, words):
    reply = complete(port, model="linear", prompt=prompt)
    assert reply.status == 400 and reply.error["param"] == "prompt", reply.text
    assert words in reply.error["message"]


# --- scores, states


@pytest.mark.parametrize("model", KINDS)
def test_a_score_is_that_of_what_was_written(port, model):
    written = only(complete_ok(port, model=model, prompt=SEQUENCE, seed=5, logprobs=0))
    reply = call(port, "POST", "/v1/score", {"model": model, "prompt": SEQUENCE, "completion": written["text"]})
    assert reply.status == 200, reply.text
    surprise = reply.json()["surprise"]
    assert surprise == [pytest.approx(-x, rel=1e-6) for x in written["logprobs"]["token_logprobs"]]
    assert reply.json()["nats_per_token"] == pytest.approx(sum(surprise) / len(surprise), rel=1e-6)
    for completion, words in ((SEQUENCE[1:], "the prompt 8"), (SEQUENCE + "a", "more than 8"), ("x" * 8, "no symbol")):
        reply = call(port, "POST", "/v1/score", {"model": model, "prompt": SEQUENCE, "completion": completion})
        assert reply.status == 400 and reply.error["param"] == "completion", reply.text
        assert words in reply.error["message"]


@pytest.mark.parametrize("model", KINDS)
def test_an_answer_goes_on_from_every_symbol(port, model):
    fields = {"model": model, "prompt": SEQUENCE, "seed": 6}
    whole = only(complete_ok(port, **fields))["text"]
    for n in range(1, len(SEQUENCE)):
        begun = complete_ok(port, **fields, max_tokens=n, return_state=True)
        state = begun["states"][0]["id"]
        for start in (state, fork_one(port, state)):
            assert only(begun)["text"] + only(complete_ok(port, model=model, state=start))["text"] == whole


# --- eval


@pytest.mark.parametrize("model", KINDS)
def test_eval_counts_what_the_server_says(folder, port, model):
    """Of its own sequences: symbols, whole sequences, and the surprise of the right copy."""
    n, length, seed = 60, 3, 9
    result = run("eval", "--model", folder / model, "--limit", n, "--length", length, "--seed", seed, "--json")
    assert result.returncode == 0, result.stderr
    report, symbols, wholes, nats = json.loads(result.stdout), 0, 0, 0.0
    for index in range(n):
        ids = sequence(seed, index, length)
        text = "".join(SYMBOLS[i] for i in ids)
        said = only(complete_ok(port, model=model, prompt=ids, temperature=0))["text"]
        right = sum(a == b for a, b in zip(said, text))
        symbols, wholes = symbols + right, wholes + (right == length)
        scored = call(port, "POST", "/v1/score", {"model": model, "prompt": text, "completion": text}).json()
        nats += scored["nats_per_token"] / n
    assert 0 < symbols < n * length  # else nothing would have been compared
    assert (report["sequences"], report["length"], report["seed"], report["model"]) == (n, length, seed, model)
    assert report["symbols_right"] == pytest.approx(symbols / (n * length), abs=1e-6)
    assert report["sequences_right"] == pytest.approx(wholes / n, abs=1e-6)
    assert report["nll"] == pytest.approx(nats, rel=1e-4)


def test_eval_takes_the_longest_sequences_unless_told(folder):
    text = run("eval", "--model", folder / "linear", "--limit", 2)
    assert text.returncode == 0, text.stderr
    assert f"2 of {LENGTH} symbols" in text.stdout and "symbols right" in text.stdout
    nats = [line for line in text.stdout.splitlines() if line.startswith("nll")]
    assert len(nats) == 1 and math.isfinite(float(nats[0].split()[1]))


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--length", LENGTH + 1], "at most 20 symbols"),
        (["--limit", 2**20 + 1], "at most 1048576"),
        (["pairs.tsv"], "without a FILE"),
    ],
)
def test_eval_refuses(folder, flags, words):
    result = run("eval", "--model", folder / "linear", *flags)
    assert result.returncode == 2 and words in result.stderr, result.stderr


# --- the shipped models

COPIES = ROOT / "weights" / "copy"
SHIPPED = sorted(path.parent.name for path in COPIES.glob("*/config.json"))
EXACT = {"linear", "softmax", "adaptive_span", "memory_compressed"}


@pytest.fixture(scope="module")
def shipped():
    with Server("--models", COPIES) as started:
        yield started
        started.wait_idle()


@pytest.mark.parametrize("kind", SHIPPED)
def test_a_shipped_model_copies(shipped, kind):
    """Sequences of the greatest length; and from a state that is taken in the middle."""
    length = {m["id"]: m["meta"]["max_chars"] for m in call(shipped.port, "GET", "/v1/models").json()["data"]}[kind]
    sequences = ["".join(str(i) for i in sequence(seed, 0, length, 10)) for seed in range(8)]
    answer = complete_ok(shipped.port, model=kind, prompt=sequences, temperature=0)
    right = sum(a == b for text, c in zip(sequences, answer["choices"]) for a, b in zip(text, c["text"], strict=True))
    assert right >= (1 if kind in EXACT else 0.98) * length * len(sequences)
    begun = complete_ok(shipped.port, model=kind, prompt=sequences[0], temperature=0, max_tokens=length // 2, return_state=True)
    rest = complete_ok(shipped.port, model=kind, state=begun["states"][0]["id"], temperature=0)
    assert only(begun)["text"] + only(rest)["text"] == answer["choices"][0]["text"]


@pytest.mark.parametrize("kind", sorted(EXACT))
def test_a_shipped_model_copies_any_length(shipped, kind):
    for length in (1, 2, 9, 31, 50):
        text = "".join(str(i) for i in sequence(length, 0, length, 10))
        assert only(complete_ok(shipped.port, model=kind, prompt=text, temperature=0))["text"] == text


def test_a_shipped_model_copies_without_a_cache(tmp_path):
    """As the card says: softmax_recompute takes the weights of softmax."""
    told = []
    for kind in ("softmax", "softmax_recompute"):
        folder = shutil.copytree(COPIES / "softmax", tmp_path / kind / "model")
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"attention": {"kind": kind}}))
        result = run("eval", "--model", folder, "--limit", 10, "--json")
        assert result.returncode == 0, result.stderr
        told.append(json.loads(result.stdout))
    assert told[0] == told[1] and told[0]["sequences_right"] == 1


# --- models


def test_a_model_says_what_it_reads(port):
    meta = {m["id"]: m["meta"] for m in call(port, "GET", "/v1/models").json()["data"]}
    for name in KINDS:
        own = meta[name]
        assert (own["task"], own["max_chars"], own["n_vocab"]) == ("copy", LENGTH, len(SYMBOLS) + 1)


@pytest.mark.parametrize(
    "how, words",
    [
        ({"copy": {"alphabet": 7}}, "copy.length is missing"),
        ({"copy": {"alphabet": 7, "length": 0}}, "copy.length must be"),
        ({"copy": {"alphabet": 6, "length": LENGTH}}, "head"),
        ({"copy": {"alphabet": 7, "length": LENGTH + 1}}, "place: size 21"),
        ({"vocabulary": "a\nb\n<sep>\n"}, "3 entries"),
        ({"head": {"kind": "categorical", "size": 7}}, "of size 8"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(tmp_path, how, words):
    said = run("inspect", "--model", copy_model.write(tmp_path / "model", **how))
    assert said.returncode == 1 and words in said.stderr, said.stderr
