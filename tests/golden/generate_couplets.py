#!/usr/bin/env python3
"""Makes couplet/golden.bin: logits of the shipped weights for the couplets of couplet/pairs.tsv.

    python3 tests/golden/generate_couplets.py weights/couplet tests/golden/couplet

golden.bin, little-endian: "LXGOLD1\\0", int32 pairs, vocabulary size V, inputs I, logits a row K; then
for each pair: int32 rows, rows x I input ids, and for each row K float32 logits of the ids
(row * 7919 + k * 104729) mod V, float32 log-sum-exp, float32 largest logit, int32 its id.
"""

import pathlib
import struct
import sys

import torch

from float64 import head_rows, read_model

K = 24


def input_rows(upper: str, lower: str, ids: dict[str, int]) -> list[list[int]]:
    """token, position, countdown, mirror of every row, as model/tasks/couplet.h describes them."""
    n, unk, none = len(upper), ids["<unk>"], ids["<none>"]
    up, low = ([ids.get(c, unk) for c in line] for line in (upper, lower))
    rows = [[ids["<s>"], 0, 0, none]]
    rows += [[token, i + 1, 0, none] for i, token in enumerate(up)]
    rows += [[[ids["<sep>"], *low][i], i + 1, n - i, up[i]] for i in range(n)]
    return rows


def main(model: pathlib.Path, out: pathlib.Path):
    c, w = read_model(model)
    vocabulary = (model / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    ids = {entry: i for i, entry in enumerate(vocabulary)}
    pairs = [line.split("\t") for line in (out / "pairs.tsv").read_text(encoding="utf-8").split("\n") if line]
    size = len(vocabulary)
    blob = [b"LXGOLD1\0", struct.pack("<4i", len(pairs), size, len(c["inputs"]), K)]
    for upper, lower in pairs:
        rows = input_rows(upper, lower, ids)
        blob.append(struct.pack("<i", len(rows)))
        blob.extend(struct.pack(f"<{len(row)}i", *row) for row in rows)
        for r, logits in enumerate(head_rows(rows, w, c)):
            picked = [logits[(r * 7919 + k * 104729) % size].item() for k in range(K)]
            blob.append(struct.pack(f"<{K + 2}fi", *picked, torch.logsumexp(logits, 0).item(),
                                    logits.max().item(), int(logits.argmax())))
    (out / "golden.bin").write_bytes(b"".join(blob))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
