#!/usr/bin/env python3
"""Makes golden.bin: logits of the shipped weights, computed independently of the C program.

    python3 tests/golden/generate.py weights/couplet tests/golden

Everything is float64 and follows the paper's recurrent form (Katharopoulos et al. 2020, eq. 16-20)
token by token; only PyTorch's basic operations are used and nothing of weights/train.

golden.bin, little-endian: "LXGOLD1\\0", int32 pairs, vocabulary size V, inputs I, logits a row K; then
for each pair: int32 rows, rows x I input ids, and for each row K float32 logits of the ids
(row * 7919 + k * 104729) mod V, float32 log-sum-exp, float32 largest logit, int32 its id.
"""

import json
import math
import pathlib
import struct
import sys

import torch

K = 24
DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


def read_safetensors(path: pathlib.Path) -> dict[str, torch.Tensor]:
    raw = path.read_bytes()
    (n,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + n])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        blob = bytearray(raw[8 + n + begin : 8 + n + end])
        tensors[name] = torch.frombuffer(blob, dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"]).double()
    return tensors


def input_rows(upper: str, lower: str, ids: dict[str, int]) -> list[list[int]]:
    """token, position, countdown, mirror of every row, as model/couplet.h describes them."""
    n, unk, none = len(upper), ids["<unk>"], ids["<none>"]
    up, low = ([ids.get(c, unk) for c in line] for line in (upper, lower))
    rows = [[ids["<s>"], 0, 0, none]]
    rows += [[token, i + 1, 0, none] for i, token in enumerate(up)]
    rows += [[[ids["<sep>"], *low][i], i + 1, n - i, up[i]] for i in range(n)]
    return rows


def phi(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, x + 1, torch.exp(x))


def layer_norm(x, w, name, eps):
    mean = x.mean()
    variance = ((x - mean) ** 2).mean()
    return (x - mean) / torch.sqrt(variance + eps) * w[name + ".weight"] + w[name + ".bias"]


def linear(x, w, name):
    return w[name + ".weight"] @ x + w[name + ".bias"]


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def logits_of_rows(rows, w, c) -> list[torch.Tensor]:
    heads, d = c["n_heads"], c["d_model"] // c["n_heads"]
    s = torch.zeros(c["n_layers"], heads, d, d, dtype=torch.float64)
    z = torch.zeros(c["n_layers"], heads, d, dtype=torch.float64)
    out = []
    for row in rows:
        x = sum(w[f"embed.{stream['name']}.weight"][i] for stream, i in zip(c["inputs"], row))
        for layer in range(c["n_layers"]):
            p = f"layers.{layer}."
            q, k, v = linear(layer_norm(x, w, p + "norm1", c["norm_eps"]), w, p + "attn.qkv").view(3, heads, d)
            q, k = phi(q), phi(k)
            s[layer] += k[:, :, None] * v[:, None, :]
            z[layer] += k
            numerator = (q[:, :, None] * s[layer]).sum(1)
            denominator = (q * z[layer]).sum(1, keepdim=True) + c["attention"]["eps"]
            x = x + linear((numerator / denominator).reshape(-1), w, p + "attn.out")
            hidden = gelu(linear(layer_norm(x, w, p + "norm2", c["norm_eps"]), w, p + "ff.up"))
            x = x + linear(hidden, w, p + "ff.down")
        out.append(linear(layer_norm(x, w, "final_norm", c["norm_eps"]), w, "head"))
    return out


def main(model: pathlib.Path, out: pathlib.Path):
    c = json.loads((model / "config.json").read_text(encoding="utf-8"))
    assert c["norm"] == "pre" and c["activation"] == "gelu"
    w = read_safetensors(model / "model.safetensors")
    vocabulary = (model / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    ids = {entry: i for i, entry in enumerate(vocabulary)}
    pairs = [line.split("\t") for line in (out / "pairs.tsv").read_text(encoding="utf-8").split("\n") if line]
    size = len(vocabulary)
    blob = [b"LXGOLD1\0", struct.pack("<4i", len(pairs), size, len(c["inputs"]), K)]
    for upper, lower in pairs:
        rows = input_rows(upper, lower, ids)
        blob.append(struct.pack("<i", len(rows)))
        blob.extend(struct.pack(f"<{len(row)}i", *row) for row in rows)
        for r, logits in enumerate(logits_of_rows(rows, w, c)):
            picked = [logits[(r * 7919 + k * 104729) % size].item() for k in range(K)]
            blob.append(struct.pack(f"<{K + 2}fi", *picked, torch.logsumexp(logits, 0).item(),
                                    logits.max().item(), int(logits.argmax())))
    (out / "golden.bin").write_bytes(b"".join(blob))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
