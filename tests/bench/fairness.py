"""The time of a small request alone and next to large ones, in steps of the engine and in milliseconds:

tests/bench/fairness.py [--large 10] [--small 100] [--slots 64] [--server build/linnet]

The small one asks for four tokens; a large one for 4,096 lines of 32, which never end before the small ones.
"""

import argparse
import contextlib
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http"))


def measure(complete_ok, port, n):
    """(steps waited, steps in all, milliseconds) of each of n requests, one after another."""
    rows = []
    for seed in range(n):
        begin = time.monotonic()
        timings = complete_ok(port, prompt="海上明月", seed=seed)["timings"]
        rows.append((timings["queue_steps"], timings["total_steps"], (time.monotonic() - begin) * 1e3))
    return rows


def quantile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def show(what, rows):
    for name, values in zip(("steps waited", "steps in all", "ms"), zip(*rows, strict=True), strict=True):
        print(f"{what:22} {name:14} p50 {quantile(values, 0.5):8.1f}   p99 {quantile(values, 0.99):8.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--large", type=int, default=10)
    parser.add_argument("--small", type=int, default=100)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--server", default="build/linnet")
    options = parser.parse_args()
    os.environ["LINNET"] = options.server
    import client
    import holding
    from server import Server

    with Server("--slots", str(options.slots), "--timeout", "3600", *holding.FLAGS) as server:
        show("alone", measure(client.complete_ok, server.port, options.small))
        with contextlib.ExitStack() as stack:
            for _ in range(options.large):
                sock = holding.send(server.port, holding.ENDLESS, stream=False)
                stack.callback(client.reset, sock)
                holding.wait_taken(server)
            show(f"beside {options.large} large ones", measure(client.complete_ok, server.port, options.small))


if __name__ == "__main__":
    main()
