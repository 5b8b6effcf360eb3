#!/usr/bin/env python3
"""The cost of fewer bits per weight: what `linnet eval` finds with each precision on one machine.

    python3 tests/bench/precisions.py [--couplets test.tsv] [--poems test.tsv] [--digits t10k-images] [--limit N]

A file is measured with the model of weights/ of that task: nats per character of couplets and poems, bits per dimension
of images. `bits` counts a weight of a matrix with its share of the scales; bf16 is --precision auto, whose inputs are
rounded to bf16 too where the processor multiplies bf16. The last column is the loss compared with bf16.
"""

import argparse
import json
import subprocess
from pathlib import Path

import machine
from machine import ROOT

MODELS = {"couplets": ("couplet", "nll"), "poems": ("poem", "nll"), "digits": ("mnist", "bits_per_dim")}
PRECISIONS = {"auto": ("bf16", "16"), "int8": ("int8", "8"), "int4": ("int4", "4.5")}


def measure(args, model, key, precision, file):
    options = ["--limit", args.limit, "--threads", args.threads, "--precision", precision, "--device", "cpu", "--json"]
    command = [args.build / "linnet", "eval", "--model", ROOT / "weights" / model, *options, "--no-answers", file]
    said = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, check=True, text=True).stdout
    return json.loads(said)[key]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=Path, default=ROOT / "build")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--limit", type=int, default=0, help="lines or images of a file; 0: all")
    for name in MODELS:
        p.add_argument(f"--{name}", type=Path)
    args = p.parse_args()
    print(machine.describe(args.threads))
    rows = []
    for name, (model, key) in MODELS.items():
        file, base = getattr(args, name), None
        for precision, (label, bits) in PRECISIONS.items() if file is not None else ():
            found = measure(args, model, key, precision, file)
            base = found if base is None else base
            rows.append([model, label, bits, f"{found:.4f}", f"{100 * (found / base - 1):+.2f} %"])
    print("\nnats per character, or bits per dimension:\n")
    print(machine.table(["model", "precision", "bits", "found", "loss"], rows))


if __name__ == "__main__":
    main()
