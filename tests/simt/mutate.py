#!/usr/bin/env python3
"""Deletes each barrier, bound, mask, wait and event of the CUDA back end in turn, or lets a loop take one step more.
Counts the mutants that tests without a GPU catch.

    tests/simt/mutate.py                       every place that has no result yet, then the table
    tests/simt/mutate.py --only PATH --limit 5 --seed 1   five places of the files whose path holds PATH, drawn
    tests/simt/mutate.py --again               every such place, and the survivors
    tests/simt/mutate.py --table               the table of the results so far
    tests/simt/mutate.py --list                the places
    tests/simt/mutate.py --least 95 --out FOLDER   fails if tests catch less than 95 % of the tried
                                               places that can differ; needs a new folder, because old results are kept

Works in a copy of the tree under --out (build-mutants), built once. Every place is in it with a switch, `lx_deleted(N)
? without : with`, that LINNET_DELETED sets for a run. First each test runs without a deletion. It must pass, and shows
its time and the places that it reaches. Then a place is deleted for the tests that reach it, the cheapest first, in the
checker of races and in four orders of warps and lanes, until one fails. A place that no test reaches has survived. A
test fails when it takes a minute and twenty times its first time. results.jsonl has a line per place, so an interrupted
run continues at its end. A place keeps its name as long as its line and the next lines are unchanged. Places whose
deletion cannot change a result are listed in equivalent.txt with the reason; they are not run, and counted separately.
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
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# kind, pattern, its replacement; where a part of the pattern has the name `place`, only that part
DEVICE = [
    ("barrier", re.compile(r"__syncthreads\(\);"), ";"),
    ("barrier of a warp", re.compile(r"__syncwarp\([^;]*\);"), ";"),
    ("mask", re.compile(r"(?<=_sync\()lanes(?=,)"), "LX_ALL_LANES"),
    ("mask", re.compile(r"(?<=__syncwarp\()[^;]*(?=\);)"), "1u << (threadIdx.x % 32u)"),
    ("mask", re.compile(r"(?<=uint32_t lanes = ).*(?=;)"), "LX_ALL_LANES"),
    ("bound", re.compile(r"(?<=if \().*(<|>=) .*(?=\)$)"), "false"),
    ("bound", re.compile(r"(?<=if \()[^;]*( < | >= )[^;]*(?=\)( \{)?$)"), "true"),
    ("bound", re.compile(r"\b[\w.]+( [-+*] [\w.]+)* < [\w.]+(?= \?)"), "true"),
    # Of a loop whose elements the threads share, and of one over tokens: one step more.
    ("loop", re.compile(r"for \(\w+ \w+ = [^;]*(first_element|threadIdx|\blane|\bme\b)[^;]*; (?P<place>(?P<a>\w+) < (?P<b>[^;&]+?))(;| &&)"), r"\g<a> <= \g<b>"),
    ("loop", re.compile(r"for \(int64_t t = [^;]*; (?P<place>(?P<a>t) < (?P<b>[^;]+)); t\+\+\)"), r"\g<a> <= \g<b>"),
    ("bound", re.compile(r"bool \w+ = (?P<place>[^;&|]* < [^;&|]*)( &&|;)"), "true"),
    ("bound", re.compile(r"bool \w+ = [^;&|]* && (?P<place>[^;&|]* < [^;&|]*);"), "true"),
]
HOST = [
    ("wait", re.compile(r"cuda(Event|Stream)Synchronize\([^;]*?\)(?=;|\))"), "cudaSuccess"),
    ("wait", re.compile(r"cudaStreamWaitEvent\([^;]*?\)(?=;|\))"), "cudaSuccess"),
    ("event", re.compile(r"cudaEventRecord\([^;]*?\)(?=;|\))"), "cudaSuccess"),
    ("wait", re.compile(r"return wait_for_moves\(c\)|(?<=\? )wait_for_moves\(c\)"), "LX_OK"),
    ("wait", re.compile(r"(?<== )lx_cuda_finish_(all|step)\([^;]*\)(?=;)"), "LX_OK"),
]
# The code of lx_deleted, after tests/simt/simt.cpp.
SWITCH = """
#include <fcntl.h>
static unsigned char ignored[PLACES], *reached = ignored;
static int deleted = -1;
static const bool switched = [] {
    if (const char *place = getenv("LINNET_DELETED"); place != nullptr)
        deleted = atoi(place);
    if (const char *path = getenv("LINNET_REACHED"); path != nullptr) {
        int file = open(path, O_RDWR);
        void *shared = file < 0 ? MAP_FAILED : mmap(nullptr, PLACES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (shared == MAP_FAILED)
            abort();
        reached = static_cast<unsigned char *>(shared);
    }
    return true;
}();
extern "C" __attribute__((visibility("hidden"))) bool lx_deleted(int place)
{
    reached[place] = 1;
    return place == deleted;
}
"""
CHECKS = [("order 0", "simt", "0"), ("races", "races", "1"), ("order 1", "simt", "1"), ("order 2", "simt", "2"), ("order 3", "simt", "3")]
TESTS = ROOT / "tests" / "conformance"
PROGRAMS = ["cuda_failures", "cuda_products", "cuda_draws"]  # in addition to those tests
NO_TEST = "0 passed, 0 failed"  # of this back end, or none of that name
Place = collections.namedtuple("Place", "id path line kind old new start")


def conformance_names():
    text = "".join(p.read_text() for p in TESTS.glob("*.c"))
    return sorted(set(re.findall(r'\{"([a-z0-9_]+)", *\w', text)))


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
                part = "place" if "place" in pattern.groupindex else 0
                (start, end), old, now = found.span(part), found[part], found.expand(new)
                if old == now.strip() or (start, end) in seen:
                    continue
                seen.add((start, end))
                changed = code[:start] + now + code[end:] + line[len(code) :]
                yield number, kind, old, now, start, changed


def places():
    files = sorted(
        p
        for pattern in ("kernels/cuda/*", "kernels/ops/*/cuda*", "kernels/ops/*/*.cuh")
        for p in ROOT.glob(pattern)
        if p.suffix in (".cu", ".cuh", ".c")
    )
    for path in files:
        lines = path.read_text().split("\n")
        for number, kind, old, new, start, changed in changes(path, lines):
            around = "\n".join([str(path.relative_to(ROOT)), *lines[max(0, number - 2) : number + 3], changed])
            name = hashlib.sha256(around.encode()).hexdigest()[:16]
            yield Place(name, str(path.relative_to(ROOT)), number, kind, old, new, start)


def is_named(p, path, kind, named):
    """By the deleted code; ` @ ` and a part of its line or of the next tell places of one name apart."""
    old, _, near = named.partition(" @ ")
    return (p.path, p.kind, p.old) == (path, kind, old) and near in "".join((ROOT / path).read_text().split("\n")[p.line : p.line + 2])


def equivalents(everything):
    """Why a deletion cannot change a result, by the place's id."""
    reasons = {}
    for line in (ROOT / "tests" / "simt" / "equivalent.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        path, kind, old, why = line.split(" | ")
        found = [p.id for p in everything if is_named(p, path, kind, old)]
        if len(found) != 1:
            sys.exit(f"mutate.py: equivalent.txt: {path}: {len(found)} places delete the {kind} {old}")
        reasons[found[0]] = why
    return reasons


def switched(lines, numbered):
    """A file's lines with a switch around each of its places; a mask may be inside a barrier."""
    edits = collections.defaultdict(list)
    for number, p in numbered:
        if p.new == ";":
            before, after = f"{{ if (!lx_deleted({number})) ", " }"
        else:
            before, after = f"(lx_deleted({number}) ? ({p.new}) : (", "))"
        end = p.start + len(p.old)
        edits[p.line] += [(p.start, 1, -end, before), (end, 0, -p.start, after)]
    changed = list(lines)
    for line, inserted in edits.items():
        for at, _, _, text in sorted(inserted, reverse=True):
            changed[line] = changed[line][:at] + text + changed[line][at:]
    return changed


class Build:
    """A copy of the tree with all places in it, and the places that each test reaches."""

    def __init__(self, folder, everything):
        self.folder, self.everything = folder, everything
        self.source, self.build = folder / "source", folder / "build"
        self.changed = False
        by_path = collections.defaultdict(list)
        for number, p in enumerate(everything):
            by_path[p.path].append((number, p))
        listing = ["git", "ls-files", "-z"]
        names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout
        for name in filter(None, names.split("\0")):
            wanted = name.startswith(("common/", "kernels/", "cmake/", "tests/")) or "/" not in name
            if wanted and not name.endswith(".py") and (ROOT / name).is_file():
                self.copy(name, by_path.get(name, []))
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DLINNET_SERVER=OFF", "-DLINNET_CUDA=OFF", *generator]
        targets = ["conformance", "simt_cuda", "simt_races", *PROGRAMS]
        for command in (["cmake", "-S", str(self.source), "-B", str(self.build), *options], ["cmake", "--build", str(self.build), "--target", *targets]):
            with (folder / "build.log").open("a") as log:
                if subprocess.run(command, stdout=log, stderr=log, timeout=7200, check=False).returncode != 0:
                    sys.exit(f"mutate.py: the tree does not build with its switches: {log.name}")
        self.tests = self.look()

    def copy(self, name, numbered):
        data = (ROOT / name).read_bytes()
        if numbered:
            data = "\n".join(switched(data.decode().split("\n"), numbered)).encode()
            if name.endswith(".c"):
                data = b"_Bool lx_deleted(int place);\n" + data
        if name == "tests/simt/simt.h":
            data += b'\nextern "C" __attribute__((visibility("hidden"))) bool lx_deleted(int place);\n'
        if name == "tests/simt/simt.cpp":
            data += SWITCH.replace("PLACES", str(len(self.everything))).encode()
        target = self.source / name
        if not target.exists() or target.read_bytes() != data:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            self.changed = True

    def run(self, test, check, seconds, **env):
        """None if it passed, else its last output."""
        _, library, seed = check
        command = [str(self.build / "conformance"), "--backend", "cuda", "--test", test]
        if test in PROGRAMS:
            command = [str(self.build / test), str(self.build / library / "libkernels_cuda.so")]
        env = {**os.environ, "LD_LIBRARY_PATH": str(self.build / library), "LINNET_SIMT_SEED": seed, **env}
        try:
            done = subprocess.run(
                command, env=env, timeout=seconds, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                errors="replace", check=False,
            )
        except subprocess.TimeoutExpired:
            return "took too long"
        if done.returncode == 0:
            return None
        lines = done.stdout.splitlines()
        said = [line for line in lines if re.match("simt: |FAILED ", line)]
        ended = [f"signal {-done.returncode}"] if done.returncode < 0 else lines[-1:]
        return (said or ended or ["said nothing"])[0]

    def look(self):
        """The seconds of each test and the places it comes by, as they were before if nothing has changed."""
        path = self.folder / "tests.json"
        tests = {} if self.changed or not path.exists() else json.loads(path.read_text())
        reached = self.folder / "reached"
        for test in [*conformance_names(), *PROGRAMS]:
            if test in tests:
                continue
            reached.write_bytes(bytes(len(self.everything)))
            begin = time.monotonic()
            said = self.run(test, CHECKS[0], 1800, LINNET_REACHED=str(reached))
            if said not in (None, NO_TEST):
                sys.exit(f"mutate.py: {test} fails with nothing deleted: {said}")
            tests[test] = {
                "seconds": round(time.monotonic() - begin, 2),
                "places": [i for i, by in enumerate(reached.read_bytes()) if by and said is None],
            }
            path.write_text(json.dumps(tests))
        return tests

    def runs(self, number):
        """The tests that may catch this place, the cheapest first; the checker of races is slow but finds barriers at
        once."""
        place = self.everything[number]
        races = 8 if place.kind == "bound" else 0.9
        for test, t in self.tests.items():
            if number not in t["places"]:
                continue
            for at, check in enumerate(CHECKS):
                if check[1] == "simt":
                    yield t["seconds"], at, test, check
                elif not place.path.endswith(".c"):
                    yield t["seconds"] * races, at, test, check

    def caught(self, number, most):
        """The test that caught it and its output; "" if none did."""
        for cost, _, test, check in sorted(self.runs(number)):
            seconds = self.tests[test]["seconds"]
            if seconds > most:
                break
            said = self.run(test, check, 60 + seconds * (20 if check[1] == "simt" else 200), LINNET_DELETED=str(number))
            if said is not None:
                return check[0], f"{test}: {said}"
        return "", ""


def table(results, all_places, reasons):
    """Prints it; returns the percentage of caught places among the tried places that can differ."""
    kinds = collections.defaultdict(collections.Counter)
    by = collections.Counter()
    for p in all_places:
        if p.id in reasons:
            kinds[p.kind]["cannot differ"] += 1
            continue
        if p.id not in results:
            kinds[p.kind]["not run"] += 1
            continue
        caught = results[p.id]
        kinds[p.kind]["caught" if caught else "survived"] += 1
        if caught:
            by[caught] += 1
    columns = ["caught", "survived", "not run", "cannot differ"]
    print("| deleted | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for kind in sorted(kinds):
        print(f"| {kind} | " + " | ".join(str(kinds[kind][c]) for c in columns) + " |")
    total = {c: sum(k[c] for k in kinds.values()) for c in columns}
    print("| all | " + " | ".join(str(total[c]) for c in columns) + " |")
    ran = total["caught"] + total["survived"]
    print(f"\ncaught: {total['caught']} of the {ran} that ran and can differ")
    print("first caught by: " + ", ".join(f"{name} {n}" for name, n in by.most_common()))
    for p in all_places:
        if p.id in reasons:
            print(f"cannot change a result: {p.path}:{p.line + 1}: {p.kind}: {p.old}: {reasons[p.id]}")
        elif results.get(p.id) == "":
            print(f"survived: {p.path}:{p.line + 1}: {p.kind}: {p.old}")
    return 100 * total["caught"] / ran if ran else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="places of files whose path holds this")
    parser.add_argument("--limit", type=int, help="at most so many, drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--again", action="store_true", help="try what has survived again")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--most", type=float, default=1e9, help="leave out tests that take more seconds than this")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build-mutants")
    parser.add_argument("--least", type=float, help="fail where less than so many percent are caught")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    everything = list(places())
    reasons = equivalents(everything)
    if args.list:
        for p in everything:
            print(f"{p.path}:{p.line + 1}: {p.kind}: {p.old}")
        return
    args.out.mkdir(exist_ok=True)
    log = args.out / "results.jsonl"
    results = {r["id"]: r["caught"] for r in map(json.loads, log.read_text().splitlines())} if log.exists() else {}
    wanted = [p for p in everything if args.only in p.path and p.id not in reasons]
    todo = [p for p in wanted if (p.id not in results or (args.again and not results[p.id]))]
    if args.limit is not None:
        todo = random.Random(args.seed).sample(todo, min(args.limit, len(todo)))
    if not args.table and todo:
        build = Build(args.out, everything)
        numbers = {p.id: number for number, p in enumerate(everything)}
        lock = threading.Lock()

        def one(place):
            caught, said = build.caught(numbers[place.id], args.most)
            with lock:
                results[place.id] = caught
                with log.open("a") as out:
                    out.write(json.dumps({**place._asdict(), "caught": caught, "said": said}) + "\n")
                print(f"{place.path}:{place.line + 1}: {place.kind}: {caught or 'SURVIVED'}: {said}", flush=True)

        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for _ in pool.map(one, todo):
                pass
    caught = table(results, everything, reasons)
    if args.least is not None and caught < args.least:
        sys.exit(f"mutate.py: {caught:.1f} % are caught, which is less than {args.least:g} %")


if __name__ == "__main__":
    main()
