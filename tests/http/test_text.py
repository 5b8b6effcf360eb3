"""Models of text: an answer's text and its reason to end, as one piece and as a stream, with tokens that are parts of
characters. The right text is known from the tokens themselves, which a saved state holds."""

import concurrent.futures
import json
import math
import struct

import pytest

import image_model
import text_model
from client import call, complete, complete_ok, join_stream, stream_ok
from server import Server, run
from test_states import blob_of, fork_one

pytestmark = [pytest.mark.quick, pytest.mark.asan]

PROMPT = "Once upon a time, 春江花月"
SEEDS = range(12)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The folder of the models, and the tokenizer of the one that needs one."""
    path = tmp_path_factory.mktemp("texts")
    text_model.write_bytes(path / "bytes")
    text_model.write_bytes(path / "rows", attention={"kind": "softmax"}, seed=3)
    return path, text_model.write_bpe(path / "words")


@pytest.fixture(scope="module")
def server(models):
    with Server("--models", models[0], "--max-prompt", "200", "--max-tokens", "250", "--slots", "8") as started:
        yield started
        started.wait_idle()


@pytest.fixture
def port(server):
    return server.port


def tokens_of(port, answer, index=0):
    """The tokens of a saved state: docs/state-format.md."""
    blob = blob_of(port, answer["states"][index]["id"])
    n_tokens, n_request = struct.unpack_from("<II", blob, 76)
    return list(struct.unpack_from(f"<{n_tokens}i", blob, 192 + (n_request + 3) // 4 * 4))


def expected(models, model, prompt, tokens):
    """The text of the tokens after the prompt, without a last character that is not whole."""
    if model == "words":
        ids = models[1].encode(prompt).ids
        whole = models[1].decode(ids + [t for t in tokens if t != 3], skip_special_tokens=True)
        before = models[1].decode(ids, skip_special_tokens=True)
        return whole[len(before):].rstrip("�")
    data = bytes(t for t in tokens if t != text_model.END)
    for cut in range(4):
        head, rest = data[: len(data) - cut], data[len(data) - cut :]
        if cut and (tokens[-1] == text_model.END or not begins_a_character(rest)):
            continue
        if cut == 0 and tokens[-1] != text_model.END and any(begins_a_character(data[-k:]) for k in (1, 2, 3) if k <= len(data)):
            continue
        return head.decode("utf-8", "replace")
    raise AssertionError(data)


def begins_a_character(data):
    """Whether more bytes could make it one."""
    if data[0] < 0xC2:
        return False
    for tail in (b"\x80", b"\xa0", b"\x80\x80", b"\xa0\x80", b"\x90\x80", b"\x90\x80\x80", b"\x80\x80\x80", b"\xbf\xbf"):
        try:
            if len((data + tail).decode("utf-8")) == 1:
                return True
        except UnicodeDecodeError:
            pass
    return False


def only(answer):
    (choice,) = answer["choices"]
    return choice


# --- text


@pytest.mark.parametrize("model", ["bytes", "rows", "words"])
def test_an_answer_is_what_its_tokens_say(models, port, model):
    reasons = set()
    for seed in SEEDS:
        for length in (1, 7, 60):
            answer = complete_ok(port, model=model, prompt=PROMPT, seed=seed, max_tokens=length, return_state=True)
            tokens, choice = tokens_of(port, answer), only(answer)
            ended = tokens[-1] == (3 if model == "words" else text_model.END)
            assert choice["text"] == expected(models, model, PROMPT, tokens), tokens
            assert choice["finish_reason"] == ("stop" if ended else "length")
            assert answer["usage"]["completion_tokens"] == len(tokens) <= length
            assert ended or len(tokens) == length
            reasons.add(choice["finish_reason"])
    assert reasons == {"stop", "length"} or model == "words"


@pytest.mark.parametrize("model", ["bytes", "rows", "words"])
def test_a_stream_says_what_an_answer_says(port, model):
    for seed in SEEDS:
        fields = {"model": model, "prompt": PROMPT, "seed": seed, "n": 3, "max_tokens": 40, "temperature": 1.2}
        whole = complete_ok(port, **fields, best_of=3)
        texts, reasons = join_stream(stream_ok(port, **fields))
        assert sorted(texts.values()) == sorted(c["text"] for c in whole["choices"])
        assert sorted(reasons.values()) == sorted(c["finish_reason"] for c in whole["choices"])


def test_many_streams_at_once(port):
    fields = [{"model": model, "prompt": PROMPT, "seed": seed, "max_tokens": 30}
              for seed in range(10) for model in ("bytes", "rows", "words")]
    alone = [only(complete_ok(port, **f))["text"] for f in fields]
    with concurrent.futures.ThreadPoolExecutor(len(fields)) as pool:
        together = list(pool.map(lambda f: join_stream(stream_ok(port, **f))[0][0], fields))
    assert together == alone


def test_tokens_are_a_prompt_too(models, port):
    for model, ids in (("bytes", [text_model.BEGIN, *PROMPT.encode()]), ("words", models[1].encode(PROMPT).ids)):
        text = complete_ok(port, model=model, prompt=PROMPT, seed=1)
        tokens = complete_ok(port, model=model, prompt=ids, seed=1)
        assert only(text)["text"] == only(tokens)["text"]
        assert text["usage"]["prompt_tokens"] == tokens["usage"]["prompt_tokens"] == len(ids)


def test_a_character_that_the_prompt_begins_comes_whole(port):
    begun = [text_model.BEGIN, *"春".encode()[:2]]
    answer = complete_ok(port, model="bytes", prompt=begun, max_tokens=1, logit_bias={str("春".encode()[2]): 100})
    assert only(answer)["text"] == "春"


# --- lengths


def test_lengths(port):
    def length(**fields):
        return complete_ok(port, model="bytes", seed=1, ignore_eos=True, **fields)["usage"]["completion_tokens"]

    assert length(prompt="a") == 16  # as OpenAI's
    assert length(prompt="a", max_tokens=250) == 250
    assert length(prompt="a" * 199, max_tokens=250) == text_model.CONTEXT - 200
    answer = complete_ok(port, model="bytes", prompt="a" * 199, max_tokens=250, ignore_eos=True)
    assert only(answer)["finish_reason"] == "length"


def test_the_end_can_be_ignored(port):
    ended = [seed for seed in range(40) if only(
        complete_ok(port, model="bytes", prompt=PROMPT, seed=seed, max_tokens=100))["finish_reason"] == "stop"]
    assert ended
    for seed in ended:
        answer = complete_ok(port, model="bytes", prompt=PROMPT, seed=seed, max_tokens=100, ignore_eos=True)
        assert only(answer)["finish_reason"] == "length" and "\n" not in only(answer)["text"]


@pytest.mark.parametrize(
    "fields, param, words",
    [
        ({"prompt": "a" * 200}, "prompt", "more than the 200 tokens"),
        ({"prompt": "a" * 900_000}, "prompt", "more than the 200 tokens"),
        ({"prompt": [5] * 201}, "prompt", "more than the 200 tokens"),
        ({"prompt": [5, 260]}, "prompt", "token 2 is 260"),
        ({"prompt": [-1]}, "prompt", "whole number"),
        ({"prompt": []}, "prompt", "1 to 256"),
        ({"prompt": [[]]}, "prompt", "empty"),
        ({"prompt": "a", "max_tokens": 251}, "max_tokens", "at most 250"),
        ({"prompt": "a", "max_tokens": -1}, "max_tokens", "from 0"),
        ({"prompt": "a", "ignore_eos": 1}, "ignore_eos", "true or false"),
        ({"prompt": "a", "stop": 5}, "stop", "string"),
        ({"prompt": "a", "stop": [["a"]]}, "stop", "string"),
        ({"prompt": "a", "stop": ""}, "stop", "string"),
        ({"prompt": "a", "stop": ["a"] * 5}, "stop", "at most 4"),
        ({"prompt": "a", "logit_bias": {"260": 1}}, "logit_bias", "260 is not a token"),
    ],
)
def test_what_does_not_fit_is_refused(port, fields, param, words):
    reply = complete(port, model="bytes", **fields)
    assert reply.status == 400, reply.text
    assert reply.error["param"] == param and words in reply.error["message"], reply.error


def test_text_that_is_not_utf8_is_refused(port):
    body = b'{"model": "bytes", "prompt": "\xe6\x98"}'
    reply = call(port, "POST", "/v1/completions", body, {"Content-Type": "application/json"})
    assert reply.status == 400 and reply.error["param"] == "prompt", reply.text


def test_a_prompt_of_nothing(port):
    assert only(complete_ok(port, model="bytes", prompt="", seed=1))["text"]  # the token that begins every text
    assert complete_ok(port, model="words", prompt="", seed=1)["usage"]["prompt_tokens"] == 2  # the file's own


def test_there_are_no_chats(port):
    body = {"model": "bytes", "messages": [{"role": "user", "content": "hello"}]}
    reply = call(port, "POST", "/v1/chat/completions", body)
    assert reply.status == 400 and "template" in reply.error["message"], reply.text


# --- stop strings


@pytest.mark.parametrize("model", ["bytes", "words"])
def test_a_stop_string_ends_the_text_wherever_it_stands(port, model):
    for seed in SEEDS:
        fields = {"model": model, "prompt": PROMPT, "seed": seed, "max_tokens": 50, "ignore_eos": True}
        whole = only(complete_ok(port, **fields))["text"]
        for begin, size in ((0, 1), (3, 2), (7, 5), (len(whole) // 2, 3), (len(whole) - 2, 2)):
            stop = whole[begin : begin + size]
            want = whole[: whole.index(stop)]
            stopped = only(complete_ok(port, **fields, stop=["never there", stop], logprobs=1))
            assert (stopped["text"], stopped["finish_reason"]) == (want, "stop"), (whole, stop)
            assert not want or "".join(stopped["logprobs"]["tokens"]) == want
            texts, reasons = join_stream(stream_ok(port, **fields, stop=stop))
            assert (texts[0], reasons[0]) == (want, "stop")


def test_every_sample_stops_for_itself(port):
    fields = {"model": "words", "prompt": PROMPT, "seed": 4, "n": 16, "max_tokens": 40, "ignore_eos": True}
    whole = [c["text"] for c in complete_ok(port, **fields)["choices"]]
    stopped = complete_ok(port, **fields, stop=[" ", "e"])
    want = [min((text.split(" ")[0], text.split("e")[0]), key=len) for text in whole]
    assert sorted(c["text"] for c in stopped["choices"]) == sorted(want)


# --- log-probabilities


@pytest.mark.parametrize("model", ["bytes", "words"])
def test_log_probabilities_and_echo(port, model):
    fields = {"model": model, "prompt": PROMPT, "seed": 2, "max_tokens": 30}
    plain = only(complete_ok(port, **fields))
    echoed = complete_ok(port, **fields, echo=True, logprobs=5)
    choice, n_prompt = only(echoed), echoed["usage"]["prompt_tokens"]
    lists = choice["logprobs"]
    assert choice["text"] == PROMPT + plain["text"] == "".join(lists["tokens"])
    assert len(lists["tokens"]) == n_prompt + echoed["usage"]["completion_tokens"]
    for offset, text in zip(lists["text_offset"], lists["tokens"]):
        assert choice["text"][offset : offset + len(text)] == text
    for logprob, top in list(zip(lists["token_logprobs"], lists["top_logprobs"]))[n_prompt:]:
        assert logprob <= 0 and 5 <= len(top) <= 6 and all(x <= 0 for x in top.values())
    names = {name for top in lists["top_logprobs"][n_prompt:] for name in top}
    assert model == "words" or any(name.startswith("bytes:\\x") for name in names)
    texts, _ = join_stream(stream_ok(port, **fields, echo=True, logprobs=5))
    assert texts[0] == choice["text"]


def check_bytes(entry):
    """Those of the token itself: a part of a character is named by them, and so is a row without a token."""
    text, data = entry["token"], bytes(entry["bytes"])
    if text.startswith("bytes:"):
        assert text == "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
        assert not data or "\ufffd" in data.decode("utf-8", "replace")
    else:
        assert data == text.encode()


@pytest.mark.parametrize("model", ["bytes", "words"])
def test_bytes_of_the_likeliest_tokens(port, model):
    fields = {"model": model, "input": PROMPT, "max_output_tokens": 30, "seed": 2, "include": ["message.output_text.logprobs"], "top_logprobs": 20}
    reply = call(port, "POST", "/v1/responses", fields)
    assert reply.status == 200, reply.text
    entries = reply.json()["output"][0]["content"][0]["logprobs"]
    top = [one for entry in entries for one in entry["top_logprobs"]]
    for one in top:
        check_bytes(one)
    parts = [one for one in top if one["token"].startswith("bytes:")]
    assert parts and len(parts) < len(top)
    assert any(len(one["bytes"]) > 1 for one in parts) or model == "bytes"


@pytest.mark.parametrize("model", ["bytes", "words"])
def test_an_echoed_prompt_has_the_scores_of_its_tokens(port, model):
    """Equal to the bit to those of generating it token by token."""
    fields = {"model": model, "logprobs": 3, "temperature": 0}
    first = [text_model.BEGIN] if model == "bytes" else []
    ids = first + call(port, "POST", "/tokenize", {"model": model, "content": PROMPT + "\nab"}).json()["tokens"]
    scored = complete_ok(port, prompt=ids, max_tokens=0, echo=True, **fields)
    lists = only(scored)["logprobs"]
    assert only(scored)["text"] == PROMPT + "\nab" == "".join(lists["tokens"])
    assert only(scored)["finish_reason"] == "length"
    assert scored["usage"]["prompt_tokens"] == len(ids) and scored["usage"]["completion_tokens"] == 0
    assert lists["token_logprobs"][0] is None and lists["top_logprobs"][0] is None
    for i in range(1, len(ids)):
        step = complete_ok(port, prompt=ids[:i], max_tokens=1, logit_bias={str(ids[i]): 100}, **fields)
        assert only(step)["logprobs"]["token_logprobs"] == [lists["token_logprobs"][i]]
    whole = complete_ok(port, prompt=ids, max_tokens=7, echo=True, ignore_eos=True, **fields)
    more = only(whole)["logprobs"]
    assert {k: v[: len(ids)] for k, v in more.items()} == lists
    plain = complete_ok(port, prompt=ids, max_tokens=7, ignore_eos=True, **fields)
    assert more["token_logprobs"][len(ids) :] == only(plain)["logprobs"]["token_logprobs"]
    assert only(whole)["mean_logprob"] == only(plain)["mean_logprob"]
    assert whole["usage"]["completion_tokens"] == 7


@pytest.mark.parametrize("model", ["bytes", "words"])
def test_scores_of_the_prompt_change_no_answer(port, model):
    fields = {"model": model, "prompt": PROMPT, "max_tokens": 40, "seed": 4, "frequency_penalty": 1,
              "repetition_penalty": 1.5, "stop": [PROMPT[:2], "e"]}
    plain = only(complete_ok(port, **fields))
    echoed = only(complete_ok(port, **fields, echo=True, logprobs=0))
    assert echoed["text"] == PROMPT + plain["text"]
    assert echoed["finish_reason"] == plain["finish_reason"]
    chunks = stream_ok(port, **fields, echo=True, logprobs=0)
    streamed = [x for c in chunks for x in ((c["choices"] or [{}])[0].get("logprobs") or {}).get("token_logprobs", [])]
    assert streamed == echoed["logprobs"]["token_logprobs"]


def test_scores_of_one_token_and_of_many_prompts(port):
    many = complete_ok(port, model="bytes", prompt=[[65], [65, 66], [67, 66, 65]], max_tokens=0, echo=True, logprobs=1)
    lists = [c["logprobs"]["token_logprobs"] for c in many["choices"]]
    assert [len(x) for x in lists] == [1, 2, 3] and [x[0] for x in lists] == [None] * 3
    assert many["usage"]["prompt_tokens"] == 6 and [c["text"] for c in many["choices"]] == ["A", "AB", "CBA"]
    alone = complete_ok(port, model="bytes", prompt=[67, 66, 65], max_tokens=0, echo=True, logprobs=1)
    assert only(alone)["logprobs"]["token_logprobs"] == lists[2]
    bare = complete_ok(port, model="bytes", prompt=[65, 66], max_tokens=0, echo=True)
    assert only(bare)["text"] == "AB" and only(bare)["logprobs"] is None


@pytest.mark.parametrize(
    "fields, param",
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 0, "logprobs": 1}, "max_tokens"),
        ({"model": "couplet", "prompt": "海上", "max_tokens": 0, "echo": True}, "max_tokens"),
        ({"echo": True, "logprobs": 1, "n": 2}, "n"),
        ({"echo": True, "logprobs": 1, "best_of": 2}, "best_of"),
        ({"echo": True, "logprobs": 1, "return_state": True}, "return_state"),
    ],
)
def test_scores_that_cannot_be_are_refused(port, fields, param):
    reply = complete(port, **{"model": "bytes", "prompt": "ab", **fields})
    assert reply.status == 400 and reply.error["param"] == param, reply.text


def test_a_score_is_what_generating_it_step_by_step_gives(port):
    text = "hello 春\n!"
    reply = call(port, "POST", "/v1/score", {"model": "bytes", "prompt": PROMPT, "completion": text})
    assert reply.status == 200, reply.text
    data, scored = text.encode(), reply.json()
    begin = [text_model.BEGIN, *PROMPT.encode()]
    for i, byte in enumerate(data):
        step = complete_ok(port, model="bytes", prompt=[*begin, *data[:i]], max_tokens=1, logprobs=0, logit_bias={str(byte): 100})
        assert only(step)["logprobs"]["token_logprobs"] == [-scored["surprise"][i]]
    assert len(scored["surprise"]) == len(data)
    assert math.isclose(scored["nats_per_token"], sum(scored["surprise"]) / len(data), rel_tol=1e-6)
    for completion, words in (("", "empty"), ("a" * 400, "more than")):
        reply = call(port, "POST", "/v1/score", {"model": "bytes", "prompt": PROMPT, "completion": completion})
        assert reply.status == 400 and reply.error["param"] == "completion" and words in reply.error["message"]


# --- states


@pytest.mark.parametrize("model", ["bytes", "rows", "words"])
def test_a_text_goes_on_from_every_token(port, model):
    fields = {"model": model, "prompt": PROMPT, "seed": 6, "ignore_eos": True}
    whole = only(complete_ok(port, **fields, max_tokens=24))["text"]
    for tokens in range(1, 24):
        begun = complete_ok(port, **fields, max_tokens=tokens, return_state=True)
        state = begun["states"][0]["id"]
        for start in (state, fork_one(port, state)):
            rest = complete_ok(port, model=model, state=start, max_tokens=24 - tokens, ignore_eos=True)
            assert only(begun)["text"] + only(rest)["text"] == whole
            assert rest["usage"]["completion_tokens"] == 24 - tokens
        texts, _ = join_stream(stream_ok(port, model=model, state=state, max_tokens=24 - tokens, ignore_eos=True))
        assert only(begun)["text"] + texts[0] == whole


def test_a_prompt_makes_a_state(port):
    reply = call(port, "POST", "/v1/states", {"model": "words", "prompt": PROMPT, "seed": 3})
    assert reply.status == 201, reply.text
    rest = complete_ok(port, model="words", state=reply.json()["id"], max_tokens=20)
    assert only(rest)["text"] == only(complete_ok(port, model="words", prompt=PROMPT, seed=3, max_tokens=20))["text"]


# --- the rest


def test_a_model_says_what_it_reads(port):
    meta = {m["id"]: m["meta"] for m in call(port, "GET", "/v1/models").json()["data"]}
    assert meta["bytes"]["tokenizer"] == "bytes" and meta["words"]["tokenizer"] == "byte-level"
    assert meta["bytes"]["context"] == text_model.CONTEXT and meta["bytes"]["task"] == "text"


def test_the_command_line_says_the_same(models, port):
    for model in ("bytes", "words"):
        answer = only(complete_ok(port, model=model, prompt=PROMPT, seed=9, max_tokens=40))["text"]
        said = run("generate", "--model", models[0] / model, "--prompt", PROMPT, "--seed", 9, "--max-tokens", 40)
        assert said.returncode == 0 and said.stdout.replace("\r", "") == (answer + "\n").replace("\r", ""), said.stderr


def test_standard_input_loses_one_newline(models, port):
    """And --json prints the server's answer."""
    served = complete_ok(port, model="bytes", prompt="ab\n", seed=9, max_tokens=40, temperature=0.8)
    said = run("generate", "--model", models[0] / "bytes", "--json", "--seed", 9, "--max-tokens", 40, "-", input="ab\n\n")
    assert said.returncode == 0, said.stderr
    said = json.loads(said.stdout)
    assert said["prompt_tokens"] == served["usage"]["prompt_tokens"]
    (choice,) = said["choices"]
    assert choice["tokens"] == served["usage"]["completion_tokens"]
    assert [choice["text"], choice["finish_reason"]] == [only(served)[key] for key in ("text", "finish_reason")]


