#!/usr/bin/env python3
"""The shipped models' steps, and their pictures with guessed tokens: `linnet bench` for each model and precision.

    python3 tests/bench/decode.py [--build build] [--rounds 4]

The first table has the state of a sequence. The second table has the median step of couplet, mnist and mnist in int8 by
threads and streams. The third table compares whole pictures with guessed tokens to pictures without
(docs/adr/0027-guessed-tokens.md). Each time is the median of
--rounds runs, in which all models take turns.
"""

import argparse
import json
import statistics
import subprocess
from pathlib import Path

import machine
from machine import ROOT, number

STEPS = {"couplet": ("couplet", "auto"), "mnist": ("mnist", "auto"), "mnist int8": ("mnist", "int8")}
DRAFTS = ("auto", "int8")


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=Path, default=ROOT / "build")
    p.add_argument("--threads", default="1,2")
    p.add_argument("--batch", default="1,8,64,256")
    p.add_argument("--rounds", type=int, default=4)
    return p.parse_args()


def report(args, model, precision, *flags):
    command = [args.build / "linnet", "bench", "--model", ROOT / "weights" / model, "--precision", precision, "--json"]
    out = subprocess.run([*map(str, command), "--threads", args.threads, *flags], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out)


def bench(args, model, precision, *flags):
    return report(args, model, precision, *flags)["rows"]


def middle(runs, at, key):
    return statistics.median(rows[at][key] for rows in runs)


def main():
    args = parse_arguments()
    print(machine.describe(busy=max(map(int, args.threads.split(",")))), flush=True)
    steps, drafts = {name: [] for name in STEPS}, {precision: [] for precision in DRAFTS}
    for _ in range(args.rounds):
        for name, (model, precision) in STEPS.items():
            steps[name].append(bench(args, model, precision, "--batch", args.batch))
        for precision in DRAFTS:
            drafts[precision].append(bench(args, "mnist", precision, "--draft", "1", "--steps", "20"))
    rows = [[model, number(report(args, model, "auto", "--batch", "1")["state_bytes"] / 1024)] for model in ("couplet", "mnist")]
    print(f"\nState:\n\n{machine.table(['model', 'KiB'], rows)}")
    rows = [[str(row["threads"]), f"{row['batch']:,}",
             *(number(middle(steps[name], at, key)) for name in STEPS for key in ("ms_per_step", "tokens_per_second"))]
            for at, row in enumerate(steps["mnist"][0])]
    head = [text for name in STEPS for text in (f"{name}, ms per step", f"{name}, tokens/s")]
    print(f"Decoding:\n\n{machine.table(['threads', 'streams', *head], rows)}")
    rows = [[precision, str(row["threads"]), number(middle(runs, at, "ms_without")), number(middle(runs, at, "ms_with")),
             f"{middle(runs, at, 'ratio'):.2f}", f"{middle(runs, at, 'accepted') / middle(runs, at, 'drafted'):.0%}"]
            for precision, runs in drafts.items() for at, row in enumerate(runs[0])]
    head = ["precision", "threads", "ms without", "ms with", "times as fast", "guesses that were right"]
    print(f"One picture with guessed tokens:\n\n{machine.table(head, rows)}")


if __name__ == "__main__":
    main()
