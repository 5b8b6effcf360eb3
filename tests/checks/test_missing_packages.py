"""weights/train and weights/convert: a Python package that is missing ends a command with one line that says how to install it."""

import os
import pathlib
import subprocess
import sys

import pytest

WEIGHTS = pathlib.Path(__file__).resolve().parents[2] / "weights"
PACKAGES = ["torch", "numpy", "matplotlib", "tqdm", "PIL"]
COMMANDS = [path for folder in ("train", "convert") for path in sorted((WEIGHTS / folder).glob("*.py"))
            if '__name__ == "__main__"' in path.read_text()]
WITHOUT_PACKAGES = {"ablate", "check", "export_hf", "poem_kinds", "prepare", "rhymes", "small_digits", "speech_kinds"}  # at their start


def start(command, stubs):
    """The stubs come before packages of their names; the import of each fails as that of a missing one does."""
    for name in PACKAGES:
        (stubs / f"{name}.py").write_text(f"raise ModuleNotFoundError('No module named {name}', name='{name}')\n")
    return subprocess.run([sys.executable, command], cwd=WEIGHTS.parent, capture_output=True, text=True, timeout=60,
                          env=os.environ | {"PYTHONPATH": str(stubs)})


@pytest.mark.parametrize("command", COMMANDS, ids=[command.stem for command in COMMANDS])
def test_a_missing_package_is_one_line(tmp_path, command):
    ended = start(command, tmp_path)
    if command.stem in WITHOUT_PACKAGES:
        assert "Traceback" not in ended.stderr
        return
    assert ended.returncode == 1 and ended.stderr.count("\n") == 1, ended.stderr
    said, advice = ended.stderr.split(" is missing: ")
    assert said in [f"{command.name}: the Python package {name}" for name in PACKAGES]
    assert advice == "pip install -r weights/train/requirements.txt\n"
