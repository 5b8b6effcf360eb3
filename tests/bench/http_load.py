#!/usr/bin/env python3
"""The cost of HTTP and the waits of clients: streams to 1, 16, 256 and 1,000 clients.

    python3 tests/bench/http_load.py [--build build] [--threads 2] [--device cpu] [--alone]

For each number of clients the command measures the bare engine (`linnet bench` with as many streams), then `linnet
serve` with as many slots, then the bare engine once more. Each client streams an image of the mnist model again and
again. By rows (one event per 28 tokens) and by pixels (one event per token).
Then single requests to an idle server: the time to the first token compared with the step.
Afterwards llama.cpp's server, built for this processor by scripts/peers, gets this load, with as many slots as clients (256 at
most), and a model of as many parameters with random weights (tests/bench/random_gguf.py). The table has the best of three
settings, because its threads spin while they wait for each other. --alone leaves it out.

Server and clients share the machine's cores and nothing is pinned. The server computes with --threads threads and
writes with two. All clients are one thread of a C program (http_load.c), whose share of a core is in the table. Exit
status 1: rows to 1,000 clients have less than 90 % of the bare engine's rate, or the first token on an idle server
comes later than 2 steps + 1 ms.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import llama
import machine
from machine import ROOT, number

MODEL, PIXELS = "mnist", 784
KEEPS, FIRST_STEPS, FIRST_MS = 0.90, 2, 1.0
UNITS = {"rows": "row", "pixels": "pixel"}
LLAMA_SLOTS = 256  # at most


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=lambda text: Path(text).resolve(), default=ROOT / "build")
    p.add_argument("--device", default="cpu", help="where Linnet computes: cpu, cuda, cuda:N")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--clients", type=lambda text: [int(x) for x in text.split(",")], default=[1, 16, 256, 1000])
    p.add_argument("--seconds", type=float, default=15.0, help="measured for each line")
    p.add_argument("--units", choices=[*UNITS, "both", "none"], default="both")
    llama.add_argument(p)
    p.add_argument("--python", type=Path, default=llama.PLACE / "bin" / "python", help="with gguf and numpy")
    p.add_argument("--alone", action="store_true", help="measure no other server")
    return p.parse_args()


# --- servers -----------------------------------------------------------------------------------


class Server:
    """A process that answers under `port` once it is up; ended when left."""

    def __init__(self, command, log, port=None):
        self.command, self.log, self.port = list(map(str, command)), log, port

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        end = time.monotonic() + 120
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit(f"{' '.join(self.command)} did not start:\n{Path(self.log.name).read_text()[-2000:]}")
            time.sleep(0.02)
        return self

    def answers(self):
        if self.port is None:
            found = re.search(r"ready: http://127\.0\.0\.1:(\d+)", Path(self.log.name).read_text())
            if found is None:
                return False
            self.port = int(found.group(1))
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/models", timeout=1) as reply:
                return reply.status == 200
        except OSError:
            return False

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def serve_linnet(args, slots):
    command = [args.build / "linnet", "serve", "--port", 0, "--models", ROOT / "weights", "--threads", args.threads]
    command += ["--device", args.device, "--slots", slots, "--timeout", 600, "--drain-timeout", 0]
    return Server(command, tempfile.NamedTemporaryFile("w", prefix="linnet-load-"))


def load(args, port, path, body, clients, seconds, ramp=None):
    """The output of tests/bench/http_load.c."""
    ramp = min(3, clients / 50) if ramp is None else ramp
    command = [args.build / "http_load", port, path, json.dumps(body), clients, ramp, 2, seconds, 120]
    out = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, check=True).stdout
    result = json.loads(out)
    if result["refused"]:
        sys.exit(f"{result['refused']} requests were refused")
    return result


def bare(args, model, streams):
    """Tokens per second of the bare engine."""
    steps = 400 if streams < 16 else 60
    command = [args.build / "linnet", "bench", "--model", ROOT / "weights" / model, "--json"]
    command += ["--device", args.device, "--threads", args.threads, "--batch", streams, "--steps", steps]
    out = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out)["rows"][0]["tokens_per_second"]


# --- the measurements --------------------------------------------------------------------------


def quantiles(values):
    return "-" if values is None else f"{number(values['p50'])} / {number(values['p99'])}"


def cells(r):
    return [quantiles(r["first_ms"]), quantiles(r["gap_ms"]), quantiles(r["token_ms"]), f"{r['client_cpu']:.1%}"]


HEAD = ["first token, ms p50 / p99", "between events, ms p50 / p99", "ms per token, p50 / p99", "client's share of a core"]


def measure_unit(args, name):
    """{clients: tokens/s} and {clients: share of the bare engine's rate}"""
    rows, rates, kept = [], {}, {}
    body = {"model": MODEL, "stream": True, "stream_unit": UNITS[name]}
    for clients in args.clients:
        before = bare(args, MODEL, clients)
        with serve_linnet(args, clients) as server:
            r = load(args, server.port, "/v1/images/generations", body, clients, args.seconds)
        engine = statistics.mean([before, bare(args, MODEL, clients)])
        rates[clients], kept[clients] = r["tokens_per_second"], r["tokens_per_second"] / engine
        rows.append([f"{clients:,}", number(engine), number(rates[clients]), f"{kept[clients]:.0%}", *cells(r)])
        print(f"  {name}, {clients} clients: {kept[clients]:.1%}", file=sys.stderr)
    print(f"\nLinnet, streams by {name}:\n")
    print(machine.table(["clients", "bare engine, tokens/s", "over HTTP", "kept", *HEAD], rows))
    return rates, kept


def measure_idle(args):
    """The first token of a lone request; True when it is in time."""
    rows, in_time = [], True
    kinds = {
        "couplet": ("/v1/completions", {"model": "couplet", "prompt": "海上明月", "stream": True}),
        "mnist": ("/v1/images/generations", {"model": "mnist", "stream": True, "stream_unit": "pixel"}),
    }
    for model, (path, body) in kinds.items():
        if not (ROOT / "weights" / model / "model.safetensors").exists():
            continue  # not brought along (tests/gpu.sh)
        step = 1e3 / bare(args, model, 1)
        with serve_linnet(args, 256) as server:
            r = load(args, server.port, path, body, 1, args.seconds / 3)["first_ms"]
        limit = FIRST_STEPS * step + FIRST_MS
        in_time &= r["p50"] <= limit
        rows.append([model, r["n"], *map(number, (step, limit, r["p50"], r["p99"], r["max"]))])
    print("\nOne request on an idle server, first token:\n")
    print(machine.table(["model", "requests", "step, ms", "2 steps + 1 ms", "p50", "p99", "longest"], rows))
    return in_time


def best_of_llama(args, model, body, clients):
    """The clients' result under the fastest setting, and the setting."""
    results = []
    for threads, poll in dict.fromkeys([(args.threads, 50), (args.threads, 0), (1, 50)]):
        command = llama.command_of(args.llama, model, threads, min(clients, LLAMA_SLOTS), 1024, poll)
        with llama.serve(command) as (url, _):
            r = load(args, int(url.rpartition(":")[2]), "/v1/completions", body, clients, args.seconds)
        results.append((r, f"{threads}, {poll}"))
        print(f"  llama, {clients} clients, {threads} threads, poll {poll}: {r['tokens_per_second']:,.0f}", file=sys.stderr)
    return max(results, key=lambda result: result[0]["tokens_per_second"])


def measure_llama(args, linnet):
    rows = []
    with tempfile.TemporaryDirectory(prefix="linnet-bench-") as folder:
        model = Path(folder) / "random.gguf"
        subprocess.run([args.python, ROOT / "tests" / "bench" / "random_gguf.py", model], check=True)
        body = {"prompt": "aa", "max_tokens": PIXELS, "stream": True, "temperature": 1.0, "ignore_eos": True, "cache_prompt": False}
        for clients in args.clients:
            r, setting = best_of_llama(args, model, body, clients)
            ratios = [f"{rates[clients] / max(r['tokens_per_second'], 1e-9):,.1f}x" for rates in linnet.values()]
            row = [f"{clients:,}", setting, number(r["tokens_per_second"]), *ratios]
            rows.append([*row, *cells(r), f"{r['waiting']:,}"])
    print(f"\nllama.cpp's server ({LLAMA_SLOTS} slots at most, one event per token):\n")
    head = ["clients", "threads, poll", "tokens/s", *(f"Linnet by {name}" for name in linnet), *HEAD, "clients without a token at the end"]
    print(machine.table(head, rows))


def main():
    args = parse_arguments()
    print(machine.describe(busy=args.threads), flush=True)
    if not args.alone:
        print(llama.describe(args.llama), flush=True)
    names = {"both": list(UNITS), "none": []}.get(args.units, [args.units])
    results = {name: measure_unit(args, name) for name in names}
    passed = measure_idle(args)
    if not args.alone:
        measure_llama(args, {name: rates for name, (rates, _) in results.items()})
    if "rows" in results:
        passed &= all(kept >= KEEPS for clients, kept in results["rows"][1].items() if clients >= 1000)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
