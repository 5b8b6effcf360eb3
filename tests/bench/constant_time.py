#!/usr/bin/env python3
"""Is token 65,536 of a stream as quick as token 64? Linnet, and next to it softmax attention.

    python3 tests/bench/constant_time.py [--linnet build/linnet] [--threads 1]

Makes an image model of 256 x 256 pixels (65,536 positions, 8 layers, 8 heads of 32, d_ff 1024, random weights). Runs
`linnet bench --positions` on it and then, with
as many threads, the same network with softmax attention and a key/value cache in PyTorch. Prints
ms per token by position, the ratio to position 64 and the resident memory. Ends with status 1 when
Linnet's last position is more than --tolerance away from position 64. Needs numpy; without torch
the command says so and leaves out the second table.
"""

import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
POSITIONS = [1, 64, 256, 784, 4096, 16384, 65536]
REFERENCE = 64
SIDE, LEVELS, COMPONENTS = 256, 256, 10
LAYERS, HEADS, D_MODEL, D_FF = 8, 8, 256, 1024


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--linnet", type=Path, default=os.environ.get("LINNET", ROOT / "build" / "linnet"))
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--steps", type=int, default=400, help="measured at each position")
    p.add_argument("--torch-seconds", type=float, default=10.0, help="for each position, at the most")
    p.add_argument("--positions", type=lambda text: [int(x) for x in text.split(",")], default=POSITIONS)
    p.add_argument("--tolerance", type=float, default=0.05)
    p.add_argument("--only", choices=["linnet", "torch"])
    args = p.parse_args()
    if REFERENCE not in args.positions:
        p.error(f"--positions must hold {REFERENCE}, which the others are compared to")
    return args


# --- the model ---------------------------------------------------------------------------------


def config(layers=LAYERS, side=SIDE, channels=1):
    """Of a model of square images; the one measured here by default."""
    inputs = {"token": LEVELS + 1, "row": side, "column": side} | ({"channel": channels} if channels > 1 else {})
    return {
        "format": "linnet",
        "format_version": 1,
        "task": "image",
        "n_layers": layers,
        "n_heads": HEADS,
        "d_model": D_MODEL,
        "d_ff": D_FF,
        "norm": "pre",
        "norm_eps": 1e-5,
        "activation": "gelu",
        "attention": {"kind": "linear", "feature_map": "elu+1", "eps": 1e-6},
        "inputs": [{"name": name, "size": size} for name, size in inputs.items()],
        "head": {"kind": "logistic_mixture", "components": COMPONENTS, "levels": LEVELS},
        "image": {"width": side, "height": side, "channels": channels},
    }


def make_weights(conf=None):
    """{name: f32 array} by the names of docs/weights-format.md, for config() by default."""
    conf = conf or config()
    rng = np.random.default_rng(1)

    def normal(*shape, scale):
        return rng.standard_normal(shape, np.float32) * np.float32(scale)

    def linear(name, rows, columns):
        return {f"{name}.weight": normal(rows, columns, scale=columns**-0.5), f"{name}.bias": np.zeros(rows, np.float32)}

    def norm(name):
        return {f"{name}.weight": np.ones(D_MODEL, np.float32), f"{name}.bias": np.zeros(D_MODEL, np.float32)}

    weights = {f"embed.{x['name']}.weight": normal(x["size"], D_MODEL, scale=0.5) for x in conf["inputs"]}
    for i in range(conf["n_layers"]):
        layer = f"layers.{i}."
        weights |= norm(layer + "norm1") | norm(layer + "norm2")
        weights |= linear(layer + "attn.qkv", 3 * D_MODEL, D_MODEL) | linear(layer + "attn.out", D_MODEL, D_MODEL)
        weights |= linear(layer + "ff.up", D_FF, D_MODEL) | linear(layer + "ff.down", D_MODEL, D_FF)
    return weights | norm("final_norm") | linear("head", 3 * COMPONENTS, D_MODEL)


def draw(shapes):
    """Random weights of these shapes and spreads (None: ones)."""
    rng = np.random.default_rng(1)
    return {name: np.ones(shape, np.float32) if spread is None else rng.standard_normal(shape, np.float32) * np.float32(spread)
            for name, (shape, spread) in shapes.items()}


