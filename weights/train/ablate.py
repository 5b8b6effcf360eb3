#!/usr/bin/env python3
"""Compares choices of the MNIST recipe on a small model with short runs, and prints a Markdown table.

    python3 weights/train/ablate.py --data DIR --runs RUNS_DIR [--only NAME ...]

Each trial is mnist.py with one choice changed. A trial that is complete in RUNS_DIR is not run again.
"""

import argparse
import json
import pathlib

import comparison

SMALL = ["--set", "n_layers=4", "--set", "d_model=128", "--set", "n_heads=4", "--set", "d_ff=512",
         "--batch-tokens", str(6 * 784), "--validate-every", "1000000", "--validate-on", "256"]
ALONE = ["--streams", "token,row,column"]
TRIALS = {
    "base": [],
    "base, another seed": ["--seed", "2"],
    "norm after the branch": ["--set", "norm=post"],
    "one table of 784 positions": ["--streams", "token,ww,n,nw,ne,nn,position"],
    "no neighbours": ALONE,
    "feature map relu": ["--set", "attention.feature_map=relu"],
    "feature map relu squared": ["--set", "attention.feature_map=relu2"],
    "feature map exp": ["--set", "attention.feature_map=exp"],
    "head logistic_mixture": ["--head", "logistic_mixture", "--head-lr", "0.0003"],
    "Muon 0.01": ["--muon-lr", "0.01"],
    "Muon 0.04": ["--muon-lr", "0.04"],
    "AdamW part 0.001": ["--adam-lr", "0.001", "--head-lr", "0.001"],
    "fall from the start": ["--decay", "1.0"],
    "EMA 0.99": ["--ema", "0.99"],
    "EMA 0.99, constant rate": ["--ema", "0.99", "--decay", "0.001"],
    "dropout 0.1": ["--dropout", "0.1"],
    "batches half as large": ["--batch-tokens", str(3 * 784)],
    "softmax attention": ["--set", "mixer=softmax"],
    "softmax attention, no neighbours": ["--set", "mixer=softmax", *ALONE],
}


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", required=True)
    p.add_argument("--runs", type=pathlib.Path, required=True, help="a folder for the trials")
    p.add_argument("--tokens", default="1.5e6", help="of each trial")
    p.add_argument("--only", nargs="+", choices=TRIALS, default=list(TRIALS))
    p.add_argument("--threads", default="1")
    p.add_argument("more", nargs="*", help="further options of mnist.py, after --")
    return p.parse_args()


def figure_of(run: pathlib.Path, tokens: float) -> float | None:
    """Bits a pixel at the end, if the run got there."""
    log = run / "log.jsonl"
    last = json.loads(log.read_text().splitlines()[-1]) if log.exists() else {"tokens": 0}
    return last.get("bits_per_dim") if last["tokens"] >= tokens else None


def run_trial(name: str, args: argparse.Namespace) -> float:
    run = args.runs / name.replace(" ", "-").replace(",", "")
    if figure_of(run, float(args.tokens)) is None:
        comparison.run_script("mnist.py", "--data", args.data, "--run", run, "--tokens", args.tokens,
                              "--threads", args.threads, *SMALL, *TRIALS[name], *args.more)
    return figure_of(run, float(args.tokens))


def main():
    args = parse_arguments()
    print(f"| {float(args.tokens) / 1e6:g} M pixels each | bits a pixel |\n| --- | --- |")
    for name in args.only:
        print(f"| {name} | {run_trial(name, args):.3f} |", flush=True)


if __name__ == "__main__":
    main()
