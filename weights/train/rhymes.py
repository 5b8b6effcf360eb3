#!/usr/bin/env python3
"""Finds which characters rhyme in the poems, and writes rhymes.txt of the poem model's folder.

    python3 weights/train/rhymes.py --data DIR --out weights/poem/rhymes.txt

DIR holds train.tsv or train.tsv.xz as for poem.py. The even lines of a poem with four or eight lines of five or seven characters end with
rhymes. Characters that end them together are neighbours, as strongly as they do so often; each takes the group that most of
its neighbours have, until none changes any more. A group is a line of the file, its most frequent characters first.
"""

import argparse
import collections
import pathlib
import re
import sys

from poem_data import read_poems
from text_lines import lines_file
from unfit import Unfit

LINE = re.compile("([^，。？！；：、]+)[，。？！；：、]")
FEWEST = 10   # poems that a character rhymes in
SMALLEST = 16  # characters of a group
MOST = 64     # groups, as the server takes them


def rhymes_of(text: str) -> list[str]:
    lines = LINE.findall(text)
    if len(lines) not in (4, 8) or {len(line) for line in lines} not in ({5}, {7}):
        return []
    ends = [line[-1] for line in lines[1::2]]
    return ends if len(set(ends)) == len(ends) else []


def find_groups(poems: list[list[str]]) -> list[list[str]]:
    counts = collections.Counter(c for ends in poems for c in ends)
    together = collections.defaultdict(collections.Counter)
    for ends in poems:
        for c in ends:
            together[c].update(other for other in ends if other != c)
    frequent = [c for c, n in counts.most_common() if n >= FEWEST]
    group = {c: c for c in frequent}
    changed = True
    while changed:
        changed = False
        for c in frequent:
            votes = collections.Counter()
            for other, n in together[c].items():
                if other in group:
                    votes[group[other]] += n
            best = max(votes, key=lambda g: (votes[g], g == group[c], g), default=group[c])
            changed |= best != group[c]
            group[c] = best
    groups = collections.defaultdict(list)
    for c in frequent:
        groups[group[c]].append(c)
    large = [g for g in groups.values() if len(g) >= SMALLEST]
    return sorted(large, key=lambda g: -sum(counts[c] for c in g))[:MOST]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path, required=True)
    args = p.parse_args()
    poems = [rhymes_of(text) for _, _, text in read_poems(lines_file(args.data, "train.tsv"))]
    groups = find_groups([ends for ends in poems if ends])
    if not groups:
        raise Unfit("too few poems rhyme")
    args.out.write_text("".join("".join(g) + "\n" for g in groups), encoding="utf-8")
    print(f"{len(groups)} groups of {sum(map(len, groups))} characters")


if __name__ == "__main__":
    try:
        main()
    except (Unfit, OSError) as error:
        sys.exit(f"rhymes.py: {error}")
