#!/usr/bin/env python3
"""Conversations: the time to the first token and the bytes, by turn; and many conversations on one server.

    python3 tests/bench/conversation.py [--build build] [--kinds rwkv7,pure_gdn] [--peers rwkv7,softmax] [--turns 1000]
    python3 tests/bench/conversation.py --turns 0 --conversations 10000 --size small --kinds rwkv7 --peers rwkv7

The models have random weights (recurrent.py). --kinds names those of Linnet, --peers those of llama.cpp's server, which
scripts/peers builds; "" names none.

Turns: one conversation is made, and turn 2, turn --turns / 10 and turn --turns are measured.

- In Linnet a measured turn follows a stored response. All rounds of a turn follow one response. The turns alternate, so
  that other load meets them alike.
- llama.cpp keeps a conversation in the cache of its only slot. Its rounds are successive turns, because each turn changes
  the cache. The slot reads the earlier conversation in one request, which is not measured.
- "Ten turns back" is the time of a turn that follows an older response. llama.cpp's client sends that shorter conversation
  to the slot once.
- --peer-turns shortens llama.cpp's conversation.

Many conversations: 8 clients make --conversations conversation objects with one turn each. One client resumes --resumes
of them once, in random order. Their responses have store false, so the file has one state per conversation. llama.cpp's
client saves the slot to a file after a turn and restores it before the next turn, as the manual of the server says.

A figure is a median over --rounds if the head names no other. The time to the first token contains the client, HTTP, reading
the state, and the prompt. Linnet keeps its states in a file of a temporary folder.
"""

import argparse
import concurrent.futures
import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import llama
import machine
import numpy
import recurrent
from machine import number

CLIENTS, BACK = 8, 10
TURN_HEAD = ["", "turn", "first token ms", "to turn 2", "ten turns back, ms", "tokens so far", "tokens computed", "bytes of memory", "bytes kept"]
MANY_HEAD = ["", "conversations", "resumed", "p50 ms", "p99 ms", "bytes of memory", "bytes on disk each"]


class Talk:
    """A connection to Linnet."""

    def __init__(self, server, answer):
        self.model, self.answer = server.model, answer
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.url).netloc, timeout=600)

    def turn(self, number, **where):
        """(id of the response, milliseconds to the first token, tokens that were computed)"""
        body = {"model": self.model, "input": f"Message {number}.", "max_output_tokens": self.answer, "seed": number, "stream": True,
                "include": ["message.output_text.logprobs"],  # an event per token, also for a part of a character
                **where}
        start, first, last = time.perf_counter(), None, b""
        self.connection.request("POST", "/v1/responses", json.dumps(body), {"Content-Type": "application/json"})
        reply = self.connection.getresponse()
        if reply.status != 200:
            sys.exit(reply.read().decode())
        for line in reply:
            if first is None and line.startswith(b"event: response.output_text.delta"):
                first = time.perf_counter() - start
            last = line if line.startswith(b"data: ") else last
        response = json.loads(last.removeprefix(b"data: "))["response"]
        if not response["store"] and not response["conversation"]:
            sys.exit(f"a response was not stored: {response['warnings']}")
        usage = response["usage"]
        return response["id"], first * 1e3, usage["input_tokens"] - usage["input_tokens_details"]["cached_tokens"]

    def new_conversation(self):
        self.connection.request("POST", "/v1/conversations", "{}", {"Content-Type": "application/json"})
        return json.loads(self.connection.getresponse().read())["id"]

    def turn_in(self, conversation, number):
        """Milliseconds to the first token."""
        return self.turn(number, conversation=conversation, store=False)[1]

    def facts(self, response):
        self.connection.request("GET", f"/v1/states/{response}")
        return json.loads(self.connection.getresponse().read())


