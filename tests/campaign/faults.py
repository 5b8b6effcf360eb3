#!/usr/bin/env python3
"""Faults by script: tests/campaign/faults.py [--seed S] [--turns N] [CASE...]

Runs the cases, prints the table of cases, and ends with "N held, N not, N not run"; the exit status is 0 when none was
not held. Without a case all of them run.
"""

import argparse
import sys
import time

from common import Row  # first: it makes the helpers of tests/http known
import store_faults
import system_faults
import walk

CASES = {
    "kill": store_faults.kill_minus_nine,
    "file-killed": store_faults.file_killed,
    "conversations-killed": store_faults.conversations_killed,
    "file-full": store_faults.file_full,
    "file-read-only": store_faults.file_read_only,
    "redis-slow": store_faults.redis_slow,
    "redis-full": store_faults.redis_full,
    "redis-restarted": store_faults.redis_restarted,
    "network-stalls": store_faults.network_stalls,
    "network-cut": store_faults.network_cut,
    "clock": system_faults.clock_jumps,
    "disk": system_faults.disk_full,
    "memory-limit": system_faults.memory_limit,
    "out-of-memory": walk.out_of_memory,
}


def run_case(name, options):
    try:
        return CASES[name](options)
    except (AssertionError, OSError, RuntimeError) as error:
        return Row(name, False, repr(error)[:500])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--turns", type=int, default=10_000, help="acknowledged turns; a tenth of it where "
                        "Redis or the network is at fault")
    parser.add_argument("--clients", type=int, default=8, help="that say the turns")
    parser.add_argument("--between", type=float, default=3.0, help="seconds between two faults, at most")
    parser.add_argument("--states", type=int, default=200, help="requests that keep 8 states each")
    parser.add_argument("--kinds", type=int, default=1000, help="kinds of requests out of memory")
    parser.add_argument("--allocations", type=int, default=walk.MOST, help="of each, at most")
    parser.add_argument("--modes", nargs="+", default=list(walk.MODES), choices=list(walk.MODES))
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    options = parser.parse_args()
    for name in options.cases:
        if name not in CASES:
            parser.error(f"unknown case {name}; there are {', '.join(CASES)}")
    rows = []
    for name in options.cases or CASES:
        start = time.monotonic()
        rows.append(run_case(name, options))
        print(f"{name}: {rows[-1].line()} {time.monotonic() - start:.0f} s", flush=True)
    print("\nfaults:\n\n| case | what was tried | verdict | figures |\n| --- | --- | --- | --- |")
    print("\n".join(f"| {name} {row.line()}" for name, row in zip(options.cases or CASES, rows, strict=True)))
    failed = sum(not row.held and not row.skipped for row in rows)
    missed = sum(row.skipped for row in rows)
    print(f"\n{len(rows) - failed - missed} held, {failed} not, {missed} not run")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