@pytest.mark.parametrize(
    "change, words",
    [
        ({"tokenizer": "missing.json"}, "missing.json"),
        ({"tokenizer": "../up.json"}, "text.tokenizer"),
        ({"end": [260]}, "260 is not a token"),
        ({"end": 5}, "text.end"),
        ({"begin": 260}, "260 is not a token"),
        ({"context": 1}, "text.context"),
        ({"beam": 2}, "text.beam"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(tmp_path, change, words):
    folder = text_model.write_bytes(tmp_path / "model", **change)
    said = run("generate", "--model", folder, "--prompt", "a")
    assert said.returncode == 1 and words in said.stderr, said.stderr


def test_a_head_smaller_than_the_vocabulary_is_refused(tmp_path):
    folder = text_model.write(tmp_path / "model", 255, {"tokenizer": "bytes", "context": 9})
    said = run("generate", "--model", folder, "--prompt", "a")
    assert said.returncode == 1 and "the tokenizer has 256 tokens" in said.stderr, said.stderr


def test_another_input_is_refused(tmp_path):
    folder = text_model.write_bytes(tmp_path / "model")
    conf = json.loads((folder / "config.json").read_text())
    conf["inputs"].append({"name": "position", "size": 9})
    (folder / "config.json").write_text(json.dumps(conf))
    image_model.write_tensors(folder / "model.safetensors", conf, 1)
    said = run("generate", "--model", folder, "--prompt", "a")
    assert said.returncode == 1 and "the text task has one" in said.stderr, said.stderr


# --- prefixes


@pytest.mark.parametrize("model", ["bytes", "rows"])
def test_the_next_turn_starts_from_the_answer(models, model):
    """Rows that are not computed again: all rows of the turns before, except the answer's last token."""
    fields = {"model": model, "max_tokens": 20, "ignore_eos": True, "logprobs": 2, "return_state": True}
    said, cached, lengths = {}, {}, []
    for name, flags in (("none", ["--prefix-cache-mb", "0"]), ("kept", [])):
        with Server("--models", models[0], "--slots", "4", *flags) as own:
            prompt, said[name], cached[name], lengths = [text_model.BEGIN, *b"User: hello"], [], [], []
            for turn in range(4):
                answer = complete_ok(own.port, prompt=prompt, seed=turn, **fields)
                cached[name].append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
                said[name].append(answer["choices"])
                prompt = prompt + tokens_of(own.port, answer)
                lengths.append(len(prompt) - 1)
                prompt = prompt + list(b" and then?")
            assert own.metric("linnet_cached_prompt_tokens_total", model=model) == sum(cached[name])
    assert said["kept"] == said["none"]
    assert cached["none"] == [0] * 4 and cached["kept"] == [0, *lengths[:3]]


def test_a_prompt_that_parts_in_the_middle_starts_from_where_a_step_ended(tmp_path):
    folder = text_model.write_bytes(tmp_path / "long", context=1000)
    fields = {"max_tokens": 4, "ignore_eos": True, "seed": 1}
    begin = [(i * 37) % 256 for i in range(700)]
    with Server("--slots", "4", model_dir=folder) as kept, Server("--prefix-cache-mb", "0", model_dir=folder) as none:
        for prompt, rows in ((begin, 0), ([*begin[:600], 1, 2, 3], 512), (begin[:511], 256), ([*begin[:600], 7], 600)):
            answer = complete_ok(kept.port, model="long", prompt=prompt, **fields)
            assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == rows
            assert answer["choices"] == complete_ok(none.port, model="long", prompt=prompt, **fields)["choices"]


def test_the_page_answers_with_couplets(port):
    """A model of text that is served with the couplets' model, and sorts before it by name, does not take its place."""
    form = b"upper=%E6%B5%B7%E4%B8%8A%E6%98%8E%E6%9C%88&n=2&temperature=0.8&seed=7"
    assert call(port, "GET", "/v1/models").json()["data"][0]["id"] == "bytes"
    reply = call(port, "POST", "/", form, {"Content-Type": "application/x-www-form-urlencoded"})
    best = complete_ok(port, model="couplet", prompt="海上明月", n=2, temperature=0.8, seed=7)
    assert reply.status == 200 and best["choices"][0]["text"] in reply.text
