"""docs/operations.md: its tables are what the program says, and nothing that deploy/ sets is unknown."""

import os
import re
import subprocess
import sys

import pytest
import yaml

from places import DEPLOY, ROOT
from server import run
from settings import LINNET


def test_tables_are_the_programs():
    result = subprocess.run([sys.executable, ROOT / "scripts" / "operations", "--check"],
                            capture_output=True, text=True, timeout=300,
                            env={**os.environ, "LINNET": str(LINNET)})
    assert result.returncode == 0, result.stdout + result.stderr


def test_links_lead_somewhere():
    page = ROOT / "docs" / "operations.md"
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.fixture(scope="module")
def variables():
    return set(re.findall(r"`(LINNET_\w+)`", run("serve", "--help=markdown").stdout))


def documents_of_kubernetes():
    """Those of files, and those that overlays change others with."""
    for path in sorted(DEPLOY.glob("k8s/**/*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document:
                yield document
                yield from (yaml.safe_load(patch["patch"]) for patch in document.get("patches", []) if "patch" in patch)


def names_of_kubernetes():
    for document in documents_of_kubernetes():
        if document.get("kind") == "Deployment":
            for container in document["spec"]["template"]["spec"]["containers"]:
                yield from (entry["name"] for entry in container.get("env", []))


def test_variables_that_are_set_are_options(variables):
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    dockerfile = re.findall(r"\b(LINNET_\w+)=", re.sub(
        r"-DLINNET_\w+", "", (ROOT / "Dockerfile").read_text()))
    names = {*compose["x-linnet"]["environment"], *names_of_kubernetes(), *dockerfile}
    assert {"LINNET_STATE_STORE_PASSWORD_FILE", "LINNET_ALLOWED_HOSTS"} <= names  # the base's and an overlay's
    assert names <= variables, names - variables


def test_the_longest_answer_fits_into_the_drain():
    """compose and Kubernetes leave --timeout as it is: nothing that runs is cut, then."""
    default = re.search(r"`LINNET_TIMEOUT` \| `(\d+)`", run("serve", "--help=markdown").stdout)
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["x-linnet"]["environment"]
    deployment = yaml.safe_load((DEPLOY / "k8s/base/deployment.yaml").read_text())
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    for variables in (compose, {entry["name"]: entry["value"] for entry in container["env"]}):
        assert float(variables.get("LINNET_TIMEOUT", default[1])) <= float(variables["LINNET_DRAIN_TIMEOUT"])


def flags_of(command):
    return set(re.findall(r"^\| `--(?:\[no-\])?([\w-]+)", run(command, "--help=markdown").stdout, re.MULTILINE))


def test_flags_named_in_documents_exist():
    """After `linnet COMMAND` those of the command; alone in code those of any command."""
    commands = {name: flags_of(name) for name in ("serve", "generate", "eval", "bench", "inspect", "tokenize", "health")}
    every = set().union(*commands.values()) | {"help", "version"}
    pages = [ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").glob("*.md")]
    for path in pages:
        text = path.read_text()
        for command, rest in re.findall(r"\blinnet (serve|generate|eval|bench|inspect|tokenize|health)\b([^\n`#|]*)", text):
            for flag in re.findall(r"(?<!\S)--(?:no-)?([a-z][\w-]+)", rest):
                assert flag in commands[command] | {"help"}, f"{path.name}: linnet {command} --{flag}"
        if path.name not in {"README.md", "SECURITY.md", "operations.md", "http-api.md", "compatibility.md"}:
            continue  # tools of the other pages have flags, too
        for flag in re.findall(r"`--(?:\[no-\])?([a-z][\w-]+)", text):
            assert flag.removeprefix("no-") in every | OF_OTHERS, f"{path.name}: --{flag}"


# Named alone in a document, and of another program.
OF_OTHERS = {"read-only", "profile"}  # docker run, compose
