"""docs/your-own-model.md, tried literally, but for the minutes of training, of which a test has fewer. Without PyTorch what
trains, and what needs its result, is skipped."""

import importlib.util
import json
import re
import shlex
import subprocess

import pytest

import client
from pages import commands, environment_of
from server import Server
from settings import ROOT

TRAINERS = ("torch", "numpy", "tqdm", "matplotlib", "PIL")
PAGE = "your-own-model.md"
MINUTES = "0.1"


def run(line, place):
    line = re.sub(r"--minutes \d+", f"--minutes {MINUTES}", line)
    return subprocess.run(["bash", "-c", line], cwd=place, env=environment_of(line, place), capture_output=True, text=True,
                          timeout=300)


@pytest.fixture
def place(tmp_path):
    for name in ("README.md", "docs", "weights"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def test_the_data_can_be_made_without_pytorch(place):
    digits, text = (next(line for line in commands(PAGE) if word in line) for word in ("small_digits.py", "cat "))
    assert run(digits, place).returncode == 0 and run(text, place).returncode == 0
    first = {p.parent.name: p.read_bytes() for p in sorted((place / "my-digits").glob("*/0000.pgm"))}
    assert sorted(first) == list("0123456789") and len(set(first.values())) == 10
    assert all(data.startswith(b"P5 8 8 255\n") and len(data) == 11 + 64 for data in first.values())
    assert len((place / "my-text.txt").read_text()) > 100_000


@pytest.mark.skipif(not all(map(importlib.util.find_spec, TRAINERS)), reason="there is no PyTorch, or what the recipes want beside it")
def test_the_commands_do_what_the_page_says(place):
    install, *lines, serve, paint, write = commands(PAGE)
    assert install == "python3 -m pip install -r weights/train/requirements.txt"
    for line in lines:
        done = run(line, place)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        if "check.py" in line:
            assert "all within 0.001" in done.stdout, done.stdout
    assert all((place / name).read_bytes()[1:4] == b"PNG" for name in ("digits.png", "seven.png", "runs/digits/curve.png"))
    assert shlex.split(serve)[:-1] == ["linnet", "serve", "--models", "my-models", "--port"]
    with Server("--models", place / "my-models") as server:
        for line, path in ((paint, "/v1/images/generations"), (write, "/v1/completions")):
            assert shlex.split(line)[2].endswith(path), line
            reply = client.call(server.port, "POST", path, json.loads(shlex.split(line)[-1]))
            assert reply.status == 200, reply.text
