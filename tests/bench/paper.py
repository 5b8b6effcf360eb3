#!/usr/bin/env python3
"""The speed tables of the linear transformer's paper on this machine, as Markdown. Tables 1, 2 and 4 have images per
second, table 5 one picture alone, and supplement C.1 softmax with and without a cache.

    python3 tests/bench/paper.py [--sizes mnist,cifar] [--threads 1] [--build build]

The networks are the paper's with random weights. They have 8 layers for 28 x 28 values, 16 for 32 x 32 x 3, 8 heads of
32, d_ff 1024, a mixture of 10 logistics. `linnet bench` measures a step at --points positions from the first to the
last. The
time of a picture is the integral over them by Simpson's rule, which is exact for steps that grow with the square of the
position. The method softmax is the paper's: every step computes all earlier steps again. With torch, stateful
softmax and linear attention also run in PyTorch, one picture alone, in the same sitting.

The paper does not say how many pictures its throughput counts at once. Its batches of 10 and 4 are those of training.
Its linear model takes 7.3 s for one picture, so 142.8 pictures per second need 1,040 pictures at once or more.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import constant_time
import machine
from machine import ROOT, number

sys.path.insert(0, str(ROOT / "tests" / "http"))
import image_model  # noqa: E402 (the line above says where)

LSH = {"kind": "lsh", "buckets": 64, "cap": 64, "scale": "key"}  # chunks of about 32, of which two are seen
METHODS = {
    "softmax": {"kind": "softmax_recompute"},
    "stateful softmax": {"kind": "softmax"},
    "lsh-1": LSH | {"rounds": 1},
    "lsh-4": LSH | {"rounds": 4},
    "linear": image_model.LINEAR,
}
SIZES = {"mnist": (28, 28, 1, 8), "cifar": (32, 32, 3, 16)}  # width, height, channels, layers
BATCHES = {"mnist": 10, "cifar": 4}  # pictures at once here: the paper's batches of training
# The paper's figures: images/s on one GPU (GTX 1080 Ti, at CIFAR's size P40); seconds of one picture on CPU and GPU.
PAPER = {
    "mnist": {"softmax": (0.45, 72.6, 10.2), "stateful softmax": (7.56, 7.4, 10.4), "lsh-1": (0.68, 46.0, 19.2),
              "lsh-4": (0.27, 112.0, 55.8), "linear": (142.8, 5.5, 7.3)},
    "cifar": {"softmax": (0.004, 8651.4, 300.1), "stateful softmax": (0.32, 71.9, 70.4), "lsh-1": (0.015, 2318.9, 221.6),
              "lsh-4": (0.005, 5263.7, 683.9), "linear": (17.85, 45.1, 61.3)},
}


STEPS = 16  # that linnet bench measures together


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=Path, default=ROOT / "build")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--sizes", type=lambda text: text.split(","), default=list(SIZES))
    p.add_argument("--methods", type=lambda text: text.split(","), default=list(METHODS))
    p.add_argument("--batch", type=int, help="pictures at once; otherwise as many as in a batch of the paper's training")
    p.add_argument("--points", type=int, default=9, help="positions of a picture that are measured, an odd number")
    p.add_argument("--rounds", type=int, default=1, help="of all methods in turn; the medians are printed")
    p.add_argument("--seconds", type=float, default=2.0, help="for each point, about")
    p.add_argument("--scale", type=int, default=1, help="divides the picture's sides, to try the command")
    args = p.parse_args()
    if args.points < 3 or args.points % 2 == 0:
        p.error("--points must be odd, 3 or more")
    if not set(args.sizes) <= set(SIZES) or not set(args.methods) <= set(METHODS):
        p.error(f"--sizes are of {', '.join(SIZES)}, --methods of {', '.join(METHODS)}")
    return args


# --- models ---


def shape_of(args, size):
    width, height, channels, layers = SIZES[size]
    return width // args.scale, height // args.scale, channels, layers


def folder_of(folder, method):
    return folder / method.replace(" ", "-")


def write_model(folder, shape, attention):
    width, height, channels, image_model.LAYERS = shape
    image_model.D_MODEL, image_model.D_FF, image_model.HEADS, image_model.COMPONENTS = 256, 1024, 8, 10
    image_model.MIXTURE["components"] = 10
    conf = image_model.config(width, height, channels, True, attention=attention)
    constant_time.write_model(folder, constant_time.draw(image_model.shapes(conf)), conf)


# --- measuring ---


def positions(args, shape):
    n = shape[0] * shape[1] * shape[2]
    return [1 + round(i * (n - 1) / (args.points - 1)) for i in range(args.points)]


def integral(args, shape, ms):
    """Seconds of a picture, from the milliseconds of its steps at positions()."""
    n = shape[0] * shape[1] * shape[2]
    weights = [1 if i in (0, args.points - 1) else 4 if i % 2 else 2 for i in range(args.points)]
    return n * sum(w * x for w, x in zip(weights, ms)) / (3 * (args.points - 1)) / 1e3


def bench(args, model, *flags):
    command = [args.build / "linnet", "bench", "--model", model, "--threads", args.threads, "--json", *flags]
    out = subprocess.run(machine.pinned(command, args.threads), stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out)["rows"][0]


def step_ms(args, model, batch, position, last):
    """Of steps from the position on that end at the last one: the median of as many runs as fit the time."""
    def run(steps):
        at = max(1, min(position, last - steps - steps // 5))  # warm-up steps come first
        return bench(args, model, "--batch", batch, "--at", at, "--steps", steps)["ms_per_step"]

    first = run(1)
    if first * STEPS > args.seconds * 1e3:
        return first
    times, end = [], time.perf_counter() + args.seconds
    while not times or time.perf_counter() < end:
        times.append(run(STEPS))
    return statistics.median(times)


def picture_seconds(args, model, shape, batch):
    at = positions(args, shape)
    return integral(args, shape, [step_ms(args, model, batch, p, at[-1]) for p in at])


def measure(args, size, folder):
    """{(method, batch): seconds of so many pictures together}"""
    shape, times = shape_of(args, size), {}
    for method in args.methods:
        write_model(folder_of(folder, method), shape, METHODS[method])
    for n in range(args.rounds):
        for method in args.methods:
            for batch in (1, args.batch or BATCHES[size]):
                seconds = picture_seconds(args, folder_of(folder, method), shape, batch)
                times.setdefault((method, batch), []).append(seconds)
                print(f"  {size}, {method}, {batch} at once: {seconds:.3g} s, round {n + 1} of {args.rounds}", file=sys.stderr)
    return {key: statistics.median(values) for key, values in times.items()}


def peers(args, size):
    """{method: seconds of one picture in PyTorch}, of stateful softmax and linear; nothing without torch."""
    try:
        import library_torch
        import torch
    except ImportError:
        return {}
    shape = shape_of(args, size)
    constant_time.LAYERS = library_torch.LAYERS = shape[3]
    torch.set_num_threads(args.threads)
    with torch.inference_mode():
        decoder = constant_time.SoftmaxDecoder(torch, constant_time.make_weights(constant_time.config(shape[3])),
                                               positions(args, shape)[-1])
        softmax = []
        for position in positions(args, shape):
            decoder.fill(position)
            softmax.append(library_torch.median_ms(lambda at=position: decoder.step(at), args.seconds))
        linear = library_torch.median_ms(library_torch.Equations(torch.float32).stepper(1), args.seconds)
    return {"stateful softmax": integral(args, shape, softmax), "linear": integral(args, shape, [linear] * args.points)}


# --- tables ---


def beside(x, reference, better):
    """The figure, and how many times the reference's it is."""
    if x is None or not reference:
        return number(x)
    return f"{number(x)} ({number(x / reference if better == 'more' else reference / x)}x)"


