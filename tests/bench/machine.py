"""The first lines of every benchmark: the machine, the commit, and other load."""

import json
import os
import platform
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def processor():
    """Its name, which a virtual machine may shorten, and the widest instruction set that the figures depend on."""
    lines = dict(line.split("\t", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if "\t" in line)
    name = lines.get("model name", "").partition(": ")[2] or platform.processor()
    flags = lines.get("flags", "").split()
    sets = [text for flag, text in (("amx_bf16", "AMX"), ("avx512_bf16", "AVX512-BF16"), ("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags]
    return f"{name} with {sets[0]}" if sets else name


def commit():
    """Results that are not committed yet change no figure, so they do not make a tree dirty."""
    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/results")
        return git("rev-parse", "--short=10", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown commit"


def cores_at_work(seconds=1.0):
    """The number of cores at work in this second; the load average also counts processes that ended a minute ago."""
    def read():
        fields = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
        return fields[3] + fields[4], sum(fields)  # idle and waiting for a disk; everything

    idle, everything = read()
    time.sleep(seconds)
    idle, everything = (after - before for after, before in zip(read(), (idle, everything)))
    return os.cpu_count() * (1 - idle / max(1, everything))


def describe(busy):
    """One line; a second one when less than `busy` cores are free."""
    cores, load = len(os.sched_getaffinity(0)), cores_at_work()
    line = f"{processor()}, {cores} cores, {load:.1f} of them at work, commit {commit()}"
    if load > cores - busy + 0.5:
        line += "\nthe machine is busy with other work: do not publish these figures"
    return line


def pinned(command, threads):
    """The command, bound to the first cores."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    return ["taskset", "-c", ",".join(map(str, cores)), *map(str, command)]


def rates(build, threads, sizes):
    """The rates of roofline.c: operations per second, and bytes per second by the size of the read or updated data."""
    command = pinned([build / "roofline", threads, *sizes], threads)
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def table(head, rows):
    """A Markdown table; cells of all columns but the first stand to the right."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def number(x, digits=3):
    """Three digits that count: 0.123, 1.23, 12.3, 123, 12,300."""
    if x is None:
        return "-"
    for limit, places in ((1, digits), (10, 2), (100, 1)):
        if abs(x) < limit:
            return f"{x:.{places}f}"
    return f"{x:,.0f}"
