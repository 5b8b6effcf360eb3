"""The peer of tests/gpu.sh on one GPU: the recurrent step of library_torch.py (fast-transformers where it is installed,
and its equations in plain PyTorch). Each step is also replayed as one of PyTorch's CUDA graphs.

    gpu_torch.py [--batches 1,16,256] [--seconds S] [--layers 8]

One JSON line each: {"what", "dtype", "graph", "batch", "ms"}, the median step by CUDA events after a
warm-up; {"why"} where something is not there. Steps do not depend on one another's results, which
favours PyTorch: its own sampling and feeding back are not counted.
"""

import argparse
import json
import statistics
import sys
import time

import torch

import library_torch as peers


def captured(step):
    """The step as a graph, warmed up on a stream of its own as PyTorch asks for."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def median_ms(step, seconds):
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    times, end = [], time.monotonic() + seconds
    while len(times) < 5 or time.monotonic() < end:
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record()
        step()
        events[1].record()
        events[1].synchronize()
        times.append(events[0].elapsed_time(events[1]))
    return statistics.median(times)


def measure(net, what, dtype, batch, seconds, graphs):
    for graph in graphs:
        step = net.stepper(batch)
        try:
            ms = median_ms(captured(step) if graph else step, seconds)
        except RuntimeError as error:
            if not graph:
                raise
            print(f"{what}, {batch}: not as a graph: {error}", file=sys.stderr)
            continue
        print(json.dumps({"what": what, "dtype": dtype, "graph": graph, "batch": batch, "ms": ms}), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--batches", type=lambda text: [int(x) for x in text.split(",")], default=[1, 16, 256, 1024, 10000])
    p.add_argument("--seconds", type=float, default=1.0, help="for each figure")
    p.add_argument("--layers", type=int, default=peers.LAYERS)
    args = p.parse_args()
    peers.LAYERS = args.layers
    torch.set_default_device("cuda")
    print(json.dumps({"torch": torch.__version__, "why": peers.WHY}), flush=True)
    nets = [(peers.Equations(dtype), "equations", name) for dtype, name in
            ((torch.float32, "f32"), (torch.bfloat16, "bf16"))]
    with torch.inference_mode():
        for batch in args.batches:
            for net, what, dtype in nets:
                measure(net, what, dtype, batch, args.seconds, (False, True))
            if peers.RecurrentEncoderBuilder is not None:
                measure(peers.Library(), "library", "f32", batch, args.seconds, (False, True))


if __name__ == "__main__":
    main()
