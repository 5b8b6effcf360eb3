"""LINNET_INSTRUCTION_SETS=native: a build that holds only this machine's instruction sets computes with the sets that a
full build chooses, and reports missing sets."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINNET = Path(os.environ.get("LINNET", ROOT / "build" / "linnet")).resolve()
PRECISIONS = ("f32", "auto", "int8", "int4")  # as lx_precision has them
PROBE = """
#include <stdio.h>
#include <stdlib.h>
#include "kernels/kernels.h"

int main(int argc, char **argv)
{
    lx_backend_options o = {.n_threads = 1, .precision = (lx_precision)atoi(argv[1]), .isa = (lx_isa)atoi(argv[2])};
    lx_backend *be = NULL;
    lx_error err = {0};
    char text[160];
    if (lx_backend_open("cpu", &o, &be, &err) != LX_OK)
        return puts(err.text), argc < 0;
    be->ops->describe(be, text, sizeof text);
    return puts(text), 0;
}
"""


def run(*command, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, **options)
    assert result.returncode == 0, (command, result.stdout, result.stderr)
    return result.stdout


def configure(folder, *options):
    return run("cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O1", "-DLINNET_SERVER=OFF",
               "-DLINNET_TESTS=OFF", "-DLINNET_CUDA=OFF", *options)


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("native")
    configure(folder, "-DLINNET_INSTRUCTION_SETS=native")
    run("cmake", "--build", folder, "--parallel", "2", "--target", "kernels")
    (folder / "probe.c").write_text(PROBE)
    run("cc", "-std=gnu17", "-D_GNU_SOURCE", f"-I{ROOT}", "-o", folder / "probe", folder / "probe.c", folder / "libkernels.a",
        folder / "libcommon.a", "-lm", "-lpthread")
    return folder / "probe"


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_choice_is_that_of_a_full_build(probe, precision):
    chosen = run(probe, PRECISIONS.index(precision), 0).strip()
    full = json.loads(run(LINNET, "bench", "--model", ROOT / "weights" / "copy" / "linear", "--precision", precision, "--batch",
                          "1", "--steps", "1", "--json"))
    assert chosen == full["backend"]


def test_what_is_left_out_is_named(probe):
    said = [run(probe, 1, isa) for isa in range(1, 12)]
    left_out = [text for text in said if "-DLINNET_INSTRUCTION_SETS=all" in text]
    assert any(text.startswith("amxplain ") for text in left_out), said  # slow twins are no processor's choice
    assert len(left_out) >= 2, said


def test_another_word_is_refused(tmp_path):
    with pytest.raises(AssertionError, match="all or native"):
        configure(tmp_path, "-DLINNET_INSTRUCTION_SETS=mine")
