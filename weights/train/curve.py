#!/usr/bin/env python3
"""Draws the learning curves of runs as a PNG.

    python3 weights/train/curve.py RUN_DIR/log.jsonl [MORE.jsonl ...] --out curve.png
"""

import argparse
import json
import math
import pathlib

import packages  # noqa: F401 (before the packages that may be missing)

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 (the line above decides what it may import)


def read_log(path: pathlib.Path) -> list[dict]:
    """Records in order; those a resumed run repeated are the later ones."""
    records = []
    for record in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        while records and records[-1]["tokens"] > record["tokens"]:
            records.pop()
        records.append(record)
    return records


def points(records: list[dict], key: str, scale: float = 1.0) -> tuple[list[float], list[float]]:
    kept = [r for r in records if key in r]
    return [r["tokens"] / 1e6 for r in kept], [r[key] * scale for r in kept]


def draw_curves(logs: list[pathlib.Path], report: str, out: pathlib.Path):
    bits = report == "bits_per_dim"
    figure, axes = plt.subplots(figsize=(8, 4.5), dpi=100, layout="constrained")
    for log in logs:
        records, name = read_log(log), "" if len(logs) == 1 else f"{log.parent.name}: "
        line, = axes.plot(*points(records, "loss", 1 / math.log(2) if bits else 1), linewidth=0.8, alpha=0.6,
                          label=f"{name}training, mean of 50 steps")
        axes.plot(*points(records, report), "o-", markersize=3, color=line.get_color(), label=f"{name}held out")
    axes.set(xlabel="million tokens", ylabel="bits a pixel" if bits else "nats a token")
    axes.set_ylim(top=min(axes.get_ylim()[1], 2.5 * axes.get_ylim()[0] + 0.5))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(out)
    plt.close(figure)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("logs", type=pathlib.Path, nargs="+")
    p.add_argument("--report", default="bits_per_dim", help="the figure on held-out data (couplet: held_out)")
    p.add_argument("--out", type=pathlib.Path, required=True)
    args = p.parse_args()
    draw_curves(args.logs, args.report, args.out)


if __name__ == "__main__":
    main()
