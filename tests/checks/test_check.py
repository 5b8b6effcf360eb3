"""weights/convert/check.py: folders, packages and programs that are not there, and folders that it has nothing to
compare with, end it with one line. tests/http/test_serving_docs.py tests the comparison."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("numpy")

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINNET = os.environ.get("LINNET", ROOT / "build" / "linnet")
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
    (json.dumps(OWN), ["Linnet's own format", "--against torch"]),
    ("{", ["config.json", "JSON"]),
    ("[]", ["config.json", "object"]),
    (None, ["config.json", "No such file"]),
])
def test_folders_that_cannot_be_compared(tmp_path, config, words):
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    line = refused(tmp_path, "--linnet", "/bin/true")
    assert all(word in line for word in words), line


def test_a_model_of_another_task_in_the_own_format(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(OWN | {"task": "couplet"}))
    line = refused(tmp_path, "--against", "torch", "--linnet", "/bin/true")
    assert "the task couplet" in line and "linnet eval" in line


@pytest.mark.training
def test_a_folder_of_training_in_the_own_format(tmp_path):
    """The server and the model of PyTorch that wrote the folder agree; weights that were changed meanwhile are found."""
    torch = pytest.importorskip("torch")
    sys.path.insert(0, str(ROOT / "weights" / "train"))
    import export
    import linear_transformer

    torch.manual_seed(3)
    config = linear_transformer.model_config(
        "text", [("token", 256)], {"kind": "categorical", "size": 256, "bias": False}, 2, norm_kind="rms",
        feed_forward={"kind": "gated_mlp"}, text={"tokenizer": "bytes", "context": 512, "begin": 10, "end": [10]})
    config |= {"n_heads": 2, "d_model": 32, "d_ff": 48, "norm_eps": 1e-6, "attention": {"kind": "linear", "feature_map": "elu+1", "eps": 1e-6}}
    model = linear_transformer.LinearTransformer(config)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_((torch.randn_like(p) * 0.2 if p.ndim == 2 else p).bfloat16())
    folder = tmp_path / "mine"
    export.export_model(folder, model, config, None)
    command = [sys.executable, CHECK, folder, "--against", "torch", "--linnet", LINNET, "--tokens", "60"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert said.returncode == 0 and "all within 0.001" in said.stdout, said.stdout + said.stderr
    said = subprocess.run([*command, "--within", "1e-12"], capture_output=True, text=True, timeout=300)
    assert said.returncode == 1 and "they part at token" in said.stdout


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
