"""`scripts/test repeat` counts the runs that passed, and its busy loops end with it."""

import os
import subprocess
from pathlib import Path

import pytest

TEST = Path(__file__).resolve().parents[2] / "scripts" / "test"
FAILS_THE_SECOND_TIME = """
from pathlib import Path

def test_it():
    runs = Path(__file__).with_name("runs")
    runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
    assert runs.read_text() != "xx"
"""


def use_one_processor():
    """So that one busy loop is enough."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def repeat(*arguments):
    """The exit status, the last line, and the processes left in its process group."""
    with subprocess.Popen([TEST, "repeat", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, start_new_session=True, preexec_fn=use_one_processor) as process:
        output = process.communicate(timeout=600)[0]
    left = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and group_of(entry) == process.pid]
    return process.returncode, output, left


def group_of(entry):
    try:
        return os.getpgid(int(entry.name))
    except ProcessLookupError:
        return None


def test_runs_are_counted(tmp_path):
    path = tmp_path / "test_planted.py"
    path.write_text(FAILS_THE_SECOND_TIME)
    status, output, left = repeat(path, 2)
    assert (status, left) == (1, []), output
    assert output.splitlines()[-1] == "1 passed, 1 failed"
    assert "run 2 of 2: failed" in output and "assert 'xx' != 'xx'" in output


def test_a_unit_test_is_run():
    status, output, left = repeat("tests/unit/common/test_base64.c", 2)
    assert (status, output.splitlines()[-1], left) == (0, "2 passed, 0 failed", []), output


def test_an_unknown_test_fails():
    status, output, _ = repeat("test_of_nothing", 1)
    assert (status, output.splitlines()[-1]) == (1, "0 passed, 1 failed"), output


@pytest.mark.parametrize("arguments", [(), ("test_base64",), ("test_base64", "0"), ("test_base64", "x")])
def test_bad_arguments(arguments):
    assert repeat(*arguments)[0] == 2
