#!/usr/bin/env python3
"""Linnet and the library of the paper's authors in turn on the same cores, compared with the roofline.

    python3 tests/bench/library.py [--build build] [--python PYTHON] [--threads 1,2]

The network of the paper's MNIST experiment (8 layers, 8 heads of 32, d_ff 1024, mixture head, random
weights), one step of 1, 10, 64, 256 and 1,024 streams and prompts of 392 and 10,000 tokens, in

  * Linnet: `linnet bench`, in its default precision, in f32, and in int8 where the program has it
  * fast-transformers: its recurrent linear encoder, f32; prompts by its causal-linear encoder
  * PyTorch: the same equations written with care (library_torch.py), f32 and bf16

PYTHON belongs to an environment with torch and pytorch-fast-transformers (pip install --no-build-isolation, with wheel
and torch there before). Without the library only the equations are measured, and the tables say so. Every figure is the
median over --rounds rounds, in each of which all take
turns; the processes are bound to the first --threads cores. The roofline is the least time of a step
(see floor()) at the bandwidths and rates that roofline.c measures in the same run.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import constant_time
import machine
from machine import ROOT, number, pinned

PIXELS = 784
LAYERS, D, D_FF = constant_time.LAYERS, constant_time.D_MODEL, constant_time.D_FF
STATE_BYTES = LAYERS * constant_time.HEADS * (D // constant_time.HEADS) * (D // constant_time.HEADS + 1) * 4
WEIGHTS = LAYERS * (4 * D * D + 2 * D * D_FF) + 3 * constant_time.COMPONENTS * D
ONE, TEN, MANY = 1, 10, 256
GOALS = [(ONE, "auto", 5.0), (ONE, "int8", 8.0), (MANY, "auto", 7.0), (MANY, "int8", 7.0)]
TWO_CORES, OF_ROOFLINE = 1.8, 0.75
ROOFLINES = {(ONE, 2): 0.80}  # by streams and cores; all others OF_ROOFLINE


def parse_arguments():
    def numbers(text):
        return [int(x) for x in text.split(",")]

    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=Path, default=ROOT / "build")
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--threads", type=numbers, default=[1, 2])
    p.add_argument("--batches", type=numbers, default=[1, 10, 64, 256, 1024])
    p.add_argument("--prompts", type=numbers, default=[392, 10000])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=1.0, help="for each figure and round, about")
    return p.parse_args()


# --- who is measured: each has name, and milliseconds(kind, size) or None -------------------------


class Linnet:
    def __init__(self, args, model, threads, precision):
        self.name, self.model, self.precision = f"Linnet {precision}", model, precision
        self.args, self.threads = args, threads

    def milliseconds(self, kind, size):
        per_second = {"step": 2500, "prompt": 20}[kind] / size * (1 if kind == "step" else 392)
        count = int(min(400, max(3 if kind == "prompt" else 32, self.args.seconds * per_second)))
        flag, key = {"step": ("--batch", "ms_per_step"), "prompt": ("--prefill", "ms_per_prompt")}[kind]
        command = [self.args.build / "linnet", "bench", "--model", self.model, flag, size, "--steps", count]
        command += ["--threads", self.threads, "--precision", self.precision, "--json"]
        out = subprocess.run(pinned(command, self.threads), stdout=subprocess.PIPE, check=True).stdout
        return json.loads(out)["rows"][0][key]

    def close(self):
        pass


class Torch:
    """library_torch.py in a process of its own, which answers line by line."""

    def __init__(self, args, threads):
        self.args = args
        script = ROOT / "tests" / "bench" / "library_torch.py"
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        environment["CUDA_VISIBLE_DEVICES"] = ""
        command = pinned([args.python, script, threads], threads)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.about = json.loads(self.process.stdout.readline() or sys.exit(f"{args.python}: no torch"))

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question | {"seconds": self.args.seconds}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["ms"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Peer:
    def __init__(self, torch, name, what, dtype):
        self.torch, self.name, self.what, self.dtype = torch, name, what, dtype

    def milliseconds(self, kind, size):
        return self.torch.ask(what=self.what, dtype=self.dtype, kind=kind, size=size)


def precisions(args):
    text = subprocess.run([args.build / "linnet", "bench", "--help"], stdout=subprocess.PIPE, text=True).stdout
    return ["auto", "f32"] + (["int8"] if "int8" in text else [])


# --- the roofline --------------------------------------------------------------------------------


def measure_machine(args, threads):
    sizes = {batch: WEIGHTS * 2 + batch * STATE_BYTES for batch in args.batches}
    m = machine.rates(args.build, threads, [WEIGHTS * 2, *sizes.values()])
    m["sizes"] = {batch: str(size) for batch, size in sizes.items()}
    return m


def floor(m, batch, weight_bytes=2):
    """Milliseconds that a step of the default precision cannot go below, all states read and written.

    Products and states take turns. Products: the time to read the weights once, or of their multiplications, whichever
    is longer. The rate is that of repeated reading of a step's data for one stream, otherwise of the last cache.
    States: the time to read and write them back, at the rate of updating a step's data.
    """
    rate = m.get("bf16_flops", m["f32_flops"])
    products = max(WEIGHTS * weight_bytes / m["read"][str(WEIGHTS * 2)], 2 * WEIGHTS * batch / rate)
    states = batch * STATE_BYTES / m["update"][m["sizes"][batch]]
    arithmetic = batch * 4 * LAYERS * D * (D // constant_time.HEADS) / m["f32_flops"]
    return (products + max(states, arithmetic)) * 1e3


# --- the tables ----------------------------------------------------------------------------------


def measure(args, who, kind, sizes):
    """{(name, size): milliseconds}, all of them in turn, round after round"""
    times = {}
    for n in range(args.rounds):
        for size in sizes:
            for one in who:
                ms = one.milliseconds(kind, size)
                if ms is not None:
                    times.setdefault((one.name, size), []).append(ms)
        print(f"  {kind}s, round {n + 1} of {args.rounds}", file=sys.stderr)
    return {key: statistics.median(values) for key, values in times.items()}


def ratio(times, name, reference, size):
    ours, theirs = times.get((name, size)), times.get((reference, size))
    return f" ({theirs / ours:.1f}x)" if ours and theirs and name.startswith("Linnet") else ""


def print_steps(args, who, times, m, reference):
    rows = []
    for batch in args.batches:
        cells = [number(times.get((w.name, batch))) + ratio(times, w.name, reference, batch) for w in who]
        least = floor(m, batch)
        images = 1e3 * batch / times[("Linnet auto", batch)] / PIXELS
        share = least / times[("Linnet auto", batch)]
        rows.append([f"{batch:,}", *cells, number(least), f"{share:.0%}", number(images)])
    print(f"\nMilliseconds per step (and how many times as fast as {reference}):\n")
    head = ["streams", *(w.name for w in who), "roofline", "share of the roofline", "Linnet auto, images/s"]
    print(machine.table(head, rows))


def of_multiplications(m, precision, n, ms):
    """The share of the processor's multiplication rate in a prompt's products; None if it lacks the instruction."""
    rate = {"auto": m.get("bf16_flops", m["f32_flops"]), "f32": m["f32_flops"], "int8": m.get("int8_ops")}[precision]
    return 2 * WEIGHTS * n / (ms * 1e-3) / rate if rate else None


def print_prompts(args, who, times, m, reference):
    rows = []
    linnet = [w for w in who if isinstance(w, Linnet)]
    for n in args.prompts:
        cells = []
        for w in who:
            ms = times.get((w.name, n))
            cells.append(number(ms and n / ms * 1e3) + ratio(times, w.name, reference, n))
        for w in linnet:
            share = of_multiplications(m, w.precision, n, times[(w.name, n)])
            cells.append("-" if share is None else f"{share:.0%}")
        rows.append([f"{n:,}", *cells])
    print(f"\nTokens per second of a prompt (and how many times as fast as {reference}):\n")
    shares = [f"{w.precision}, share of the multiplications" for w in linnet]
    print(machine.table(["tokens", *(w.name for w in who), *shares], rows))


def run(args, model, threads):
    m = measure_machine(args, threads)
    torch = Torch(args, threads)
    who = [Linnet(args, model, threads, p) for p in precisions(args)]
    if torch.about["fast_transformers"]:
        who.append(Peer(torch, "fast-transformers", "library", "f32"))
    who += [Peer(torch, f"PyTorch {dtype}", "equations", dtype) for dtype in ("f32", "bf16")]
    reference = "fast-transformers" if torch.about["fast_transformers"] else "PyTorch f32"
    core, last = m["read"][str(WEIGHTS * 2)], m["update"][m["sizes"][max(args.batches)]]
    print(f"\n## {threads} core{'s' * (threads > 1)}\n")
    print(f"torch {torch.about['torch']}, {torch.about['why']}; measured: {core / 1e9:.0f} GB/s read again and again "
          f"(weights), {last / 1e9:.0f} GB/s updated ({max(args.batches)} states), "
          f"{m.get('bf16_flops', 0) / 1e9:.0f} GFLOP/s bf16, {m['f32_flops'] / 1e9:.0f} GFLOP/s f32")
    steps = measure(args, who, "step", args.batches)
    prompts = measure(args, who, "prompt", args.prompts)
    torch.close()
    print_steps(args, who, steps, m, reference)
    print_prompts(args, who, prompts, m, reference)
    sys.stdout.flush()
    return steps, prompts, m, reference


def print_goals(results):
    rows = []
    for threads, (steps, prompts, m, reference) in results.items():
        for batch, precision, goal in GOALS:
            ours, theirs = steps.get((f"Linnet {precision}", batch)), steps.get((reference, batch))
            if threads == 1 and ours and theirs:
                name = f"{batch} stream{'s' * (batch > 1)}, one core, {precision}: times {reference}"
                rows.append([name, f"{goal:.0f}x", f"{theirs / ours:.1f}x"])
        cores = f"{threads} core{'s' * (threads > 1)}"
        for batch in (ONE, TEN, MANY):
            if ("Linnet auto", batch) in steps:
                share = floor(m, batch) / steps["Linnet auto", batch]
                name = f"{batch} stream{'s' * (batch > 1)}, {cores}: share of the roofline"
                rows.append([name, f"{ROOFLINES.get((batch, threads), OF_ROOFLINE):.0%}", f"{share:.0%}"])
        for (name, n), ms in prompts.items():
            precision = name.removeprefix("Linnet ")
            share = of_multiplications(m, precision, n, ms) if name != precision else None
            if share is not None:
                name = f"prompt of {n:,}, {cores}, {precision}: share of the multiplications"
                rows.append([name, f"{OF_ROOFLINE:.0%}", f"{share:.0%}"])
    if 1 in results and 2 in results:
        for batch in (ONE, MANY):
            one, two = (results[n][0].get(("Linnet auto", batch)) for n in (1, 2))
            if one and two:
                name = f"{batch} stream{'s' * (batch > 1)}: two cores compared with one"
                rows.append([name, f"{TWO_CORES}x", f"{one / two:.2f}x"])
    print("\n## Goals\n")
    print(machine.table(["", "goal", "measured"], rows))


def main():
    args = parse_arguments()
    print(machine.describe(busy=max(args.threads)), flush=True)
    with tempfile.TemporaryDirectory(prefix="linnet-bench-") as folder:
        model = Path(folder) / "paper"
        constant_time.write_model(model, constant_time.make_weights())
        results = {threads: run(args, model, threads) for threads in args.threads}
    print_goals(results)


if __name__ == "__main__":
    main()
