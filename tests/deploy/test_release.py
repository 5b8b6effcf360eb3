"""The parts of a release: one version, and an installation that works by itself."""

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
    named = [version for path in (ROOT / "docs").glob("*.md") for version in re.findall(r"\blinnet_(\d[\d.]*)_(?:debian-\d+_)?amd64", path.read_text())]
    assert named and set(named) == {VERSION}
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


def models_of_the_tree():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "weights/couplet", "weights/mnist", "weights/poem",
                             "weights/digits-spoken", "weights/strip", "weights/race-linear", "weights/race-softmax"], check=True,
                            capture_output=True, text=True, timeout=60)
    return {f"share/linnet/models/{name.removeprefix('weights/')}" for name in listed.stdout.split() if not name.endswith(".png")}


def test_all_is_installed(installed):
    files = {str(p.relative_to(installed)) for p in installed.rglob("*") if p.is_file()}
    commands = re.findall(r"^  ([a-z]+) ", run("--help").stdout, re.MULTILINE)
    plugin = {"lib/libkernels_cuda.so"} if (LINNET.parent / "libkernels_cuda.so").exists() else set()
    assert files == {
        "bin/linnet", *models_of_the_tree(), *(f"share/doc/linnet/{name}" for name in ("LICENSE", "LICENSE.Apache-2.0", "LICENSE.Unicode", "CHANGELOG.md")),
        "share/man/man1/linnet.1", *(f"share/man/man1/linnet-{command}.1" for command in commands),
        "share/bash-completion/completions/linnet", "share/zsh/site-functions/_linnet", *plugin}


def test_an_installed_plugin_is_found(installed):
    """Where the CUDA back end is built, the program in bin/ loads the library in lib/; here that needs no GPU."""
    if not (installed / "lib/libkernels_cuda.so").exists():
        pytest.skip("this build has no CUDA back end")
    said = subprocess.run([installed / "bin/linnet", "bench", "--model", "mnist", "--backend", "cuda"], cwd="/", env=environment(),
                          capture_output=True, text=True, timeout=120)
    assert "cannot load" not in said.stderr, said.stderr


def test_libraries_are_searched_next_to_the_program_only(installed):
    """An empty entry of RUNPATH is the working directory, where anyone may have put a library."""
    said = subprocess.run(["readelf", "-d", installed / "bin/linnet"], capture_output=True, text=True, timeout=60, check=True).stdout
    (entries,) = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", said)
    assert all(entry.startswith("$ORIGIN") for entry in entries.split(":")), entries


def test_the_readme_calls_cuda_experimental_on_its_first_screen():
    assert any("**CUDA is experimental**" in line for line in (ROOT / "README.md").read_text().splitlines()[:25])


def test_the_installed_program_needs_nothing_else(installed):
    result = subprocess.run([installed / "bin/linnet", "generate", "--prompt", "海上明月", "--seed", "1"], cwd="/",
                            env=environment(), capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and len(result.stdout.strip()) == 4, result.stderr
