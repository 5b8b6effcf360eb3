#!/usr/bin/env python3
"""Compares speed and bytes of this tree with another commit.

    python3 tests/bench/against.py COMMIT [--build build] [--runs 9]

Builds COMMIT in a scratch folder, with the release preset. Then `linnet generate` with a fixed seed must give equal
bytes for 200 couplets and 64 pictures, with both models, every precision, and one and two threads. After that, `linnet
bench` of both builds runs in turn, in one process per figure, and must show no step time that is more than 2 % longer.
A ratio is the median over all runs of this build's time divided by the other build's time in the neighbouring run. The
builds take turns in going first. On a machine that does other work, `--judge cpu` compares the processor time of
the processes instead. `--judge instructions` compares valgrind's counts per step, which are equal at every run, for
instruction sets that valgrind knows (`--isas avx2`). Ends with status 1 when bytes differ or a ratio is worse.
"""

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATE = {
    "couplet": ["--prompt", "海上明月", "--scores", "-n", "200"],
    "mnist": ["-n", "64", "--png", "-"],
}


def words(text):
    return text.split(",")


def numbers(text):
    return [int(x) for x in text.split(",")]


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("commit", help="to compare with")
    p.add_argument("--build", type=Path, default=ROOT / "build", help="of this tree")
    p.add_argument("--other", type=Path, help="a build of COMMIT that exists already")
    p.add_argument("--runs", type=int, default=9, help="of each figure and build; 0: only bytes")
    p.add_argument("--steps", type=int, default=50, help="measured in a run")
    p.add_argument("--models", type=words, default=list(GENERATE))
    p.add_argument("--precisions", type=words, default=["f32", "auto", "int8"])
    p.add_argument("--isas", type=words, default=["auto"], help="bytes and times of each")
    p.add_argument("--threads", type=numbers, default=[1, 2])
    p.add_argument("--batches", type=numbers, default=[1, 8, 64, 256])
    p.add_argument("--tolerance", type=float, default=2.0, help="per cent that a time may be longer")
    p.add_argument("--judge", choices=["wall", "cpu", "instructions"], default="wall", help="what decides")
    return p.parse_args()


def quiet(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stdout.decode(errors='replace')}")


def build(commit, folder):
    """The program of a commit, built under `folder`."""
    archive = folder / "tree.tar"
    quiet(["git", "-C", str(ROOT), "archive", "-o", str(archive), commit])
    quiet(["tar", "-xf", str(archive), "-C", str(folder)])
    quiet(["cmake", "--preset", "release"], cwd=folder)
    quiet(["cmake", "--build", "--preset", "release", "--parallel", str(os.cpu_count()), "--target", "linnet"], cwd=folder)
    return folder / "build"


def options(model, precision, isa, threads):
    return ["-m", str(ROOT / "weights" / model), "--precision", precision, "--isa", isa, "-t", str(threads)]


def generate(folder, model, *rest):
    """The program's output, or None if it lacks the instruction set or precision."""
    command = [folder / "linnet", "generate", "--device", "cpu", "-s", "20", *options(model, *rest), *GENERATE[model]]
    done = subprocess.run(command, capture_output=True)
    return done.stdout if done.returncode == 0 else None


def bench(folder, batch, steps, *rest):
    """Milliseconds per step, and the processor seconds of the whole process."""
    command = [folder / "linnet", "bench", "--device", "cpu", "--json", "-b", str(batch), "--steps", str(steps)]
    read, write = os.pipe()
    with subprocess.Popen([*command, *options(*rest)], stdout=write) as process:
        os.close(write)
        with os.fdopen(read) as out:
            text = out.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"linnet bench failed: {command}")
    return json.loads(text)["rows"][0]["ms_per_step"], usage.ru_utime + usage.ru_stime


