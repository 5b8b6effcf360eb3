"""scripts/deps: a script that runs one of the tree's Python programs asks for a group with python3."""

import re
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
CALLED = re.compile(r"scripts/([a-z-]+)\b")
ASKED = re.compile(r'scripts/deps"? (.+)$', re.M)


def text_of(name):
    path = SCRIPTS / name
    return path.read_text(errors="replace") if path.is_file() else ""


def packages(group):
    """The packages of a group: without apt-get scripts/deps only names them."""
    result = subprocess.run(["/bin/bash", SCRIPTS / "deps", group], env={"PATH": "/nowhere"}, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result
    return set(result.stderr.split())


def test_a_package_is_built_without_the_tools_of_its_tests():
    """Only the tests of the package need them, and lintian alone brings a hundred packages."""
    assert not packages("package") & {"qemu-user-static", "debootstrap", "lintian"}
    assert {"qemu-user-static", "debootstrap", "lintian", "curl"} < packages("install")


@pytest.mark.parametrize("name", ["package", "serve"])
def test_python_is_there_for_python_programs(name):
    code = re.sub(r"^\s*#.*$", "", text_of(name), flags=re.M)
    python = [called for called in CALLED.findall(code) if text_of(called).startswith("#!/usr/bin/env python3")]
    groups = [group for groups in ASKED.findall(code) for group in re.findall(r"[a-z]+", groups.replace("$arch", ""))]
    assert groups, "it asks for no packages"
    assert not python or any("python3" in packages(group) for group in groups), (python, groups)
