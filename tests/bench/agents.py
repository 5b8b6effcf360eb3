#!/usr/bin/env python3
"""An agent's day: rows, seconds and the time to the first token of agents with tools, in Linnet and in llama.cpp's server.

    python3 tests/bench/agents.py [--build build] [--kinds rwkv7,gated_deltanet] [--peers rwkv7,gated_deltanet] [--agents 1:100,4:16,16:4]
    python3 tests/bench/agents.py --small

The requests are a script's (tests/http/agent_trace.py): 34 tools, and per turn a thought of the model, a call and a result, 30,000
tokens after 100 turns. Some requests are asked twice. In some turns the user's next message drops earlier thoughts, a message
is edited, or older results are cut.

--agents says how many agents work at once, and how many turns each has. One agent asks first, and then all agents work on 4 slots.
When each agent has half of its turns, the server is restarted.

The models have random weights and layers of width 384 (recurrent.py), and their tokens are bytes. An answer has --answer letters.

- Linnet answers POST /v1/messages and keeps states in a file of a temporary folder.
- llama.cpp gets the tokens of the same texts. It chooses the slot. Its prompt cache has its own limit, 8 GiB; the options of its
  checkpoints are --peer-options. Before the restart its client saves each slot to a file, and restores the slots after it.

A row is new if no text begins like this that the server has read or written. Linnet's answers differ from llama.cpp's, and so
do the rows that are new. The column "to new" divides the rows of prompts that the server computed by the new rows. Seconds leave out
the restart. Bytes on disk are those of the states at the restart.
"""

import argparse
import contextlib
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
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

sys.path.insert(0, str(machine.ROOT / "tests" / "http"))
import agent_trace as trace  # noqa: E402

SLOTS, CONTEXT = 4, 40 << 10
HEAD = ["", "agents", "requests", "rows of prompts", "new", "computed", "to new", "to new, after the restart", "seconds", "to Linnet",
        "first token p50 ms", "p99 ms", "bytes on disk", "MiB of memory"]
OTHERS = [[i, False] for i in range(256) if i not in trace.LETTERS]


