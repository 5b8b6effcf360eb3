#!/usr/bin/env python3
"""Hours of mixed traffic against one server: tests/campaign/soak.py [--hours H | --minutes M] [--clock N] [--seed S]

Couplets, streams, pictures, edits, scores, states (put, get, fork, continue, delete), clients that leave in mid-stream,
bad requests, keys, reloads, scrapes. A hundred times on the way the traffic pauses. In the quiet, the script reads the
server's memory and descriptors and sends two fixed requests: their bytes must never change. After --warm-up minutes
memory and descriptors must be flat: the last tenth of the samples within --tolerance percent of the second tenth (each
the mean of its middle three fifths). Every answer is counted; the last line is the verdict, the exit status 0 when it
held.

With --clock N all clocks of the server are N times as fast (libfaketime), so that waits, expiries and decays come as
often as in N times the hours. The amount of traffic follows from the real hours.
"""

import argparse
import collections
import random
import statistics
import sys
import threading
import time

from common import Server, find_faketime, put_models, temporary
from settings import MODEL_DIR
from traffic import ADMIN, PROBES, TENANTS, Traffic, probe

PAUSES, LEAST_PERIOD, CROWD = 100, 0.5, 8


def flags(folder, clock):
    """Requests and states have as long as by a clock that is not fast."""
    keys = folder / "keys"
    keys.write_text("".join(f"{name} {key}\n" for name, key in TENANTS.items()))
    return ("--slots", "16", "--prefix-cache-mb", "8", "--api-key", ADMIN,
            "--api-key-file", keys, "--public", "/health,/livez,/readyz,/metrics", "--max-n", "64", "--timeout", f"{60 * clock:g}",
            "--state-ttl", f"{60 * clock:g}", "--state-store-timeout", f"{2 * clock:g}", "--ping", f"{15 * clock:g}")


def clocks(times):
    """The environment variables that make the server's clocks so many times as fast."""
    if times == 1:
        return {}
    faketime = find_faketime()
    if faketime is None:
        sys.exit("soak.py: --clock needs libfaketime (Debian package libfaketime)")
    return {"LD_PRELOAD": faketime, "FAKETIME": f"+0 x{times:g}"}


class Workers:
    """Threads that send traffic while `go` is set; the first of all reloads, too."""

    def __init__(self, server, folder, numbers, seed):
        self.go, self.end = threading.Event(), threading.Event()
        self.lock, self.busy = threading.Lock(), 0
        self.counts, self.faults = collections.Counter(), []
        self.threads = [threading.Thread(target=self.work, args=(
            Traffic(server, folder, random.Random(f"{seed}-{i}"), i),), daemon=True)
            for i in numbers]
        for thread in self.threads:
            thread.start()

    def work(self, traffic):
        while not self.end.is_set():
            if not self.go.wait(0.1):
                continue
            with self.lock:
                self.busy += 1
            try:
                what, fault = traffic.one()
            except Exception as error:  # a fault of the campaign is one of its findings
                what, fault = "exception", repr(error)
            with self.lock:
                self.busy -= 1
                self.counts[what] += 1
                if fault is not None:
                    self.faults.append(f"{what}: {fault}")

    def pause(self):
        self.go.clear()
        end = time.monotonic() + 300
        while self.busy and time.monotonic() < end:
            time.sleep(0.005)
        assert not self.busy, "a request did not end within 300 s"

    def stop(self):
        self.end.set()
        for thread in self.threads:
            thread.join(10)


