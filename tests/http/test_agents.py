"""An agent's day (agent_trace.py): its answers equal those of a server that keeps no states, before and after a restart, and little is
computed twice. An edit of any message computes from that message. No time shows a key the prompts of another key."""

import json
import random
import statistics
import time

import pytest

import agent_trace as trace
import image_model
import text_model
import tools as families
from client import call
from server import Server, wait_until
from states import check_sound, without_sqlite
from test_chat_templates import CHATML, LLAMA3, LLAMA3_TOKENS, with_template, write_chatml

KINDS = {"linear": image_model.LINEAR, "rows": {"kind": "softmax"}}
PRECISIONS = ["f32", "auto", "int8"]
# How often turns of each kind come, tools, requests before and after the restart, and how often a server without kept states
# computes a row at the least. The brief day is for builds with sanitizers, in which the whole day's rows of softmax take minutes.
WHOLE_DAY = (trace.SHORT, 4, 8, 5)
BRIEF_DAY = ({"retry": 2, "next": 3, "edit": 4, "cut": 5, "kept": 4}, 1, 4, 2)
ROOM = ("--max-prompt", "30000", "--prefix-cache-mb", "256")
END_MARK = len("<|im_end|>\n")  # the most tokens between the end of a message and the next one, where bytes are tokens
PAIRS, LEAST, MOST = 30, 5, 25  # of 30 fair coins fewer or more show heads once in 17,000 tries
FIRST = "^"  # stands for the token that begins every prompt


def write_traced(folder, attention):
    text_model.write_bytes(folder, attention=attention, context=30000, end=[0])
    with_template(folder, trace.TEMPLATE)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    for name, attention in KINDS.items():
        write_traced(path / name, attention)
    return path


def post(server, headers=None, **fields):
    reply = call(server.port, "POST", "/v1/messages", {"max_tokens": 12, "seed": 1, "temperature": 1, **fields}, headers or {})
    assert reply.status == 200, reply.text
    return reply.json()


def ask(server, model, messages, n_tools):
    """(the thought, rows that were computed, the prompt's text)"""
    fields = {"system": trace.system_of(), "tools": trace.make_tools(n_tools), "tool_choice": {"type": "auto"}, "allowed_token_ids": trace.LETTERS}
    message = post(server, model=model, messages=messages, **fields)
    usage, prompt = message["usage"], FIRST + trace.render(fields["system"], fields["tools"], messages)
    computed = usage["input_tokens"] + usage["cache_creation_input_tokens"]
    assert computed + usage["cache_read_input_tokens"] == len(prompt)
    (thought,) = message["content"]
    return thought["thinking"], computed, prompt


class Day:
    """Agents by turns. `run` asks a server with some of their requests, and knows all texts that servers have read before."""

    def __init__(self, model, agents, turns, each, n_tools):
        self.model, self.n_tools, self.known, self.said = model, n_tools, trace.Known(), []
        self.days = {i: trace.day(i, turns, each) for i in range(agents)}
        self.next = {i: next(day) for i, day in self.days.items()}

    def run(self, server, requests):
        """(rows that were new, rows that were computed)"""
        new = computed = 0
        for _ in range(requests):
            for i, messages in list(self.next.items()):
                thought, rows, prompt = ask(server, self.model, messages, self.n_tools)
                new += self.known.new_rows(prompt)
                computed += rows
                self.known.add(prompt + thought)
                self.said.append(thought)
                self.next[i] = self.days[i].send(thought)
        return new, computed


@pytest.mark.parametrize(("each", "n_tools", "half", "spared"), [pytest.param(*WHOLE_DAY, id="whole", marks=pytest.mark.long), pytest.param(*BRIEF_DAY, id="brief", marks=pytest.mark.asan)])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("model", KINDS)
def test_answers_of_a_day_are_those_without_kept_states(models, tmp_path, model, precision, each, n_tools, half, spared):
    without_sqlite()
    flags = ("--precision", precision, *ROOM)
    plain, day = (Day(model, 2, 2 * half, each, n_tools) for _ in range(2))
    with Server("--models", models, *flags, "--prefix-cache-mb", "0") as server:
        _, computed = plain.run(server, 2 * half)
        assert server.metric("linnet_cached_prompt_tokens_total", model=model) == 0
    path = tmp_path / "states.db"
    with Server("--models", models, *flags, "--state-store", path) as server:
        new, first = day.run(server, half)
        assert first <= 1.1 * new
    with Server("--models", models, *flags, "--state-store", path) as server:
        new, later = day.run(server, half)
        assert server.metric("linnet_prefix_store_read_total", model=model) > 0
        assert later <= 1.2 * new
    assert day.said == plain.said
    assert computed > spared * (first + later)
    check_sound(path.with_name("states-prefixes.db"))


# --- edits

def write_folders(path):
    write_chatml(path / "chatml", CHATML)
    write_chatml(path / "llama3", LLAMA3, LLAMA3_TOKENS)
    with_template(text_model.write_bytes(path / "rwkv", context=30000), "rwkv")
    write_traced(path / "plain-marks", image_model.LINEAR)
    calls, marks, special = families.FAMILIES["hermes"]
    families.write(path / "hermes", families.HEAD + families.MESSAGE.replace("CALLS", calls) + families.TAIL, marks, special)
    names = ["chatml", "llama3", "rwkv", "plain-marks", "hermes"]
    for name in names:
        config = json.loads((path / name / "config.json").read_text())
        config["text"]["context"] = 3000
        (path / name / "config.json").write_text(json.dumps(config))
    return names


