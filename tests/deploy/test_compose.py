"""deploy/compose.yaml and the Dockerfile, as far as they can be checked without pulling images;
tests/container.sh builds and runs the image."""

import os
import re
import shutil
import subprocess

import pytest
import yaml

from places import DEPLOY, ROOT

COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
PROFILES = {"one": {"linnet1"}, "several": {"linnet1", "linnet2"}, "gpu": {"linnet-gpu"}}


@pytest.mark.parametrize("profile", PROFILES)
def test_composes_own_check(profile):
    tool = next((t for t in ("docker-compose", "podman-compose") if shutil.which(t)), None)
    if tool is None:
        pytest.skip("docker-compose is not installed: compose.yaml is checked as YAML alone")
    result = subprocess.run([tool, "-f", DEPLOY / "compose.yaml", "--profile", profile, "config"],
                            capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


def test_profiles():
    for profile, servers in PROFILES.items():
        started = {name for name, s in SERVICES.items() if profile in s.get("profiles", [profile])}
        assert started == servers | {"secrets", "redis", "haproxy", "prometheus", "alertmanager", "grafana"}
    chosen = re.search(r"^COMPOSE_PROFILES=(\w+)$", (DEPLOY / ".env").read_text(), re.MULTILINE)
    assert chosen[1] in PROFILES


def test_services_are_closed():
    for name, service in SERVICES.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["restart"] == ("no" if name == "secrets" else "unless-stopped"), name  # it ends, and is done
        for port in service.get("ports", []):
            assert "127.0.0.1:" in port, f"{name} is open to the network"
        if name.startswith("linnet"):
            assert service["read_only"] is True
            assert "ports" not in service, f"{name} is reached without HAProxy"


def test_no_log_fills_the_disk():
    for name, service in SERVICES.items():
        assert service["logging"]["options"]["max-size"] and int(service["logging"]["options"]["max-file"]) > 1, name


def test_grafana_has_no_account_to_guess():
    variables = SERVICES["grafana"]["environment"]
    assert variables["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert variables["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert not [name for name in variables if "PASSWORD" in name]


def test_there_is_time_to_drain():
    common = COMPOSE["x-linnet"]
    drain = int(common["environment"]["LINNET_DRAIN_TIMEOUT"])
    grace = int(common["stop_grace_period"].rstrip("s"))
    assert grace > drain
    # HAProxy carries those streams: it stops softly, and not before them.
    haproxy = SERVICES["haproxy"]
    assert haproxy["stop_signal"] == "SIGUSR1"
    assert int(haproxy["stop_grace_period"].rstrip("s")) >= grace


def test_every_variable_is_in_the_manual():
    used = set(re.findall(r"\$\{(\w+):-", (DEPLOY / "compose.yaml").read_text()))
    manual = (ROOT / "docs/operations.md").read_text()
    assert len(used) >= 13 and not [name for name in used if f"`{name}`" not in manual]


def test_mounted_files_exist():
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), f"{name}: {source}"
            else:
                assert source in COMPOSE["volumes"], f"{name}: {source}"


def test_names_agree():
    haproxy = (DEPLOY / "haproxy.cfg").read_text()
    for server in ("linnet1", "linnet2"):
        assert f"{server}:8080" in haproxy
        assert any(server in s["networks"]["front"]["aliases"] for s in SERVICES.values()
                   if isinstance(s.get("networks"), dict))
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    status = SERVICES["haproxy"]["environment"]["LINNET_STATUS_BIND"]
    targets = [t for job in scraped["scrape_configs"] for c in job.get("static_configs", [])
               for t in c["targets"]]
    assert targets == [f"haproxy{status}"]
    (alertmanager,) = scraped["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    name, port = alertmanager.split(":")
    assert any(published.endswith(f":{port}") for published in SERVICES[name]["ports"])
    for service in SERVICES.values():
        assert set(service.get("networks", [])) <= set(COMPOSE["networks"])
        assert ("networks" in service) != (service.get("network_mode") == "none")


def test_nothing_names_a_registry():
    files = [ROOT / "Dockerfile", *(p for p in DEPLOY.rglob("*") if p.is_file())]
    for path in files:
        for line in path.read_text().splitlines():
            found = re.search(r"\b(?:image|FROM|BASE)\b[=: ]+(\S+)", line)
            if found and not line.lstrip().startswith("#"):
                first = found[1].strip('"').split("/")[0]
                assert "." not in first.split(":")[0] or "/" not in found[1], f"{path.name}: {line}"


def test_stages_of_the_dockerfile():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    stages = [line.split()[-1] for line in lines if line.startswith("FROM ")]
    assert stages[-1] == "cpu" and "cuda" in stages
    users = [line for line in lines if line.startswith("USER ")]
    assert users == ["USER 10001:10001"]


def test_haproxy_accepts_its_configuration():
    if shutil.which("haproxy") is None:
        pytest.skip("haproxy is not installed")
    result = subprocess.run(["haproxy", "-c", "-f", DEPLOY / "haproxy.cfg"], capture_output=True,
                            text=True, timeout=60,
                            env={**os.environ, "LINNET_1": "127.0.0.1:1", "LINNET_2": "127.0.0.1:2"})
    assert result.returncode == 0, result.stderr