def write_model(folder, weights, conf=None):
    """A model folder; the tensors are bf16, as those of the shipped models. weights: those of conf."""
    header, blobs, offset = {}, [], 0
    for name, array in weights.items():
        blob = (array.view(np.uint32) >> 16).astype("<u2").tobytes()
        header[name] = {"dtype": "BF16", "shape": list(array.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(conf or config()))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


# --- the two measurements: [(position, ms/token, resident bytes)] -----------------------------------


def measure_linnet(args, folder):
    positions = ",".join(map(str, args.positions))
    command = [args.linnet, "bench", "--model", folder, "--threads", args.threads]
    command += ["--positions", positions, "--steps", args.steps, "--json"]
    out = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, check=True).stdout
    report = json.loads(out)
    print(f"linnet: {report['backend']}, bf16 weights, state of {report['state_bytes']:,} bytes at any position")
    return [(row["position"], row["ms_per_token"], row["resident_bytes"]) for row in report["rows"]]


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class SoftmaxDecoder:
    """The same network with softmax attention over all keys and values so far, kept in a cache."""

    def __init__(self, torch, weights, length):
        self.torch, self.f = torch, torch.nn.functional
        self.weights = {name: torch.from_numpy(array) for name, array in weights.items()}
        head = (1, HEADS, length, D_MODEL // HEADS)
        self.keys = [torch.empty(head) for _ in range(LAYERS)]
        self.values = [torch.empty(head) for _ in range(LAYERS)]
        self.filled = 0

    def fill(self, length):
        """As if so many tokens had passed."""
        for cache in self.keys + self.values:
            cache[:, :, self.filled : length].normal_()
        self.filled = length

    def linear(self, name, x):
        return self.f.linear(x, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def norm(self, name, x):
        return self.f.layer_norm(x, (D_MODEL,), self.weights[name + ".weight"], self.weights[name + ".bias"])

    def attend(self, i, x, position):
        q, k, v = self.linear(f"layers.{i}.attn.qkv", x).view(3, 1, HEADS, 1, -1)
        self.keys[i][:, :, position - 1] = k[:, :, 0]
        self.values[i][:, :, position - 1] = v[:, :, 0]
        y = self.f.scaled_dot_product_attention(q, self.keys[i][:, :, :position], self.values[i][:, :, :position])
        return self.linear(f"layers.{i}.attn.out", y.reshape(1, D_MODEL))

    def step(self, position):
        """One token at `position`, counted from 1."""
        ids = {"token": 7, "row": (position - 1) // SIDE % SIDE, "column": (position - 1) % SIDE}
        x = sum(self.weights[f"embed.{name}.weight"][i] for name, i in ids.items()).view(1, D_MODEL)
        for i in range(LAYERS):
            x = x + self.attend(i, self.norm(f"layers.{i}.norm1", x), position)
            up = self.f.gelu(self.linear(f"layers.{i}.ff.up", self.norm(f"layers.{i}.norm2", x)))
            x = x + self.linear(f"layers.{i}.ff.down", up)
        return self.linear("head", self.norm("final_norm", x))


def measure_torch(args, weights):
    try:
        import torch
    except ImportError:
        print("torch is not installed: softmax attention is not measured (pip install torch)")
        return None
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}: {args.threads} thread(s), f32, scaled_dot_product_attention over a cache")
    rows = []
    with torch.inference_mode():
        decoder = SoftmaxDecoder(torch, weights, max(args.positions))
        for position in args.positions:
            decoder.fill(position)
            times = time_steps(args, lambda at=position: decoder.step(at))
            rows.append((position, statistics.median(times) * 1e3, resident_bytes()))
    return rows


def time_steps(args, step):
    times, end = [], time.perf_counter() + args.torch_seconds
    for _ in range(3):
        step()
    while len(times) < args.steps and (len(times) < 5 or time.perf_counter() < end):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return times


# --- the report --------------------------------------------------------------------------------


def ratio(rows, position):
    ms = {at: ms for at, ms, _ in rows}
    return ms[position] / ms[REFERENCE]


def print_table(title, rows):
    print(f"\n{title}:\n\n| position | ms per token | to position 64 | resident MiB |\n| ---: | ---: | ---: | ---: |")
    for position, ms, resident in rows:
        print(f"| {position:,} | {ms:.4f} | {ratio(rows, position):.3f} | {resident / 2**20:.1f} |")
    print()


def main():
    args = parse_arguments()
    print(machine.describe(busy=args.threads) + "\n", flush=True)
    weights, flat = make_weights(), True
    if args.only != "torch":
        with tempfile.TemporaryDirectory(prefix="linnet-bench-") as folder:
            write_model(Path(folder) / "long", weights)
            rows = measure_linnet(args, Path(folder) / "long")
        print_table("Linnet", rows)
        off = ratio(rows, args.positions[-1]) - 1
        flat = abs(off) <= args.tolerance
        print(f"position {args.positions[-1]:,} is {off:+.1%} from position {REFERENCE}: "
              f"{'within' if flat else 'NOT within'} {args.tolerance:.0%}\n")
    if args.only != "linnet":
        rows = measure_torch(args, weights)
        if rows:
            print_table("PyTorch, softmax with a cache", rows)
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
