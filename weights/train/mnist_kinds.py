#!/usr/bin/env python3
"""Trains small models of MNIST that differ in their attention alone, and prints what `linnet eval` says of them: the
quality half of the paper's table 1.

    python3 weights/train/mnist_kinds.py --data DIR --runs RUNS_DIR [--only KIND ...] [options of mnist.py]

One recipe for all, mnist.py, with the inputs of the paper: the value before and its place, no neighbours. DIR also holds
t10k-images-idx3-ubyte(.gz), which is looked at only for the table. A model that is complete in RUNS_DIR is not trained again.
"""

import argparse

import packages  # noqa: F401 (before the packages that may be missing)

import comparison
import image_data

SIZES = ["n_layers=3", "d_model=96", "n_heads=6", "d_ff=384"]
HASHES = ["mixer=lsh", "attention.buckets=64", "attention.cap=64", "attention.scale=key"]  # as tests/bench/paper.py has them
KINDS = {
    "softmax": ["mixer=softmax"],
    "lsh-1": [*HASHES, "attention.rounds=1"],
    "lsh-4": [*HASHES, "attention.rounds=4"],
    "linear": ["mixer=linear"],
}
PAPER = {"softmax": 0.621, "lsh-1": 0.745, "lsh-4": 0.676, "linear": 0.644}


def parse_arguments() -> argparse.Namespace:
    p = comparison.make_parser(__doc__, KINDS, "6e6")
    p.add_argument("--images", default="10000", help="test images to look at")
    return comparison.parse(p)


def train(kind: str, args: argparse.Namespace):
    comparison.train(kind, args, "mnist.py", SIZES + KINDS[kind], "--no-compile", "--ema", "0.99", "--streams", "token,row,column")


def bits_per_dim(kind: str, args: argparse.Namespace) -> float:
    images = image_data.find(args.data, "t10k-images-idx3-ubyte")
    return comparison.ask(args, "eval", "--model", comparison.model_of(kind, args), images, "--limit", args.images,
                          "--threads", args.threads)["bits_per_dim"]


def main():
    args = parse_arguments()
    for kind in args.only:
        train(kind, args)
    print("| method | the paper, bits/dim | here, bits/dim |\n| --- | ---: | ---: |")
    for kind in args.only:
        print(f"| {kind} | {PAPER[kind]:.3f} | {bits_per_dim(kind, args):.3f} |")


if __name__ == "__main__":
    main()
