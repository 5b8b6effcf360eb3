"""Couplet pairs as token sequences: reading, filtering, vocabulary, batches.

A pair becomes  <s> u1 ... un <sep> l1 ... l(n-1)  and the loss is on l1 ... ln, predicted from
<sep> on. Every token carries four input streams, which the server's couplet task repeats exactly:

  token      the character (or <s>, <sep>, <unk>)
  position   0 at <s>, i at ui; in the lower part the index of the character being predicted,
             so that <sep> (predicting l1) sits at position 1 like u1
  countdown  0 in the upper part; in the lower part how many characters are still to be written,
             the one being predicted included (so it is also the segment embedding)
  mirror     the upper character opposite the one being predicted; <none> in the upper part

A model may learn both directions, and verses too, which are neighbouring lines of poems. Then another special takes the place
of <sep>: <back> where the given line is a lower line, <verse> where it is the first of two verses, <verseback> the second.
"""

import collections
import hashlib
import pathlib

import numpy as np
import torch

from text_lines import read_lines
from unfit import Unfit

SPECIALS = ["<unk>", "<s>", "<sep>", "<none>"]
UNK, BOS, SEP, NONE = range(4)
MARKS = ["<back>", "<verse>", "<verseback>"]  # after the characters, and only in a model that was trained with them
MAX_CHARS = 32
MIN_COUNT = 5  # of a character of the vocabulary
PUNCTUATION = [  # first and last, as lx_char_is_punctuation (model/characters.c)
    (0x21, 0x2f), (0x3a, 0x40), (0x5b, 0x60), (0x7b, 0x7e), (0xa1, 0xa1), (0xa7, 0xa7), (0xab, 0xab), (0xb6, 0xb7), (0xbb, 0xbb),
    (0xbf, 0xbf), (0x2010, 0x2027), (0x2030, 0x205e), (0x2e3a, 0x2e3b), (0x3001, 0x3004), (0x3006, 0x3006), (0x3008, 0x3020),
    (0x3030, 0x3030), (0x303d, 0x303d), (0x30fb, 0x30fb), (0xfe10, 0xfe19), (0xfe30, 0xfe6b), (0xff01, 0xff0f), (0xff1a, 0xff20),
    (0xff3b, 0xff40), (0xff5b, 0xff65)]


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
    if not path.is_file():
        raise Unfit(f"{path} is missing: write a word per line, whose pairs are left out; an empty file leaves out none")
    words = {line for _, line in read_lines(path)} - {""}
    lengths = sorted({len(w) for w in words})

    def clean(s: str) -> bool:
        return not any(s[i : i + n] in words for n in lengths for i in range(len(s) - n + 1))

    return [p for p in pairs if clean(p[0]) and clean(p[1])]


def is_held_out(pair: tuple[str, str]) -> bool:
    """About 0.3 % of the pairs, chosen by the upper line alone, are kept for validation."""
    return int.from_bytes(hashlib.sha256(pair[0].encode()).digest()[:4], "big") % 333 == 0


def build_vocabulary(pairs: list, min_count: int, marks: bool = False) -> list[str]:
    counts = collections.Counter(c for pair in pairs for line in pair for c in line)
    kept = [c for c, n in counts.items() if n >= min_count]
    return SPECIALS + sorted(kept, key=lambda c: (-counts[c], c)) + (MARKS if marks else [])


def check_vocabulary(vocabulary: list[str]):
    """A server's rules forbid up to two lines of characters, and one has to be left to choose."""
    words = [c for c in vocabulary if len(c) == 1 and not any(first <= ord(c) <= last for first, last in PUNCTUATION)]
    if len(words) <= 2 * MAX_CHARS:
        raise Unfit(f"the couplets are too few: {len(words)} characters without punctuation occur {MIN_COUNT} times in them, and a "
                    f"model needs more than {2 * MAX_CHARS}")


def encode(pairs: list, vocabulary: list[str]) -> dict[int, np.ndarray]:
    """Pairs by length: {n: int16 [pairs, 2, n]}."""
    ids = {c: i for i, c in enumerate(vocabulary)}
    by_length = collections.defaultdict(list)
    for pair in pairs:
        by_length[len(pair[0])].append([[ids.get(c, UNK) for c in line] for line in pair])
    return {n: np.array(rows, dtype=np.int16) for n, rows in sorted(by_length.items())}


def make_inputs(rows: torch.Tensor, lengths: torch.Tensor,
                separators: "torch.Tensor | int" = SEP) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pairs [B, 2, N], filled up at their ends, their lengths [B] and separators ([B], or one for all) -> input ids
    [B, 2N+1, 4], the places [B, N] of the tokens that predict, and their targets [B, N], -100 where there is none. They are
    made on the device of the rows. Nothing is predicted from the tokens that fill up, and none of the others sees them."""
    upper, lower = rows[:, 0].long(), rows[:, 1].long()
    most, n = rows.shape[2], lengths.long()[:, None]
    t = torch.arange(2 * most + 1, device=rows.device)[None, :]
    j, is_lower = t - n - 1, t > n  # the character that is predicted in the lower part

    def at(line: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return line.gather(1, places.clamp(0, most - 1))

    token = torch.where(is_lower, at(lower, j - 1), at(upper, (t - 1).expand_as(j)))
    separators = torch.as_tensor(separators, device=rows.device).long().view(-1, 1)
    token = torch.where(j == 0, separators.expand_as(j), token.masked_fill(t == 0, BOS))
    position = torch.where(is_lower, j + 1, t.expand_as(j)).clamp(max=most)
    countdown = torch.where(is_lower, n - j, torch.zeros_like(j)).clamp(min=0)
    mirror = at(upper, j).masked_fill(~is_lower, NONE)
    counted = torch.arange(most, device=rows.device)[None, :]
    places = (n + 1 + counted).clamp(max=2 * most)
    return torch.stack([token, position, countdown, mirror], -1), places, lower.masked_fill(counted >= n, -100)


Batch = list[tuple[int, np.ndarray]]  # lengths, and which of the pairs of that length


def epoch_batches(data: dict, batch_tokens: int, rng: np.random.Generator) -> list[Batch]:
    """One epoch in random order; a batch holds one length only."""
    batches = []
    for n, rows in data.items():
        size = max(1, batch_tokens // (2 * n + 1))
        order = rng.permutation(len(rows))
        batches += [[(n, order[i : i + size])] for i in range(0, len(rows), size)]
    return [batches[i] for i in rng.permutation(len(batches))]


def full_batches(data: dict, batch_tokens: int, rng: np.random.Generator) -> list[Batch]:
    """Batches of pairs of neighbouring lengths, so that all batches but one are full. Many large batches of one length
    would hold few pairs, and Muon's steps have one size for any number of pairs."""
    batches, free = [[]], batch_tokens
    for n, rows in data.items():
        order, width = rng.permutation(len(rows)), 2 * n + 1
        free = batch_tokens - sum(len(part) for _, part in batches[-1]) * width  # all are filled up to this length
        while len(order):
            if batches[-1] and free < width:
                batches.append([])
                free = batch_tokens
            size = max(1, free // width)
            batches[-1].append((n, order[:size]))
            order, free = order[size:], free - size * width
    return [batches[i] for i in rng.permutation(len(batches))] if batches[-1] else []
