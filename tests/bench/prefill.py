#!/usr/bin/env python3
"""Do long prompts hold up running streams? The cost of prompts for streams.

    python3 tests/bench/prefill.py [--build build] [--threads 1]

Makes the model of constant_time.py (256 x 256 pixels, random weights) and streams images to 1 and 16 clients by pixels,
one event per token. First they are alone; then another client sends different prompts of 9,985 tokens, images with 39
given rows. Prints the gaps between the events of a stream in both cases, and prompt tokens per
second with the streams and without. The rounds take turns. Ends with status 1 if the 99th percentile of the gaps
with prompts exceeds three times the median gap without prompts.
"""

import argparse
import base64
import http.client
import json
import statistics
import struct
import sys
import tempfile
import threading
import time
import zlib
from pathlib import Path

import constant_time
import http_load
import machine
from machine import ROOT, number

KEPT_ROWS, LIMIT = 39, 3.0
PROMPT = KEPT_ROWS * constant_time.SIDE


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=Path, default=ROOT / "build")
    p.add_argument("--threads", type=int, default=1, help="with all cores those who read and write get their turn late")
    p.add_argument("--clients", type=lambda text: [int(x) for x in text.split(",")], default=[1, 16])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=4.0, help="measured for each figure and round")
    return p.parse_args()


def png(rows):
    """A grey picture of these rows of bytes."""

    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows), 1)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", data) + part(b"IEND", b"")


class Prompts:
    """Sends images without a pause until it is left, and asks for one further pixel each."""

    def __init__(self, port):
        self.port, self.seconds, self.over, self.failed = port, [], threading.Event(), None
        self.thread = threading.Thread(target=self.run)

    def body(self, index):
        side = constant_time.SIDE
        image = png([[(x * 7 + y * 3 + index * 31) % 256 for x in range(side)] for y in range(KEPT_ROWS)])
        url = "data:image/png;base64," + base64.b64encode(image).decode()
        # the state that a client gets that stops early; its route would keep them all
        fields = {"model": "long", "images": [{"image_url": url}], "max_tokens": 1, "return_state": True}
        return json.dumps(fields).encode()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        bodies, headers = [self.body(i) for i in range(40)], {"Content-Type": "application/json"}
        for i in range(10**6):
            if self.over.is_set():
                return
            start = time.monotonic()
            connection.request("POST", "/v1/images/edits", bodies[i % len(bodies)], headers)
            reply = connection.getresponse()
            text = reply.read()
            if reply.status != 200:
                self.failed = text.decode()
                return
            self.seconds.append(time.monotonic() - start)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        if self.failed:
            sys.exit(self.failed)

    def tokens_per_second(self):
        return PROMPT / statistics.median(self.seconds)


def serve(args, folder, slots):
    command = [args.build / "linnet", "serve", "--port", 0, "--model", folder, "--threads", args.threads]
    command += ["--slots", slots, "--timeout", 600, "--drain-timeout", 0, "--prefix-cache-mb", 0]
    return http_load.Server(command, tempfile.NamedTemporaryFile("w", prefix="linnet-prefill-"))


def stream(args, port, clients):
    body = {"model": "long", "stream": True, "stream_unit": "pixel"}
    return http_load.load(args, port, "/v1/images/generations", body, clients, args.seconds, ramp=0.2)["gap_ms"]


def alone(port, args):
    with Prompts(port) as prompts:
        time.sleep(args.seconds)
    return prompts.tokens_per_second()


def main():
    args = parse_arguments()
    print(machine.describe(busy=args.threads), flush=True)
    rows, worst, lone = [], 0, []
    with tempfile.TemporaryDirectory(prefix="linnet-bench-") as folder:
        folder = Path(folder) / "long"
        constant_time.write_model(folder, constant_time.make_weights())
        for clients in args.clients:
            idle, beside, rates = [], [], []
            with serve(args, folder, clients + 1) as server:
                for _ in range(args.rounds):
                    idle.append(stream(args, server.port, clients))
                    with Prompts(server.port) as prompts:
                        beside.append(stream(args, server.port, clients))
                    rates.append(prompts.tokens_per_second())
                    lone.append(alone(server.port, args))
            middle = {
                key: [statistics.median(r[q] for r in results) for q in ("p50", "p99")]
                for key, results in (("idle", idle), ("beside", beside))
            }
            ratio = middle["beside"][1] / middle["idle"][0]
            worst = max(worst, ratio)
            cells = [" / ".join(map(number, middle[key])) for key in ("idle", "beside")]
            rows.append([clients, *cells, f"{ratio:.2f}x", number(statistics.median(rates))])
    head = ["streams", "alone, ms p50 / p99", "with prompts, ms p50 / p99", "that p99 to p50 alone", "prompt tokens/s"]
    print(f"\nGaps between the tokens of a stream, alone and with prompts of {PROMPT:,} tokens:\n")
    print(machine.table(head, rows))
    print(f"Prompts alone, over HTTP: {number(statistics.median(lone))} tokens/s.")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
