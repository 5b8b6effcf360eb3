#!/usr/bin/env python3
"""Conversations: the time to the first token and the bytes, by turn; and many conversations on one server.

    python3 tests/bench/conversation.py [--build build] [--kinds rwkv7] [--size full|small] [--turns 1000] [--conversations 10000]

The models have random weights (recurrent.py). One conversation of --turns turns is made first. Then turns that follow early
and late responses of it are measured in alternation, so that other load meets them alike: several responses may follow one.
A figure is the median over --rounds. Afterwards 8 clients make --conversations conversation objects with one turn each. One
client resumes each of them once, in random order, as far as --resumes allows. Their responses have store false, so the file
has one state per conversation.

The server keeps its states in a file of a temporary folder. Turns are sent as streams. The time to the first token
contains the client, HTTP, the file's read and the prompt.
"""

import argparse
import concurrent.futures
import http.client
import json
import random
import statistics
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

import machine
import recurrent
from machine import number

CLIENTS = 8


class Talk:
    """A client's connection."""

    def __init__(self, server):
        self.model = server.model
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.url).netloc, timeout=600)

    def turn(self, number, **where):
        """(id of the response, milliseconds to the first token, tokens that were computed)"""
        body = {"model": self.model, "input": f"Message {number}.", "max_output_tokens": 16, "seed": number, "stream": True,
                "include": ["message.output_text.logprobs"],  # an event per token, also for a part of a character
                **where}
        start, first = time.perf_counter(), None
        self.connection.request("POST", "/v1/responses", json.dumps(body), {"Content-Type": "application/json"})
        reply = self.connection.getresponse()
        if reply.status != 200:
            sys.exit(reply.read().decode())
        for line in reply:
            if first is None and line.startswith(b"event: response.output_text.delta"):
                first = time.perf_counter() - start
            last = line if line.startswith(b"data: ") else last if first is not None else b""
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


def by_turn(server, args):
    talk, ids = Talk(server), [None]
    for i in range(args.turns):
        ids.append(talk.turn(i, previous_response_id=ids[-1])[0])
    turns = [turn for turn in (2, args.turns // 10, args.turns) if turn > 1]
    times, computed = {turn: [] for turn in turns}, {}
    for i in range(args.rounds):
        for turn in turns:
            _, first, computed[turn] = talk.turn(args.turns + i, previous_response_id=ids[turn - 1])
            times[turn].append(first)
    medians = {turn: statistics.median(times[turn]) for turn in turns}
    for turn in turns:
        facts = talk.facts(ids[turn - 1])
        yield [turn, number(medians[turn]), number(medians[turn] / medians[2]), facts["position"], computed[turn], facts["memory_bytes"],
               facts["bytes"]]


def make_some(server, numbers):
    talk = Talk(server)
    ids = [talk.new_conversation() for _ in numbers]
    for i, conversation in zip(numbers, ids, strict=True):
        talk.turn_in(conversation, i)
    return ids


def size_of(store):
    return sum(path.stat().st_size for path in store.parent.glob(store.name + "*"))


def resumed(server, args, store):
    before = size_of(store)
    numbers = [range(i, args.conversations, CLIENTS) for i in range(CLIENTS)]
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        ids = [i for part in pool.map(lambda some: make_some(server, some), numbers) for i in part]
    each = (size_of(store) - before) // args.conversations
    random.Random(1).shuffle(ids)
    talk = Talk(server)
    memory = talk.facts(ids[0])["memory_bytes"]
    times = sorted(talk.turn_in(conversation, 1) for conversation in ids[:args.resumes])
    return [args.conversations, len(times), number(times[len(times) // 2]), number(times[len(times) * 99 // 100]), f"{memory:,}",
            f"{each:,}"]


def start(args, kind, place, store):
    """A server of a model of the kind, whose chats have the template of RWKV."""
    folder = place / kind
    config, tensors, _ = recurrent.make(kind, recurrent.SIZES[args.size], None)
    recurrent.write_folder(folder, config, tensors, "f32")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "rwkv"}))
    args.options = ["--state-store", store, "--max-state-bytes", 1 << 40, "--max-states", 1 << 20, "--timeout", 600]
    return recurrent.Linnet(args, folder, args.threads, "f32")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=Path, default=machine.ROOT / "build")
    p.add_argument("--kinds", nargs="+", default=["rwkv7"])
    p.add_argument("--size", choices=list(recurrent.SIZES), default="full")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--turns", type=int, default=1000)
    p.add_argument("--rounds", type=int, default=30)
    p.add_argument("--conversations", type=int, default=10_000)
    p.add_argument("--resumes", type=int, default=None)
    args = p.parse_args()
    args.streams = [CLIENTS]
    print(machine.describe(args.threads))
    for kind in args.kinds:
        with tempfile.TemporaryDirectory(prefix="conversation-") as place:
            store = Path(place) / "states.db"
            server = start(args, kind, Path(place), store)
            print(f"\n{kind}, one conversation:\n")
            print(machine.table(["turn", "first token ms", "to turn 2", "tokens so far", "tokens computed", "bytes of memory", "bytes kept"],
                                by_turn(server, args)))
            print(f"{kind}, many conversations:\n")
            print(machine.table(["conversations", "resumed", "p50 ms", "p99 ms", "bytes of memory", "bytes of the file each"],
                                [resumed(server, args, store)]))
            server.close()


if __name__ == "__main__":
    main()
