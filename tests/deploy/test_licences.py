"""docs/licences.md names all foreign code that the tree builds, tests, trains or is served with, and every data set."""

import ast
import re
import subprocess
import sys
from pathlib import PurePath

import pytest
import yaml

from places import DEPLOY, ROOT

PAGE = (ROOT / "docs/licences.md").read_text()
NAMED = {word.lower().replace("_", "-") for word in re.findall(r"`([\w.+-]+)`", PAGE)}


def tracked(*patterns):
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", *patterns], check=True, capture_output=True, text=True, timeout=60)
    return [name for name in listed.stdout.split() if (ROOT / name).is_file()]


def debian_packages():
    """Of every group of scripts/deps."""
    text = (ROOT / "scripts/deps").read_text()
    groups = re.search(r"scripts/deps ([a-z|]+) \.\.\.$", text, re.MULTILINE)[1].split("|")
    def named(group):
        for word in re.search(rf'^{group}="([^"]+)"$', text, re.MULTILINE)[1].split():
            yield from named(word[1:]) if word.startswith("$") else [word.split("|")[0].removesuffix(":arm64")]

    for group in groups:
        yield from named(group)


def requirements():
    lists = [*tracked("*requirements.txt")]
    assert len(lists) == 3
    for name in lists:
        yield from (re.match(r"[\w.-]+", line)[0] for line in (ROOT / name).read_text().splitlines() if line and line[0] != "#")
    yield from re.findall(r'"([\w-]+)(?:>=[\d.]+)?"', re.search(r"^requires = (.*)$", (ROOT / "weights/pyproject.toml").read_text(), re.M)[1])
    yield from re.findall(r"([\w-]+)==", (ROOT / "Dockerfile").read_text())


# A module's package, where it has another name.
PACKAGES = {"PIL": "pillow", "yaml": "pyyaml", "fla": "flash-linear-attention", "fast_transformers": "pytorch-fast-transformers",
            "langchain_core": "langchain-openai", "llama_index": "llama-index-llms-openai"}


def imported():
    """Packages that Python of the tree imports and that are neither its own nor Python's."""
    scripts = [*tracked("*.py"), *(n for n in tracked("scripts/*") if "python3" in (ROOT / n).read_text().split("\n")[0])]
    own = {part for name in tracked("*.py") for part in (PurePath(name).stem, *PurePath(name).parts)}
    for name in scripts:
        for node in ast.walk(ast.parse((ROOT / name).read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module]
            for module in (module.split(".")[0] for module in modules):
                if module not in sys.stdlib_module_names and module not in own:
                    yield PACKAGES.get(module, module)


@pytest.mark.parametrize("found, least", [(debian_packages, 60), (requirements, 20), (imported, 12)])
def test_every_dependency_is_named(found, least):
    names = {name.lower().replace("_", "-") for name in found()}
    assert len(names) >= least and not names - NAMED, names - NAMED


def test_every_program_of_the_service_is_named():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    of_others = {name for name in services if not name.startswith("linnet") and name != "secrets"}
    assert len(of_others) == 5 and all(re.search(rf"^\|[^|]*\b{name}\b[^|]*\|", PAGE, re.M | re.I) for name in of_others)


def rows_of_data():
    return re.findall(r"^\| ([^|]+) \| ([^|]*) \|", PAGE[PAGE.index("## Data the models learned from"):], re.MULTILINE)


def test_every_model_has_a_row_and_every_source_of_data():
    rows = rows_of_data()
    for name in tracked("weights/*/model.safetensors", "weights/copy/*/model.safetensors"):
        assert any(re.match(rf"{PurePath(name).parts[1]}\b", model) for model, _ in rows), name
    prepared = re.search(r"^SOURCES = \{(.*)\}$", (ROOT / "weights/train/prepare.py").read_text(), re.MULTILINE)[1]
    of_sources = {"cifar10": "CIFAR-10", "mnist": "MNIST", "couplet": "couplet-dataset", "poem": "chinese-poetry"}
    assert set(re.findall(r'"(\w+)":', prepared)) == set(of_sources)
    for data in of_sources.values():
        assert any(data in source for _, source in rows), data


def test_data_in_the_program_has_a_row():
    """Tables that are data: not the lists of kinds and operations, which are code."""
    tables = {name for name in tracked("*.def") if re.search(r"[Ll]icen[cs]e", (ROOT / name).read_text()[:600])}
    assert tables == {name for name in re.findall(r"`(\w+/[\w/]+\.def)`", PAGE)} != set()
