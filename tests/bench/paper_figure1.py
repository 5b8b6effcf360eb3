#!/usr/bin/env python3
"""Figure 1 of the linear transformer's paper on this machine, as a Markdown table and a PNG: time and memory of a
training pass of causal attention by the length of the sequence, in PyTorch on the CPU.

    python3 tests/bench/paper_figure1.py --figure docs/images/figure1.png [--lengths 512,...,65536] [--threads 1]

8 heads of 32, one sequence, random queries, keys and values:

    softmax       all weights at once, as in the paper
    lsh-1, lsh-4  Reformer's training form with so many rounds: sorted by 64 buckets, chunks of 32, a token sees its own
                  chunk and the one before (weights/train/mixers/lsh.py is a form that can be stepped through, and is
                  quadratic in training)
    linear        in chunks, weights/train/mixers/linear.py

Every point is its own process. Milliseconds are the median of passes; memory is the peak above the memory of the
inputs. Points that would need more than --memory-gb are left out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import machine
from machine import ROOT, number

HEADS, D = 8, 32
METHODS = ["softmax", "lsh-1", "lsh-4", "linear"]
LENGTHS = [2**n for n in range(9, 17)]
BUCKETS, CHUNK = 64, 32


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--figure", type=Path, help="draw it here")
    p.add_argument("--lengths", type=lambda text: [int(x) for x in text.split(",")], default=LENGTHS)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--memory-gb", type=float, default=8.0)
    p.add_argument("--seconds", type=float, default=3.0, help="for each point, about")
    p.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    args = p.parse_args()
    if any(n < 1 or n % CHUNK for n in args.lengths):
        p.error(f"--lengths must be multiples of {CHUNK}, the chunks of lsh")
    return args


# --- the passes; q, k, v [1, H, N, D]


def softmax(torch, q, k, v):
    n = q.shape[2]
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
    return (q @ k.mT / D**0.5).masked_fill(hidden, -torch.inf).softmax(-1) @ v


def look_back(torch, x):
    """[..., chunks, CHUNK, D] -> [..., chunks, 2 CHUNK, D]: the chunk before, then itself; the first one's is the last."""
    return torch.cat([x.roll(1, dims=2), x], 3)


def lsh_round(torch, q, v, hashes):
    """The output of a round, and the logarithm of its sum of weights."""
    h = q.detach() @ hashes
    bucket = torch.cat([h, -h], -1).argmax(-1)
    n = q.shape[2]
    order = (bucket * n + torch.arange(n)).argsort(-1)  # by bucket, then by position

    def sorted_chunks(x):
        return x.gather(2, order[..., None].expand_as(x)).unflatten(2, (-1, CHUNK))

    queries, values = sorted_chunks(q), sorted_chunks(v)
    keys = queries / queries.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    place = order.unflatten(2, (-1, CHUNK))[..., None]
    seen = look_back(torch, place).mT
    logits = queries @ look_back(torch, keys).mT / D**0.5
    logits = logits.masked_fill(seen > place, -1e9).masked_fill(seen == place, -5e4)  # itself where nothing else is
    total = logits.logsumexp(-1, keepdim=True)
    y = ((logits - total).exp() @ look_back(torch, values)).flatten(2, 3)
    back = order.argsort(-1)[..., None]
    return y.gather(2, back.expand_as(y)), total.flatten(2, 3).gather(2, back)


def lsh(torch, q, k, v, rounds):
    """Queries are keys as well; rounds count by their sums."""
    del k
    parts = [lsh_round(torch, q, v, torch.randn(D, BUCKETS // 2)) for _ in range(rounds)]
    weights = torch.stack([total for _, total in parts]).softmax(0)
    return sum(weight * y for weight, (y, _) in zip(weights, parts))


def linear(torch, q, k, v):
    sys.path.insert(0, str(ROOT / "weights" / "train"))
    from mixers import linear as form
    return form.linear_attention(form.phi(q), form.phi(k), v, 1e-6, form.CHUNK)


PASSES = {"softmax": softmax, "linear": linear, "lsh-1": lambda *a: lsh(*a, 1), "lsh-4": lambda *a: lsh(*a, 4)}


def peak_bytes():
    """The most resident memory since it was last set back."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def point(method, n, threads, seconds):
    """Of one process: milliseconds and bytes."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    inputs = [torch.randn(1, HEADS, n, D, requires_grad=True) for _ in range(3)]

    def work():
        y = PASSES[method](torch, *inputs)
        torch.autograd.grad(y.sum(), inputs, allow_unused=True)

    small = [x[:, :, :8 * CHUNK] for x in inputs]  # data that a first call loads is not counted
    torch.autograd.grad(PASSES[method](torch, *small).sum(), inputs, allow_unused=True)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = peak_bytes()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return {"ms": statistics.median(times[1:]) * 1e3, "bytes": peak_bytes() - before}


# --- all points


def needed_bytes(method, n):
    """An estimate: softmax's matrices of weights, or the data that other methods keep for the backward pass."""
    return 5 * 4 * HEADS * n * n if method == "softmax" else 4 * HEADS * n * 40 * 2 * CHUNK


def measure(args):
    found = {}
    for n in args.lengths:
        for method in METHODS:
            if needed_bytes(method, n) > args.memory_gb * 1e9:
                continue
            environment = os.environ | {"OMP_NUM_THREADS": str(args.threads), "CUDA_VISIBLE_DEVICES": ""}
            command = [sys.executable, __file__, "--point", method, n, "--threads", args.threads, "--seconds", args.seconds]
            out = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, check=True, env=environment).stdout
            found[method, n] = json.loads(out)
            print(f"  {method} at {n:,}: {found[method, n]['ms']:.3g} ms", file=sys.stderr)
    return found


def draw(args, found):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, both = plt.subplots(1, 2, figsize=(10, 4), dpi=100, layout="constrained")
    for axes, key, scale, label in zip(both, ("ms", "bytes"), (1, 2**-20), ("milliseconds per pass", "MiB per pass")):
        for method in METHODS:
            lengths = [n for n in args.lengths if (method, n) in found]
            values = [found[method, n][key] * scale for n in lengths]
            axes.plot(lengths, values, marker="o", markersize=3, linewidth=2.5 if method == "linear" else 1.2, label=method)
        axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel=label)
        axes.set_xscale("log", base=2)
        axes.grid(alpha=0.3)
    both[0].legend(fontsize=8)
    figure.savefig(args.figure)


def print_table(args, found):
    rows = []
    for n in args.lengths:
        cells = [found.get((method, n), {}) for method in METHODS]
        rows.append([f"{n:,}", *(number(c.get("ms")) for c in cells),
                     *(number(c["bytes"] / 2**20 if c else None) for c in cells)])
    print(machine.table(["tokens", *(f"{m}, ms" for m in METHODS), *(f"{m}, MiB" for m in METHODS)], rows))


def main():
    args = parse_arguments()
    if args.point:
        print(json.dumps(point(args.point[0], int(args.point[1]), args.threads, args.seconds)))
        return
    print(machine.describe(busy=args.threads), flush=True)
    found = measure(args)
    print_table(args, found)
    if args.figure:
        draw(args, found)


if __name__ == "__main__":
    main()
