"""LINNET_INSTRUCTION_SETS is all or native (tests/http/test_left_out.py runs a native build)."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_another_word_is_refused(tmp_path):
    done = subprocess.run(["cmake", "-S", ROOT, "-B", tmp_path, "-DLINNET_SERVER=OFF", "-DLINNET_CUDA=OFF",
                           "-DLINNET_INSTRUCTION_SETS=mine"], capture_output=True, text=True, timeout=600)
    assert done.returncode != 0 and "all or native" in done.stderr, done.stderr
