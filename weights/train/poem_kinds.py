#!/usr/bin/env python3
"""Trains small models of poems that differ only in their kind of layer, and prints the figures of `linnet eval`: the
quality of each kind.

    python3 weights/train/poem_kinds.py --data DIR --runs RUNS_DIR [--only KIND ...] [options of poem.py]

One recipe for all, poem.py, the same tokens in the same order; as many layers as make about as many parameters. DIR also holds
test.tsv.xz, which is looked at only for the table. A model that is complete in RUNS_DIR is not trained again.
"""

import argparse
import lzma
import pathlib

import comparison

WIDTH = 128
KINDS = {  # layers, settings
    "gated_deltanet": (4, []),
    "rwkv7": (4, []),
    "mamba2": (8, ["attention.n_heads=4", "attention.d_key=64", "attention.d_value=64"]),
    "linear": (4, []),
    "softmax": (4, []),
    "grouped_query": (4, []),
}
NAMES = {"softmax": "softmax, without positions", "grouped_query": "softmax, rotary positions"}


def train(kind: str, args: argparse.Namespace):
    layers, settings = KINDS[kind]
    comparison.train(kind, args, "poem.py", settings, "--kind", kind, "--layers", str(layers), "--width", str(WIDTH),
                     "--ema", "0.99", "--decay", "0.5")


def said_of(kind: str, test: pathlib.Path, args: argparse.Namespace) -> tuple[int, float]:
    """Parameters, nats a character."""
    model = comparison.model_of(kind, args)
    return (comparison.ask(args, "inspect", model)["parameters"],
            comparison.ask(args, "eval", "--model", model, test, "--threads", args.threads, "--precision", "f32")["nll"])


def main():
    args = comparison.parse(comparison.make_parser(__doc__, KINDS, "3e6"))
    for kind in args.only:
        train(kind, args)
    test = args.runs / "test.tsv"
    test.write_bytes(lzma.open(args.data / "test.tsv.xz").read())
    print("| kind | layers | parameters | nats a character |\n| --- | ---: | ---: | ---: |")
    for kind in args.only:
        parameters, nats = said_of(kind, test, args)
        print(f"| {NAMES.get(kind, kind)} | {KINDS[kind][0]} | {parameters:,} | {nats:.3f} |")


if __name__ == "__main__":
    main()
