"""scripts/sbom: its lists equal the contents of a package and of an image, and its checker finds faults."""

import copy
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile

import pytest

from places import ROOT
from settings import LINNET

STATUS = """Package: libc6
Status: install ok installed
Version: 2.36-9

Package: gone
Status: deinstall ok config-files
Version: 1

Package: bash
Status: install ok installed
Version: 5.2
"""


def sbom(*args, **options):
    return subprocess.run([sys.executable, ROOT / "scripts/sbom", *map(str, args)], capture_output=True, timeout=120, **options)


def checked(result, tmp_path):
    assert result.returncode == 0, result.stderr.decode()
    path = tmp_path / "sbom.json"
    path.write_bytes(result.stdout)
    found = sbom("check", path)
    assert (found.returncode, found.stdout) == (0, b""), found
    return json.loads(result.stdout)


def versions(document):
    return {p["name"]: p["versionInfo"] for p in document["packages"]}


@pytest.fixture(scope="module")
def image():
    """The tar of an image's files, made by hand: the program is real, its models are not."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in (("var/lib/dpkg/status", STATUS.encode()), ("usr/local/bin/linnet", LINNET.read_bytes()),
                           ("models/couplet/config.json", b"{}"), ("etc/passwd", b"root")):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), 1700000000
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def test_of_an_image(image, tmp_path):
    first = sbom("image", "-", input=image)
    document = checked(first, tmp_path)
    version = re.search(r'LX_VERSION "([0-9.]+)"', (ROOT / "common/version.h").read_text())[1]
    assert versions(document) == {"linnet-image": version, "linnet": version, "model-couplet": version, "libc6": "2.36-9", "bash": "5.2"}
    assert {f["fileName"] for f in document["files"]} == {"./usr/local/bin/linnet", "./models/couplet/config.json"}
    sums = {c["algorithm"]: c["checksumValue"] for f in document["files"] for c in f["checksums"] if "bin" in f["fileName"]}
    assert sums["SHA256"] == hashlib.sha256(LINNET.read_bytes()).hexdigest()
    assert first.stdout == sbom("image", "-", input=image).stdout


def test_of_a_package(tmp_path):
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr/share/linnet/models/mnist").mkdir(parents=True)
    (tree / "usr/share/linnet/models/mnist/config.json").write_text("{}")
    (tree / "DEBIAN/control").write_text("Package: linnet\nVersion: 9.8.7\nArchitecture: amd64\nMaintainer: A <a@b.c>\n"
                                         "Depends: adduser, libc6 (>= 2.34)\nDescription: a test\n")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, tmp_path / "a.deb"], check=True, capture_output=True,
                   timeout=60)
    document = checked(sbom("package", tmp_path / "a.deb"), tmp_path)
    assert versions(document) == {"linnet": "9.8.7", "model-mnist": "9.8.7", "adduser": "NOASSERTION", "libc6": "NOASSERTION"}
    assert any(p.get("comment") == "any version >= 2.34" for p in document["packages"])


def test_an_image_without_the_program():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w"):
        pass
    result = sbom("image", "-", input=out.getvalue())
    assert result.returncode == 1 and b"dpkg/status" in result.stderr


@pytest.mark.parametrize("change, words", [
    (lambda d: d.pop("documentNamespace"), "documentNamespace"),
    (lambda d: d["creationInfo"].update(created="today"), "created"),
    (lambda d: d["packages"].append(d["packages"][0]), "twice"),
    (lambda d: d["packages"][3].update(SPDXID="SPDXRef-a b"), "no identifier"),
    (lambda d: d["packages"][0].pop("downloadLocation"), "downloadLocation"),
    (lambda d: d["files"][0]["checksums"][0].update(checksumValue="0"), "no checksum"),
    (lambda d: d["files"][0]["checksums"][0].update(checksumValue="0" * 40), "packageVerificationCode"),
    (lambda d: d["packages"][1].update(filesAnalyzed=False), "filesAnalyzed"),
    (lambda d: d["relationships"].pop(0), "described"),
    (lambda d: d["relationships"][1].update(relatedSpdxElement="SPDXRef-none"), "not there"),
])
def test_the_checker_finds_faults(image, tmp_path, change, words):
    document = json.loads(sbom("image", "-", input=image).stdout)
    broken = copy.deepcopy(document)
    change(broken)
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(broken))
    result = sbom("check", path)
    assert result.returncode == 1 and words in result.stdout.decode()


def test_licences_are_those_of_the_manual():
    """Every library that the program is linked with has its row, with the licence that a document gives it."""
    manual = (ROOT / "docs/licences.md").read_text()
    rows = dict(re.findall(r"^\| [^|]+ \| `([\w.-]+)` \| ([^|]+?) \|$", manual, re.MULTILINE))
    source = (ROOT / "scripts/sbom").read_text()
    listed = dict(re.findall(r'"([\w.-]+)": "([^"]+)"', source[source.index("LICENCES"):source.index("OURS")]))
    assert {name: text.lower() for name, text in rows.items()} == {name: text.lower() for name, text in listed.items()}
    run = re.search(r'^run="([^"]+)"', (ROOT / "scripts/deps").read_text(), re.MULTILINE)[1].split()
    assert {*(names.split("|")[0] for names in run), "libc6"} == set(listed)
    newer = dict(re.findall(r'"([\w.-]+)": "([^"]+)"', source[source.index("DEBIAN_13"):source.index("MODEL =")]))
    assert [names.split("|") for names in run if "|" in names] == [[old, new] for new, old in newer.items()]
