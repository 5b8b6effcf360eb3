#!/usr/bin/env python3
"""The cost of an answer's shape: tokens per second with a JSON Schema, with a regular expression, with tools and without, and the time
of a first answer, which compiles the grammar. A model with random weights and a vocabulary of 151,936 tokens is made on the spot.

    python3 tests/bench/shapes.py [--build build] [--streams 1,64] [--rounds 3]

All cases take turns, and a ratio compares with the free answers of the same round.
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

import machine
import numpy
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
    return p.parse_args()


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


class Linnet:
    def __init__(self, args, folder):
        command = [args.build / "linnet", "serve", "--model", folder, "--port", "0", "--threads", args.threads, "--slots", max(args.streams),
                   "--device", "cpu", "--max-tokens", "4096", "--answer-memory", "4096"]
        self.model = folder.name
        self.process = subprocess.Popen(machine.pinned(command, args.threads), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            ready = re.search(r"ready: (http://\S+)", line)
            if ready:
                self.url = ready[1]
                return
        sys.exit("".join(lines))

    def ask(self, fields, tokens, seed):
        """The number of tokens drawn."""
        chat = "tools" in fields
        said = {"messages": [{"role": "user", "content": "Write: "}]} if chat else {"prompt": "Write: "}
        body = {"model": self.model, **said, "max_tokens": tokens, "temperature": 1, "seed": seed, **fields}
        if "min_tokens" in fields:
            body["min_tokens"] = tokens
        route = "/v1/chat/completions" if chat else "/v1/completions"
        request = urllib.request.Request(self.url + route, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return json.load(answer)["usage"]["completion_tokens"]
        except urllib.error.HTTPError as error:
            sys.exit(error.read().decode())

    def processor_seconds(self):
        used = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")

    def rate(self, fields, tokens, streams):
        """Tokens per second, and tokens per second of the server's processor time, which other load changes less."""
        with concurrent.futures.ThreadPoolExecutor(streams) as pool:
            start, used = time.perf_counter(), self.processor_seconds()
            drawn = sum(pool.map(lambda i: self.ask(fields, tokens, i), range(streams)))
            return drawn / (time.perf_counter() - start), drawn / max(0.01, self.processor_seconds() - used)

    def close(self):
        self.process.terminate()
        self.process.communicate()


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


def main():
    args = arguments()
    print(machine.describe(busy=args.threads), flush=True)
    with tempfile.TemporaryDirectory() as place:
        folder = args.keep or Path(place) / "shapes"
        if not folder.exists():
            make_model(folder, args.width, args.layers)
        server = Linnet(args, folder)
        try:
            rows = []
            for streams in args.streams:
                rates = {name: [] for name in args.cases}
                for name in args.cases:
                    server.rate(CASES[name], 16, streams)  # compiles, and touches all memory
                for _ in range(args.rounds):
                    for name in args.cases:
                        rates[name].append(server.rate(CASES[name], args.tokens, streams))
                free = rates[args.cases[0]]
                rows += [[str(streams), name, number(statistics.median(x[0] for x in r)), *shares(r, free)] for name, r in rates.items()]
            head = ["streams", "answers", "tokens/s", "of the first", "of the first, by processor time"]
            print(f"\nTokens per second:\n\n{machine.table(head, rows)}", flush=True)
            print(f"\nCompiling:\n\n{machine.table(['schema', 'first, ms', 'again, ms', 'difference'], first_times(server))}")
        finally:
            server.close()


if __name__ == "__main__":
    main()
