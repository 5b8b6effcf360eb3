#!/usr/bin/env python3
"""Counts the instructions of the inner loops of `linear` for 64-bit ARM, and bounds their speed on published cores.

    cmake --preset arm && cmake --build --preset arm --target kernels
    python3 tests/bench/inner_loops.py [--build build-arm]

Reads the disassembly of kernels/cpu/isa_neon*.c and runs nothing. Counts are exact. Shares of a core are bounds, not
measurements. A share is the time of a loop's products on the core's units, divided by the longest of four times. These
are the times of its vector units, of its loads and stores of 16 bytes, of its instructions, and of its longest chain of
sums. Loads
count as if they all hit the first-level cache; nothing else waits for anything.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

SETS = {"neon": ["f32", "bf16 as f32", "int8"], "neondot": ["int8"], "neonbf16": ["bf16", "int8"]}  # their weights
WEIGHTS = {"fmla": "f32", "bfdot": "bf16", "bfmmla": "bf16", "sdot": "int8", "smmla": "int8", "mul": "int8"}
TERMS = {"fmla": 4, "bfdot": 8, "bfmmla": 16, "sdot": 16, "smmla": 32, "mul": 8}  # products of numbers per instruction
BRANCH = re.compile(r"b\.\w+|cbn?z|tbn?z")


@dataclass
class Core:
    """A cycle: instructions, units for vectors, loads and stores; and the cycles from a sum to the next of the same lanes.

    From Arm's software optimization guides of the cores; of the M1 from Dougall Johnson's measurements (Firestorm).
    """
    name: str
    width: int
    vectors: int
    loads: int
    chain: dict


ARM = {"fmla": 2, "sdot": 1}
CORES = [Core("Cortex-A76, Neoverse N1", 4, 2, 2, ARM),
         Core("Neoverse V1, V2", 8, 4, 3, {**ARM, "bfdot": 2, "bfmmla": 3, "smmla": 1}),
         Core("Apple M1", 8, 4, 3, {"fmla": 4, "sdot": 3})]


class Loop:
    def __init__(self, function, body):
        self.rows, self.wide, self.size = int(function.rsplit("_", 1)[1]), "wide" in function, len(body)
        names = Counter(name for name, _ in body)
        self.product = next((p for p in ("bfmmla", "smmla", "bfdot", "sdot", "mul", "fmla") if names[p]), None)
        self.products = names[self.product]
        self.weights = WEIGHTS.get(self.product)
        if self.product == "fmla" and names["shl"]:
            self.weights = "bf16 as f32"
        memory = [(name, operands) for name, operands in body if re.match(r"ld|st", name)]
        self.stack = sum("[sp" in operands for _, operands in memory)
        self.memory = sum(2 if re.match(r"[ls][dt]p\sq", f"{name} {operands}") else 1 for name, operands in memory)
        self.vectors = sum(bool(re.search(r"\bv\d+\.", operands)) for name, operands in body if not re.match(r"ld[rpu]|st", name))
        sums = Counter(operands.split(",")[0] for name, operands in body if name == self.product)
        self.longest = max(sums.values(), default=0)  # products into one register, in sequence
        self.whole = names["scvtf"] + names["fmul"] + names["bl"] + names["b"] == 0  # not the end of a chunk

    def share(self, core):
        """Of the products that the core's units could do; None where it has no such instruction."""
        if self.product not in core.chain:
            return None
        ideal = self.products / core.vectors
        return ideal / max(ideal, self.vectors / core.vectors, self.memory / core.loads, self.size / core.width,
                           self.longest * core.chain[self.product])


def loops(listing):
    """The innermost loops of the micro-kernels in the output of objdump -d."""
    for function, text in re.findall(r"^[0-9a-f]+ <(run_(?:wide|narrow)_\d+)>:\n((?:.+\n)*)", listing, re.MULTILINE):
        lines = [re.match(r"\s*([0-9a-f]+):\t(\S+)\s*([^/]*)", line) for line in text.splitlines()]
        lines = [(int(line[1], 16), line[2], line[3].strip()) for line in lines if line]
        place = {address: i for i, (address, _, _) in enumerate(lines)}
        back = []
        for i, (_, name, operands) in enumerate(lines):
            target = re.search(r"\b([0-9a-f]+) <", operands)
            if BRANCH.fullmatch(name) and target and place.get(int(target[1], 16), i + 1) <= i:
                back.append((place[int(target[1], 16)], i))
        for first, last in back:
            if not any(first <= a and b <= last and (a, b) != (first, last) for a, b in back):
                loop = Loop(function, [line[1:] for line in lines[first:last + 1]])
                if loop.product and loop.whole:
                    yield loop


def kernels(found, everything):
    """By weights and rows; where a wide kernel is there, it takes all but the last outputs.

    The largest of a kernel's loops for these weights; smaller loops are for the last input of an odd number.
    """
    best = {}
    for loop in found:
        key = (loop.weights, loop.rows, not loop.wide) if everything else (loop.weights, loop.rows)
        if key not in best or (loop.wide, loop.products) > (best[key].wide, best[key].products):
            best[key] = loop
    return [loop for _, loop in sorted(best.items()) if everything or loop.rows in (1, 2, 4, 6)]


def row(isa, loop):
    shares = [loop.share(core) if isa != "neonbf16" or "bfdot" in core.chain else None for core in CORES]
    return [f"`{isa}`, {loop.weights}", f"{loop.rows}{', wide' if loop.wide else ''}", f"{loop.products} {loop.product.upper()}",
            str(loop.size), str(loop.memory), str(loop.stack), f"{loop.products * TERMS[loop.product] / loop.size:.1f}",
            *("" if share is None else f"{share:.0%}" for share in shares)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build-arm"), help="folder of a build for 64-bit ARM [build-arm]")
    parser.add_argument("--all", action="store_true", help="every kernel, also where another set has the same loop")
    parser.add_argument("--objdump", default="aarch64-linux-gnu-objdump")
    options = parser.parse_args()
    print("Read from the assembly. Nothing was timed, and no ARM machine has run it.\n")
    print("| instruction set, weights | rows | products | instructions | loads, stores | on the stack | multiplications per instruction | "
          + " | ".join(core.name for core in CORES) + " |\n| --- | --- | --- |" + " ---: |" * (4 + len(CORES)))
    for isa, weights in SETS.items():
        path = options.build / f"CMakeFiles/kernels.dir/kernels/cpu/isa_{isa}.c.o"
        if not path.is_file():
            sys.exit(f"inner_loops: no {path}; build it as --help says")
        listing = subprocess.run([options.objdump, "-d", "--no-show-raw-insn", path], check=True, capture_output=True, text=True)
        found = kernels(loops(listing.stdout), options.all)
        missing = set(weights) - {loop.weights for loop in found}
        if missing:
            sys.exit(f"inner_loops: {path} has no loop for {', '.join(sorted(missing))}")
        for loop in found:
            if options.all or loop.weights in weights:
                print("| " + " | ".join(row(isa, loop)) + " |")


if __name__ == "__main__":
    main()
