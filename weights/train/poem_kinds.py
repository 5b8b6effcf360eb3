#!/usr/bin/env python3
"""Trains small models of poems that differ in their kind of layer alone, and prints what `linnet eval` says of them: what a kind
costs in quality.

    python3 weights/train/poem_kinds.py --data DIR --runs RUNS_DIR [--only KIND ...] [options of poem.py]

One recipe for all, poem.py, the same tokens in the same order; as many layers as make about as many parameters. DIR also holds
test.tsv.xz, which is looked at only for the table. A model that is complete in RUNS_DIR is not trained again.
"""

import argparse
import json
import lzma
import pathlib
import subprocess
import sys

WIDTH = 128
KINDS = {  # layers, and what is set
    "gated_deltanet": (4, []),
    "rwkv7": (4, []),
    "mamba2": (8, ["attention.n_heads=4", "attention.d_key=64", "attention.d_value=64"]),
    "linear": (4, []),
    "softmax": (4, []),
    "grouped_query": (4, []),
}
NAMES = {"softmax": "softmax, without positions", "grouped_query": "softmax, rotary positions"}


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", type=pathlib.Path, required=True)
    p.add_argument("--runs", type=pathlib.Path, required=True, help="a folder for the runs and their models")
    p.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    p.add_argument("--tokens", default="3e6", help="of each run")
    p.add_argument("--threads", default="1")
    p.add_argument("--linnet", type=pathlib.Path, default=pathlib.Path("build/linnet"))
    args, args.further = p.parse_known_args()
    return args


def train(kind: str, args: argparse.Namespace):
    run = args.runs / kind
    if (run / "model" / "config.json").exists():
        return
    print(f"training {kind}", file=sys.stderr)
    layers, settings = KINDS[kind]
    subprocess.run([sys.executable, pathlib.Path(__file__).parent / "poem.py", "--data", args.data, "--run", run, "--out", run / "model",
                    "--kind", kind, "--layers", str(layers), "--width", str(WIDTH), "--tokens", args.tokens, "--threads", args.threads,
                    "--ema", "0.99", "--decay", "0.5", *(word for setting in settings for word in ("--set", setting)), *args.further],
                   check=True, stdout=subprocess.DEVNULL)


def said_of(kind: str, test: pathlib.Path, args: argparse.Namespace) -> tuple[int, float]:
    """Parameters, nats a character."""
    model = args.runs / kind / "model"

    def ask(*words):
        return json.loads(subprocess.run([args.linnet, *words, "--json"], check=True, capture_output=True, text=True).stdout)

    return (ask("inspect", model)["parameters"],
            ask("eval", "--model", model, test, "--threads", args.threads, "--precision", "f32")["nll"])


def main():
    args = parse_arguments()
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