def count(folder, batch, steps, model, precision, isa, threads):
    """The instructions of a process of so many steps."""
    command = [folder / "linnet", "bench", "--device", "cpu", "-b", str(batch), "--steps", str(steps), *options(model, precision, isa, threads)]
    with tempfile.TemporaryDirectory(prefix="against-") as scratch:
        done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={scratch}/out", *command],
                              capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        sys.exit(f"valgrind failed:\n{done.stderr}")
    return int(found[1])


def compare_instructions(here, other, found, arguments):
    """True when no step has more instructions than tolerated."""
    within = True
    print(f"\n{'model precision isa threads batch':<38} {'before':>12} {'now':>12} {'ratio':>7}  instructions a step")
    for figure in found:
        for batch in arguments.batches:
            before, now = ((count(folder, batch, 2 * arguments.steps, *figure) - count(folder, batch, arguments.steps, *figure))
                           / arguments.steps for folder in (other, here))
            worse = now > before * (1 + arguments.tolerance / 100)
            within = within and not worse
            print(f"{' '.join(map(str, (*figure, batch))):<38} {before:>12.0f} {now:>12.0f} {now / before:>7.4f}"
                  f"{'  WORSE' if worse else ''}", flush=True)
    return within


def pair(here, other, here_first, *figure):
    """This build's times and the other's, right after each other."""
    if here_first:
        mine = bench(here, *figure)
        return mine, bench(other, *figure)
    theirs = bench(other, *figure)
    return bench(here, *figure), theirs


def compare_bytes(here, other, arguments):
    """True when all bytes are equal; also the combinations that exist on this machine."""
    equal, found = True, []
    for figure in itertools.product(arguments.models, arguments.precisions, arguments.isas, arguments.threads):
        mine, theirs = generate(here, *figure), generate(other, *figure)
        if mine is None and theirs is None:
            print(f"bytes  {' '.join(map(str, figure)):<32} not on this machine", flush=True)
            continue
        same = mine == theirs
        equal = equal and same
        found.append(figure)
        size = len(mine) if mine is not None else 0
        print(f"bytes  {' '.join(map(str, figure)):<32} {size:>7} {'equal' if same else 'DIFFER'}", flush=True)
    if not found:
        sys.exit("nothing of what was asked for exists on this machine")
    return equal, found


def compare_times(here, other, found, arguments):
    """True when no time is longer than tolerated."""
    within = True
    print(f"\n{'model precision isa threads batch':<38} {'before ms':>10} {'now ms':>10} {'wall':>7} {'cpu':>7}")
    for figure in found:
        for batch in arguments.batches:
            runs = [pair(here, other, i % 2 == 0, batch, arguments.steps, *figure) for i in range(arguments.runs)]
            ratio = [statistics.median(mine[k] / theirs[k] for mine, theirs in runs) for k in (0, 1)]
            before = statistics.median(theirs[0] for _, theirs in runs)
            now = statistics.median(mine[0] for mine, _ in runs)
            worse = ratio[arguments.judge == "cpu"] > 1 + arguments.tolerance / 100
            within = within and not worse
            print(f"{' '.join(map(str, (*figure, batch))):<38} {before:>10.4f} {now:>10.4f} {ratio[0]:>7.3f} {ratio[1]:>7.3f}"
                  f"{'  WORSE' if worse else ''}", flush=True)
    return within


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="against-") as scratch:
        other = arguments.other or build(arguments.commit, Path(scratch))
        equal, found = compare_bytes(arguments.build, other, arguments)
        compare = compare_instructions if arguments.judge == "instructions" else compare_times
        within = arguments.runs == 0 or compare(arguments.build, other, found, arguments)
    print(f"\nbytes {'equal' if equal else 'DIFFER'}; {'instructions' if arguments.judge == 'instructions' else 'times'} "
          f"{'not measured' if arguments.runs == 0 else 'within the limit' if within else 'WORSE'}")
    sys.exit(0 if equal and within else 1)


if __name__ == "__main__":
    main()
