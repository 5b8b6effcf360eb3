"""weights/train/comparison.py: scripts that train model after model leave the run at hand the time to save itself, and ask
for the program that judges the models before they train."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN = ROOT / "weights" / "train"
sys.path.insert(0, str(TRAIN))

import comparison  # noqa: E402

# A recipe that needs a second for its checkpoint, more than subprocess.run() gives a script at Ctrl-C. It sleeps briefly,
# again and again: Python runs a handler between two instructions, so a signal just before one long wait would be seen after it.
RECIPE = """
import pathlib, signal, sys, time
def save(number, frame):
    time.sleep(1)
    pathlib.Path(sys.argv[1]).write_text("saved")
    sys.exit(128 + number)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, save)
print("ready", file=sys.stderr, flush=True)
while True:
    time.sleep(0.01)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_recipe_time_to_save(tmp_path, number):
    (tmp_path / "recipe.py").write_text(RECIPE)
    command = [sys.executable, "-c", "import sys, comparison; comparison.run_script(*sys.argv[1:])", tmp_path / "recipe.py", tmp_path / "run"]
    script = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(TRAIN)}, stderr=subprocess.PIPE, text=True,
                              start_new_session=True)
    with script:
        assert script.stderr.readline() == "ready\n"
        if number == signal.SIGINT:
            os.killpg(script.pid, number)  # as a terminal does
        else:
            script.terminate()
        assert script.wait(timeout=60) == 128 + number
        assert script.stderr.read() == "" and (tmp_path / "run").read_text() == "saved"


@pytest.mark.parametrize("code, status", [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_what_a_recipe_ends_with_ends_the_comparison(tmp_path, code, status):
    (tmp_path / "recipe.py").write_text(code)
    with pytest.raises(SystemExit) as ended:
        comparison.run_script(tmp_path / "recipe.py")
    assert ended.value.code == status


def test_a_program_that_is_not_there_ends_it_before_the_training(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["kinds.py", "--data", "d", "--runs", "r", "--linnet", str(tmp_path / "linnet")])
    with pytest.raises(SystemExit, match="kinds.py: there is no program .*linnet"):
        comparison.parse(comparison.make_parser("Compares.", ["a"], "1"))
