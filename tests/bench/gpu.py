#!/usr/bin/env python3
"""Linnet and other programs on a GPU: milliseconds per step, images per second, share of the memory's bound, prompts.

    python3 tests/bench/gpu.py [--build build-gpu] [--device cuda] [--no-peers] [--out FILE.json]

Two models: weights/mnist, and one of 16 layers over 32 x 32 x 3 values with random weights, which this program writes
(the shape of the paper's CIFAR-10 model). For each number of streams one step is the median of `linnet bench`: the
host's clock over whole steps, sampling and copies included, after a warm-up. As many steps are under way as in the
server. The bound is the time to read and write every stream's state once at the bandwidth that gpu_copy measures first,
by events on the device. The peers of gpu_torch.py are the paper's library where it is installed, and its equations in
plain PyTorch, with and without PyTorch's graphs. They are timed by events too, without sampling and feeding back, on
this GPU.

tests/gpu.sh prints this output at its end. Exit status 1: a target is missed. Targets are one image alone in 100 ms, 70
% of the bound with the most streams, and for both ten times the speed of the paper's library. Where the library is not
installed, its
equations step by step count instead.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import constant_time
import machine
from machine import ROOT, number

CIFAR = {"layers": 16, "side": 32, "channels": 3}
ALONE_MS, OF_BOUND, TIMES = 100.0, 0.70, 10.0


def parse_arguments():
    def numbers(text):
        return [int(x) for x in text.split(",")]

    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=lambda text: Path(text).resolve(), default=ROOT / "build-gpu")
    p.add_argument("--device", default="cuda")
    p.add_argument("--batches", type=numbers, default=[1, 16, 256, 1024, 10000])
    p.add_argument("--steps", type=int, default=64)
    p.add_argument("--seconds", type=float, default=0.3, help="for each figure of a peer")
    p.add_argument("--gb-per-s", type=float, help="the memory's bandwidth, not to be measured")
    p.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--energy-seconds", type=float, default=2.0, help="of steps, for each figure of energy")
    p.add_argument("--out", type=Path, help="where all figures go as JSON")
    return p.parse_args()


def output_of(*command):
    return subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True).stdout


def bench(args, model, *options):
    command = [args.build / "linnet", "bench", "--device", args.device, "--model", model, "--json", *options]
    return json.loads(output_of(*command))


def tokens_of_image(model):
    image = json.loads((model / "config.json").read_text())["image"]
    return image["width"] * image["height"] * image["channels"]


def layers_of(model):
    return json.loads((model / "config.json").read_text())["n_layers"]


# --- peers ----------------------------------------------------------------------------------------


def measure_peers(args, layers):
    """{batch: {name: ms}}, and a description; without PyTorch nothing."""
    command = [sys.executable, ROOT / "tests" / "bench" / "gpu_torch.py", "--layers", layers]
    command += ["--batches", ",".join(map(str, args.batches)), "--seconds", args.seconds]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return {}, "no peers: " + (done.stderr.strip().splitlines() or ["?"])[-1]
    about, *lines = map(json.loads, done.stdout.splitlines())
    ms = {batch: {} for batch in args.batches}
    for line in lines:
        name = f"{line['what']} {line['dtype']}{' graph' if line['graph'] else ''}"
        ms[line["batch"]][name] = line["ms"]
    return ms, f"PyTorch {about['torch']}, {about['why']}"


def of_paper(ms):
    """The step of the paper's library, or where it is missing of its equations step by step."""
    return ms.get("library f32", ms.get("equations f32"))


# --- energy ----------------------------------------------------------------------------------------


