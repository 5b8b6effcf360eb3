#!/usr/bin/env python3
"""Trains a model of every kind of attention to copy, draws how each learnt it, and prints how well it does.

    python3 weights/train/copy_kinds.py --runs RUNS_DIR [--out weights/copy] [--figure FILE.png] [--only KIND ...]

One recipe for all, copy_task.py, with keys that let a token see as far as a copy needs; those of TOO_LITTLE do not,
or not always, and are not exported. A kind that is complete in RUNS_DIR is not trained again. One table has the
learning curves. With --out a second table has the output of `linnet eval` (--linnet) for the exported models.
"""

import argparse
import pathlib
import sys

import packages  # noqa: F401 (before the packages that may be missing)

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 (the line above decides what it may import)
import comparison  # noqa: E402
from curve import read_log  # noqa: E402

LENGTH = 64
# A symbol of the copy is predicted from the symbol LENGTH tokens before, at most.
KINDS = {
    "softmax": [],
    "linear": [],
    "sliding_window": ["attention.window=65"],
    "dilated_window": ["attention.window=33", "attention.dilation=[1, 2]"],
    "global_window": ["attention.window=16", "attention.global_prefix=64", "d_ff=64"],
    "strided": ["attention.stride=64"],
    "fixed": ["attention.stride=64", "attention.summary=16"],
    "local_block": ["attention.block=32", "attention.look_back=2"],
    "blockwise": ["attention.block=32", "attention.shifts=[0, 1, 2, 2]"],
    "memory_compressed": ["attention.factor=2", "attention.visible=inclusive"],
    "adaptive_span": ["attention.max_span=64", "attention.ramp=32", "attention.spans=[32]"],
    "lsh": ["attention.rounds=4", "attention.buckets=8", "attention.cap=32", "attention.scale=none"],
    "gau_quad": ["n_layers=4", "attention.d_key=64", "attention.d_value=128"],
    "flash": ["n_layers=4", "attention.d_key=64", "attention.d_value=128", "attention.chunk=16"],
}
# Times --tokens: the last errors go late, or it learns slowly.
LONGER = {"softmax": 5 / 3, "memory_compressed": 5 / 3, "gau_quad": 2.0, "flash": 8 / 3}
HASHES = ["mixer=lsh", "attention.scale=none"]
TOO_LITTLE = {
    "sliding_window, window 16": ["mixer=sliding_window"],
    "lsh, 16 buckets": [*HASHES, "attention.rounds=4", "attention.buckets=16", "attention.cap=16"],
    "lsh, 1 round": [*HASHES, "attention.rounds=1", "attention.buckets=8", "attention.cap=32"],
}


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--runs", type=pathlib.Path, required=True, help="a folder for the runs")
    p.add_argument("--out", type=pathlib.Path, help="export every model below this folder")
    p.add_argument("--figure", type=pathlib.Path, help="draw the learning curves here")
    p.add_argument("--only", nargs="+", choices=[*KINDS, *TOO_LITTLE], default=[*KINDS, *TOO_LITTLE])
    p.add_argument("--tokens", default="1.5e6", help="of each run")
    p.add_argument("--threads", default="1")
    p.add_argument("--linnet", type=pathlib.Path, default=pathlib.Path("build/linnet"))
    return p.parse_args()


def settings_of(kind: str) -> list[str]:
    settings = [f"mixer={kind}", *KINDS[kind]] if kind in KINDS else TOO_LITTLE[kind]
    return [word for setting in settings for word in ("--set", setting)]


def run_of(kind: str, args: argparse.Namespace) -> pathlib.Path:
    return args.runs / kind.replace(", ", "-").replace(" ", "-")


def is_complete(kind: str, tokens: float, args: argparse.Namespace) -> bool:
    log = run_of(kind, args) / "log.jsonl"
    trained = log.exists() and read_log(log)[-1]["tokens"] >= tokens
    return trained and (not args.out or kind in TOO_LITTLE or (args.out / kind / "config.json").exists())


def train(kind: str, args: argparse.Namespace):
    tokens = float(args.tokens) * LONGER.get(kind, 1)
    if is_complete(kind, tokens, args):
        return
    print(f"training {kind}", file=sys.stderr)
    out = ["--out", args.out / kind] if args.out and kind in KINDS else []
    comparison.run_script("copy_task.py", "--run", run_of(kind, args), "--length", str(LENGTH), "--batch-tokens", "2048",
                          "--tokens", str(tokens), "--threads", args.threads, "--no-compile", "--ema", "0.98",
                          "--validate-every", "50", *out, *settings_of(kind))


def curve(kind: str, args: argparse.Namespace) -> tuple[list[int], list[float]]:
    """Steps, and nats a symbol there."""
    records = [r for r in read_log(run_of(kind, args) / "log.jsonl") if "held_out" in r]
    return [r["step"] for r in records], [r["held_out"] for r in records]


def draw(args: argparse.Namespace):
    """As the paper's figure 2: the loss against steps."""
    figure, axes = plt.subplots(figsize=(8, 4.5), dpi=100, layout="constrained")
    for i, kind in enumerate(args.only):
        thick = 2.5 if kind in ("softmax", "linear") else 1
        style = ":" if kind in TOO_LITTLE else "-" if i < 10 else "--"  # there are ten colours
        axes.plot(*curve(kind, args), color=f"C{i % 10}", linewidth=thick, linestyle=style, label=kind)
    axes.set(xlabel="steps", ylabel=f"nats a symbol, sequences of {LENGTH}")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, ncols=2)
    figure.savefig(args.figure)


def print_curves(args: argparse.Namespace):
    print("| kind | steps to 0.1 nats | to 0.01 nats | at the end |\n| --- | ---: | ---: | ---: |")
    for kind in args.only:
        steps, nats = curve(kind, args)
        reached = [next((str(s) for s, x in zip(steps, nats) if x < bound), "-") for bound in (0.1, 0.01)]
        print(f"| {kind} | {' | '.join(reached)} | {nats[-1]:.4f} |")


def row(kind: str, args: argparse.Namespace) -> str:
    """A row of the table: the program's figures on 1,000 sequences."""
    folder = args.out / kind
    report, size = comparison.ask(args, "eval", "--model", folder), (folder / "model.safetensors").stat().st_size
    return (f"| `{kind}` | {', '.join(KINDS[kind]).replace('attention.', '')} | {size / 1e3:.0f} kB "
            f"| {100 * report['symbols_right']:.3f} % | {100 * report['sequences_right']:.1f} % | {report['nll']:.5f} |")


def main():
    args = parse_arguments()
    if args.out:
        comparison.check_program(args.linnet)
    for kind in args.only:
        train(kind, args)
    if args.figure:
        draw(args)
    print_curves(args)
    if args.out:
        print("\n| kind | keys | weights | symbols right | sequences right | nats a symbol |")
        print("| --- | --- | ---: | ---: | ---: | ---: |")
        for kind in args.only:
            if kind in KINDS:
                print(row(kind, args))


if __name__ == "__main__":
    main()
