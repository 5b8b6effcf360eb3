#!/usr/bin/env python3
"""Deletes each barrier, bound, mask, wait and event of the CUDA back end in turn and counts what the tests without a GPU catch.

    tests/simt/mutate.py                       every place that has no result yet, then the table
    tests/simt/mutate.py --only PATH --limit 5 --seed 1   five places of the files whose path holds PATH, drawn
    tests/simt/mutate.py --table               the table of what has run so far
    tests/simt/mutate.py --list                the places

Works in copies of the tree under --out (build-mutants), one a job; results.jsonl there has a line a place, so a run that
was ended goes on where it stopped. A place is the same as long as its line and its neighbours are. The tests run from the
quickest to the slowest until one fails; a change that does not compile is no place.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
# kind, pattern, what stands there then
DEVICE = [
    ("barrier", re.compile(r"__syncthreads\(\);"), ";"),
    ("barrier of a warp", re.compile(r"__syncwarp\([^;]*\);"), ";"),
    ("mask", re.compile(r"(?<=_sync\()lanes(?=,)"), "LX_ALL_LANES"),
    ("mask", re.compile(r"(?<=__syncwarp\()[^;]*(?=\);)"), "1u << (threadIdx.x % 32u)"),
    ("mask", re.compile(r"(?<=uint32_t lanes = ).*(?=;)"), "LX_ALL_LANES"),
    ("bound", re.compile(r"(?<=if \().*(<|>=) .*(?=\)$)"), "false"),
    ("bound", re.compile(r"(?<=if \()[^;]*( < | >= )[^;]*(?=\)( \{)?$)"), "true"),
    ("bound", re.compile(r"\b\w+ < [\w.]+ (?=\?)"), "true "),
]
HOST = [
    ("wait", re.compile(r"cuda(Event|Stream)Synchronize\([^;]*?\)(?=;|\))"), "cudaSuccess"),
    ("wait", re.compile(r"cudaStreamWaitEvent\([^;]*?\)(?=;|\))"), "cudaSuccess"),
    ("event", re.compile(r"cudaEventRecord\([^;]*?\)(?=;|\))"), "cudaSuccess"),
    ("wait", re.compile(r"return wait_for_moves\(c\)|(?<=\? )wait_for_moves\(c\)"), "LX_OK"),
    ("wait", re.compile(r"(?<== )(lx_cuda_finish_all|finish)\([^;]*\)(?=;)"), "LX_OK"),
]
# Conformance tests that a kernel's file is tried with first.
FIRST = {
    "attend_linear": "attend_|branches_",
    "attend_rows": "rows_|patterns_|shared_rows|unseeing_|pages_",
    "bonus": "bonus_",
    "chunk_sums": "chunks_",
    "embed": "embed_",
    "gate": "gate_",
    "gather": "gather_",
    "head_norm": "head_norm_|norm_is_done",
    "linear": "linear_|gelu_",
    "norm": "norm_",
    "recurrence": "recurrence_",
    "rotary": "rotary_",
    "sample": "sample_|biases_|edges_|top_is|greedy_|cuts_|exact_|nothing_|broken_logits|extreme_values|zeros_of|the_likeliest",
    "sample_mixture": "mixture_|levels_|greedy_rounds|extreme_temp|component_|broken_param|log_prob",
    "short_conv": "kept_inputs_|kinds_equal",
    "token_shift": "kept_inputs_|kinds_equal",
}
TESTS = ROOT / "tests" / "conformance"
Place = collections.namedtuple("Place", "id path line kind old new")


def conformance_names():
    text = "".join(p.read_text() for p in TESTS.glob("*.c"))
    return sorted(set(re.findall(r'\{"([a-z_]+)", *\w', text)))


def subset():
    text = (ROOT / "tests" / "CMakeLists.txt").read_text()
    return re.search(r"set\(linnet_sanitized ([^)]*)\)", text)[1].split()


def changes(path, lines):
    table = DEVICE if path.suffix in (".cu", ".cuh") else HOST
    for number, line in enumerate(lines):
        if line.lstrip().startswith(("*", "/*", "#")):
            continue
        code = line.split("/*")[0].rstrip()
        seen = set()
        for kind, pattern, new in table:
            for found in pattern.finditer(code):
                if pattern.pattern.endswith("(?=\\)$)") and "return" not in lines[number + 1]:
                    continue
                if found[0] == new.strip() or found.span() in seen:
                    continue
                seen.add(found.span())
                changed = code[: found.start()] + new + code[found.end() :] + line[len(code) :]
                yield number, kind, found[0], changed


def places():
    files = sorted(
        p
        for pattern in ("kernels/cuda/*", "kernels/ops/*/cuda*", "kernels/ops/*/*.cuh")
        for p in ROOT.glob(pattern)
        if p.suffix in (".cu", ".cuh", ".c")
    )
    for path in files:
        lines = path.read_text().split("\n")
        for number, kind, old, changed in changes(path, lines):
            around = "\n".join([str(path.relative_to(ROOT)), *lines[max(0, number - 2) : number + 3], changed])
            name = hashlib.sha256(around.encode()).hexdigest()[:16]
            yield Place(name, str(path.relative_to(ROOT)), number, kind, old, changed)


class Tree:
    """A copy of the tree with its own build."""

    def __init__(self, folder):
        self.source = folder / "source"
        self.build = folder / "build"
        listing = ["git", "ls-files", "-z"]
        names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout
        for name in filter(None, names.split("\0")):
            if not name.startswith(("common/", "kernels/", "cmake/", "tests/")) and "/" in name:
                continue
            target = self.source / name
            if (ROOT / name).is_file() and (not target.exists() or target.read_bytes() != (ROOT / name).read_bytes()):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, target)
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DLINNET_SERVER=OFF", "-DLINNET_CUDA=OFF"]
        self.run(["cmake", "-S", str(self.source), "-B", str(self.build), *options], 300)
        if self.make(7200) != 0:
            sys.exit("mutate.py: the tree does not build as it is")

    def run(self, command, seconds, **env):
        try:
            return subprocess.run(
                command, cwd=self.source, env={**os.environ, **env}, timeout=seconds, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return 124

    def make(self, seconds=900):
        targets = ["conformance", "simt_cuda", "simt_races", "cuda_failures"]
        return self.run(["cmake", "--build", str(self.build), "--target", *targets], seconds)

    def checks(self, place):
        """The name of a check and what runs it, the quickest first."""
        op = pathlib.Path(place.path).parent.name
        every = ",".join([*subset(), "steps_may_be_started_ahead", "two_engines_share_a_back_end", "steps_wait_for_room"])
        first = ",".join(n for n in conformance_names() if re.match(FIRST.get(op, "^$"), n)) or every

        def conformance(library, names, seed):
            command = [str(self.build / "conformance"), "--backend", "cuda", "--test", names]
            return lambda: self.run(command, 300, LD_LIBRARY_PATH=str(self.build / library), LINNET_SIMT_SEED=seed)

        failures = [str(self.build / "cuda_failures"), str(self.build / "simt" / "libkernels_cuda.so")]
        libraries = str(self.build / "simt")
        if place.path.endswith(".c"):
            yield "failures", lambda: self.run(failures, 300, LD_LIBRARY_PATH=libraries)
        else:
            yield "order 0", conformance("simt", first, "0")
            yield "races", conformance("races", first, "0")
        for seed in "123":
            yield "order " + seed, conformance("simt", first, seed)
        yield "order 0, all", conformance("simt", every, "0")

    def caught(self, place):
        """What caught it; "" for nothing, None when it does not compile."""
        path = self.source / place.path
        text = path.read_text()
        lines = text.split("\n")
        lines[place.line] = place.new
        path.write_text("\n".join(lines))
        try:
            if self.make() != 0:
                return None
            return next((name for name, run in self.checks(place) if run() != 0), "")
        finally:
            path.write_text(text)


def table(results, all_places):
    kinds = collections.defaultdict(collections.Counter)
    by = collections.Counter()
    for p in all_places:
        if p.id not in results:
            kinds[p.kind]["not run"] += 1
            continue
        caught = results[p.id]
        kinds[p.kind]["no code" if caught is None else "caught" if caught else "survived"] += 1
        if caught:
            by[caught] += 1
    columns = ["caught", "survived", "not run", "no code"]
    print("| deleted | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for kind in sorted(kinds):
        print(f"| {kind} | " + " | ".join(str(kinds[kind][c]) for c in columns) + " |")
    total = {c: sum(k[c] for k in kinds.values()) for c in columns}
    print("| all | " + " | ".join(str(total[c]) for c in columns) + " |")
    print("\nfirst caught by: " + ", ".join(f"{name} {n}" for name, n in by.most_common()))
    for p in all_places:
        if results.get(p.id) == "":
            print(f"survived: {p.path}:{p.line + 1}: {p.kind}: {p.old}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="places of files whose path holds this")
    parser.add_argument("--limit", type=int, help="at most so many, drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build-mutants")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    everything = list(places())
    if args.list:
        for p in everything:
            print(f"{p.path}:{p.line + 1}: {p.kind}: {p.old}")
        return
    args.out.mkdir(exist_ok=True)
    log = args.out / "results.jsonl"
    results = {r["id"]: r["caught"] for r in map(json.loads, log.read_text().splitlines())} if log.exists() else {}
    todo = [p for p in everything if args.only in p.path and p.id not in results]
    if args.limit is not None:
        todo = random.Random(args.seed).sample(todo, min(args.limit, len(todo)))
    if not args.table and todo:
        trees = [Tree(args.out / str(i)) for i in range(args.jobs)]
        lock = threading.Lock()

        def one(place):
            with lock:
                tree = trees.pop()
            caught = tree.caught(place)
            with lock:
                trees.append(tree)
                results[place.id] = caught
                with log.open("a") as out:
                    out.write(json.dumps({**place._asdict(), "caught": caught}) + "\n")
                print(f"{place.path}:{place.line + 1}: {place.kind}: {caught or caught is None and 'no code' or 'SURVIVED'}", flush=True)

        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for _ in pool.map(one, todo):
                pass
    table(results, everything)


if __name__ == "__main__":
    main()
