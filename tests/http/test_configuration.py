"""Options from a file, models found from any folder, and starts that fail before anything was begun."""

import contextlib
import ctypes
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

import client
from server import START_TIMEOUT, Server, environment, run, wait_until
from settings import LINNET, MODEL_DIR


def refused(*args, status, **options):
    """The line with which the program ends."""
    result = run(*args, **options)
    assert (result.returncode, result.stdout) == (status, ""), result
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"linnet {args[0]}: "), lines
    return lines[0]


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "linnet.conf"
        path.write_text(text)
        return path
    return write


# --- the file

def test_a_file_sets_what_flags_set(config):
    path = config("# the service\n\n  max-n = 3\nlog-format=json\n\tlog-prompts = on  \npublic = /health,/readyz,/metrics\n"
                  "api-key = sk-#with=signs\r\n")
    with Server("--config", path) as server:
        key = {"Authorization": "Bearer sk-#with=signs"}
        assert client.call(server.port, "GET", "/v1/models").status == 401
        assert client.call(server.port, "GET", "/v1/models", headers=key).status == 200
        ask = {"model": "couplet", "prompt": "海上明月", "n": 4}
        reply = client.call(server.port, "POST", "/v1/completions", ask, headers=key)
        assert reply.status == 400 and "3" in reply.text
        assert '"level"' in server.log and "prompt" in server.log


def test_arguments_and_variables_win_over_the_file(config):
    path = config("host = no.such.host.invalid\nthreads = 1\nslots = 2\n")
    with Server("--config", path, "--host", "127.0.0.1", "--slots", "3") as server:
        assert server.metric("linnet_slots") == 3
    env = {**environment(), "LINNET_CONFIG": str(path), "LINNET_HOST": "256.0.0.1"}
    result = subprocess.run([LINNET, "serve", "--model", MODEL_DIR, "--port", "0"], env=env, text=True,
                            capture_output=True, timeout=60)
    assert result.returncode == 2 and "256.0.0.1" in result.stderr


