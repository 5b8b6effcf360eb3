"""Redis in compose and in Kubernetes. Started by the very commands of deploy/, it asks for a password that no list of
processes shows, and Linnet reads it from the file that deploy/ names."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from places import DEPLOY
import client
from client import complete, complete_ok
from cluster import Redis
from conversations import UPPER, state_of
from server import Server

SECRETS = "/run/secrets/linnet"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
PASSWORD_FILE = "LINNET_STATE_STORE_PASSWORD_FILE"


def make_secrets(folder):
    """Runs compose's own script, here."""
    service = COMPOSE["services"]["secrets"]
    (script,) = service["command"]
    assert SECRETS in script and service["volumes"] == [f"secrets:{SECRETS}"]
    subprocess.run([*service["entrypoint"], script.replace(SECRETS, str(folder))], check=True, timeout=60)


class DeployedRedis(Redis):
    """By the arguments that a container is given, on a port of the test's."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "bin/redis-server").symlink_to(self.program())


class ComposedRedis(DeployedRedis):
    def run_on(self, port):
        command = COMPOSE["services"]["redis"]["command"]
        command = [word.replace(SECRETS, str(self.folder)).replace("${REDIS_MEMORY:-1gb}", "100mb") for word in command]
        self.spawn([*command, "--port", str(port), "--dir", str(self.folder)], self.folder / "bin" / command[0])


def documents(name):
    return {d["kind"]: d for d in yaml.safe_load_all((DEPLOY / "k8s/base" / name).read_text())}


def pod(name, kind):
    spec = documents(name)[kind]["spec"]["template"]["spec"]
    return spec, spec["containers"][0]


class PoddedRedis(DeployedRedis):
    def run_on(self, port):
        *shell, script = pod("redis.yaml", "StatefulSet")[1]["command"]
        script = script.replace(SECRETS, str(self.folder)).replace("redis-server -", f"redis-server - --port {port} --dir {self.folder}")
        self.spawn([*shell, script], env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"})


def shown_to_others(process):
    return b"".join(Path(f"/proc/{process}/{name}").read_bytes() for name in ("cmdline", "environ"))


@pytest.mark.parametrize("kind, file", [(ComposedRedis, "redis-password"), (PoddedRedis, "password")])
def test_redis_asks_for_the_password_that_linnet_has(tmp_path, kind, file):
    make_secrets(tmp_path)
    password = (tmp_path / "redis-password").read_text()
    (tmp_path / file).write_text(password + "\n")  # as base64 ends it
    with kind(tmp_path) as redis:
        assert b"redis-server" in shown_to_others(redis.process.pid)
        assert password.encode() not in shown_to_others(redis.process.pid)
        with pytest.raises(AssertionError, match="NOAUTH"):
            redis.command("DBSIZE")
        url = f"redis://{client.HOST}:{redis.port}"
        with Server("--state-store", url, "--state-store-password-file", tmp_path / file) as server:
            state = state_of(complete_ok(server.port, prompt=UPPER, max_tokens=2, return_state=True))
            assert complete(server.port, state=state).status == 200
            assert password.encode() not in shown_to_others(server.pid)
        with Server("--state-store", url) as server:
            assert complete(server.port, state=state).status == 503


def test_the_password_is_made_once_and_is_long(tmp_path):
    made = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        make_secrets(folder)
        first = (folder / "redis-password").read_text()
        make_secrets(folder)  # the next start
        assert (folder / "redis-password").read_text() == first
        assert re.fullmatch("[0-9a-f]{48}", first)
        assert (folder / "redis.conf").read_text() == f"requirepass {first}"
        made.append(first)
    assert made[0] != made[1]


def test_compose_gives_the_file_to_linnet_and_redis_alone():
    mounted = {name for name, service in COMPOSE["services"].items()
               if any(volume.startswith("secrets:") for volume in service.get("volumes", []))}
    assert mounted == {"secrets", "redis", "linnet1", "linnet2", "linnet-gpu"}
    for name in mounted - {"secrets"}:
        assert f"secrets:{SECRETS}:ro" in COMPOSE["services"][name]["volumes"]
        assert COMPOSE["services"][name]["depends_on"]["secrets"]["condition"] == "service_completed_successfully"
    assert COMPOSE["x-linnet"]["environment"][PASSWORD_FILE] == f"{SECRETS}/redis-password"


@pytest.mark.parametrize("name, kind", [("redis.yaml", "StatefulSet"), ("deployment.yaml", "Deployment")])
def test_kubernetes_gives_the_secret_to_linnet_and_redis(name, kind):
    spec, container = pod(name, kind)
    (volume,) = [v for v in spec["volumes"] if "secret" in v]
    assert volume["secret"] == {"secretName": "linnet-redis", "defaultMode": 0o440}
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]  # who may read it
    (mount,) = [m for m in container["volumeMounts"] if m["name"] == volume["name"]]
    assert mount == {"name": "secret", "mountPath": SECRETS, "readOnly": True}
    if kind == "Deployment":
        assert {"name": PASSWORD_FILE, "value": f"{SECRETS}/password"} in container["env"]
