#!/usr/bin/env python3
"""The start of a server with a large model: until it is ready, the first token, and the memory.

    python3 tests/bench/start.py [--mb 8000] [--families experts,deltanet] [--rounds 5] [--linnet build/linnet]

The folders have random weights in bf16: LFM2-MoE with the layers of LFM2-8B-A1B, and a dense Gated DeltaNet. They lie in
--place, which needs the room for one, and are deleted afterwards. The files are in the page cache, since the folder was
written just before, or is read once. Each round starts a server, asks for one token and then for --tokens more. Times are
medians. The processor time counts all threads until the server is ready. Next to it stands the kernel's share, which copies
files and clears new pages. On a virtual machine a new page also waits for the host, if that took back the guest's free memory.
Memory is the process's own (RssAnon), next to what `linnet inspect` says of weights and states.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine
from machine import ROOT, number

sys.path.append(str(ROOT / "tests" / "http"))
START_TIMEOUT = 600.0


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--linnet", type=Path, default=ROOT / "build" / "linnet")
    p.add_argument("--mb", type=int, default=8000)
    p.add_argument("--families", type=lambda text: text.split(","), default=["experts"])
    p.add_argument("--precision", default="auto")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--tokens", type=int, default=32)
    p.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()))
    return p.parse_args()


def read_once(folder):
    """So that the page cache has the files, as far as the memory goes."""
    for file in sorted(folder.glob("*.safetensors")):
        subprocess.run(["cat", file], stdout=subprocess.DEVNULL, check=True)


def start_once(args, folder):
    """Seconds until ready, processor seconds until then and the kernel's of these, seconds of the first token, seconds per
    further token, bytes."""
    import server as servers
    from client import complete_ok

    servers.START_TIMEOUT = START_TIMEOUT
    start = time.perf_counter()
    with servers.Server("--slots", 1, "--prefix-cache-mb", 0, "--precision", args.precision, "--draft", 0, model_dir=folder) as server:
        ready, (own, kernel) = time.perf_counter() - start, server.cpu_times()

        def seconds(tokens):
            begun = time.perf_counter()
            complete_ok(server.port, model=folder.name, prompt="Once", max_tokens=tokens, temperature=0, ignore_eos=True)
            return time.perf_counter() - begun

        first = seconds(1)
        return ready, own + kernel, kernel, first, (seconds(1 + args.tokens) - seconds(1)) / args.tokens, server.memory("RssAnon")


def measure(args, family):
    """A row of the table."""
    import large_folder

    config, tensors = large_folder.of_megabytes(args.mb, family, large=True)
    folder = Path(tempfile.mkdtemp(prefix="start-", dir=args.place)) / family
    try:
        large_folder.write(folder, config, tensors)
        said = json.loads(subprocess.run([args.linnet, "inspect", folder, "--json"], stdout=subprocess.PIPE, check=True).stdout)
        read_once(folder)
        rounds = [start_once(args, folder) for _ in range(args.rounds)]
    finally:
        shutil.rmtree(folder.parent)
    ready, worked, kernel, first, token, memory = map(statistics.median, zip(*rounds))
    foretold = said["weight_bytes"][args.precision] + (0 if said["state_page_bytes"] else said["state_bytes"])
    return [family, f"{large_folder.bytes_of(tensors) / 1e9:.2f}", number(ready), number(min(r[0] for r in rounds)), number(worked),
            number(kernel), number(1000 * first), number(1000 * token), f"{memory >> 20:,}", f"{foretold >> 20:,}",
            f"{memory / foretold - 1:+.1%}"]


def main():
    args = parse_arguments()
    os.environ["LINNET"] = str(args.linnet.resolve())
    print(machine.describe(2))
    rows = [measure(args, family) for family in args.families]
    print("\nthe start of a large model:\n")
    print(machine.table(["family", "GB", "s until ready", "the best", "s of processor time", "the kernel's", "ms to the first token",
                         "ms per token", "MiB of memory", "MiB foretold", "difference"], rows))


if __name__ == "__main__":
    main()