class Linnet:
    def __init__(self, args, kind, place):
        self.name, self.kind, self.args, self.store = f"Linnet {recurrent.OUR[args.precision]}, {kind}", kind, args, place / "states.db"
        self.folder = place / kind
        config, tensors, _ = recurrent.make(kind, recurrent.SIZES[args.size], None)
        config |= {"eos_token_id": 0, "max_position_embeddings": CONTEXT}
        recurrent.write_folder(self.folder, config, tensors, args.precision)
        (self.folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": trace.TEMPLATE}))
        self.fields = {"model": kind, "system": trace.system_of(), "tools": trace.make_tools(args.tools), "max_tokens": args.answer, "temperature": 1,
                       "allowed_token_ids": trace.LETTERS, "stream": True}

    @contextlib.contextmanager
    def serve(self):
        self.args.streams, self.args.options = [SLOTS], ["--state-store", self.store, "--prefix-store-mb", 1 << 20, "--prefix-cache-mb", 8 << 10,
                                                         "--max-prompt", CONTEXT, "--timeout", 3600, "--queue", 64]
        server = recurrent.Linnet(self.args, self.folder, self.args.threads, self.args.precision)
        self.url, self.pid = urllib.parse.urlsplit(server.url).netloc, server.process.pid
        # Linnet writes to a pipe, which has no other reader.
        reader = threading.Thread(target=lambda: [None for _ in server.process.stdout])
        reader.start()
        try:
            yield
        finally:
            server.process.terminate()
            server.process.wait()
            reader.join()

    def restart(self):
        """Nothing is to be done before the end, and after the beginning."""

    restarted = restart

    def bytes_on_disk(self):
        return sum(path.stat().st_size for path in self.store.parent.glob("states-prefixes.db*"))

    def ask(self, messages, prompt, seed):
        """(seconds to the first token, the thought, rows that were computed)"""
        connection, start, first, thought, usage = http.client.HTTPConnection(self.url, timeout=3600), time.perf_counter(), None, "", None
        body = {"messages": messages, "seed": seed, **self.fields}
        connection.request("POST", "/v1/messages", json.dumps(body), {"Content-Type": "application/json", "anthropic-version": "2023-06-01"})
        reply = connection.getresponse()
        if reply.status != 200:
            sys.exit(reply.read().decode())
        for line in reply:
            event = json.loads(line.removeprefix(b"data: ")) if line.startswith(b"data: ") else {}
            usage = event.get("message", event).get("usage") or usage
            delta = event.get("delta", {})
            if "thinking" in delta:
                first = first or time.perf_counter() - start
                thought += delta["thinking"]
        connection.close()
        computed = usage["input_tokens"] + usage["cache_creation_input_tokens"]
        if computed + usage["cache_read_input_tokens"] != len(prompt) or len(thought) != self.args.answer:
            sys.exit(f"{self.name} read another prompt: {usage}, not {len(prompt)}; it answered {thought}")
        return first, thought, computed


class Llama:
    def __init__(self, args, kind, place):
        self.name, self.args, self.slots = f"llama.cpp {recurrent.THEIR[args.precision]}, {kind}", args, place / "slots"
        saved, file = place / f"{kind}.npz", place / f"{kind}.gguf"
        self.slots.mkdir()
        numpy.savez(saved, **recurrent.make(kind, recurrent.SIZES[args.size], None)[2])
        subprocess.run([args.python, recurrent.PEERS, "gguf", kind, saved, file, recurrent.THEIR[args.precision]], check=True)
        saved.unlink()
        self.command = [*llama.command_of(args.llama, file, args.threads, SLOTS, CONTEXT), "--slot-save-path", f"{self.slots}/", *args.peer_options]

    @contextlib.contextmanager
    def serve(self):
        with llama.serve(machine.pinned(self.command, self.args.threads)) as (self.url, self.pid):
            yield

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            return urllib.request.urlopen(request, timeout=3600)
        except urllib.error.HTTPError as error:
            sys.exit(f"llama.cpp: {path}: {error.read().decode()}")

    def restart(self):
        for slot in range(SLOTS):
            self.post(f"/slots/{slot}?action=save", {"filename": f"slot-{slot}"}).close()

    def restarted(self):
        for slot in range(SLOTS):
            if (self.slots / f"slot-{slot}").stat().st_size > 1000:  # the slot was in use
                self.post(f"/slots/{slot}?action=restore", {"filename": f"slot-{slot}"}).close()

    def bytes_on_disk(self):
        return sum(path.stat().st_size for path in self.slots.iterdir())

    def ask(self, messages, prompt, seed):
        start, first, tokens, last = time.perf_counter(), None, [], {}
        body = {"prompt": list(prompt.encode()), "n_predict": self.args.answer, "cache_prompt": True, "stream": True, "return_tokens": True,
                "ignore_eos": True, "temperature": 1, "seed": seed, "logit_bias": OTHERS}
        with self.post("/completion", body) as reply:
            for line in reply:
                if line.startswith(b"data: "):
                    last = json.loads(line.removeprefix(b"data: "))
                    first = first or time.perf_counter() - start
                    tokens += last["tokens"]
        return first, "".join(map(chr, tokens[:self.args.answer])), last["timings"]["prompt_n"]


class Run:
    """All agents of one server, and the texts that it has read."""

    def __init__(self, server, args, agents, turns):
        self.server, self.lock, self.known = server, threading.Lock(), trace.Known()
        self.rows = [[0, 0, 0], [0, 0, 0]]  # rows of prompts, new, computed; after the restart
        self.times, self.seconds, self.faults = [], 0.0, []
        self.system, self.tools = trace.system_of(), trace.make_tools(args.tools)
        self.days = [trace.day(i, turns) for i in range(agents)]
        self.next = [next(day) for day in self.days]
        self.half, self.n = turns // 2, [0] * agents

    def step(self, agent, later):
        """One request of an agent."""
        messages = self.next[agent]
        prompt = trace.render(self.system, self.tools, messages)
        with self.lock:
            new = self.known.new_rows(prompt)
        self.n[agent] += 1
        first, thought, computed = self.server.ask(messages, prompt, seed=1000 * agent + self.n[agent])
        with self.lock:
            self.known.add(prompt + thought)
            self.times.append(first)
            self.rows[later] = [a + b for a, b in zip(self.rows[later], (len(prompt), new, computed), strict=True)]
        self.next[agent] = next_of(self.days[agent], thought)

    def part(self, agent, later):
        try:
            while self.next[agent] is not None and (later or self.n[agent] < self.half):
                self.step(agent, later)
        except BaseException as fault:  # a thread's
            self.faults.append(fault)

    def all_agents(self, later):
        start = time.perf_counter()
        if not later:
            self.step(0, later)
        threads = [threading.Thread(target=self.part, args=(agent, later)) for agent in range(len(self.days))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.seconds += time.perf_counter() - start
        if self.faults:
            raise self.faults[0]

    def row(self, on_disk, memory):
        ratios = [computed / max(1, new) for _, new, computed in (map(sum, zip(*self.rows, strict=True)), self.rows[1])]
        total, new, computed = map(sum, zip(*self.rows, strict=True))
        times = sorted(1e3 * t for t in self.times)
        return [self.server.name, len(self.days), f"{len(times):,}", f"{total:,}", f"{new:,}", f"{computed:,}", *(f"{r:.2f}" for r in ratios),
                number(self.seconds), None, number(statistics.median(times)), number(times[len(times) * 99 // 100]), f"{on_disk:,}", f"{memory >> 10:,}"]


def next_of(day, thought):
    try:
        return day.send(thought)
    except StopIteration:
        return None


def resident_kib(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def measure(make, args, kind, agents, turns):
    """(the table's row, seconds)"""
    with tempfile.TemporaryDirectory(prefix="agents-") as place:
        server = make(args, kind, Path(place))
        run = Run(server, args, agents, turns)
        with server.serve():
            run.all_agents(False)
            server.restart()
        on_disk = server.bytes_on_disk()
        with server.serve():
            server.restarted()
            run.all_agents(True)
            return run.row(on_disk, resident_kib(server.pid)), run.seconds


def parse_arguments():
    def words(text):
        return [word for word in text.split(",") if word]

    def pairs(text):
        return [tuple(map(int, pair.split(":"))) for pair in text.split(",")]

    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=Path, default=machine.ROOT / "build")
    llama.add_argument(p)
    p.add_argument("--peer-options", type=lambda text: text.split(), default="--ctx-checkpoints 32 --checkpoint-min-step 256".split(),
                   help="of llama.cpp's server, for its checkpoints of recurrent states")
    p.add_argument("--python", type=Path, default=llama.PLACE / "bin" / "python", help="with gguf and numpy, for llama.cpp's files")
    p.add_argument("--kinds", type=words, default=["rwkv7", "gated_deltanet"])
    p.add_argument("--peers", type=words, default=["rwkv7", "gated_deltanet"])
    p.add_argument("--agents", type=pairs, default=[(1, 100), (4, 16), (16, 4)], help="agents at once, and the turns of each")
    p.add_argument("--size", choices=list(recurrent.SIZES), default="half")
    p.add_argument("--precision", choices=["f32", "bf16", "q8"], default="bf16")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--answer", type=int, default=16, help="tokens of an answer")
    p.add_argument("--tools", type=int, default=trace.TOOLS)
    p.add_argument("--small", action="store_true", help="a run of seconds: --size small --agents 1:6,4:2 --tools 4")
    args = p.parse_args()
    if args.small:
        args.size, args.agents, args.tools = "small", [(1, 6), (4, 2)], 4
    if any(agents < 1 or turns < 2 for agents, turns in args.agents):
        p.error("--agents: at least 1 agent with 2 turns")
    return args


def main():
    args, rows = parse_arguments(), []
    print(machine.describe(args.threads), flush=True)
    if args.peers:
        print(llama.describe(args.llama), flush=True)
    for kind in dict.fromkeys(args.kinds + args.peers):
        for agents, turns in args.agents:
            own = None
            for make, kinds in ((Linnet, args.kinds), (Llama, args.peers)):
                if kind in kinds:
                    row, seconds = measure(make, args, kind, agents, turns)
                    own = own or (seconds if make is Linnet else None)
                    row[HEAD.index("to Linnet")] = "-" if own is None else number(seconds / own)
                    rows.append(row)
    print(f"\nAgents:\n\n{machine.table(HEAD, rows)}", flush=True)


if __name__ == "__main__":
    main()