def check_with(**variables):
    env = {**environment(), **variables}
    return subprocess.run([LINNET, "serve", "--check", "--model", MODEL_DIR], env=env, text=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("name, option", [("LINNET_API_KEYS", "LINNET_API_KEY"), ("LINNET_APIKEY", "LINNET_API_KEY"),
                                          ("LINNET_ALOWED_HOST", "LINNET_ALLOWED_HOSTS"), ("LINNET_slots", "LINNET_SLOTS"),
                                          ("LINNET_STATE-STORE", "LINNET_STATE_STORE")])
def test_a_misspelt_variable_is_refused(name, option):
    result = check_with(**{name: "x"})
    assert result.returncode == 2, result.stderr
    assert f'unknown variable "{name}"; did you mean {option}?' in result.stderr.splitlines()[-1]


def test_variables_of_others():
    """Those of Kubernetes' services, of our deployments and of tests are not judged; an unknown one is in the log."""
    known = {"SERVICE_HOST": "10.0.0.1", "SERVICE_PORT": "8080", "SERVICE_PORT_HTTP": "8080", "PORT_8080_TCP": "tcp://10.0.0.1:8080",
             "PORT_8080_TCP_PROTO": "tcp", "REDIS_SERVICE_HOST": "10.0.0.2", "REDIS_PORT": "tcp://10.0.0.2:6379",
             "REDIS_PORT_6379_TCP_ADDR": "10.0.0.2", "1": "a:1", "2": "b:1", "BIND": ":8000", "STATUS_BIND": ":8405", "IMAGE": "a",
             "CUDA_IMAGE": "a", "MEMORY": "2g", "PUBLISH": ":8080", "DATA": "/data", "URL": "http://a", "TESTS": "ON",
             "MODEL_DIR": "weights"}
    result = check_with(**{f"LINNET_{name}": value for name, value in known.items()})
    assert result.returncode == 0 and "names no option" not in result.stderr, result.stderr
    result = check_with(LINNET_FLAVOUR="sweet", LINNETS_PORTS="1")
    assert result.returncode == 0, result.stderr
    (line,) = [line for line in result.stderr.splitlines() if "names no option" in line]
    assert "warn" in line and "LINNET_FLAVOUR" in line and "sweet" not in line
    env = {**environment(), "LINNET_API_KEYS": "x"}  # of serve alone
    assert subprocess.run([LINNET, "inspect", MODEL_DIR], env=env, capture_output=True, timeout=60).returncode == 0


@pytest.mark.parametrize("text, words", [
    ("port = 8080\nslots = many\n", ["linnet.conf:2: slots", "many", "number"]),
    ("port = 99999\n", ["linnet.conf:1: port", "0 to 65535"]),
    ("\n\nslot = 3\n", ["linnet.conf:3", "slot", "did you mean slots?"]),
    ("nothing-like-it = 3\n", ["linnet.conf:1", "nothing-like-it", "--help"]),
    ("port 8080\n", ["linnet.conf:1", "port 8080", "name = value"]),
    ("= 3\n", ["linnet.conf:1", '""']),
    ("port = 1\nhost = a\nport = 2\n", ["linnet.conf:3: port", "line 1"]),
    ("config = other.conf\n", ["linnet.conf:1", "another"]),
    ("log-level = loud\n", ["linnet.conf:1: log-level", "loud", "warn"]),
    ("log-prompts = perhaps\n", ["linnet.conf:1: log-prompts", "perhaps"]),
    ("port =\n", ["linnet.conf:1: port", "number"]),
    ("port = 1\0\n", ["linnet.conf", "text file"]),
    ("#" * (1 << 17), ["linnet.conf", "65536"]),
])
def test_a_broken_file_names_line_and_key(config, text, words):
    status = 1 if "65536" in words else 2  # too large a value is still a valid one
    line = refused("serve", "--config", config(text), "--port", "0", status=status)
    assert all(word in line for word in words), line


def test_every_flag_has_a_line(config):
    """The last line alone is refused, so every name before it was read, and its value."""
    rows = re.findall(r"^\| `--(?:\[no-\])?([\w-]+)[^|]*\|[^|]*\| (?:`([^`]*)`)? *\| ((?:\\\||[^|])*) \|",
                      run("serve", "--help=markdown").stdout, re.MULTILINE)
    lines = [f"{name} = {default or allowed.split(chr(92))[0].strip() or 'a-value'}" for name, default, allowed in rows
             if name != "config"]
    assert len(lines) > 50 and "backend = cpu" in lines and "log-prompts = off" in lines
    line = refused("serve", "--config", config("\n".join([*lines, "nothing-like-it = 3"])), status=2)
    assert f"linnet.conf:{len(lines) + 1}" in line and "nothing-like-it" in line


def test_a_file_that_is_not_there(tmp_path):
    assert "none.conf" in refused("serve", "--config", tmp_path / "none.conf", status=2)
    assert "irectory" in refused("serve", "--config", tmp_path, status=1)


def test_health_reads_the_servers_file(config):
    with Server() as server:
        path = config(f"port = {server.port}\nslots = 2\n")
        assert run("health", "--config", path).stdout == "ready\n"
    assert "did you mean port?" in refused("health", "--config", config("prot = 1\n"), status=2)


# --- models from any folder

def test_the_shipped_models_are_found_from_any_folder(tmp_path):
    answer = run("generate", "--prompt", "海上明月", "--seed", 1, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == run("generate", "--model", MODEL_DIR, "--prompt", "海上明月", "--seed", 1).stdout
    assert "mnist" in run("inspect", "mnist", cwd=tmp_path).stdout


def test_a_folder_here_comes_before_a_name(tmp_path):
    (tmp_path / "mnist").mkdir()
    assert "config.json" in refused("inspect", "mnist", status=1, cwd=tmp_path)
    line = refused("inspect", "missing", status=1, cwd=tmp_path)
    assert "missing" in line and "weights" in line


def test_an_installed_program_finds_its_models(tmp_path):
    """The places of `cmake --install`: bin/ and share/ in one folder, wherever that is."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "share/linnet/models").mkdir(parents=True)
    program = shutil.copy(LINNET, tmp_path / "bin")
    os.symlink(MODEL_DIR, tmp_path / "share/linnet/models/another")
    result = subprocess.run([program, "inspect", "another"], cwd="/", env=environment(), text=True,
                            capture_output=True, timeout=60)
    assert result.returncode == 0 and str(tmp_path) in result.stdout, result


def test_the_variable_says_where_models_are(tmp_path):
    (tmp_path / "mine").symlink_to(MODEL_DIR)
    env = {**environment(), "LINNET_MODELS": str(tmp_path)}
    result = subprocess.run([LINNET, "inspect", "mine"], env=env, cwd="/", text=True, capture_output=True, timeout=60)
    assert result.returncode == 0, result.stderr


def test_the_variable_may_name_several_folders(tmp_path):
    """Folders of models, and models, as `serve --models` takes them."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "more").mkdir()
    (tmp_path / "more/mine").symlink_to(MODEL_DIR)
    (tmp_path / "alone").symlink_to(MODEL_DIR)
    env = {**environment(), "LINNET_MODELS": f"{tmp_path}/empty:{tmp_path}/more:{tmp_path}/alone"}

    def inspect(name):
        return subprocess.run([LINNET, "inspect", name], env=env, cwd="/", text=True, capture_output=True, timeout=60)

    assert inspect("mine").returncode == 0 and inspect("alone").returncode == 0
    missing = inspect("other")
    assert missing.returncode != 0 and "no model other" in missing.stderr and f"{tmp_path}/empty" in missing.stderr


def test_a_command_without_a_model_of_its_own_asks_for_one():
    assert "--model: name a model with a chat template" in refused("chat", status=2)


# --- nothing half-started

def test_a_port_that_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert str(port) in refused("serve", "--model", MODEL_DIR, "--port", port, status=1)  # no model was loaded


def as_someone(*args):
    """The program as a user without rights; the tests may run as root, whom no folder refuses."""
    change = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.run([LINNET, *map(str, args)], env=environment(), text=True, capture_output=True, timeout=60,
                          cwd="/", **change)


@pytest.fixture
def closed(tmp_path):
    """A folder of models of which one must not be read."""
    folder = tmp_path / "closed"
    shutil.copytree(MODEL_DIR, folder / "couplet")
    (folder / "other").mkdir()
    shutil.copy(MODEL_DIR / "config.json", folder / "other")
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == os.geteuid() and path != path.parent and "pytest" in str(path):
            path.chmod(0o755)
    yield folder
    for path in (folder, folder / "other"):
        path.chmod(0o755)


@pytest.mark.parametrize("what", [".", "other", "other/config.json"])
def test_a_model_that_cannot_be_read_is_not_left_out(closed, what):
    (closed / what).chmod(0)
    result = as_someone("serve", "--models", closed, "--port", "0")
    if result.returncode == 126 or "ready" in result.stderr:
        pytest.skip("rights do not hold this user back")
    lines = result.stderr.splitlines()
    assert result.returncode == 1 and len(lines) == 1, result
    assert "Permission denied" in lines[0] and "closed" in lines[0]
    (closed / what).chmod(0o755)


@pytest.mark.parametrize("flags", [["--config", "{}"], ["--api-key-file", "{}"], ["--tls-cert", "{}", "--tls-key", "{}"],
                                   ["--state-store", "redis://h", "--state-store-password-file", "{}"]])
def test_a_file_that_must_not_be_read(closed, flags):
    path = closed / "secret"
    path.write_text("port = 0\n")
    path.chmod(0)
    result = as_someone("serve", "--models", closed, *(flag.format(path) for flag in flags))
    if result.returncode == 126 or "Permission denied" not in result.stderr:
        pytest.skip("rights do not hold this user back")
    lines = result.stderr.splitlines()
    assert result.returncode == 2 and len(lines) == 1 and any(flag in lines[0] for flag in flags[::2]), result


def test_a_port_that_wants_rights():
    least = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    if least <= 1:
        pytest.skip("every user may listen on any port here")
    result = as_someone("serve", "--model", MODEL_DIR, "--port", "1")
    if result.returncode == 126:
        pytest.skip("the user cannot run the program")
    lines = result.stderr.splitlines()
    assert result.returncode == 1 and len(lines) == 1 and "Permission denied" in lines[0] and "port 1" in lines[0], result


def test_a_folder_without_models(tmp_path):
    assert "no model" in refused("serve", "--models", tmp_path, "--port", "0", status=1)
    assert "config.json" in refused("serve", "--model", tmp_path, "--port", "0", status=1)


def test_folders_of_models_and_models_themselves(tmp_path):
    """--models takes both; a model that would be left out without a word is none."""
    for name in ("one", "two", "three"):
        shutil.copytree(MODEL_DIR, tmp_path / ("some" if name != "three" else ".") / name)
    with Server("--models", f"{tmp_path}/some:{tmp_path}/three") as server:
        names = {model["id"] for model in client.call(server.port, "GET", "/v1/models").json()["data"]}
        assert names == {"one", "two", "three", Path(MODEL_DIR).name}
    for flags in (("--model", "couplet", "--model=poem"), ("-m", "couplet", "-mpoem")):
        assert "--model was given twice; for several values there is --models DIR:DIR" in refused("serve", *flags, status=2)


# --- messages to the service manager

@pytest.fixture
def manager(tmp_path):
    """The socket a service manager listens on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(str(tmp_path / "notify"))
        s.settimeout(START_TIMEOUT)
        yield s


def test_ready_is_said_once_requests_are_answered(manager, monkeypatch):
    with subprocess.Popen([LINNET, "serve", "--model", MODEL_DIR, "--port", "0"], stderr=subprocess.PIPE, text=True,
                          env={**environment(), "NOTIFY_SOCKET": manager.getsockname()}) as server:
        try:
            assert manager.recv(4096) == b"READY=1"
            server.terminate()
            assert manager.recv(4096) == b"STOPPING=1"
            assert server.wait(START_TIMEOUT) == 0
        finally:
            server.kill()


def test_a_manager_that_is_gone_does_not_matter(tmp_path):
    env = {**environment(), "NOTIFY_SOCKET": str(tmp_path / "missing")}
    log = tmp_path / "log"
    with log.open("w") as out, subprocess.Popen([LINNET, "serve", "--model", MODEL_DIR, "--port", "0"], stderr=out,
                                                env=env) as server:
        try:
            wait_until(lambda: "the message to the service manager" in log.read_text(), START_TIMEOUT, "a warning")
            server.terminate()
            assert server.wait(START_TIMEOUT) == 0
        finally:
            server.kill()


def test_signs_of_life_come_while_the_engines_work(manager):
    env = {**environment(), "NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "300000"}
    with subprocess.Popen([LINNET, "serve", "--model", MODEL_DIR, "--port", "0"], stderr=subprocess.DEVNULL, env=env) as server:
        try:
            assert [manager.recv(4096) for _ in range(4)] == [b"READY=1"] + 3 * [b"WATCHDOG=1"]
            server.terminate()
            wait_until(lambda: manager.recv(4096) == b"STOPPING=1", START_TIMEOUT, "the last message")
            assert server.wait(START_TIMEOUT) == 0
        finally:
            server.kill()


PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT, WAIT_FOR_THREADS = 17, 0x4206, 0x4207, 0x40000000


@contextlib.contextmanager
def all_threads_but_the_first_stopped(pid):
    """As a debugger stops threads. The first thread, which waits for signals, goes on."""
    trace = ctypes.CDLL(None, use_errno=True).ptrace
    trace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    threads = [int(name) for name in os.listdir(f"/proc/{pid}/task") if int(name) != pid]
    for i, thread in enumerate(threads):
        if trace(PTRACE_SEIZE, thread, None, None) != 0 and i == 0:
            pytest.skip(f"threads cannot be stopped here: {os.strerror(ctypes.get_errno())}")
        assert trace(PTRACE_INTERRUPT, thread, None, None) == 0
        os.waitpid(thread, WAIT_FOR_THREADS)
    try:
        yield
    finally:
        for thread in threads:
            assert trace(PTRACE_DETACH, thread, None, None) == 0


def turns(pid):
    """How often the first thread has waited."""
    return int(re.search(r"^voluntary_ctxt_switches:\t(\d+)$", Path(f"/proc/{pid}/task/{pid}/status").read_text(), re.MULTILINE)[1])


def test_no_sign_of_life_comes_while_an_engine_stands(manager):
    """The engine is stopped for more than the 10 s that a step may take; afterwards the server recovers."""
    env = {**environment(), "NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "300000"}

    def signs():
        """The number of messages since the last look."""
        count = 0
        manager.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while manager.recv(4096):
                count += 1
        manager.settimeout(START_TIMEOUT)
        return count

    def is_silent():
        """No sign came while the thread that sends them had ten turns."""
        signs()
        before = turns(server.pid)
        wait_until(lambda: turns(server.pid) >= before + 10, START_TIMEOUT, "ten turns")
        return signs() == 0

    with subprocess.Popen([LINNET, "serve", "--model", MODEL_DIR, "--port", "0", "--probe-interval", "1"],
                          stderr=subprocess.DEVNULL, env=env) as server:
        try:
            assert [manager.recv(4096) for _ in range(2)] == [b"READY=1", b"WATCHDOG=1"]
            assert not is_silent()
            with all_threads_but_the_first_stopped(server.pid):
                wait_until(is_silent, 60, "silence")
            assert manager.recv(4096) == b"WATCHDOG=1"
        finally:
            server.kill()


def test_a_watchdog_of_another_process_is_not_ours(manager):
    env = {**environment(), "NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
    with subprocess.Popen([LINNET, "serve", "--model", MODEL_DIR, "--port", "0"], stderr=subprocess.DEVNULL, env=env) as server:
        try:
            assert manager.recv(4096) == b"READY=1"
            server.terminate()
            assert manager.recv(4096) == b"STOPPING=1"
            assert server.wait(START_TIMEOUT) == 0
        finally:
            server.kill()


# --- --check

def test_a_check_loads_all_and_ends(tmp_path, config):
    keys = tmp_path / "keys"
    keys.write_text("alice sk-1\n")
    path = config(f"port = 1\napi-key-file = {keys}\nstate-store = {tmp_path}/states.db\n")  # port 1 is not taken
    result = run("serve", "--check", "--config", path, "--model", MODEL_DIR)
    assert result.returncode == 0, result.stderr
    assert "could start with these options and models" in result.stderr
    assert not (tmp_path / "states.db").exists()


def test_a_check_finds_what_a_start_would(tmp_path):
    keys, folder = tmp_path / "keys", tmp_path / "models"
    keys.write_text("alice sk-1 nothing\n")
    for flags, words in [(("--api-key-file", keys), "an option of key 1 is unknown"),
                         (("--trusted-proxies", "10.0.0.0/8,someone"), '"someone" is neither an address nor a network'),
                         (("--tls-cert", keys, "--tls-key", keys), "are not a certificate and its key"),
                         (("--model-slots", "no-such-model=4"), "--model-slots: no model is named no-such-model"),
                         (("--model-queue", "couplet=4x"), '"couplet=4x" is not MODEL=NUMBER'),
                         (("--state-store", "foo"), "neither memory, nor a file NAME.db, nor redis://"),
                         (("--state-store", "redis://"), "no host"),
                         (("--state-store", "redis://h/x"), "not a whole number"),
                         (("--state-store-password-file", keys), "states in memory have no password"),
                         (("--host", ""), '--host ""'),
                         (("--host", "999.1.1.1"), '--host "999.1.1.1"'),
                         (("--font", keys), "--font")]:
        result = run("serve", "--check", "--model", MODEL_DIR, *flags)
        assert result.returncode != 0 and words in result.stderr.splitlines()[-1], result.stderr
    shutil.copytree(MODEL_DIR, folder / "broken")
    (weights,) = (folder / "broken").glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-100])
    result = run("serve", "--check", "--models", folder)
    assert result.returncode != 0 and "broken" in result.stderr, result.stderr


def test_models_have_limits_of_their_own(tmp_path):
    for name in ("one", "two"):
        shutil.copytree(MODEL_DIR, tmp_path / name)
    flags = "--slots", "4", "--queue", "10", "--model-slots", "two=2", "--model-queue", "one=3"
    with Server("--models", tmp_path, *flags) as server:
        models = {m["id"]: m for m in client.call(server.port, "GET", "/v1/capacity").json()["models"]}
        own = Path(MODEL_DIR).name
        assert {name: m["slots"]["total"] for name, m in models.items()} == {"one": 4, "two": 2, own: 4}
        assert {name: m["queue"]["limit"] for name, m in models.items()} == {"one": 3, "two": 10, own: 10}
