#!/usr/bin/env python3
"""The decode step of every kind of attention by position, compared with the roofline.

    python3 tests/bench/kinds.py [--build build] [--threads 1] [--only KIND ...]

Models of images of 128 x 64 with random weights (4 layers of width 256, 4 heads of 64, d_ff 1024): speed does not depend
on the values. `linnet bench --at` takes a stream in to the position, gives every other stream a copy of its state in
memory of its own, and measures steps from there on. The roofline is the least time of a step (floor()) at the
bandwidths and rates that roofline.c measures before and after, whichever is better.
256 streams of kinds that keep a row per token take 9 to 11 GB at position 4,096.
softmax_recompute, whose steps compute everything before once more, is measured alone.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import constant_time
import machine
from machine import ROOT, number, pinned

sys.path[:0] = [str(ROOT / "tests" / "golden"), str(ROOT / "tests" / "http")]
import image_model  # noqa: E402
from visible import SEES  # noqa: E402

D, D_FF, HEADS, LAYERS = 256, 1024, 4, 4
WIDTH, HEIGHT = 128, 64
ROWS = {"d_key": D // HEADS, "d_value": D // HEADS, "n_heads": HEADS}
UNIT = {"n_heads": 1, "d_key": 64, "d_value": 512}
KINDS = {
    "linear": image_model.LINEAR,
    "rwkv7": image_model.RWKV7,
    "softmax": {},
    "softmax_recompute": {},
    "sliding_window": {"window": 256},
    "dilated_window": {"window": 64, "dilation": [1, 2, 4, 8]},
    "global_window": {"window": 256, "global_prefix": 16},
    "strided": {"stride": 64, "heads": "apart"},
    "fixed": {"stride": 64, "summary": 8, "cells": 4},
    "local_block": {"block": 128, "look_back": 1},
    "blockwise": {"block": 128, "shifts": [0, 0, 1, 1], "on_empty": "own"},
    "memory_compressed": {"factor": 3, "visible": "strict", "null": "learned"},
    "adaptive_span": {"max_span": 256, "ramp": 32, "spans": [32, 64, 128, 224]},
    "lsh": {"rounds": 4, "buckets": 64, "cap": 64, "scale": "none"},
    "gau_quad": UNIT | {"div": "count", "div_place": "outside"},
    "flash": UNIT | {"chunk": 64},
}
ALONE = ["softmax_recompute"]
FEED_FORWARDS = {"rwkv7": {"kind": "channel_mix"}}
POSITIONS, STREAMS = [64, 784, 4096], [1, 256]


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=Path, default=ROOT / "build")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    p.add_argument("--positions", type=lambda text: [int(x) for x in text.split(",")], default=POSITIONS)
    p.add_argument("--streams", type=lambda text: [int(x) for x in text.split(",")], default=STREAMS)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=32)
    return p.parse_args()


def write_models(folder: Path, kinds):
    image_model.D_MODEL, image_model.D_FF, image_model.HEADS, image_model.LAYERS = D, D_FF, HEADS, LAYERS
    for kind in kinds:
        conf = image_model.config(WIDTH, HEIGHT, 1, True, attention={"kind": kind} | KINDS[kind],
                                  feed_forward=FEED_FORWARDS.get(kind))
        constant_time.write_model(folder / kind, constant_time.draw(image_model.shapes(conf)), conf)


# --- the roofline ---


def weights(kind):
    """Elements of the products of all layers and the head, each of which a step reads."""
    head = 3 * image_model.COMPONENTS * D
    if kind in ("gau_quad", "flash"):
        return head + LAYERS * D * (3 * UNIT["d_value"] + UNIT["d_key"])
    ranks = 8 * image_model.RANK * D if kind == "rwkv7" else 0
    return head + LAYERS * ((3 if kind == "lsh" else 4) * D * D + ranks + 2 * D * D_FF)


def arrays(kind, own):
    """Further f32 elements that a token is multiplied with."""
    if kind == "lsh":
        return LAYERS * own["rounds"] * own["d_key"] * own["buckets"] // 2
    if kind == "memory_compressed":  # of one place of its block
        return LAYERS * own["n_heads"] * (own["d_key"] ** 2 + own["d_value"] ** 2)
    return 0


def seen(kind, own, position):
    """Rows that the heads of a layer see at a token, counted from 1: one each head. Of lsh as if buckets were even."""
    i = position - 1
    if kind == "lsh":
        return [own["rounds"] * min(own["cap"], i // own["buckets"])] * own["n_heads"]
    if kind == "memory_compressed":
        return [1 + i // own["factor"]] * own["n_heads"]
    if kind in ("gau_quad", "flash"):
        return [i % own.get("chunk", position) + 1]
    return [sum(0 <= j <= i for j in SEES[kind](own, head, i)) for head in range(own["n_heads"])]


def state_floats(kind, own, position):
    """Per stream: floats that a step reads, floats that it writes back, and operations on them."""
    if kind in ("linear", "rwkv7"):
        floats = LAYERS * HEADS * (D // HEADS) * (D // HEADS + (kind == "linear"))
        return floats, floats, 2 * floats * (4 if kind == "rwkv7" else 2)
    if kind == "softmax_recompute":  # no row outlives the step
        return 0, 0, 2 * D * LAYERS * position * (position + 1)
    rows, heads = sum(seen(kind, own, position)), own["n_heads"]
    width = own["d_key"] + own["d_value"] + (own["rounds"] + 1 if kind == "lsh" else 0)
    read, written, work = rows * width, heads * width, rows * width
    if kind == "flash":
        matrix = own["d_key"] * own["d_value"]
        read, written, work = read + 2 * matrix, written + matrix, work + 2 * matrix
    if kind == "lsh":
        work += heads * own["rounds"] * own["d_key"] * own["buckets"] // 2
    if kind == "memory_compressed":
        work += arrays(kind, own) // LAYERS
    return LAYERS * read, LAYERS * written, 2 * LAYERS * work


def better(a, b):
    """Of two measurements the faster figures, for the machine may have been busy during one of them."""
    if isinstance(b, dict):
        return {key: better(a.get(key, 0 if not isinstance(value, dict) else {}), value) for key, value in b.items()}
    return max(a, b)


class Machine:
    """Rates by the size of the data, the best of all measurements."""

    def __init__(self, args):
        self.args, self.rates = args, {}

    def measure(self, sizes):
        sizes = sorted({self.rounded(size) for size in sizes})
        self.rates = better(self.rates, machine.rates(self.args.build, self.args.threads, sizes))

    @staticmethod
    def rounded(size):
        """The power of two below it: bandwidth changes with the caches, not with each byte, and not beyond the last."""
        return min(1 << 28, max(1 << 16, 1 << (int(size).bit_length() - 1)))

    def rate(self, what, size):
        return self.rates[what][str(self.rounded(size))]

    def flops(self, products):
        return self.rates.get("bf16_flops", self.rates["f32_flops"]) if products else self.rates["f32_flops"]


def touched(kind, own, position, streams):
    """Bytes of weights, and of states read and written, in a step."""
    read, written, _ = state_floats(kind, own, position)
    return 2 * weights(kind) + 4 * arrays(kind, own), 4 * streams * read, 4 * streams * written


def floor(m, kind, own, position, streams):
    """Milliseconds that a step cannot go below. Products: the weights read once, in bf16, or their multiplications.
    States: kept rows are read, at the rate of reading as much as a step touches. States that change as a whole are also
    written back, or their arithmetic counts. Products and states take turns."""
    weight_bytes, read, written = touched(kind, own, position, streams)
    everything = weight_bytes + read
    tokens = streams * (position if kind == "softmax_recompute" else 1)
    products = max(weight_bytes / m.rate("read", everything), 2 * weights(kind) * tokens / m.flops(True))
    changes = written == read
    memory = read / m.rate("update" if changes else "read", everything)
    arithmetic = streams * state_floats(kind, own, position)[2] / m.flops(False)
    return (products + max(memory, arithmetic)) * 1e3


# --- measuring ---


def bench(args, model, position, streams):
    command = [args.build / "linnet", "bench", "--model", model, "--batch", streams, "--at", position, "--steps", args.steps,
               "--threads", args.threads, "--json"]
    out = subprocess.run(pinned(command, args.threads), stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out)["rows"][0]["ms_per_step"]


def measured(args, streams):
    return [kind for kind in args.only if streams == 1 or kind not in ALONE]


def measure(args, folder):
    """{(kind, position, streams): milliseconds}, the kinds in turn, round after round: the best, as the roofline's."""
    times = {}
    for n in range(args.rounds):
        for position in args.positions:
            for streams in args.streams:
                for kind in measured(args, streams):
                    ms = bench(args, folder / kind, position, streams)
                    times.setdefault((kind, position, streams), []).append(ms)
                print(f"  {streams} streams at {position}, round {n + 1} of {args.rounds}", file=sys.stderr)
    return {key: min(values) for key, values in times.items()}


def print_tables(args, m, times):
    for streams in args.streams:
        rows = []
        for kind in measured(args, streams):
            own, cells = ROWS | {"kind": kind} | KINDS[kind], []
            for position in args.positions:
                ms, least = times[kind, position, streams], floor(m, kind, own, position, streams)
                cells += [number(ms), f"{least / ms:.0%}"]
            rows.append([f"`{kind}`", *cells])
        head = ["kind", *(text for p in args.positions for text in (f"ms at {p:,}", "share of the roofline"))]
        print(f"\n{streams} stream{'s' * (streams > 1)}, per step:\n\n{machine.table(head, rows)}")


def main():
    args = parse_arguments()
    print(machine.describe(busy=args.threads))
    sizes = [sum(touched(kind, ROWS | {"kind": kind} | KINDS[kind], p, s)[:2])
             for kind in args.only for p in args.positions for s in args.streams]
    m = Machine(args)
    m.measure(sizes)
    with tempfile.TemporaryDirectory() as folder:
        write_models(Path(folder), args.only)
        times = measure(args, Path(folder))
    m.measure(sizes)
    print_tables(args, m, times)


if __name__ == "__main__":
    main()
