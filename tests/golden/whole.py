"""Models that see their whole input, in float64: every row from all rows, by the equations of docs/weights-format.md, with
PyTorch's basic operations and nothing of weights/train.
"""

import torch

from float64 import PHI, gelu, layer_norm, linear


def split_heads(rows, n, sizes):
    """[T, n * each of sizes] -> for each [n, T, size]"""
    return [part.view(len(rows), n, -1).transpose(0, 1) for part in rows.split([n * size for size in sizes], 1)]


def linear_attention(x, w, prefix, own):
    n, d, m = own["n_heads"], own["d_key"], own["d_value"]
    rows = torch.stack([linear(row, w, f"{prefix}.qkv") for row in x])
    q, k, v = split_heads(rows, n, [d, d, m])
    weights = PHI[own["feature_map"]](q) @ PHI[own["feature_map"]](k).transpose(1, 2)
    y = weights @ v / (weights.sum(-1, keepdim=True) + own["eps"])
    return torch.stack([linear(row, w, f"{prefix}.out") for row in y.transpose(0, 1).flatten(1)])


MIXERS = {"linear": linear_attention}


def normed(x, w, name, c):
    return torch.stack([layer_norm(row, w, name, c["norm_eps"]) for row in x])


def log_probabilities(rows, w, c):
    """[T, width] -> [T, ids]"""
    assert c["norm"] == "pre" and c["activation"] == "gelu" and "feed_forward" not in c and "input_norm" not in c
    d = c["d_model"] // c["n_heads"]
    own = {"n_heads": c["n_heads"], "d_key": d, "d_value": d} | c["attention"]
    x = torch.stack([linear(row, w, "features") for row in rows]) + w["embed.position.weight"][: len(rows)]
    for i in range(c["n_layers"]):
        p = f"layers.{i}."
        x = x + MIXERS[own["kind"]](normed(x, w, p + "norm1", c), w, p + "attn", own)
        hidden = [gelu(linear(row, w, p + "ff.up")) for row in normed(x, w, p + "norm2", c)]
        x = x + torch.stack([linear(row, w, p + "ff.down") for row in hidden])
    return torch.log_softmax(torch.stack([linear(row, w, "head") for row in normed(x, w, "final_norm", c)]), -1)