def turns_of(most):
    return sorted({turn for turn in (2, most // 10, most) if turn > 1})


def row_of_turn(name, turn, times, back, *rest):
    """times: lists of milliseconds by turn."""
    medians = {t: statistics.median(times[t]) for t in (2, turn)}
    back = number(statistics.median(back)) if turn > BACK else "-"
    return [name, turn, number(medians[turn]), number(medians[turn] / medians[2]), back, *rest]


def by_turn(name, server, args):
    talk, ids = Talk(server, args.answer), [None]
    for i in range(args.turns):
        ids.append(talk.turn(i, previous_response_id=ids[-1])[0])
    turns, computed = turns_of(args.turns), {}
    times, back = ({turn: [] for turn in turns} for _ in range(2))
    for i in range(args.rounds):
        for turn in turns:
            _, first, computed[turn] = talk.turn(args.turns + i, previous_response_id=ids[turn - 1])
            times[turn].append(first)
            if turn > BACK:
                back[turn].append(talk.turn(args.turns + i, previous_response_id=ids[turn - 1 - BACK])[1])
    for turn in turns:
        facts = talk.facts(ids[turn - 1])
        yield row_of_turn(name, turn, times, back[turn], facts["position"], computed[turn], f"{facts['memory_bytes']:,}", f"{facts['bytes']:,}")


def make_some(server, answer, numbers):
    talk = Talk(server, answer)
    ids = [talk.new_conversation() for _ in numbers]
    for i, conversation in zip(numbers, ids, strict=True):
        talk.turn_in(conversation, i)
    return ids


def size_of(store):
    return sum(path.stat().st_size for path in store.parent.glob(store.name + "*"))


def row_of_many(name, n, times, memory, each):
    times = sorted(times)
    return [name, f"{n:,}", f"{len(times):,}", number(times[len(times) // 2]), number(times[len(times) * 99 // 100]), memory, f"{each:,}"]


def resumed(name, server, args, store):
    before = size_of(store)
    numbers = [range(i, args.conversations, CLIENTS) for i in range(CLIENTS)]
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        ids = [i for part in pool.map(lambda some: make_some(server, args.answer, some), numbers) for i in part]
    each = (size_of(store) - before) // args.conversations
    random.Random(1).shuffle(ids)
    talk = Talk(server, args.answer)
    memory = f"{talk.facts(ids[0])['memory_bytes']:,}"
    return row_of_many(name, args.conversations, [talk.turn_in(conversation, 1) for conversation in ids[:args.resumes]], memory, each)


def start(args, kind, place, store):
    """A server of a model of the kind, whose chats have the template of RWKV."""
    folder = place / kind
    config, tensors, _ = recurrent.make(kind, recurrent.SIZES[args.size], None)
    recurrent.write_folder(folder, config, tensors, args.precision)
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "rwkv"}))
    args.options = ["--state-store", store, "--max-state-bytes", 1 << 40, "--max-states", 1 << 20, "--timeout", 600]
    return recurrent.Linnet(args, folder, args.threads, args.precision)


def measure_linnet(args, kind, place):
    """Rows of the two tables."""
    store = place / "states.db"
    server = start(args, kind, place, store)
    name = f"Linnet {recurrent.OUR[args.precision]}, {kind}"
    try:
        turns = list(by_turn(name, server, args)) if args.turns else []
        return turns, [resumed(name, server, args, store)] if args.conversations else []
    finally:
        server.close()


# --- llama.cpp


def message(i):
    """The tokens of a message, which are bytes: as many as in the template of RWKV."""
    return list(f"\n\nUser: Message {i}.\n\nAssistant:".encode())


class Slot:
    """llama.cpp's only slot."""

    def __init__(self, url, answer):
        self.url, self.answer = url, answer

    def post(self, path, body):
        """Each request has its own connection, because the server closes that of a stream."""
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            return urllib.request.urlopen(request, timeout=3600)
        except urllib.error.HTTPError as error:
            sys.exit(f"llama.cpp: {error.read().decode()}")

    def ask(self, history, n):
        """(milliseconds to the first token, the answer's tokens, tokens that were computed)"""
        start, first, tokens, last = time.perf_counter(), None, [], {}
        for line in self.post("/completion", {"prompt": history, "n_predict": n, "cache_prompt": True, "id_slot": 0, "stream": True,
                                              "return_tokens": True, "ignore_eos": True, "seed": 1}):
            if line.startswith(b"data: "):
                last = json.loads(line.removeprefix(b"data: "))
                first = first or time.perf_counter() - start
                tokens += last["tokens"]
        return first * 1e3, tokens[:n], last["timings"]["prompt_n"]

    def slot(self, action, name):
        return json.load(self.post(f"/slots/0?action={action}", {"filename": name}))


def invented(answer, i):
    """An answer that the model might have given."""
    return [ord(recurrent.TEXT[(7 * i + k * k) % len(recurrent.TEXT)]) for k in range(answer)]


def slot_by_turn(name, slot, args, place):
    times, back, rest = {}, {}, {}
    for turn in turns_of(args.peer_turns):
        history = [i for t in range(1, turn) for i in message(t) + invented(args.answer, t)]
        slot.ask(history[:-1], 1)
        times[turn] = []
        for i in range(args.rounds):
            now = history + message(turn + i)
            first, tokens, computed = slot.ask(now, args.answer)
            times[turn].append(first)
            if i == 0:
                rest[turn] = [len(history), computed]
            history = now + tokens
        written = slot.slot("save", "turn")["n_written"]
        (place / "turn").unlink()
        rest[turn] += ["-", f"{written:,}"]
        older = [i for t in range(1, turn - BACK) for i in message(t) + invented(args.answer, t)]
        back[turn] = [slot.ask(older + message(0), 1)[0]] if turn > BACK else []
    for turn, facts in rest.items():
        yield row_of_turn(name, turn, times, back[turn], *facts)


def slot_resumed(name, slot, args, place):
    talks = []
    for i in range(args.peer_conversations):
        history = message(i)
        talks.append(history + slot.ask(history, args.answer)[1])
        slot.slot("save", f"talk-{i}")
    each = sum(path.stat().st_size for path in place.glob("talk-*")) // args.peer_conversations
    order, times = list(range(args.peer_conversations)), []
    random.Random(1).shuffle(order)
    for i in order[:args.resumes]:
        start = time.perf_counter()
        slot.slot("restore", f"talk-{i}")
        restored = (time.perf_counter() - start) * 1e3
        times.append(restored + slot.ask(talks[i] + message(1), args.answer)[0])
        slot.slot("save", f"talk-{i}")
    return row_of_many(name, args.peer_conversations, times, "-", each)


def measure_llama(args, kind, place):
    saved, file, slots = place / f"{kind}.npz", place / f"{kind}.gguf", place / f"{kind}-slots"
    slots.mkdir()
    numpy.savez(saved, **recurrent.make(kind, recurrent.SIZES[args.size], None)[2])
    subprocess.run([args.python, recurrent.PEERS, "gguf", kind, saved, file, recurrent.THEIR[args.precision]], check=True)
    saved.unlink()
    room = 2048 + (args.peer_turns + args.rounds) * (len(message(1000)) + args.answer)
    command = [*llama.command_of(args.llama, file, args.threads, 1, room), "--slot-save-path", str(slots) + "/"]
    name = f"llama.cpp {recurrent.THEIR[args.precision]}, {kind}"
    with llama.serve(machine.pinned(command, args.threads)) as (url, _):
        slot = Slot(url, args.answer)
        turns = list(slot_by_turn(name, slot, args, slots)) if args.peer_turns else []
        return turns, [slot_resumed(name, slot, args, slots)] if args.peer_conversations else []


def parse_arguments():
    def words(text):
        return [word for word in text.split(",") if word]

    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=Path, default=machine.ROOT / "build")
    llama.add_argument(p)
    p.add_argument("--python", type=Path, default=llama.PLACE / "bin" / "python", help="with gguf and numpy, for llama.cpp's files")
    p.add_argument("--kinds", type=words, default=["rwkv7", "pure_gdn"])
    p.add_argument("--peers", type=words, default=["rwkv7", "softmax"])
    p.add_argument("--size", choices=list(recurrent.SIZES), default="full")
    p.add_argument("--precision", choices=["f32", "bf16", "q8"], default="bf16")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--answer", type=int, default=8, help="tokens of an answer")
    p.add_argument("--turns", type=int, default=1000, help="0: none")
    p.add_argument("--peer-turns", type=int, help="of llama.cpp; as --turns if left out")
    p.add_argument("--rounds", type=int, default=30)
    p.add_argument("--conversations", type=int, default=0)
    p.add_argument("--peer-conversations", type=int, help="of llama.cpp; as --conversations if left out")
    p.add_argument("--resumes", type=int, default=2000, help="of the conversations, at most")
    args = p.parse_args()
    args.peer_turns = args.turns if args.peer_turns is None else args.peer_turns
    args.peer_conversations = args.conversations if args.peer_conversations is None else args.peer_conversations
    args.streams = [CLIENTS]
    if 0 < min(args.turns, args.peer_turns) < 2:
        p.error("--turns is 0, or 2 at least")
    return args


def main():
    args, tables = parse_arguments(), ([], [])
    print(machine.describe(args.threads), flush=True)
    if args.peers:
        print(llama.describe(args.llama), flush=True)
    measures = [(measure_linnet, kind) for kind in args.kinds] + [(measure_llama, kind) for kind in args.peers]
    for measure, kind in measures:
        with tempfile.TemporaryDirectory(prefix="conversation-") as place:
            for table, rows in zip(tables, measure(args, kind, Path(place)), strict=True):
                table += rows
    for caption, head, rows in (("One conversation", TURN_HEAD, tables[0]), ("Many conversations", MANY_HEAD, tables[1])):
        if rows:
            print(f"\n{caption}:\n\n{machine.table(head, rows)}", flush=True)


if __name__ == "__main__":
    main()
