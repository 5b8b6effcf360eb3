#!/usr/bin/env python3
"""Checks that clients that disconnect leak nothing: many streams run to their end while many others are reset.

    python3 tests/bench/aborts.py [--clients 1000] [--aborts 130] [--seconds 180] [--linnet build/linnet]

`--clients` clients stream completions without a pause, each over its own kept connection. Meanwhile `--aborts` streams
per second begin and are reset after their first bytes. Some older connections stay idle. Prints descriptors and memory
of the server over time. Ends with status 1 if a client that stayed lost a part of its answers, or if descriptors do not
return to their number. Growth of memory by more than 2 % in the last two thirds of the time is a failure too.
"""

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IDLE, SAMPLE_S, FLAT = 8, 5, 1.02
AT_ONCE = 200  # resets at once; they bound the rate on a slow machine


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--clients", type=int, default=1000)
    p.add_argument("--aborts", type=float, default=130, help="a second")
    p.add_argument("--seconds", type=float, default=180)
    p.add_argument("--slots", type=int, default=64)
    p.add_argument("--linnet", type=Path, default=ROOT / "build" / "linnet")
    return p.parse_args()


class Load:
    """The clients' counts so far."""

    def __init__(self, port, seconds):
        self.port, self.end = port, time.monotonic() + seconds
        self.served = self.aborted = 0
        self.failures = []

    def goes_on(self):
        return time.monotonic() < self.end

    async def stay(self, number):
        import client

        async with client.Connection(self.port) as connection:
            while self.goes_on():
                try:
                    events = [e async for e in connection.events(prompt=PROMPT, seed=number)]
                    text, reasons = client.join_stream(events)
                    assert reasons == {0: "stop"} and len(text[0]) == len(PROMPT), reasons
                except (AssertionError, OSError, EOFError, TimeoutError) as e:
                    self.failures.append(repr(e))
                    return
                self.served += 1

    async def abort_one(self):
        import client

        connection = await client.Connection(self.port).__aenter__()
        body = {"model": client.MODEL, "prompt": PROMPT, "n": 16, "stream": True}
        await connection.send("POST", "/v1/completions", body)
        await asyncio.wait_for(connection.read_head(), client.PATIENCE)
        connection.abort()
        self.aborted += 1

    async def abort(self, rate):
        start, begun, tasks = time.monotonic(), 0, set()
        while self.goes_on():
            while begun < (time.monotonic() - start) * rate and len(tasks) < AT_ONCE:
                begun += 1
                task = asyncio.create_task(self.abort_one())
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await asyncio.sleep(0.01)
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, BaseException):
                self.failures.append(f"abort: {result!r}")


def show(server, load, start):
    files, mib = server.open_files(), server.resident_bytes() / 2**20
    print(f"{time.monotonic() - start:6.0f} s  {files:6d} descriptors  {mib:8.1f} MiB  {load.served:7d} served  "
          f"{load.aborted:7d} aborted  {len(load.failures):3d} failed", flush=True)
    return mib


async def run(server, args):
    load, start, memory = Load(server.port, args.seconds), time.monotonic(), []

    async def sample():
        while load.goes_on():
            memory.append(show(server, load, start))
            await asyncio.sleep(SAMPLE_S)

    await asyncio.gather(sample(), load.abort(args.aborts), *(load.stay(i) for i in range(args.clients)))
    return load, start, memory


def main():
    args = parse_arguments()
    os.environ["LINNET"] = str(args.linnet.resolve())
    sys.path.insert(0, str(ROOT / "tests" / "http"))
    global PROMPT
    import client
    import lines
    from server import Server, wait_until

    PROMPT = lines.of_length(32)
    flags = ["--slots", args.slots, "--queue", 4 * args.clients + 1000, "--connection-timeout", 3600,
             "--queue-timeout", 300, "--first-token-timeout", 300, "--timeout", 600]
    with Server(*flags) as server:
        idle = [client.connect(server.port) for _ in range(IDLE)]
        for sock in idle:
            sock.sendall(client.encode_request("GET", "/livez", port=server.port))
            assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        before = server.open_files()
        print(f"before: {before} descriptors, {server.resident_bytes() / 2**20:.1f} MiB", flush=True)
        load, start, memory = asyncio.run(run(server, args))
        server.wait_idle()
        back = wait_until(lambda: server.open_files() <= before, 60, "descriptors as before")
        print(f"descriptors as before {back:.1f} s after the last client")
        show(server, load, start)
    third = max(memory[: len(memory) // 3 + 1])
    grown = max(memory[len(memory) // 3 :]) / third
    print(f"memory: {(grown - 1) * 100:+.1f} % from a third of the time on; failures: {load.failures[:3]}")
    return 1 if load.failures or grown > FLAT else 0


if __name__ == "__main__":
    sys.exit(main())
