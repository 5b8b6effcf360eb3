"""What a release is made of: one version, and an installation that works by itself."""

import json
import re
import subprocess

import pytest
import yaml

from places import DEPLOY, ROOT
from server import environment, run
from settings import LINNET

VERSION = re.search(r'LX_VERSION "([0-9.]+)"', (ROOT / "common/version.h").read_text())[1]


def test_the_program_says_version_and_commit():
    said = run("--version").stdout
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True,
                            timeout=60)
    assert re.fullmatch(rf"linnet {re.escape(VERSION)}( \([0-9a-f]{{12,}}(-dirty)?\))?\n", said), said
    if commit.returncode == 0 and (ROOT / ".git").exists():
        assert "(" in said, said


def test_the_version_is_the_same_everywhere():
    assert json.loads((ROOT / "web/openapi.json").read_text())["info"]["version"] == VERSION
    released = re.findall(r"^## \[(\d[\d.]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released and released[0] == VERSION
    assert f'\nversion = "{VERSION}"\n' in (ROOT / "weights/pyproject.toml").read_text()
    for path in DEPLOY.glob("k8s/**/kustomization.yaml"):
        for image in yaml.safe_load(path.read_text()).get("images", []):
            assert image["newTag"].removesuffix("-cuda") == VERSION, path


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """`cmake --install` of the build under test."""
    prefix = tmp_path_factory.mktemp("installed")
    result = subprocess.run(["cmake", "--install", LINNET.parent, "--prefix", prefix], capture_output=True, text=True,
                            timeout=300)
    assert result.returncode == 0, result.stderr
    return prefix


def test_all_is_installed(installed):
    files = {str(p.relative_to(installed)) for p in installed.rglob("*") if p.is_file()}
    models = "share/linnet/models"
    assert {"bin/linnet", "share/doc/linnet/LICENSE", "share/doc/linnet/CHANGELOG.md",
            *(f"{models}/{m}/{name}" for m in ("couplet", "mnist", "poem")
              for name in ("config.json", "model.safetensors", "README.md")),
            f"{models}/couplet/vocab.txt", f"{models}/poem/tokenizer.json", f"{models}/poem/rhymes.txt",
            "share/man/man1/linnet.1", "share/man/man1/linnet-serve.1",
            "share/bash-completion/completions/linnet", "share/zsh/site-functions/_linnet"} <= files
    assert not [f for f in files if f.endswith((".png", ".py", ".a"))]


def test_the_installed_program_needs_nothing_else(installed):
    result = subprocess.run([installed / "bin/linnet", "generate", "--prompt", "海上明月", "--seed", "1"], cwd="/",
                            env=environment(), capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and len(result.stdout.strip()) == 4, result.stderr
