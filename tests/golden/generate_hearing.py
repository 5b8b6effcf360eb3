#!/usr/bin/env python3
"""Makes tests/golden/hearing: small random speech models, and their log-probabilities for random rows, in float64.

    python3 tests/golden/generate_hearing.py tests/golden/hearing

Each of KINDS has a folder with the model and hears.bin, little-endian: "LXGOLH1\\0", int32 inputs, floats per row, ids.
Then for each input: int32 rows, the rows, and their log-probabilities as float32.
"""

import json
import pathlib
import struct
import sys

import torch

from float64 import read_model
from whole import WHOLE_LAYERS, log_probabilities

CONFIG = {
    "format": "linnet", "format_version": 1, "task": "speech",
    "n_layers": 2, "n_heads": 2, "d_model": 16, "d_ff": 32,
    "norm": "pre", "norm_eps": 1e-5, "activation": "gelu", "attention": {},
    "inputs": [{"name": "position", "size": 64}],
    "head": {"kind": "ctc", "size": 4},
    "speech": {"sample_rate": 8000, "frame": 200, "hop": 80, "bands": 6, "lowest": 20, "stride": 3, "context": 1},
}
VOCABULARY = ["<blank>", "a", "b", "c"]
KINDS = {
    "linear": {"kind": "linear", "feature_map": "elu+1", "eps": 1e-6, "direction": "both"},
    "softmax": {"kind": "softmax", "direction": "both"},
    "lsh": {"kind": "lsh", "rounds": 2, "buckets": 6, "cap": 5, "scale": "key", "direction": "both"},
    "bilstm": {"kind": "bilstm", "hidden": 11, "direction": "both"},
}
LENGTHS = [1, 64, 17, 2]


def attention_tensors(c: dict) -> list[tuple[str, list[int], float]]:
    """Of a layer: name, shape, scale."""
    d, own = c["d_model"], c["attention"]
    if own["kind"] == "bilstm":
        n = own["hidden"]
        return [("attn.x.weight", [8 * n, d], 0.3), ("attn.x.bias", [8 * n], 0.2), ("attn.u", [2 * n, 4 * n], 0.3),
                ("attn.out.weight", [d, 2 * n], 0.5), ("attn.out.bias", [d], 0.1)]
    out = [("attn.out.weight", [d, d], 0.3), ("attn.out.bias", [d], 0.1)]
    if own["kind"] == "lsh":
        return [("attn.qk_v.weight", [2 * d, d], 0.4), ("attn.qk_v.bias", [2 * d], 0.2),
                ("attn.hashes", [own["rounds"] * d // c["n_heads"], own["buckets"] // 2], 1.0)] + out
    return [("attn.qkv.weight", [3 * d, d], 0.4), ("attn.qkv.bias", [3 * d], 0.2)] + out


def tensors_of(c: dict) -> list[tuple[str, list[int], float]]:
    d, ff, width = c["d_model"], c["d_ff"], c["speech"]["bands"] * (2 * c["speech"]["context"] + 1)
    all_of_them = [("embed.position.weight", [c["inputs"][0]["size"], d], 0.3), ("features.weight", [d, width], 0.3),
                   ("features.bias", [d], 0.1)]
    for i in range(c["n_layers"]):
        own, branches = attention_tensors(c), 1 if c["attention"]["kind"] in WHOLE_LAYERS else 2
        if branches == 2:
            own += [("ff.up.weight", [ff, d], 0.3), ("ff.up.bias", [ff], 0.1), ("ff.down.weight", [d, ff], 0.3), ("ff.down.bias", [d], 0.1)]
        own += [(f"norm{k}.{part}", [d], 0.1) for k in range(1, branches + 1) for part in ("weight", "bias")]
        all_of_them += [(f"layers.{i}.{name}", shape, scale) for name, shape, scale in own]
    return all_of_them + [("final_norm.weight", [d], 0.1), ("final_norm.bias", [d], 0.1),
                          ("head.weight", [c["head"]["size"], d], 0.5), ("head.bias", [c["head"]["size"]], 0.3)]


def write_model(path: pathlib.Path, c: dict):
    g, header, data = torch.Generator().manual_seed(1), {}, b""
    for name, shape, scale in tensors_of(c):
        mean = 1 if "norm" in name and name.endswith("weight") else 0
        blob = (mean + scale * torch.randn(*shape, generator=g)).bfloat16().view(torch.int16).numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(blob)]}
        data += blob
    text = json.dumps(header, separators=(",", ":")).encode()
    path.mkdir(parents=True, exist_ok=True)
    (path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (path / "config.json").write_text(json.dumps(c, indent=2) + "\n", encoding="utf-8")
    (path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")


def write_golden(path: pathlib.Path):
    c, w = read_model(path)
    g, width = torch.Generator().manual_seed(2), w["features.weight"].shape[1]
    blob = [b"LXGOLH1\0", struct.pack("<3i", len(LENGTHS), width, c["head"]["size"])]
    for n in LENGTHS:
        rows = torch.randn(n, width, generator=g)
        said = log_probabilities(rows.double(), w, c).float()
        blob += [struct.pack("<i", n), rows.numpy().tobytes(), said.numpy().tobytes()]
    (path / "hears.bin").write_bytes(b"".join(blob))


if __name__ == "__main__":
    for kind, attention in KINDS.items():
        folder = pathlib.Path(sys.argv[1]) / kind
        write_model(folder, CONFIG | {"attention": attention})
        write_golden(folder)
