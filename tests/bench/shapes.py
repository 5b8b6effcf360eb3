#!/usr/bin/env python3
"""The cost of an answer's shape: tokens per second with a JSON Schema, with a regular expression, with tools, and without a shape. The
time of a first answer shows how long the grammar is compiled. A model with random weights and a vocabulary of 151,936 tokens is made on the spot.

    python3 tests/bench/shapes.py [--build build] [--streams 1,64] [--rounds 3]
    python3 tests/bench/shapes.py --peer [--streams 1,8] [--tokens 32]

All cases take turns, and a ratio compares with the free answers of the same round.

With --peer Linnet and llama.cpp's server (scripts/peers) serve one file with a random RWKV-7 of that vocabulary, and answer with
the equal schema. Both draw among the 40 likeliest tokens. llama.cpp first draws without the schema and looks at all tokens only
if the schema forbids the drawn token. Random weights draw such tokens nearly always, so a trained model costs llama.cpp less.
"""

import argparse
import concurrent.futures
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import llama
import machine
import numpy
import recurrent
from machine import ROOT, number

sys.path.insert(0, str(ROOT / "tests" / "http"))
import image_model  # noqa: E402
import world  # noqa: E402

TOKENS = 151_936
PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
                                           "email": {"type": "string", "format": "email"}, "tags": {"type": "array", "items": {"type": "string"}}},
          "required": ["name", "age", "email", "tags"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "add_person", "parameters": PERSON}}]
TEMPLATE = "{% for t in tools or [] %}{{ t|tojson }}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}{# <tool_call> with \"arguments\": #}"
CASES = {
    "free": {"min_tokens": 4000},
    "JSON Schema": {"json_schema": {"type": "array", "items": PERSON, "minItems": 200}},
    "any JSON": {"json_schema": {"type": "array", "minItems": 2000}},
    "dense regex": {"regex": "[a-zA-Z ,.]{4000}"},
    "any text": {"regex": ".{4000}"},
    "free with tools": {"tools": TOOLS, "min_tokens": 4000},
}
PEER_CASES = ("free", "JSON Schema")
TOP_K = 40
HEAD = ["streams", "answers", "tokens/s", "of the first", "of the first, by processor time"]
COMPILED_HEAD = ["schema", "first, ms", "again, ms", "difference"]
COMPILED = {"person": PERSON, "list of persons": {"type": "array", "items": PERSON, "maxItems": 20}, "object": {"type": "object"},
            "enum of 200": {"enum": [f"value {i}" for i in range(200)]},
            "60 optional members": {"type": "object", "properties": {f"p{i}": {"type": "number"} for i in range(60)}}}


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=Path, default=ROOT / "build")
    p.add_argument("--streams", type=lambda text: [int(x) for x in text.split(",")], default=[1, 64])
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--tokens", type=int, default=128, help="drawn by a stream")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--width", type=int, default=512)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--cases", type=lambda text: text.split(","), default=list(CASES))
    p.add_argument("--keep", type=Path, help="the folder of the model, which is made where it is missing")
    p.add_argument("--peer", action="store_true", help="compare with llama.cpp")
    llama.add_argument(p)
    p.add_argument("--python", type=Path, default=llama.PLACE / "bin" / "python", help="with gguf and numpy, for llama.cpp's file")
    args = p.parse_args()
    if args.peer:
        args.cases = [name for name in args.cases if name in PEER_CASES]
    if not args.cases:
        p.error(f"--cases: known are {', '.join(PEER_CASES if args.peer else CASES)}")
    return args


