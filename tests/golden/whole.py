"""Models that read their whole input, in float64: every row from all rows, by the equations of model/mixers/, with
PyTorch's basic operations and without weights/train.
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


def softmax_attention(x, w, prefix, own):
    n, d, m = own["n_heads"], own["d_key"], own["d_value"]
    q, k, v = split_heads(torch.stack([linear(row, w, f"{prefix}.qkv") for row in x]), n, [d, d, m])
    y = (q @ k.transpose(1, 2) / d**0.5).softmax(-1) @ v
    return torch.stack([linear(row, w, f"{prefix}.out") for row in y.transpose(0, 1).flatten(1)])


def chunks_of(qk, hashes, size):
    """[T, D], [D, b / 2] -> of each row in which chunk of the sorted rows it lies"""
    said = torch.cat([qk @ hashes, -(qk @ hashes)], 1).argmax(1).tolist()
    order = sorted(range(len(qk)), key=lambda i: (said[i], i))
    return torch.tensor([order.index(i) // size for i in range(len(qk))])


def lsh_attention(x, w, prefix, own):
    n, d, m = own["n_heads"], own["d_key"], own["d_value"]
    qk, v = split_heads(torch.stack([linear(row, w, f"{prefix}.qk_v") for row in x]), n, [d, m])
    if len(x) > 1:
        y = []
        for one, values in zip(qk, v):
            times = torch.zeros(len(x), len(x), dtype=torch.float64)
            for hashes in w[f"{prefix}.hashes"].view(own["rounds"], d, -1):
                chunk = chunks_of(one, hashes, own["cap"])
                times += (chunk[:, None] - chunk).abs() <= 1
            times.fill_diagonal_(0)
            logits = one @ (one / (one.square().sum(1, keepdim=True) + 1e-12).sqrt()).T
            weights = times * (logits / (d**0.5 if own["scale"] == "key" else 1)).exp()
            y.append(weights @ values / weights.sum(1, keepdim=True))
        v = torch.stack(y)
    return torch.stack([linear(row, w, f"{prefix}.out") for row in v.transpose(0, 1).flatten(1)])


def lstm(x, w, prefix, own):
    n, ways = own["hidden"], []
    for way in range(2):
        rows = [linear(row, w, f"{prefix}.x")[4 * n * way :][: 4 * n] for row in x]
        h = c = torch.zeros(n, dtype=torch.float64)
        said = []
        for row in rows[:: 1 - 2 * way]:
            i, f, g, o = (row + h @ w[f"{prefix}.u"][n * way :][:n]).split(n)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            said.append(h)
        ways.append(torch.stack(said[:: 1 - 2 * way]))
    return torch.stack([linear(row, w, f"{prefix}.out") for row in torch.cat(ways, 1)])


MIXERS = {"linear": linear_attention, "softmax": softmax_attention, "lsh": lsh_attention, "bilstm": lstm}
WHOLE_LAYERS = ["bilstm"]


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
        if own["kind"] in WHOLE_LAYERS:
            continue
        hidden = [gelu(linear(row, w, p + "ff.up")) for row in normed(x, w, p + "norm2", c)]
        x = x + torch.stack([linear(row, w, p + "ff.down") for row in hidden])
    return torch.log_softmax(torch.stack([linear(row, w, "head") for row in normed(x, w, "final_norm", c)]), -1)
