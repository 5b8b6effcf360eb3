#!/usr/bin/env python3
"""Writes neighbouring lines of poems that have one length, as pairs for couplet.py --verses.

    python3 weights/train/verses.py --poems poem/train.tsv.xz --couplets couplet/train.tsv.xz --test couplet/test.tsv.xz --out verses.tsv.xz

Left out are couplets to train on, and pairs with a line of a couplet that measures (of --test, or held out).
"""

import argparse
import lzma
import pathlib
import re
import sys

import packages  # noqa: F401 (before the packages that may be missing)

import couplet_data as data
from poem_data import read_poems
from unfit import Unfit


def pairs_of(text: str) -> list[tuple[str, str]]:
    """The sentences of two lines of one length, of 4 to 9 characters."""
    parts = [re.split("[，、：]", sentence) for sentence in re.split("[。？！；]", text)]
    return [(p[0], p[1]) for p in parts if len(p) == 2 and len(p[0]) == len(p[1]) and 4 <= len(p[0]) <= 9]


def choose(poems: list[str], couplets: list[tuple[str, str]], test: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each pair once, in the order of the poems."""
    measured = {line for pair in test + [p for p in couplets if data.is_held_out(p)] for line in pair}
    known = set(couplets)
    return [pair for pair in dict.fromkeys(pair for text in poems for pair in pairs_of(text))
            if pair not in known and measured.isdisjoint(pair)]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--poems", type=pathlib.Path, required=True)
    p.add_argument("--couplets", type=pathlib.Path, required=True)
    p.add_argument("--test", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path, required=True)
    args = p.parse_args()
    poems = [text for kind, _, text in read_poems(args.poems) if kind != "词"]
    kept = choose(poems, data.read_pairs(args.couplets), data.read_pairs(args.test))
    with lzma.open(args.out, "wt", encoding="utf-8") as file:
        file.writelines(f"{upper}\t{lower}\n" for upper, lower in kept)
    print(f"{len(kept)} pairs of verses in {args.out}")


if __name__ == "__main__":
    try:
        main()
    except (Unfit, OSError) as error:
        sys.exit(f"verses.py: {error}")
