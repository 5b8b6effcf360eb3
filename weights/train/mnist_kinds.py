#!/usr/bin/env python3
"""Trains small models of MNIST that differ in their attention alone, and prints what `linnet eval` says of them: the
quality half of the paper's table 1.

    python3 weights/train/mnist_kinds.py --data DIR --runs RUNS_DIR [--only KIND ...] [options of mnist.py]

One recipe for all, mnist.py, with the inputs of the paper: the value before and its place, no neighbours. DIR also holds
t10k-images-idx3-ubyte(.gz), which is looked at only for the table. A model that is complete in RUNS_DIR is not trained again.
"""

import argparse
import json
import pathlib
import subprocess
import sys

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
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", type=pathlib.Path, required=True)
    p.add_argument("--runs", type=pathlib.Path, required=True, help="a folder for the runs and their models")
    p.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    p.add_argument("--tokens", default="6e6", help="of each run")
    p.add_argument("--threads", default="1")
    p.add_argument("--images", default="10000", help="test images to look at")
    p.add_argument("--linnet", type=pathlib.Path, default=pathlib.Path("build/linnet"))
    args, args.further = p.parse_known_args()
    return args


def train(kind: str, args: argparse.Namespace):
    model = args.runs / kind / "model"
    if (model / "config.json").exists():
        return
    print(f"training {kind}", file=sys.stderr)
    recipe = pathlib.Path(__file__).parent / "mnist.py"
    settings = [word for setting in SIZES + KINDS[kind] for word in ("--set", setting)]
    subprocess.run([sys.executable, recipe, "--data", args.data, "--run", args.runs / kind, "--out", model,
                    "--tokens", args.tokens, "--threads", args.threads, "--no-compile", "--ema", "0.99",
                    "--streams", "token,row,column", *settings, *args.further], check=True, stdout=subprocess.DEVNULL)


def bits_per_dim(kind: str, args: argparse.Namespace) -> float:
    images = image_data.find(args.data, "t10k-images-idx3-ubyte")
    said = subprocess.run([args.linnet, "eval", "--model", args.runs / kind / "model", images, "--limit", args.images,
                           "--threads", args.threads, "--json"], check=True, capture_output=True, text=True)
    return json.loads(said.stdout)["bits_per_dim"]


def main():
    args = parse_arguments()
    for kind in args.only:
        train(kind, args)
    print("| method | the paper, bits/dim | here, bits/dim |\n| --- | ---: | ---: |")
    for kind in args.only:
        print(f"| {kind} | {PAPER[kind]:.3f} | {bits_per_dim(kind, args):.3f} |")


if __name__ == "__main__":
    main()
