"""Poems by their form and acrostic. Every poem keeps them: whole, streamed, by samples and from a state. Requests that
cannot be kept are refused by their field. A model's folder says that it is a model of poems."""

import concurrent.futures
import json
import re
import signal

import pytest

import holding
import poem_model
import test_park
import text_model
from client import call, complete, complete_ok, join_stream, stream_ok
from cluster import Redis
from server import Server, run, wait_until
from settings import ROOT
from test_states import fork_one

PROMPT = "唐《静夜思》"
FORMS = ["5x4", "5x8", "7x4", "7x8"]
WORDS = poem_model.WORDS
OLD_AND_USUAL = OLD, USUAL = "遶鼇徧髪", "绕鳌遍发"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    path = tmp_path_factory.mktemp("poems")
    poem_model.write(path / "poem")
    poem_model.write(path / "plain", task="text")
    poem_model.write(path / "old", words=WORDS + "".join(OLD_AND_USUAL))
    text_model.write_bytes(path / "bytes")
    (path / "shipped").symlink_to(ROOT / "weights/poem")
    return path


@pytest.fixture(scope="module")
def server(models):
    with Server("--models", models, "--slots", "16") as started:
        yield started
        started.wait_idle()


@pytest.fixture
def port(server):
    return server.port


def keeps(text, form, acrostic=None):
    chars, lines = map(int, form.split("x"))
    parts = re.findall("([^，。]*)([，。])", text)
    return ("".join(a + b for a, b in parts) == text and len(parts) == lines
            and all(len(words) == chars and set(words) <= set(WORDS) for words, _ in parts)
            and [mark for _, mark in parts] == ["，", "。"] * (lines // 2)
            and (acrostic is None or "".join(words[0] for words, _ in parts) == acrostic))


def only(answer):
    (choice,) = answer["choices"]
    return choice


# Poems that no model was trained on: one of the small models' words, and lines of the shipped model.
GOLDEN = [tuple(line.split("\t")) for line in (ROOT / "tests/golden/poem/pairs.tsv").read_text(encoding="utf-8").splitlines()]
HELD_BACK = [(model, PROMPT, "春江花月，山水人天。上疑是霜，低头望明。") for model in ("poem", "plain")] + [
    ("shipped", title, poem) for title, poem in GOLDEN[:2]]


@pytest.mark.parametrize("model, title, poem", HELD_BACK)
def test_the_score_of_a_poem_that_was_not_made_here_is_what_its_steps_say(port, model, title, poem):
    """To the bit: each token's log-probability, forced in a step of its own after all earlier tokens."""
    scored = call(port, "POST", "/v1/score", {"model": model, "prompt": title, "completion": poem})
    assert scored.status == 200, scored.text

    def tokens(text):
        return call(port, "POST", "/tokenize", {"model": model, "content": text, "add_special": text == title}).json()["tokens"]

    ids, before, steps = tokens(poem), tokens(title), []
    for i, token in enumerate(ids):
        step = only(complete_ok(port, model=model, prompt=before + ids[:i], max_tokens=1, logprobs=0, logit_bias={str(token): 100}))
        steps += step["logprobs"]["token_logprobs"]
    assert [-x for x in steps] == scored.json()["surprise"] and len(steps) == len(poem)


def test_a_thousand_poems_keep_form_and_acrostic(port):
    def ask(seed):
        form = FORMS[seed % 4]
        lines = int(form[2])
        acrostic = "".join(WORDS[(seed * 7 + i * (1 + seed % 5)) % len(WORDS)] for i in range(lines))
        answer = complete_ok(port, model="poem", prompt=PROMPT, form=form, acrostic=acrostic, seed=seed, temperature=1.5 * (seed % 3))
        choice = only(answer)
        assert keeps(choice["text"], form, acrostic), (form, acrostic, choice["text"])
        assert choice["finish_reason"] == "stop" and answer["usage"]["completion_tokens"] == lines * (int(form[0]) + 1) + 1
        return choice["text"]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(ask, range(1000)))) > 900


