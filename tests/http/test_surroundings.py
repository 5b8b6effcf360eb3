"""The program's surroundings at its start: closed descriptors, and control characters in arguments, environment,
configuration and paths, none of which a terminal or a log may obey."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

import client
from server import START_TIMEOUT, Server, environment, run, wait_until
from settings import LINNET, MODEL_DIR, ROOT

pytestmark = [pytest.mark.quick, pytest.mark.asan]

# ESC [ 31 m, a C1 control, an override of the direction of text, the separator of lines, a byte that is no UTF-8
HOSTILE = b"a\x1b[31mb\xc2\x9bc\xe2\x80\xaed\xe2\x80\xa8e\xfff"
ESCAPED = r"a\x1b[31mb\u009bc\u202ed\u2028e\xfff"
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def output(*args, **variables):
    """Standard error of a run that fails."""
    env = {os.fsencode(k): os.fsencode(v) for k, v in {**environment(), **variables}.items()}
    result = subprocess.run([LINNET, *args], env=env, capture_output=True, timeout=60)
    assert result.returncode in (1, 2), result
    return result.stderr.decode()  # it must be UTF-8


def links(pid):
    """The files of a process's descriptors."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            found[int(fd)] = os.readlink(f"/proc/{pid}/fd/{fd}")
    return found


def listening_port(pid):
    """The port of a server whose log cannot be read; None as long as there is none."""
    sockets = set(links(pid).values())
    with open(f"/proc/{pid}/net/tcp") as file:
        for fields in map(str.split, file):
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                return int(fields[1].partition(":")[2], 16)
    return None


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_descriptors_are_not_given_away(closed):
    script = "import os, sys\nfor fd in map(int, sys.argv[1].split(',')): os.close(fd)\nos.execv(sys.argv[2], sys.argv[2:])"
    process = subprocess.Popen([sys.executable, "-c", script, ",".join(map(str, closed)), LINNET, "serve", "--port", "0",
                                "--model", MODEL_DIR], env=environment(), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def is_ready():
        assert process.poll() is None, process.returncode
        port = listening_port(process.pid)
        return port is not None and client.call(port, "GET", "/readyz").status == 200
    try:
        wait_until(is_ready, START_TIMEOUT, "readyz")
        assert {links(process.pid)[fd] for fd in closed} == {"/dev/null"}
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_results_that_go_nowhere_are_an_error():
    script = 'exec "$0" --version >&-'
    result = subprocess.run(["bash", "-c", script, LINNET], env=environment(), capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and "standard output" in result.stderr, result


@pytest.mark.parametrize("args", [[HOSTILE], ["serve", HOSTILE], ["serve", "--model", HOSTILE], ["serve", b"--" + HOSTILE],
                                  ["serve", "--port", HOSTILE], ["generate", "--isa", HOSTILE], ["inspect", "--model", HOSTILE]])
def test_arguments_are_escaped(args):
    text = output(*args)
    assert ESCAPED in text and not OBEYED.search(text), text


def test_the_environment_is_escaped():
    text = output("serve", "--model", MODEL_DIR, LINNET_PORT=os.fsdecode(HOSTILE))
    assert ESCAPED in text and not OBEYED.search(text), text


@pytest.mark.parametrize("line", [b"port = " + HOSTILE, HOSTILE + b" = 1", HOSTILE])
def test_the_configuration_is_escaped(tmp_path, line):
    path = os.fsencode(tmp_path) + b"/" + HOSTILE
    with open(path, "wb") as file:
        file.write(line + b"\n")
    text = output("serve", "--config", path)
    assert text.count(r"\x1b") >= 1 and r"\u202e" in text and not OBEYED.search(text), text


@pytest.mark.parametrize("form", ["text", "json"])
def test_paths_are_escaped_in_the_log(tmp_path, form):
    folder = tmp_path / os.fsdecode(HOSTILE)
    shutil.copytree(MODEL_DIR, folder / "model")
    with Server("--log-format", form, model_dir=folder / "model") as server:
        (folder / "model" / "config.json").write_text("{")
        assert client.call(server.port, "POST", "/v1/models/reload", {}).status >= 400
        server.signal(signal.SIGHUP)
        wait_until(lambda: "[31m" in server.log, START_TIMEOUT, "a path in the log")
        log = server.log
    assert not OBEYED.search(log), log
    if form == "json":
        messages = [json.loads(line).get("message", "") for line in log.splitlines()]
        assert any("a\x1b[31mb\x9bc\u202ed\u2028e?f" in message for message in messages), messages
    else:
        assert ESCAPED in log, log


def test_inspect_escapes_the_folder(tmp_path):
    folder = tmp_path / os.fsdecode(HOSTILE) / "linear"
    shutil.copytree(ROOT / "weights" / "copy" / "linear", folder)
    text = run("inspect", "--model", folder).stdout
    assert ESCAPED in text and not OBEYED.search(text), text


@pytest.mark.parametrize("name, value", [("slots", "0x10"), ("slots", "1e1"), ("slots", "1.0"), ("slots", "+4"),
                                         ("temperature", "0x1"), ("temperature", "inf"), ("temperature", "nan")])
def test_numbers_are_decimal(name, value):
    command = "serve" if name == "slots" else "generate"
    result = run(command, "--model", MODEL_DIR, f"--{name}", value)
    assert result.returncode == 2 and name in result.stderr and value in result.stderr, result


def test_a_key_has_an_option_once(tmp_path):
    path = tmp_path / "keys"
    path.write_text("a sk-one weight=2 weight=3\n")
    result = run("serve", "--model", MODEL_DIR, "--api-key-file", path)
    assert result.returncode == 2 and "weight comes twice" in result.stderr, result