def level(values):
    """The mean without the highest and the lowest fifth. A median would jump: memory goes in huge pages, each 2 % of it."""
    cut = len(values) // 5
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def judge_flat(name, values, tolerance):
    """(whether the values are flat, words): the second tenth against the last one."""
    tenth = max(1, len(values) // 10)
    first = level(values[tenth : 2 * tenth] or values)
    last = level(values[-tenth:])
    change = 100 * (last - first) / first
    return abs(change) <= tolerance, f"{name} {first:g} -> {last:g} ({change:+.2f} %)"


def sample(server, expected, faults):
    """Memory in MB and descriptors of the idle server; the probes' answers must stay constant."""
    server.wait_idle(300)
    for body, want in zip(PROBES, expected, strict=True):
        if (got := probe(server.port, body)) != want:
            faults.append(f"the probe's bytes changed: {body}: {got}, not {want}")
    end = time.monotonic() + 30
    seen = collections.Counter()
    while time.monotonic() < end and max(seen.values(), default=0) < 5:
        seen[server.open_files()] += 1  # connections that were closed a moment ago are gone by then
        time.sleep(0.01)
    return server.resident_bytes() / 1e6, seen.most_common(1)[0][0]


def crowd(server, folder, workers, options):
    """Far more clients than later, for a part of the warm-up, so that they touch all memory reserved for the largest
    steps. Otherwise it would be touched little by little, whenever the traffic is larger by chance than ever before.
    Else it would be little by little, whenever the traffic is larger by chance than ever before."""
    others = Workers(server, folder, range(options.workers, CROWD * options.workers), options.seed)
    workers.go.set()
    others.go.set()
    others.end.wait(60 * options.warm_up / 4)
    others.pause()
    others.stop()
    workers.counts.update(others.counts)
    workers.faults += others.faults


def soak(options):
    with temporary() as name:
        folder = put_models(name)
        mnist = MODEL_DIR.parent / "mnist"
        (folder / mnist.name).symlink_to(mnist)
        with Server(*flags(folder, options.clock), models=folder, env=clocks(options.clock)) as server:
            expected = [probe(server.port, body) for body in PROBES]
            workers = Workers(server, folder, range(options.workers), options.seed)
            crowd(server, folder, workers, options)
            warm = time.monotonic() + 60 * options.warm_up
            end = warm + options.seconds
            period = max(LEAST_PERIOD, options.seconds / PAUSES)
            samples = []
            while time.monotonic() < end or not samples:
                if time.monotonic() < warm:
                    samples.clear()
                workers.go.set()
                time.sleep(min(period, max(0.1, end - time.monotonic())))
                workers.pause()
                samples.append(sample(server, expected, workers.faults))
                if options.verbose:
                    print(f"{samples[-1][0]:.1f} MB, {samples[-1][1]} descriptors, "
                          f"{sum(workers.counts.values())} requests", flush=True)
            workers.stop()
            return samples, workers.counts, workers.faults


def verdict(samples, counts, faults, options):
    """(whether all held, the line that reports it)."""
    memory, resident = judge_flat("MB", [mb for mb, _ in samples], options.tolerance)
    descriptors, files = judge_flat("descriptors", [n for _, n in samples], options.tolerance)
    held = memory and descriptors and not faults and sum(counts.values()) > 0
    clock = f" ({options.seconds * options.clock / 3600:g} hours by the server's clock)" if options.clock != 1 else ""
    words = (f"{options.seconds / 60:g} minutes{clock}, {sum(counts.values())} requests, {len(samples)} samples: "
             f"{resident}, {files}, {len(samples) * len(PROBES)} probes, {len(faults)} faults")
    return held, f"soak: {'held' if held else 'NOT HELD'}: {words}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hours", type=float, default=10)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--clock", type=float, default=1, metavar="N", help="the server's is N times as fast")
    parser.add_argument("--warm-up", type=float, default=0, metavar="MINUTES", help="traffic before the "
                        "first sample; its answers are judged as all others")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=2, help="percent")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.seconds = 60 * (options.minutes if options.minutes is not None else 60 * options.hours)
    samples, counts, faults = soak(options)
    for what, count in sorted(counts.items()):
        print(f"  {what}: {count}")
    for fault in faults[:20]:
        print(f"  fault: {fault}")
    held, line = verdict(samples, counts, faults, options)
    print(line)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