def vocabulary():
    """Bytes, then words with and without a blank, digits, marks of JSON, and characters of two and three bytes."""
    rng, tokens = random.Random(1), {bytes([b]): None for b in range(256)}
    marks = ['{"', '":', '",', '"}', "[]", "{}", '":"', '","', "},", '"]', "  ", "\n  ", "true", "false", "null"]
    tokens |= dict.fromkeys(mark.encode() for mark in marks)
    while len(tokens) < TOKENS - 1:
        kind = rng.random()
        if kind < 0.7:
            word = rng.choice(["", " "]) + "".join(rng.choices("etaoinshrdlucmfwypvbgkjqxz", range(30, 4, -1), k=rng.randint(2, 10)))
            text = word.title() if kind < 0.15 else word
        elif kind < 0.8:
            text = "".join(chr(rng.randint(0x4e00, 0x9fff)) for _ in range(rng.randint(1, 3)))
        elif kind < 0.9:
            text = "".join(chr(rng.randint(0xa1, 0x5ff)) for _ in range(rng.randint(1, 5)))
        else:
            text = "".join(rng.choices("0123456789.,:;{}[]\"'()<>=+-*/_\\\n\t", k=rng.randint(2, 5)))
        tokens[text.encode()] = None
    return dict(enumerate(tokens, 1))


