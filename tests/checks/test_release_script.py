"""scripts/release and the step of the release workflow that joins the files of both systems."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = """#!/bin/sh
mkdir -p "$1"
for end in .deb .spdx.json; do echo "$ARCH" >"$1/linnet_0.2.0_$ARCH$end" && echo "$1/linnet_0.2.0_$ARCH$end"; done
"""
CHANGELOG = "# Changelog\n\n## [0.2.0] - 2026-11-30\n\nNews.\n\n## [0.1.0] - 2026-01-01\n\nOld.\n"


@pytest.fixture
def tree(tmp_path):
    """A repository whose packages are a line each."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "common").mkdir()
    shutil.copy(ROOT / "scripts/release", tmp_path / "scripts/release")
    (tmp_path / "scripts/package").write_text(PACKAGE)
    (tmp_path / "scripts/package").chmod(0o755)
    (tmp_path / "common/version.h").write_text('#define LX_VERSION "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / ".gitignore").write_text("build-*\nmade\nrelease\n")
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "all"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, timeout=60)
    return tmp_path


def release(tree, tag="v0.2.0"):
    return subprocess.run(["scripts/release", tag], cwd=tree, capture_output=True, text=True, timeout=60)


def test_files_name_their_system_and_both_systems_make_one_release(tree):
    assert release(tree).returncode == 0
    made = tree / "build-release"
    assert (made / "NOTES.md").read_text() == "News.\n\n"
    system = subprocess.run(["sh", "-c", '. /etc/os-release; echo "$ID-$VERSION_ID"'], capture_output=True, text=True, timeout=60).stdout.strip()
    names = {path.name for path in made.glob("linnet_*")}
    assert names == {f"linnet_0.2.0_{system}_{arch}.{end}" for arch in ("amd64", "arm64") for end in ("deb", "spdx.json")}
    for number in ("12", "13"):
        folder = tree / f"made/release-{number}"
        shutil.copytree(made, folder)
        for name in names:
            (folder / name).rename(folder / name.replace(system, f"debian-{number}"))
        sums = folder / "SHA256SUMS"
        sums.write_text(sums.read_text().replace(system, f"debian-{number}"))
    steps = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]["publish"]["steps"]
    subprocess.run(["bash", "-ec", next(step["run"] for step in steps if step.get("name") == "checksums")], cwd=tree, check=True, timeout=60)
    assert len(list((tree / "release").glob("linnet_*"))) == 8 and (tree / "release/NOTES.md").exists()
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tree / "release", check=True, timeout=60)


@pytest.mark.parametrize("tag, file, old, new, words", [
    ("v0.3.0", None, "", "", "tag v0.3.0, but common/version.h has 0.2.0"),
    ("v0.2.0", "CHANGELOG.md", "2026-11-30", "unreleased", "no line '## [0.2.0] - DATE'"),
    ("v0.2.0", "CHANGELOG.md", "News.", "Other news.", "changes that no commit holds"),
])
def test_a_release_that_would_be_wrong_is_refused(tree, tag, file, old, new, words):
    if file:
        (tree / file).write_text((tree / file).read_text().replace(old, new))
    result = release(tree, tag)
    assert result.returncode == 1 and words in result.stderr and not (tree / "build-release").exists()
