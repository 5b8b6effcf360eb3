"""deploy/debian: the unit and the configuration name options that exist, and the unit sets every restriction that it
can. The package itself is built and installed by tests/package.sh."""

import re
import shutil
import subprocess

import pytest

import client
from places import DEPLOY
from server import Server, run

DEBIAN = DEPLOY / "debian"
UNIT = (DEBIAN / "linnet.service").read_text()
CONFIGURATION = (DEBIAN / "linnet.conf").read_text()
WORST_EXPOSURE = 20  # tenths, as systemd-analyze counts a threshold


@pytest.fixture(scope="module")
def options():
    """{flag: default}"""
    rows = re.findall(r"^\| `--(?:\[no-\])?([\w-]+)[^|]*\| [^|]*\| (?:`([^`]*)`)?", run("serve", "--help=markdown").stdout,
                      re.MULTILINE)
    return dict(rows)


def test_flags_of_the_unit_exist(options):
    commands = re.findall(r"^ExecStart=/usr/bin/linnet (\w+) (.*)$", UNIT, re.MULTILINE)
    assert [name for name, _ in commands] == ["serve"]
    for _, flags in commands:
        assert {flag for flag in re.findall(r"--([\w-]+)", flags)} <= set(options)
        assert "--config /etc/linnet/linnet.conf" in flags


def test_the_unit_waits_for_running_answers(options):
    stop = int(re.search(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)[1])
    assert stop > int(options["drain-timeout"])


def test_the_units_exposure_is_small():
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    result = subprocess.run(["systemd-analyze", "security", "--offline=true", f"--threshold={WORST_EXPOSURE}",
                             DEBIAN / "linnet.service"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout[-300:] + result.stderr


def test_every_line_of_the_configuration_is_an_option(options):
    lines = re.findall(r"^(#?)([\w-]+) = (.+)$", CONFIGURATION, re.MULTILINE)
    assert {name for _, name, _ in lines} <= set(options)
    assert {name for off, name, _ in lines if not off} == {"host", "port", "state-store"}


def test_the_server_starts_with_it(tmp_path):
    assert "state-store = /var/lib/linnet/states.db" in CONFIGURATION and "StateDirectory=linnet\n" in UNIT
    with Server("--config", DEBIAN / "linnet.conf", "--port", "0", "--state-store", tmp_path / "states.db") as server:
        assert client.call(server.port, "GET", "/readyz").status == 200


def test_scripts_name_what_the_package_has():
    for name in ("postinst", "prerm", "postrm"):
        text = (DEBIAN / name).read_text()
        assert text.startswith("#!/bin/sh\n") and "\nset -e\n" in text
        assert (DEBIAN / name).stat().st_mode & 0o111 == 0o111
        assert set(re.findall(r"\blinnet\.\w+", text)) <= {"linnet.service", "linnet.conf"}