def energy_mj():
    """The GPU's counter of energy in millijoules, by NVML; None where it is not to be had."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(0))
    except Exception as e:  # the package, the library or the counter is missing: said by the caller
        return print(f"no energy by NVML: {e}")


def joules_of_pictures(args, model, rows):
    """Joules per picture: the further energy of a long run over its further pictures."""
    tokens, result = tokens_of_image(model), []
    for row in rows:
        used, steps = [], [64, 64 + int(args.energy_seconds * 1e3 / row["ms"])]
        for n in steps:
            before = energy_mj()
            if before is None:
                return result
            bench(args, model, "--batch", row["streams"], "--steps", n)
            used.append((energy_mj() - before) / 1e3)
        pictures = (steps[1] - steps[0]) * 1.2 * row["streams"] / tokens  # a fifth more steps go before as a warm-up
        result.append({"streams": row["streams"], "joules": (used[1] - used[0]) / pictures})
        print(f"{row['streams']:8,} streams: {result[-1]['joules']:.3f} J a picture", flush=True)
    return result


# --- one model -------------------------------------------------------------------------------------


def measure_model(args, name, model, bandwidth):
    result = bench(args, model, "--batch", ",".join(map(str, args.batches)), "--steps", args.steps)
    peers, about = measure_peers(args, layers_of(model)) if args.peers else ({}, "peers left out")
    tokens, rows = tokens_of_image(model), []
    print(f"\n{name}: {result['parameters']:,} parameters, {result['state_bytes']:,} bytes of state, {result['backend']}")
    print(about)
    print(f"{'streams':>8} {'ms/step':>9} {'images/s':>10} {'of bound':>9}   peers, ms/step (their times of Linnet's)")
    for row in result["rows"]:
        n, ms = row["batch"], row["ms_per_step"]
        share = 2 * result["state_bytes"] * n / bandwidth * 1e3 / ms
        theirs = peers.get(n, {})
        beside = ", ".join(f"{what} {number(x)} ({number(x / ms)}x)" for what, x in theirs.items())
        print(f"{n:8,} {ms:9.3f} {n / ms * 1e3 / tokens:10.1f} {share:9.1%}   {beside}", flush=True)
        rows.append({"streams": n, "ms": ms, "of_bound": share, "image_ms": ms * tokens, "peers": theirs})
    prompts = bench(args, model, "--prefill", f"{tokens // 2},{tokens - 1}", "--steps", 5)["rows"]
    for row in prompts:
        print(f"prompt of {row['prompt']:,} tokens: {row['ms_per_prompt']:.3f} ms, {row['tokens_per_second']:,.0f} tokens/s")
    return {"model": name, "rows": rows, "prompts": prompts}


def targets(rows):
    """(what, value, target, met) of the shipped model."""
    alone, most = rows[0], rows[-1]
    yield "one image alone, ms", alone["image_ms"], ALONE_MS, alone["image_ms"] <= ALONE_MS
    yield f"{most['streams']:,} streams, of the bound", most["of_bound"], OF_BOUND, most["of_bound"] >= OF_BOUND
    for row in (alone, most):
        if (theirs := of_paper(row["peers"])) is not None:
            times = theirs / row["ms"]
            yield f"{row['streams']:,} streams, times the paper's", times, TIMES, times >= TIMES


def main():
    args = parse_arguments()
    print(machine.describe(busy=1))
    bandwidth = (args.gb_per_s or json.loads(output_of(args.build / "gpu_copy"))["gb_per_s"]) * 1e9
    print(f"copies of device memory: {bandwidth / 1e9:,.0f} GB/s read and written", flush=True)
    with tempfile.TemporaryDirectory(prefix="linnet-gpu-") as folder:
        cifar, conf = Path(folder) / "cifar", constant_time.config(**CIFAR)
        constant_time.write_model(cifar, constant_time.make_weights(conf), conf)
        results = [measure_model(args, "mnist", ROOT / "weights" / "mnist", bandwidth)]
        results.append(measure_model(args, "cifar-shaped, random weights", cifar, bandwidth))
    print()
    joules = joules_of_pictures(args, ROOT / "weights" / "mnist", results[0]["rows"][:: len(results[0]["rows"]) // 2])
    missed = 0
    for what, value, target, met in targets(results[0]["rows"]):
        print(f"{what + ':':34} {number(value):>8}, target {target:g}: {'met' if met else 'MISSED'}")
        missed += not met
    if args.out:
        args.out.write_text(json.dumps({"gb_per_s": bandwidth / 1e9, "models": results, "energy": joules}, indent=1))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
