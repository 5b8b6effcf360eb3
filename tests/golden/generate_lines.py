#!/usr/bin/env python3
"""Makes FOLDER/MODEL.bin: logits of shipped weights for the pairs of FOLDER/pairs.tsv: couplets, sequences and
copies, or beginnings and poems.

    python3 tests/golden/generate_lines.py tests/golden/couplet weights/couplet
    python3 tests/golden/generate_lines.py tests/golden/copy weights/copy/*/
    python3 tests/golden/generate_lines.py tests/golden/poem weights/poem

MODEL.bin, little-endian: "LXGOLD1\\0", int32 pairs, vocabulary size V, inputs I, logits per row K. Then for each pair:
int32 rows and rows x I input ids. Then for each row: K float32 logits of the ids (row * 7919 + k * 104729) mod V,
float32 log-sum-exp, float32 largest logit, int32 its id.
"""

import json
import pathlib
import struct
import sys

import torch

import kinds
from float64 import head_rows, read_model, read_safetensors

K = 24


def couplet_rows(upper: str, lower: str, ids: dict[str, int], c: dict) -> list[list[int]]:
    """token, position, countdown, mirror of every row, as model/tasks/couplet.h describes them."""
    n, unk, none = len(upper), ids["<unk>"], ids["<none>"]
    up, low = ([ids.get(c, unk) for c in line] for line in (upper, lower))
    rows = [[ids["<s>"], 0, 0, none]]
    rows += [[token, i + 1, 0, none] for i, token in enumerate(up)]
    rows += [[[ids["<sep>"], *low][i], i + 1, n - i, up[i]] for i in range(n)]
    return rows


def copy_rows(upper: str, lower: str, ids: dict[str, int], c: dict) -> list[list[int]]:
    """As model/tasks/copy.h describes them."""
    tokens = [ids[symbol] for symbol in (*upper, "<sep>", *lower[:-1])]
    places = [*range(1, len(upper) + 1), *range(len(lower))]
    known = {"token": tokens, "place": places, "position": list(range(len(tokens)))}
    return [list(row) for row in zip(*(known[stream["name"]] for stream in c["inputs"]))]


def poem_rows(upper: str, lower: str, ids: dict[str, int], c: dict) -> list[list[int]]:
    """As model/tasks/poem.h describes them."""
    return [[c["bos_token_id"]]] + [[ids[character]] for character in upper + lower[:-1]]


ROWS = {"couplet": couplet_rows, "copy": copy_rows}


def read_pairs(path: pathlib.Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line]


def of_lines(pairs: list[list[str]], model: pathlib.Path):
    """How many tokens and inputs there are; the rows and the logits of every pair."""
    c, w = read_model(model)
    vocabulary = (model / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    ids = {entry: i for i, entry in enumerate(vocabulary)}
    all_rows = [ROWS[c["task"]](upper, lower, ids, c) for upper, lower in pairs]
    return len(vocabulary), len(c["inputs"]), all_rows, (head_rows(rows, w, c) for rows in all_rows)


def of_poems(pairs: list[list[str]], model: pathlib.Path):
    c = json.loads((model / "config.json").read_text())
    w = {name: t.numpy() for name, t in read_safetensors(model / "model.safetensors").items()}
    ids = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    all_rows = [poem_rows(upper, lower, ids, c) for upper, lower in pairs]
    logits = kinds.fla_model(kinds.delta)
    return c["vocab_size"], 1, all_rows, (torch.from_numpy(logits(w, c, [r[0] for r in rows])) for rows in all_rows)


def main(out: pathlib.Path, model: pathlib.Path):
    pairs = read_pairs(out / "pairs.tsv")
    size, n_inputs, all_rows, all_logits = (of_lines if (model / "vocab.txt").exists() else of_poems)(pairs, model)
    logits_a_row = min(K, size)
    blob = [b"LXGOLD1\0", struct.pack("<4i", len(pairs), size, n_inputs, logits_a_row)]
    for rows, answers in zip(all_rows, all_logits):
        blob.append(struct.pack("<i", len(rows)))
        blob.extend(struct.pack(f"<{len(row)}i", *row) for row in rows)
        for r, logits in enumerate(answers):
            picked = [logits[(r * 7919 + k * 104729) % size].item() for k in range(logits_a_row)]
            blob.append(struct.pack(f"<{logits_a_row + 2}fi", *picked, torch.logsumexp(logits, 0).item(),
                                    logits.max().item(), int(logits.argmax())))
    (out / f"{model.name}.bin").write_bytes(b"".join(blob))


if __name__ == "__main__":
    for folder in sys.argv[2:]:
        main(pathlib.Path(sys.argv[1]), pathlib.Path(folder))
