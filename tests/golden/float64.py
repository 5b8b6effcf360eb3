"""The linear transformer in float64, computed independently of the C program.

Follows the paper's recurrent form (Katharopoulos et al. 2020, eq. 16-20) token by token; only
PyTorch's basic operations are used and nothing of weights/train.
"""

import json
import math
import pathlib
import struct

import torch

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


def head_rows(rows, w, c) -> list[torch.Tensor]:
    """The head's output for every row of input ids."""
    assert c["norm"] == "pre" and c["activation"] == "gelu"
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


def read_model(path: pathlib.Path) -> tuple[dict, dict[str, torch.Tensor]]:
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    return config, read_safetensors(path / "model.safetensors")