def words(seed, n=12):
    r = random.Random(seed)
    return " ".join(r.choice(trace.WORDS) for _ in range(n))


def talk(n):
    return [{"role": ("user", "assistant")[i % 2], "content": words(i)} for i in range(n)]


def chat(server, model, messages, answers=True):
    reply = call(server.port, "POST", "/v1/chat/completions",
                 {"model": model, "messages": messages, "max_tokens": 4, "seed": 1, "add_generation_prompt": answers})
    assert reply.status == 200, reply.text
    return reply.json()


@pytest.mark.quick
@pytest.mark.asan
def test_an_edited_message_is_computed_from_its_beginning(tmp_path):
    names, messages = write_folders(tmp_path), talk(9)
    with Server("--models", tmp_path, *ROOM[:2], "--prefix-cache-mb", "0") as plain, Server("--models", tmp_path, *ROOM) as server:
        for name in names:
            begins = [0] + [chat(plain, name, messages[:i], answers=False)["usage"]["prompt_tokens"] for i in range(1, len(messages))]
            assert min(b - a for a, b in zip(begins, begins[1:], strict=False)) > 16, "shorter messages share a kept state"
            chat(server, name, messages)
            for i in range(1, len(messages)):
                edited = [*messages[:i], messages[i] | {"content": words(100 + i)}, *messages[i + 1:]]
                answer, expected = chat(server, name, edited), chat(plain, name, edited)
                assert answer["choices"] == expected["choices"]
                assert answer["timings"]["cache_n"] >= begins[i] - END_MARK, (name, i, begins)


@pytest.mark.quick
def test_the_end_of_the_list_of_tools_is_stored(models, tmp_path):
    """A new conversation after a restart begins after it."""
    without_sqlite()
    path = tmp_path / "states.db"
    with Server("--models", models, *ROOM, "--state-store", path) as server:
        _, computed, _ = ask(server, "linear", [trace.user("list every file")], 4)
        wait_until(lambda: server.metric("linnet_prefix_store_written_total", model="linear") >= 2, 60, "states are written")
    with Server("--models", models, *ROOM, "--state-store", path) as server:
        _, again, _ = ask(server, "linear", [trace.user("read the first line")], 4)
        assert again < 100 < computed


# --- another key

def timed(server, prompt, key):
    start = time.perf_counter()
    reply = call(server.port, "POST", "/v1/completions", {"model": "linear", "prompt": prompt, "max_tokens": 1}, {"Authorization": f"Bearer {key}"})
    assert reply.status == 200, reply.text
    return time.perf_counter() - start


def text_of(seed):
    r = random.Random(seed)
    return [r.randrange(1, 256) for _ in range(8000)]


def wins(pairs):
    return sum(a < b for a, b in pairs)


def test_no_time_shows_what_another_key_has_sent(models, tmp_path):
    """Bob's time for a prompt that Alice has sent, and for one that is new, by turns and in random order: each is the shorter one about
    as often. Alice's own second time is nearly always shorter, so the measure would show a kept state. A busy machine may hold up either
    request of a pair for as long as a prompt takes, so her times have four tries."""
    without_sqlite()
    keys, path, order = tmp_path / "keys", tmp_path / "states.db", random.Random(3)
    keys.write_text("alice ka\nbob kb\n")
    flags = ("--models", models, *ROOM, "--state-store", path, "--api-key-file", keys, "--public", "/metrics,/readyz,/health")

    def compare(server, first):
        """Pairs of times of Bob: a prompt that Alice has sent, and another."""
        for i in range(first, first + PAIRS):
            both = [(True, text_of(i)), (False, text_of(1000 + i))]
            order.shuffle(both)
            times = {known: timed(server, prompt, "kb") for known, prompt in both}
            yield times[True], times[False]

    def own_pairs(server, new):
        """Pairs of times of Alice: a prompt that she has sent, and a new one."""
        return [(timed(server, text_of(i), "ka"), timed(server, text_of(new + i), "ka")) for i in range(PAIRS)]

    with Server(*flags) as server:
        for i in range(2 * PAIRS):
            timed(server, text_of(i), "ka")
        assert any(wins(own_pairs(server, new)) > MOST for new in (2000, 3000, 4000, 5000))
        assert LEAST <= wins(compare(server, 0)) <= MOST
        wait_until(lambda: server.metric("linnet_prefix_store_written_total", model="linear") >= 5 * PAIRS, 60, "all ends of prompts are written")
    with Server(*flags, "--prefix-cache-mb", "1") as server:  # Alice's states are in the file alone
        pairs = list(compare(server, PAIRS))
        assert LEAST <= wins(pairs) <= MOST, statistics.median(a / b for a, b in pairs)
        assert server.metric("linnet_prefix_store_read_total", model="linear") == 0
        timed(server, text_of(PAIRS), "ka")
        assert server.metric("linnet_prefix_store_read_total", model="linear") == 1