@pytest.mark.parametrize("form", FORMS)
def test_streams_and_samples_keep_it(port, form):
    fields = {"model": "poem", "prompt": PROMPT, "form": form, "seed": 3, "n": 5, "temperature": 1}
    whole = complete_ok(port, **fields)
    texts, reasons = join_stream(stream_ok(port, **fields))
    assert sorted(texts.values()) == sorted(c["text"] for c in whole["choices"])
    assert all(keeps(text, form) for text in texts.values()) and len(set(texts.values())) == 5
    assert set(reasons.values()) == {"stop"}
    assert complete_ok(port, **fields)["choices"] == whole["choices"]


def test_guessed_tokens_change_no_poem(models):
    poems = []
    for draft in ("0", "16"):
        with Server("--models", models, "--draft", draft) as server:
            poems.append([only(complete_ok(server.port, model="poem", prompt=PROMPT, form=form, seed=seed, temperature=heat))["text"]
                          for form in FORMS for seed, heat in ((1, 0), (2, 0.5), (3, 1), (4, 2))])
    assert poems[0] == poems[1] and all(keeps(text, FORMS[i // 4]) for i, text in enumerate(poems[0]))


def test_what_the_prompt_has_of_the_poem_counts(port):
    for begun in ("春江花月夜，", "春江花", "春江花月夜，山水人天地。春江花月夜，山水人天地", "春江花月夜，山水人天地。春江花月夜，山水人天地。"):
        answer = complete_ok(port, model="poem", prompt=PROMPT + begun, form="5x4", seed=1)
        assert keeps(begun + only(answer)["text"], "5x4"), answer
        scored = complete_ok(port, model="poem", prompt=PROMPT + begun, form="5x4", seed=1, echo=True, logprobs=0)
        assert only(scored)["text"] == PROMPT + begun + only(answer)["text"]
    title = PROMPT.replace("静", "龘")  # is read as its bytes
    assert keeps(only(complete_ok(port, model="poem", prompt=title, form="7x4"))["text"], "7x4")


def rhymes(text, form, table=poem_model.RHYMES):
    """Whether the even lines end with different characters of one group."""
    ends = [line[-1] for line in re.findall("([^，。]*)。", text)]
    return len(ends) == int(form[-1]) // 2 == len(set(ends)) and any(set(ends) <= set(group) for group in table)


def test_even_lines_rhyme(port):
    """Next to requests without rules, streamed, several samples at once, from a state at every character."""
    def one(i):
        form = FORMS[i % 4]
        fields = {"model": "poem", "prompt": PROMPT, "form": form, "seed": i, "temperature": 1.5 * (i % 3), "rhyme": i % 5 > 0}
        text = only(complete_ok(port, **fields))["text"]
        assert keeps(text, form)
        return i % 5 == 0 or rhymes(text, form), i % 5 == 0 and rhymes(text, form)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(one, range(200)))
    assert all(good for good, _ in kept) and sum(by_chance for _, by_chance in kept) < 20
    fields = {"model": "poem", "prompt": PROMPT + "春江花月夜，", "form": "5x8", "rhyme": True, "acrostic": "春夏秋冬江月花山", "seed": 2}
    whole = [c["text"] for c in complete_ok(port, **fields, n=3)["choices"]]
    assert all(rhymes("春江花月夜，" + text, "5x8") for text in whole)
    assert sorted(join_stream(stream_ok(port, **fields, n=3))[0].values()) == sorted(whole)
    for tokens in range(1, 40, 3):
        begun = complete_ok(port, **fields, max_tokens=tokens, return_state=True)
        rest = complete_ok(port, model="poem", state=begun["states"][0]["id"])
        assert only(begun)["text"] + only(rest)["text"] in whole


def test_poems_are_suspended_at_a_shutdown_and_rhyme_on(tmp_path):
    """Wherever the signal finds them, waiting for the only slot: the next server writes the same poems. The model is
    the shipped one, for which eight poems are work for a while. It is the model that is shipped, for which eight poems
    are work for a while."""
    (tmp_path / "poem").symlink_to(ROOT / "weights/poem")
    table = (ROOT / "weights/poem/rhymes.txt").read_text(encoding="utf-8").split()
    wishes = [{"model": "poem", "prompt": PROMPT, "form": "7x8", "rhyme": True, "seed": seed} for seed in range(8)]
    with Redis() as redis:
        flags = ("--models", tmp_path, "--slots", "1", "--state-store", redis.url, *holding.FLAGS)
        with Server(*flags) as first:
            expected = [only(complete_ok(first.port, **wish))["text"] for wish in wishes]
            busy = holding.send(first.port, {"model": "poem", "prompt": PROMPT, "form": "7x8", "n": 4096}, stream=False)
            wait_until(lambda: first.slots_used() == 1, 60, "the slot is taken")
            socks = [holding.send(first.port, {**wish, "suspend": True}, stream=False) for wish in wishes]
            wait_until(lambda: first.metric("linnet_queue_length") + first.requests("ok") >= 2 * len(wishes), 60, "all have come")
            first.signal(signal.SIGTERM)
            answers = [test_park.read_answer(sock) for sock in socks]
            test_park.close_all(busy, *socks)
            assert first.wait() == 0
        with Server(*flags) as second:
            for whole, (text, reason, state) in zip(expected, answers, strict=True):
                rest = only(complete_ok(second.port, model="poem", state=state))["text"] if reason == "parked" else ""
                assert text + rest == whole and rhymes(whole, "7x8", table)
    assert any(reason == "parked" for _, reason, _ in answers)


TUNE = "词《如梦令》"
LENGTHS = [6, 6, 5, 6, 2, 2, 6]


@pytest.mark.parametrize("rhyme", [True, "modern"])
def test_a_tune_is_kept_from_every_place(port, rhyme):
    fields = {"model": "shipped", "prompt": TUNE, "form": "如梦令", "rhyme": rhyme, "seed": 4}
    whole = [c["text"] for c in complete_ok(port, **fields, n=2)["choices"]]
    for text in whole:
        lines = re.findall("[^，。]+", text)
        assert [len(line) for line in lines] == LENGTHS and lines[4] == lines[5]
        assert "".join(re.findall("[，。]", text)) == "。。，。。。。"
    streamed = join_stream(stream_ok(port, **fields))[0][0]
    for tokens in range(1, 40, 5):
        begun = complete_ok(port, **fields, rank=False, max_tokens=tokens, return_state=True)
        rest = complete_ok(port, model="shipped", state=begun["states"][0]["id"])
        assert only(begun)["text"] + only(rest)["text"] == streamed


def test_a_pattern_is_kept(port):
    """A poem whose beginning is the prompt is refused where the beginning breaks the pattern, so a poem that keeps its
    pattern is taken as a prompt. The tones themselves are a unit test's."""
    for form, pattern, other in (("5x4", "level", "oblique"), ("7x8", "oblique", "level")):
        fields = {"model": "shipped", "form": form, "rhyme": "modern", "seed": 2}
        texts = [c["text"] for c in complete_ok(port, **fields, prompt=PROMPT, pattern=pattern, n=4)["choices"]]
        assert len(set(texts)) == 4
        for text in texts:
            assert complete_ok(port, **fields, prompt=PROMPT + text[:-1], pattern=pattern)["choices"][0]["text"] == text[-1]
            assert complete(port, **fields, prompt=PROMPT + text, pattern=other).error["param"] == "prompt"
        assert len({text[0] for text in texts}) > 1


def test_fields_of_forms_are_refused(port):
    for fields, param, words in (({"pattern": "level"}, "pattern", "needs a form"), ({"pattern": "flat", "form": "5x4"}, "pattern", "level or oblique"),
                                 ({"pattern": "level", "form": "如梦令"}, "pattern", "tune"), ({"acrostic": "春夏秋冬", "form": "如梦令"}, "acrostic", "tune"),
                                 ({"rhyme": 1, "form": "5x4"}, "rhyme", "true, false"), ({"rhyme": "old", "form": "5x4"}, "rhyme", "modern"),
                                 ({"form": "5x4", "pattern": "oblique", "prompt": PROMPT + "春江"}, "prompt", "pattern at its character 2")):
        for path in ("/v1/completions", "/v1/states"):
            reply = call(port, "POST", path, {"model": "shipped", "prompt": PROMPT} | fields)
            assert reply.status == 400 and reply.error["param"] == param and words in reply.error["message"], reply.text
    for field, value in (("pattern", "level"), ("rhyme", "modern"), ("form", "如梦令")):
        reply = complete(port, model="plain", prompt=PROMPT, **{field: value})
        assert reply.status == 400 and reply.error["param"] == field and "models of poems" in reply.error["message"]


def test_what_cannot_rhyme_is_refused(port):
    for model, fields, param in (("plain", {"form": "5x4"}, "form"), ("plain", {}, "rhyme"), ("poem", {}, "rhyme"),
                                 ("poem", {"form": "5x4", "prompt": PROMPT + "春江花月夜，春江花月《"}, "prompt")):
        reply = complete(port, **{"model": model, "prompt": PROMPT, "rhyme": True} | fields)
        assert reply.status == 400 and reply.error["param"] == param, reply.text
    assert complete(port, model="poem", prompt=PROMPT, form="5x4", rhyme="yes").error["param"] == "rhyme"


def test_a_traditional_title_and_acrostic_are_read(port):
    """The words that the model knows simplified only."""
    simple = {"model": "poem", "form": "5x4", "seed": 3}
    told = complete_ok(port, prompt="唐《靜夜思》", acrostic="春江夏頭", **simple)
    wanted = complete_ok(port, prompt=PROMPT, acrostic="春江夏头", **simple)
    assert told["choices"] == wanted["choices"] and "simplified forms: 2" in told["warnings"][0]["message"]
    exact = complete(port, prompt=PROMPT, acrostic="春江夏頭", normalize=False, **simple)
    assert exact.status == 400 and exact.error["param"] == "acrostic"


@pytest.mark.parametrize("fields", [{"form": "7x8"}, {"max_tokens": 60}])
def test_old_forms_are_read_and_never_written(port, fields):
    """A model whose vocabulary has both forms; its random weights like them equally well."""
    told = complete_ok(port, model="old", prompt=f"唐《{OLD}》", n=8, seed=3, temperature=1.5, **fields)
    assert "simplified forms: 4" in told["warnings"][0]["message"]
    written = {c for choice in told["choices"] for c in choice["text"]}
    assert written & set(USUAL) and not written & set(OLD)


def test_a_poem_goes_on_from_every_character(port):
    fields = {"model": "poem", "prompt": PROMPT, "form": "5x4", "acrostic": "春夏秋冬", "seed": 6}
    whole = only(complete_ok(port, **fields))["text"]
    assert keeps(whole, "5x4", "春夏秋冬")
    for tokens in range(1, 25):
        begun = complete_ok(port, **fields, max_tokens=tokens, return_state=True)
        assert only(begun)["finish_reason"] == "length"
        state = begun["states"][0]["id"]
        for start in (state, fork_one(port, state)):
            rest = complete_ok(port, model="poem", state=start)
            assert only(begun)["text"] + only(rest)["text"] == whole
            assert only(rest)["finish_reason"] == "stop"
    made = call(port, "POST", "/v1/states", {"model": "poem", "prompt": PROMPT, "seed": 6, "form": "5x4", "acrostic": "春夏秋冬"})
    assert made.status == 201, made.text
    assert only(complete_ok(port, model="poem", state=made.json()["id"]))["text"] == whole
    for fields, param in (({"form": "4x5"}, "form"), ({"form": "5x4", "acrostic": "春"}, "acrostic")):
        reply = call(port, "POST", "/v1/states", {"model": "poem", "prompt": PROMPT} | fields)
        assert reply.status == 400 and reply.error["param"] == param
    for field in ("form", "acrostic"):
        reply = complete(port, model="poem", state=state, **{field: "5x4"})
        assert reply.status == 400 and reply.error["param"] == field


def test_stop_strings_lengths_and_penalties_fit(port):
    fields = {"model": "poem", "prompt": PROMPT, "form": "7x8", "seed": 2}
    whole = only(complete_ok(port, **fields))["text"]
    assert only(complete_ok(port, **fields, stop="。"))["text"] == whole.split("。")[0]
    cut = only(complete_ok(port, **fields, max_tokens=10))
    assert cut["text"] == whole[:10] and cut["finish_reason"] == "length"
    other = only(complete_ok(port, **fields, frequency_penalty=2, logit_bias={"256": 100, "257": 100}))["text"]
    assert keeps(other, "7x8")


@pytest.mark.parametrize("fields, param, words", [
    ({"form": "6x4"}, "form", "5x4, 5x8, 7x4, 7x8"),
    ({"form": ""}, "form", "5x4"),
    ({"form": "5x4\0"}, "form", "NUL"),
    ({"form": 5}, "form", "string"),
    ({"form": "5x4", "acrostic": "春夏秋"}, "acrostic", "4 Chinese characters"),
    ({"form": "5x4", "acrostic": "春夏秋冬春"}, "acrostic", "4 Chinese characters"),
    ({"form": "5x4", "acrostic": "春夏秋a"}, "acrostic", "4 Chinese characters"),
    ({"form": "5x4", "acrostic": "春夏秋龘"}, "acrostic", "龘"),
    ({"form": "5x4", "acrostic": ["春"]}, "acrostic", "string"),
    ({"acrostic": "春夏秋冬"}, "acrostic", "form"),
    ({"form": "5x4", "ignore_eos": True}, "ignore_eos", "form"),
    ({"form": "5x4", "prompt": PROMPT + "春江，"}, "prompt", "character 3"),
    ({"form": "5x4", "prompt": PROMPT + "春", "acrostic": "夏夏夏夏"}, "acrostic", "character 1"),
    ({"form": "7x8", "prompt": "唐《" + "日" * 140 + "》"}, "prompt", "no room"),
    ({"form": "5x4", "model": "plain"}, "form", "plain"),
    ({"form": "5x4", "model": "bytes"}, "form", "bytes"),
    ({"acrostic": "春", "model": "plain"}, "acrostic", "plain"),
])
def test_what_cannot_be_kept_is_refused_by_its_field(port, fields, param, words):
    reply = complete(port, **{"model": "poem", "prompt": PROMPT} | fields)
    assert reply.status == 400, reply.text
    assert reply.error["param"] == param and words in reply.error["message"]


def test_without_a_form_it_is_any_text(port):
    fields = {"prompt": PROMPT, "seed": 4, "max_tokens": 30, "logprobs": 0}
    poem, plain = (only(complete_ok(port, model=model, **fields)) for model in ("poem", "plain"))
    assert poem == plain
    scores = [call(port, "POST", "/v1/score", {"model": model, "prompt": PROMPT, "completion": "春江花月夜，"}).json()["surprise"]
              for model in ("poem", "plain")]
    assert scores[0] == scores[1]


POEMS = [("唐", "静夜思", "床前明月光，疑是地上霜。举头望明月，低头思故乡。"), ("宋", "", "春江花月夜，"), ("词", "水 调", "龘明月。")]


def write_poems(path, poems=POEMS):
    path.write_text("".join(f"{kind}\t某\t{title}\t{text}\n" for kind, title, text in poems), encoding="utf-8")
    return path


def test_eval_is_the_mean_of_what_is_scored(models, port, tmp_path):
    nats = [call(port, "POST", "/v1/score", {"model": "poem", "prompt": f"{kind}《{title}》", "completion": text}).json()["surprise"]
            for kind, title, text in POEMS]
    said = run("eval", "--model", models / "poem", "--json", write_poems(tmp_path / "poems.tsv"))
    assert said.returncode == 0, said.stderr
    report = json.loads(said.stdout)
    characters = sum(len(text) for _, _, text in POEMS)
    assert (report["poems"], report["characters"]) == (3, characters)
    assert report["nll"] == pytest.approx(sum(map(sum, nats)) / characters, abs=1e-5)
    one = json.loads(run("eval", "--model", models / "poem", "--json", "--limit", "1", tmp_path / "poems.tsv").stdout)
    assert one["nll"] == pytest.approx(sum(nats[0]) / len(POEMS[0][2]), abs=1e-5)
    shown = run("eval", "--model", models / "poem", tmp_path / "poems.tsv").stdout
    assert "nats per character of the text" in shown and f"characters      {characters}" in shown


@pytest.mark.parametrize("text, words", [
    ("唐\t某\t题\t春。\n唐\t某\t春。\n", ":2: the line is not kind"), ("唐\t某\t题\t\n", ":1: the line is not kind"),
    ("唐\t某\t题\t春。\t夏\n", ":1: the line is not kind"), ("", "holds no poem"), ("唐\t某\t题\t" + "春" * 300 + "\n", ":1: the text has more"),
    ("唐\t某\t题\t春\n" + "长" * 3000 + "\n", ":2: the line has more than 8190 bytes"),
])
def test_eval_refuses_what_are_no_poems(models, tmp_path, text, words):
    (tmp_path / "poems.tsv").write_text(text, encoding="utf-8")
    said = run("eval", "--model", models / "poem", tmp_path / "poems.tsv")
    assert said.returncode != 0 and words in said.stderr, said.stderr


def test_a_folder_says_what_it_is(port, tmp_path):
    models = call(port, "GET", "/v1/models").json()["data"]
    rhymes = {m["id"]: m["meta"]["rhymes"] for m in models if m["id"] in ("poem", "plain", "bytes")}
    assert rhymes == {"poem": True, "plain": False, "bytes": False}
    tasks = {m["id"]: m["meta"]["task"] for m in models}
    assert tasks.items() >= {"poem": "poem", "plain": "text", "bytes": "text"}.items()
    refused = run("inspect", poem_model.write(tmp_path / "other", task="couplet"))
    assert refused.returncode != 0 and 'linnet_task must be "text" or "poem"' in refused.stderr
    endless = run("inspect", poem_model.write(tmp_path / "endless", eos_token_id=None))
    assert endless.returncode != 0 and "a token that ends them" in endless.stderr


def test_the_command_line_writes_them_too(models, port):
    flags = ["--model", models / "poem", "--seed", "5", "--temperature", "0.8", "--form", "7x4", "--acrostic", "春夏秋冬"]
    done = run("generate", *flags, PROMPT)
    assert done.returncode == 0, done.stderr
    assert keeps(done.stdout.strip(), "7x4", "春夏秋冬")
    answer = complete_ok(port, model="poem", prompt=PROMPT, seed=5, form="7x4", acrostic="春夏秋冬")
    assert done.stdout.strip() == only(answer)["text"]
    said = json.loads(run("generate", *flags, "--json", PROMPT).stdout)
    assert said["choices"][0]["finish_reason"] == "stop"
    for more, words in ((["--form", "9x9"], "form must be one of"), (["--acrostic", "春"], "acrostic must have 4")):
        refused = run("generate", *flags, *more, PROMPT)
        assert refused.returncode != 0 and words in refused.stderr


TITLES = [("春望", None), ("春望，其二", None), ("spring", "no Chinese"), ("", "no Chinese"), ("\U0001f600", "no Chinese"),
          ("春 spring", "does not know")]


@pytest.mark.parametrize("rank", [True, False])
@pytest.mark.parametrize("title, word", TITLES)
def test_a_title_that_cannot_be_read_is_a_warning(server, title, word, rank):
    body = {"model": "shipped", "prompt": f"唐《{title}》", "form": "5x4", "seed": 1, "rank": rank}
    reply = call(server.port, "POST", "/v1/completions", body)
    assert reply.status == 200, reply.text
    told = [w["message"] for w in reply.json().get("warnings", []) if w["param"] == "prompt"]
    assert len(told) == (word is not None) and all(word in message for message in told), told