def make_model(folder, width, layers):
    image_model.D_MODEL, image_model.D_FF, image_model.LAYERS, image_model.HEADS = width, 4 * width, layers, width // 64
    folder.mkdir(parents=True)
    conf = {"format": "linnet", "format_version": 1, "task": "text", "n_layers": layers, "n_heads": width // 64, "d_model": width,
            "d_ff": 4 * width, "norm": "pre", "norm_eps": 1e-5, "activation": "gelu", "attention": image_model.LINEAR,
            "inputs": [{"name": "token", "size": TOKENS}], "head": {"kind": "categorical", "size": TOKENS},
            "text": {"tokenizer": "rwkv_vocab_v20230424.txt", "context": 60_000, "end": [0]}}
    (folder / "config.json").write_text(json.dumps(conf))
    (folder / "rwkv_vocab_v20230424.txt").write_text(world.lines(vocabulary()), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    rng, head, parts, at = numpy.random.default_rng(1), {}, [], 0
    for name, (shape, spread) in image_model.shapes(conf).items():
        data = numpy.ones(shape, numpy.float32) if spread is None else rng.standard_normal(shape, numpy.float32) * numpy.float32(spread)
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + data.nbytes]}
        at += data.nbytes
        parts.append(data)
    text = json.dumps(head).encode()
    with (folder / "model.safetensors").open("wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for data in parts:
            f.write(data.tobytes())


def make_file(args, place):
    """A GGUF file of a random RWKV-7 in bf16."""
    size = {"width": args.width, "layers": args.layers, "hidden": 4 * args.width, "tokens": TOKENS}
    tensors, tokens, file = place / "tensors.npz", place / "tokens.json", place / "shapes.gguf"
    numpy.savez(tensors, **recurrent.make("rwkv7", size, None)[2])
    tokens.write_text(json.dumps([repr(text)[2:-1] for text in vocabulary().values()]))
    subprocess.run([args.python, recurrent.PEERS, "gguf", "rwkv7", tensors, file, "BF16", tokens], check=True)
    tensors.unlink()
    return file


class Server:
    """Subclasses have a name, url, pid and `ask`, which gives the number of tokens drawn."""

    def processor_seconds(self):
        used = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")

    def rate(self, fields, tokens, streams):
        """Tokens per second, and tokens per second of the server's processor time, which other load changes less."""
        with concurrent.futures.ThreadPoolExecutor(streams) as pool:
            start, used = time.perf_counter(), self.processor_seconds()
            drawn = sum(pool.map(lambda i: self.ask(fields, tokens, i), range(streams)))
            return drawn / (time.perf_counter() - start), drawn / max(0.01, self.processor_seconds() - used)

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            sys.exit(f"{self.name}: {error.read().decode()}")


class Linnet(Server):
    name = "Linnet"

    def __init__(self, args, model):
        command = [args.build / "linnet", "serve", "--model", model, "--port", "0", "--threads", args.threads, "--slots", max(args.streams),
                   "--device", "cpu", "--max-tokens", "4096", "--answer-memory", "4096"]
        self.model, self.peer = model.stem, args.peer
        self.process = subprocess.Popen(machine.pinned(command, args.threads), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            ready = re.search(r"ready: (http://\S+)", line)
            if ready:
                self.url, self.pid = ready[1], self.process.pid
                return
        sys.exit("".join(lines))

    def ask(self, fields, tokens, seed):
        chat = "tools" in fields
        said = {"messages": [{"role": "user", "content": "Write: "}]} if chat else {"prompt": "Write: "}
        body = {"model": self.model, **said, "max_tokens": tokens, "temperature": 1, "seed": seed, **fields}
        if "min_tokens" in fields:
            body["min_tokens"] = tokens
        if self.peer:
            body["top_k"] = TOP_K
        return self.post("/v1/chat/completions" if chat else "/v1/completions", body)["usage"]["completion_tokens"]

    def close(self):
        self.process.terminate()
        self.process.communicate()


class Llama(Server):
    name = "llama.cpp"

    def __init__(self, args, file):
        streams = max(args.streams)
        self.server = llama.serve(machine.pinned(llama.command_of(args.llama, file, args.threads, streams, 256 + args.tokens), args.threads))
        self.url, self.pid = self.server.__enter__()

    def ask(self, fields, tokens, seed):
        schema = {"json_schema": fields["json_schema"]} if "json_schema" in fields else {"ignore_eos": True}
        body = {"prompt": "Write: ", "n_predict": tokens, "temperature": 1, "top_k": TOP_K, "seed": seed, "cache_prompt": False, **schema}
        return self.post("/completion", body)["tokens_predicted"]

    def close(self):
        self.server.__exit__(None, None, None)


def first_times(server):
    """Of each schema: milliseconds of a first answer of one token, and of the next one, whose grammar is compiled."""
    rows = []
    for name, schema in COMPILED.items():
        times = []
        for _ in range(5):
            fields = {"json_schema": schema | {"title": str(random.random())}}
            for _ in range(2):
                start = time.perf_counter()
                server.ask(fields, 1, 1)
                times.append((time.perf_counter() - start) * 1e3)
        first, again = statistics.median(times[::2]), statistics.median(times[1::2])
        rows.append([name, number(first), number(again), number(first - again)])
    return rows


def shares(rates, free):
    """Medians over the rounds, by the clock and by processor time."""
    return [f"{statistics.median(x[i] / y[i] for x, y in zip(rates, free)):.0%}" for i in range(2)]


def measure(args, server):
    """Rows of the table of speeds."""
    for streams in args.streams:
        rates = {name: [] for name in args.cases}
        for name in args.cases:
            server.rate(CASES[name], 16, streams)  # compiles, and touches all memory
        for _ in range(args.rounds):
            for name in args.cases:
                rates[name].append(server.rate(CASES[name], args.tokens, streams))
        free = rates[args.cases[0]]
        for name, r in rates.items():
            yield [str(streams), name, number(statistics.median(x[0] for x in r)), *shares(r, free)]


def main():
    args = arguments()
    print(machine.describe(busy=args.threads), flush=True)
    if args.peer:
        print(llama.describe(args.llama), flush=True)
    with tempfile.TemporaryDirectory() as place:
        if args.peer:
            model = make_file(args, Path(place))
        else:
            model = args.keep or Path(place) / "shapes"
            if not model.exists():
                make_model(model, args.width, args.layers)
        for start in [Linnet, Llama] if args.peer else [Linnet]:
            server = start(args, model)
            try:
                rows = list(measure(args, server))
                print(f"\nTokens per second, {server.name}:\n\n{machine.table(HEAD, rows)}", flush=True)
                print(f"\nCompiling, {server.name}:\n\n{machine.table(COMPILED_HEAD, first_times(server))}", flush=True)
            finally:
                server.close()


if __name__ == "__main__":
    main()
