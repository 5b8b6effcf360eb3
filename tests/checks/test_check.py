"""weights/convert/check.py: folders, packages and programs that are not there, and folders that it has nothing to
compare with, end it with one line. tests/http/test_serving_docs.py tests the comparison."""

import json
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("numpy")

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECK = ROOT / "weights" / "convert" / "check.py"
OWN = {"format": "linnet", "format_version": 1, "task": "text"}
THEIRS = {"model_type": "gated_deltanet", "vocab_size": 256}


def refused(folder, *flags, environment=None):
    said = subprocess.run([sys.executable, CHECK, folder, "--against", "float64", *flags], capture_output=True, text=True, timeout=60,
                          env=environment)
    assert said.returncode == 1 and said.stdout == "" and said.stderr.count("\n") == 1, said.stderr
    assert said.stderr.startswith("check: ")
    return said.stderr


@pytest.mark.parametrize("config, words", [
    (json.dumps(OWN), ["Linnet's own format"]),
    ("{", ["config.json", "JSON"]),
    ("[]", ["config.json", "object"]),
    (None, ["config.json", "No such file"]),
])
def test_folders_that_cannot_be_compared(tmp_path, config, words):
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    line = refused(tmp_path, "--linnet", "/bin/true")
    assert all(word in line for word in words), line


def test_a_folder_that_is_not_there(tmp_path):
    assert str(tmp_path / "nothing") in refused(tmp_path / "nothing")


@pytest.mark.parametrize("program", ["no-such-program", "/no/such/program"])
def test_a_program_that_is_not_there(tmp_path, program):
    (tmp_path / "config.json").write_text(json.dumps(THEIRS))
    line = refused(tmp_path, "--linnet", program)
    assert program in line and "--linnet" in line


def test_a_text_that_is_not_there(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(THEIRS))
    assert "no-text" in refused(tmp_path, "--linnet", "/bin/true", "--text", str(tmp_path / "no-text"))


@pytest.mark.parametrize("package", ["numpy", "torch", "transformers"])
def test_a_package_that_is_not_there(tmp_path, package):
    """One of that name comes first, whose import fails as that of a missing one does."""
    (tmp_path / "config.json").write_text(json.dumps(THEIRS))
    for name in ("torch", "transformers"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError('No module named {package}', name='{package}')\n")
    line = refused(tmp_path, "--against", "torch", "--linnet", "/bin/true", environment={"PYTHONPATH": str(tmp_path), "PATH": ""})
    assert f"pip install {package}" in line
