#!/usr/bin/env python3
"""Blocks of every type of a GGUF file's values with random bits, and the numbers that the package `gguf` reads in them,
for tests/unit/model/formats/test_gguf.c.

    python3 tests/golden/generate_gguf.py     writes tests/golden/gguf.json (needs the packages gguf and numpy)
"""

import json
import pathlib

import numpy
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

# Where the f16 scales of a block lie, and how many: they must be finite.
SCALES = {"Q4_0": (0, 1), "Q4_1": (0, 2), "Q5_0": (0, 1), "Q5_1": (0, 2), "Q8_0": (0, 1), "Q2_K": (80, 2), "Q3_K": (108, 1),
          "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208, 1), "IQ4_NL": (0, 1), "IQ4_XS": (0, 1)}
BLOCKS = 2


def main():
    rng, out = numpy.random.default_rng(5), {}
    for name, (at, n) in SCALES.items():
        kind = GGMLQuantizationType[name]
        blocks = rng.integers(0, 256, (BLOCKS, GGML_QUANT_SIZES[kind][1]), dtype=numpy.uint8)
        scales = rng.uniform(-0.1, 0.1, (BLOCKS, n)).astype(numpy.float16)
        blocks[:, at : at + 2 * n] = scales.view(numpy.uint8).reshape(BLOCKS, 2 * n)
        numbers = dequantize(blocks, kind).astype("<f4")
        out[name] = {"id": int(kind), "blocks": blocks.tobytes().hex(), "numbers": numbers.tobytes().hex()}
    path = pathlib.Path(__file__).parent / "gguf.json"
    path.write_text("{" + ",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in out.items()) + "}\n")


if __name__ == "__main__":
    main()
