#!/usr/bin/env python3
"""Makes images.bin: log-probabilities of synthetic images under a model, in float64.

    python3 tests/golden/generate_images.py weights/mnist tests/golden/mnist
    python3 tests/golden/generate_images.py --tiny tests/golden/mixture
    for map in relu relu2 exp; do python3 tests/golden/generate_images.py tests/golden/$map tests/golden/$map; done

--tiny first writes a small random model with a mixture head, some of its components very narrow, into the folder.
images.bin, little-endian: "LXGOLI1\0", int32 images, values per image N, its first or all. Then for each image: N uint8
values and N float32 log-probabilities in nats.
"""

import json
import math
import pathlib
import struct
import sys

import torch

from float64 import head_rows, read_model

TINY = {
    "format": "linnet", "format_version": 1, "task": "image",
    "n_layers": 2, "n_heads": 2, "d_model": 32, "d_ff": 64,
    "norm": "pre", "norm_eps": 1e-5, "activation": "gelu",
    "attention": {"kind": "linear", "feature_map": "elu+1", "eps": 1e-6},
    "inputs": [{"name": "token", "size": 257}, {"name": "w", "size": 257}, {"name": "n", "size": 257},
               {"name": "row", "size": 9}, {"name": "column", "size": 7}, {"name": "channel", "size": 3}],
    "head": {"kind": "logistic_mixture", "components": 10, "levels": 256},
    "image": {"width": 7, "height": 9, "channels": 3},
}
NEIGHBOURS = {"w": (0, -1), "ww": (0, -2), "n": (-1, 0), "nw": (-1, -1), "ne": (-1, 1), "nn": (-2, 0)}


def write_tiny(path: pathlib.Path):
    g = torch.Generator().manual_seed(1)
    d, ff, tensors = TINY["d_model"], TINY["d_ff"], {}

    def add(name, *shape, scale, mean=0.0):
        tensors[name] = (mean + scale * torch.randn(*shape, generator=g)).bfloat16()

    for stream in TINY["inputs"]:
        add(f"embed.{stream['name']}.weight", stream["size"], d, scale=0.5)
    for i in range(TINY["n_layers"]):
        for norm in ("norm1", "norm2"):
            add(f"layers.{i}.{norm}.weight", d, scale=0.1, mean=1)
            add(f"layers.{i}.{norm}.bias", d, scale=0.1)
        for name, rows, columns in (("attn.qkv", 3 * d, d), ("attn.out", d, d), ("ff.up", ff, d), ("ff.down", d, ff)):
            add(f"layers.{i}.{name}.weight", rows, columns, scale=0.2)
            add(f"layers.{i}.{name}.bias", rows, scale=0.1)
    add("final_norm.weight", d, scale=0.1, mean=1)
    add("final_norm.bias", d, scale=0.1)
    add("head.weight", 30, d, scale=0.15)
    tensors["head.bias"] = torch.cat([torch.zeros(10), torch.linspace(-1.2, 1.2, 10), torch.linspace(-8, 0, 10)]).bfloat16()
    header, offset = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * 2
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    data = b"".join(t.view(torch.int16).numpy().tobytes() for t in tensors.values())
    path.mkdir(parents=True, exist_ok=True)
    (path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (path / "config.json").write_text(json.dumps(TINY, indent=2) + "\n", encoding="utf-8")


def images_of(width: int, height: int, channels: int) -> list[list[int]]:
    """Drawn by formula: blank, white, a gradient, a ring, bars, noise."""
    def draw(value):
        return [min(255, max(0, int(value(x, y, c)))) for y in range(height) for x in range(width) for c in range(channels)]

    def ring(x, y, c):
        r = math.hypot((x + 0.5) / width - 0.5, (y + 0.5) / height - 0.5)
        return 255 * max(0.0, 1 - abs(r - 0.27) * 12) + 3 * c

    noise = torch.randint(0, 256, (height, width, channels), generator=torch.Generator().manual_seed(2)).tolist()
    return [draw(lambda x, y, c: 0), draw(lambda x, y, c: 255), draw(lambda x, y, c: 255 * x / width + 7 * y - 9 * c), draw(ring),
            draw(lambda x, y, c: 253 if 3 * x // width == 1 and y > height // 5 else 0), draw(lambda x, y, c: noise[y][x][c])]


def input_rows(values: list[int], c: dict) -> list[list[int]]:
    """The input streams as model/tasks/image.h describes them, of a picture that no class was asked of."""
    size = c["image"]
    width, height, channels = size["width"], size["height"], size["channels"]
    rows = []
    for t in range(len(values)):
        pixel, channel = divmod(t, channels)
        y, x = divmod(pixel, width)
        known = {"token": values[t - 1] if t > 0 else 256, "row": y, "column": x, "channel": channel, "position": t,
                 "class": len(size.get("classes", []))}
        for name, (dy, dx) in NEIGHBOURS.items():
            inside = 0 <= y + dy and 0 <= x + dx < width
            known[name] = values[((y + dy) * width + x + dx) * channels + channel] if inside else 256
        rows.append([known[stream["name"]] for stream in c["inputs"]])
    return rows


def log_probability(p: torch.Tensor, value: int, head: dict) -> float:
    if head["kind"] == "categorical":
        return torch.log_softmax(p, 0)[value].item()
    logits, means, log_scales = p.view(3, -1)
    half = 1 / (head["levels"] - 1)
    x, scale = 2 * half * value - 1, torch.exp(log_scales.clamp(min=-7))
    upper = torch.ones_like(means) if value == head["levels"] - 1 else torch.sigmoid((x + half - means) / scale)
    lower = torch.zeros_like(means) if value == 0 else torch.sigmoid((x - half - means) / scale)
    # where both are near 1, the difference of the complements has more digits
    flipped = torch.sigmoid(-(x - half - means) / scale) - torch.sigmoid(-(x + half - means) / scale)
    inside = 0 < value < head["levels"] - 1
    mass = torch.where((x > means) & inside, flipped, upper - lower)
    return torch.logsumexp(torch.log_softmax(logits, 0) + torch.log(mass), 0).item()


def main(model: pathlib.Path, out: pathlib.Path):
    c, w = read_model(model)
    images = images_of(**{side: c["image"][side] for side in ("width", "height", "channels")})
    size = len(images[0])  # a test of all back ends takes its time
    images = [images[3][:1024]] if size > 2000 else images[3:] if size > 500 else images
    blob = [b"LXGOLI1\0", struct.pack("<2i", len(images), len(images[0]))]
    for values in images:
        heads = head_rows(input_rows(values, c), w, c)
        golden = [log_probability(p, v, c["head"]) for p, v in zip(heads, values)]
        blob += [bytes(values), struct.pack(f"<{len(golden)}f", *golden)]
    out.mkdir(parents=True, exist_ok=True)
    (out / "images.bin").write_bytes(b"".join(blob))


if __name__ == "__main__":
    if sys.argv[1] == "--tiny":
        write_tiny(pathlib.Path(sys.argv[2]))
        main(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[2]))
    else:
        main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
