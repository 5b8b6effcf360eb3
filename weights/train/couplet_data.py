"""Couplet pairs as token sequences: reading, filtering, vocabulary, batches.

A pair becomes  <s> u1 ... un <sep> l1 ... l(n-1)  and the loss is on l1 ... ln, predicted from
<sep> on. Every token carries four input streams, which the server's couplet task repeats exactly:

  token      the character (or <s>, <sep>, <unk>)
  position   0 at <s>, i at ui; in the lower part the index of the character being predicted,
             so that <sep> (predicting l1) sits at position 1 like u1
  countdown  0 in the upper part; in the lower part how many characters are still to be written,
             the one being predicted included (so it is also the segment embedding)
  mirror     the upper character opposite the one being predicted; <none> in the upper part
"""

import collections
import hashlib
import pathlib

import numpy as np

from text_lines import read_lines
from unfit import Unfit

SPECIALS = ["<unk>", "<s>", "<sep>", "<none>"]
UNK, BOS, SEP, NONE = range(4)
MAX_CHARS = 32


def read_pairs(path: pathlib.Path) -> list[tuple[str, str]]:
    """Those whose lines have one length, of 1 to MAX_CHARS characters."""
    pairs = []
    for number, line in read_lines(path):
        parts = line.split("\t")
        if len(parts) != 2:
            raise Unfit(f"{path}:{number}: it is not upper line TAB lower line")
        if len(parts[0]) == len(parts[1]) and 1 <= len(parts[0]) <= MAX_CHARS:
            pairs.append((parts[0], parts[1]))
    return pairs


def drop_bad_words(pairs: list, path: pathlib.Path) -> list:
    """Leaves out every pair in which either line contains a word of the list."""
    words = {line for _, line in read_lines(path)} - {""}
    lengths = sorted({len(w) for w in words})

    def clean(s: str) -> bool:
        return not any(s[i : i + n] in words for n in lengths for i in range(len(s) - n + 1))

    return [p for p in pairs if clean(p[0]) and clean(p[1])]


def is_held_out(pair: tuple[str, str]) -> bool:
    """About 0.3 % of the pairs, chosen by the upper line alone, are kept for validation."""
    return int.from_bytes(hashlib.sha256(pair[0].encode()).digest()[:4], "big") % 333 == 0


def build_vocabulary(pairs: list, min_count: int) -> list[str]:
    counts = collections.Counter(c for pair in pairs for line in pair for c in line)
    kept = [c for c, n in counts.items() if n >= min_count]
    return SPECIALS + sorted(kept, key=lambda c: (-counts[c], c))


def encode(pairs: list, vocabulary: list[str]) -> dict[int, np.ndarray]:
    """Pairs by length: {n: int16 [pairs, 2, n]}."""
    ids = {c: i for i, c in enumerate(vocabulary)}
    by_length = collections.defaultdict(list)
    for pair in pairs:
        by_length[len(pair[0])].append([[ids.get(c, UNK) for c in line] for line in pair])
    return {n: np.array(rows, dtype=np.int16) for n, rows in sorted(by_length.items())}


def make_inputs(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[B, 2, n] -> input ids [B, 2n+1, 4] and targets [B, n]."""
    b, _, n = rows.shape
    upper, lower = rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64)
    ids = np.zeros((b, 2 * n + 1, 4), dtype=np.int64)
    ids[:, 0, 0], ids[:, 1 : n + 1, 0], ids[:, n + 1, 0] = BOS, upper, SEP
    ids[:, n + 2 :, 0] = lower[:, :-1]
    ids[:, : n + 1, 1] = np.arange(n + 1)
    ids[:, n + 1 :, 1] = np.arange(1, n + 1)
    ids[:, n + 1 :, 2] = np.arange(n, 0, -1)
    ids[:, : n + 1, 3] = NONE
    ids[:, n + 1 :, 3] = upper
    return ids, lower


def epoch_batches(data: dict, batch_tokens: int, rng: np.random.Generator):
    """Yields (n, row indices) of one epoch in random order; a batch holds one length only."""
    batches = []
    for n, rows in data.items():
        size = max(1, batch_tokens // (2 * n + 1))
        order = rng.permutation(len(rows))
        batches += [(n, order[i : i + size]) for i in range(0, len(rows), size)]
    for i in rng.permutation(len(batches)):
        yield batches[i]