def print_tables(args, size, times, torch_seconds):
    paper, batch = PAPER[size], args.batch or BATCHES[size]
    width, height, channels, layers = shape_of(args, size)
    print(f"\n## {width} x {height} x {channels} values, {layers} layers\n")
    rates = {m: batch / times[m, batch] for m in args.methods}
    first = args.methods[0]
    rows = [[m, beside(paper[m][0], paper[first][0], "more"), beside(rates[m], rates[first], "more")] for m in args.methods]
    print(f"Images per second, {batch} at once here (the paper's tables 1, 2 and 4), and how many times those of {first}:\n")
    print(machine.table(["method", "the paper, GPU", f"here, {args.threads} core{'s' * (args.threads > 1)}"], rows))
    rows = [[m, *map(number, paper[m][1:]), number(times[m, 1]), number(torch_seconds.get(m))] for m in args.methods]
    print("Seconds for one picture alone (the paper's table 5):\n")
    print(machine.table(["method", "the paper, CPU", "the paper, GPU", "here, CPU", "PyTorch here, CPU"], rows))
    if {"softmax", "stateful softmax"} <= set(args.methods):
        alone, together = (times["softmax", n] / times["stateful softmax", n] for n in (1, batch))
        rows = [["one picture alone, CPU", number(paper["softmax"][1] / paper["stateful softmax"][1]), number(alone)],
                ["tables 1 and 4 (the paper: on a GPU)", number(paper["stateful softmax"][0] / paper["softmax"][0]),
                 number(together)]]
        print("How many times as fast softmax is with its keys and values kept (the paper's supplement C.1):\n")
        print(machine.table(["", "the paper", "here"], rows))


def main():
    args = parse_arguments()
    print(machine.describe(busy=args.threads), flush=True)
    for size in args.sizes:
        with tempfile.TemporaryDirectory(prefix="linnet-paper-") as folder:
            times = measure(args, size, Path(folder))
        print_tables(args, size, times, peers(args, size))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
