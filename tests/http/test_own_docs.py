"""docs/your-own-model.md, tried literally, except for the port, and for the minutes of training, of which a test has
fewer (TUTORIAL_MINUTES). Without PyTorch, the training, and the steps that need its result, are skipped."""

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess

import pytest

from pages import commands, environment_of
from server import Server
from settings import ROOT

pytestmark = pytest.mark.training

TRAINERS = {"torch": "torch", "numpy": "numpy", "matplotlib": "matplotlib", "tqdm": "tqdm", "pillow": "PIL"}  # package: module
PAGE = "your-own-model.md"
MINUTES = os.environ.get("TUTORIAL_MINUTES", "0.1")


def run(line, place):
    line = re.sub(r"--minutes \d+", f"--minutes {MINUTES}", line)
    return subprocess.run(["bash", "-c", line], cwd=place, env=environment_of(line, place), capture_output=True, text=True,
                          timeout=1200)


@pytest.fixture
def place(tmp_path):
    for name in ("README.md", "docs", "weights"):
        (tmp_path / name).symlink_to(ROOT / name)
    couplets = tmp_path / "my-couplets"
    couplets.mkdir()
    pairs = (f"{a}{b}松间照\t{b}{a}石上流\n" for a in map(chr, range(0x5000, 0x5040)) for b in "东南西北红黄蓝绿明月清泉")
    (couplets / "train.tsv").write_text("".join(pairs), encoding="utf-8")
    (couplets / "badwords.txt").write_text("")
    return tmp_path


def test_the_data_can_be_made_without_pytorch(place):
    digits, text = (next(line for line in commands(PAGE) if word in line) for word in ("small_digits.py", "cat "))
    assert run(digits, place).returncode == 0 and run(text, place).returncode == 0
    first = {p.parent.name: p.read_bytes() for p in sorted((place / "my-digits").glob("*/0000.pgm"))}
    assert sorted(first) == list("0123456789") and len(set(first.values())) == 10
    assert all(data.startswith(b"P5 8 8 255\n") and len(data) == 11 + 64 for data in first.values())
    assert len((place / "my-text.txt").read_text()) > 100_000


def known_to_pip(package):
    try:
        return bool(importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return False


def test_one_command_installs_what_the_recipes_want(place):
    """The requirements file has every package that a recipe imports; if they are installed, pip needs nothing else."""
    (line,) = (line for line in commands(PAGE) if "pip install" in line)
    assert line == "python3 -m pip install -r weights/train/requirements.txt"
    wanted = {re.match(r"\w+", line)[0] for line in (ROOT / "weights/train/requirements.txt").read_text().splitlines()}
    assert wanted == set(TRAINERS)
    if not all(map(known_to_pip, TRAINERS)):
        pytest.skip("not all that the recipes want is here, and pip would fetch it")
    env = environment_of(line, place) | {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(["bash", "-c", line], cwd=place, env=env, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0 and "Successfully installed" not in done.stdout, done.stderr


def server_of(line, place):
    """The page's own command; another process may have its port."""
    started = Server()
    path = environment_of(line, place)["PATH"]
    assert line.endswith(" --port 8080")
    started.args = ["env", "-C", place, f"PATH={path}", "bash", "-c", "exec " + line.replace("8080", "0")]
    return started


@pytest.mark.skipif(not all(map(importlib.util.find_spec, TRAINERS.values())), reason="there is no PyTorch, or another package of the recipes")
def test_the_commands_do_what_the_page_says(place):
    _, *lines, serve, paint, write = commands(PAGE)
    for line in lines:
        done = run(line, place)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        if "check.py" in line:
            assert "all within 0.001" in done.stdout, done.stdout
    assert all((place / name).read_bytes()[1:4] == b"PNG" for name in ("digits.png", "seven.png", "runs/digits/curve.png"))
    with server_of(serve, place) as server:
        for line, key, count in ((paint, "data", 4), (write, "choices", 1)):
            assert "http://127.0.0.1:8080/v1/" in line  # check-tests: the page's port; the test uses another port
            done = run(line.replace("8080", str(server.port)), place)
            assert done.returncode == 0 and len(json.loads(done.stdout)[key]) == count, (line, done.stdout, done.stderr)
