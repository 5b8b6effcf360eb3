"""docs/operations.md: its tables equal the program's output, and the program knows every option that deploy/ sets."""

import functools
import json
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
    """Objects of files, and those by which overlays change others."""
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
    """compose and Kubernetes keep the default of --timeout, so no running answer is cut."""
    default = re.search(r"`LINNET_TIMEOUT` \| `(\d+)`", run("serve", "--help=markdown").stdout)
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["x-linnet"]["environment"]
    deployment = yaml.safe_load((DEPLOY / "k8s/base/deployment.yaml").read_text())
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    for variables in (compose, {entry["name"]: entry["value"] for entry in container["env"]}):
        assert float(variables.get("LINNET_TIMEOUT", default[1])) <= float(variables["LINNET_DRAIN_TIMEOUT"])


def arguments_of_manifests():
    """Of every container of Linnet's, and of the image."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    containers = [service for name, service in compose["services"].items() if name.startswith("linnet")]
    for document in documents_of_kubernetes():
        if document.get("kind") == "Deployment":
            containers += document["spec"]["template"]["spec"]["containers"]
    for container in containers:
        words = [*container.get("command", []), *container.get("args", [])]
        yield words
    for words in re.findall(r"^(?:HEALTHCHECK.*)?\bCMD (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.MULTILINE):
        yield json.loads(words)


def test_arguments_of_manifests_are_flags():
    found = [words[1:] if words[:1] == ["linnet"] else words for words in arguments_of_manifests()]
    assert ["health"] in found and ["serve", "--models", "/models"] in found and len(found) > 5
    for command, *rest in filter(None, found):  # without any, the image's own are used
        assert {word.split("=")[0][2:] for word in rest if word.startswith("--")} <= flags_of(command), (command, rest)


@functools.cache
def flags_of(command):
    return set(re.findall(r"^\| `--(?:\[no-\])?([\w-]+)", run(command, "--help=markdown").stdout, re.MULTILINE))


COMMANDS = re.findall(r"^  ([a-z]+) ", run("--help").stdout, re.MULTILINE)


def tracked(*patterns):
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", *patterns], check=True, capture_output=True, text=True, timeout=60)
    return [ROOT / name for name in listed.stdout.split() if (ROOT / name).is_file()]


def flags_named_behind_commands(text):
    """[(command, flag)] of every `linnet COMMAND --flag ...` in the text, over continued lines."""
    text = text.replace("\\\n", " ")
    for command, rest in re.findall(rf"\blinnet ({'|'.join(COMMANDS)})\b([^\n`#|]*)", text):
        yield from ((command, flag) for flag in re.findall(r"(?<!\S)--(?:no-)?([a-z][\w-]+)", rest))


def test_what_is_found_behind_a_command():
    text = "`linnet serve --port 1 --no-log-prompts` or\n    linnet chat \\\n  --seed 2 # --nothing\n"
    assert list(flags_named_behind_commands(text)) == [("serve", "port"), ("serve", "log-prompts"), ("chat", "seed")]


def test_flags_named_in_documents_exist():
    """After `linnet COMMAND` those of the command; alone in code those of any command, or of a script of the tree."""
    assert len(COMMANDS) >= 8
    every = set().union(*map(flags_of, COMMANDS)) | {"help", "version"}
    of_scripts = {flag for path in tracked("*.py") for flag in re.findall(r'"--([a-z][\w-]+)"', path.read_text())}
    pages = tracked("*.md")
    assert len(pages) > 50
    for path in [*pages, ROOT / "Dockerfile", *tracked("deploy/*", "scripts/*")]:
        for command, flag in flags_named_behind_commands(path.read_text()):
            assert flag in flags_of(command) | {"help"}, f"{path.relative_to(ROOT)}: linnet {command} --{flag}"
    for path in pages:
        if path.parent.name == "adr":  # some were decided against, or are gone
            continue
        for flag in re.findall(r"`--(?:\[no-\])?([a-z][\w-]+)", path.read_text()):
            named = flag.removeprefix("no-")
            of_others = OF_OTHERS if str(path.relative_to(ROOT)) in OF_THE_SERVER else OF_OTHERS | of_scripts
            assert named in every | of_others, f"{path.relative_to(ROOT)}: --{flag}"


OF_THE_SERVER = {"README.md", "SECURITY.md", "docs/operations.md", "docs/http-api.md", "docs/compatibility.md"}  # and no script's
# Named alone in a document, and of another program.
OF_OTHERS = {"read-only", "profile"}  # docker run, compose
