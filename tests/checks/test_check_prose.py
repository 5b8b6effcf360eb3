"""scripts/check-prose finds every turn of phrase of its list and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

BAD = [
    "/* Who asks for it waits. */", "// whoever comes next is first", "The reader is told so.", "They were told.",
    "an event that tells of a state", "what was told about it", "Nobody uses it.", "somebody else's",
    "room for everybody", "is anybody there", "as lx_plan has it", "# as config.json says it", "computed in vain",
    "a request that is gone on with", "many rows a step", "it asks ahead", "a drawn id",
]
GOOD = [
    "int nobody_waits = everybody_else;", "the caller asks", "see lx_plan", "a client that reads slowly", "told = read();",
    "who it is", "rows per step", "a foretold end", "A continued request", "as it has",
]


def run(tmp_path, text):
    path = tmp_path / "text.md"
    path.write_text(text, encoding="utf-8")
    return subprocess.run([sys.executable, SCRIPTS / "check-prose", path], capture_output=True, text=True, timeout=60,
                          check=False)


@pytest.mark.parametrize("line", BAD)
def test_found(tmp_path, line):
    result = run(tmp_path, f"A plain line.\n{line}\n")
    assert result.returncode == 1 and ":2: " in result.stdout, result.stdout


@pytest.mark.parametrize("line", GOOD)
def test_left_alone(tmp_path, line):
    result = run(tmp_path, line + "\n")
    assert result.returncode == 0, result.stdout


def test_a_reason_lets_a_line_be(tmp_path):
    assert run(tmp_path, "the user nobody  # check-prose: its name\n").returncode == 0
    assert run(tmp_path, "the user nobody  # check-prose:\n").returncode == 1
