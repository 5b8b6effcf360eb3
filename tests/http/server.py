"""A real server process under test: started on a free port, watched, always ended."""

import os
import pty
import re
import signal
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import client
from settings import LINNET, MODEL_DIR

START_TIMEOUT = 60.0
STOP_TIMEOUT = 30.0
READY = re.compile(r"ready: https?://127\.0\.0\.1:(\d+)")
SANITIZER = re.compile(r"(Address|Leak|Thread|UndefinedBehavior|Memory)Sanitizer|runtime error:")


def environment():
    """This process's environment without LINNET_* variables, which the server would read."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("LINNET")}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
        own = "exitcode=99:halt_on_error=1:print_stacktrace=1"
        env[name] = f"{own}:{env[name]}" if env.get(name) else own
    return env


def run(*args, timeout=180, **options):
    """Runs the program to its end; for everything that is not a server."""
    result = subprocess.run(
        [LINNET, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment(),
        **options,
    )
    assert not SANITIZER.search(result.stderr), result.stderr
    return result


def run_on_terminal(name, *args):
    """Exit status, the program's output to `stdout` or `stderr` where that is a terminal, and its output to the second
    of them."""
    reader, writer = pty.openpty()
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, name: writer}
    with subprocess.Popen([LINNET, *map(str, args)], env=environment(), **streams) as process:
        os.close(writer)
        words = b""
        try:
            while part := os.read(reader, 4096):
                words += part
        except OSError:  # the other end is closed
            pass
        os.close(reader)
        other = (process.stderr if name == "stdout" else process.stdout).read()
    return process.returncode, words.decode(), other.decode()


def wait_until(condition, timeout, what, state=lambda: ""):
    """Polls until condition() is true; returns the seconds it took. A failure shows state(). The longer it waits, the less often it
    looks: most looks are a request to a server that works."""
    start = time.monotonic()
    while not condition():
        waited = time.monotonic() - start
        assert waited < timeout, f"{what}: not within {timeout} s{state()}"
        time.sleep(min(0.005 + waited / 20, 0.05))  # check-tests: between two looks
    return time.monotonic() - start


class Server:
    """`linnet serve` with the given flags. Use as a context manager: leaving it sends SIGTERM and
    checks that the server ended by itself, with status 0 and without a sanitizer's report."""

    def __init__(self, *flags, model_dir=MODEL_DIR, container=None):
        self.args = [LINNET, "serve", "--port", "0", "--model", model_dir, *flags]
        self.container = container
        self.process = self.port = None
        self.ending = False  # a signal to end was sent
        self.checked = 0  # bytes of the log
        self.log_file = tempfile.NamedTemporaryFile(prefix="linnet-log-", suffix=".txt")

    @property
    def log(self):
        return Path(self.log_file.name).read_text(errors="replace")

    @property
    def pid(self):
        return self.process.pid

    def start(self):
        self.process = subprocess.Popen(
            [str(a) for a in self.args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.log_file,
            env=environment(),
            preexec_fn=self.container and self.container.run_in,
        )
        wait_until(lambda: self.has_started(), START_TIMEOUT, f"start of {self.args}")
        wait_until(self.is_ready, START_TIMEOUT, "readyz")
        return self

    def is_ready(self):
        return client.call(self.port, "GET", "/readyz").status == 200

    def has_started(self):
        assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.log}"
        found = READY.search(self.log)
        if found:
            self.port = int(found.group(1))
        return found is not None

    def signal(self, number=signal.SIGTERM):
        self.ending = self.ending or number in (signal.SIGTERM, signal.SIGINT)
        self.process.send_signal(number)

    def wait(self, timeout=STOP_TIMEOUT):
        """The exit status; kills the process when it does not end in time."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not end within {timeout} s: {self.log}") from None

    def stop(self):
        if self.process.poll() is None and not self.ending:  # a second signal ends it the hard way
            self.signal()
        status = self.wait()
        self.check_log()
        assert status == 0, f"ended with status {status}: {self.log[-4000:]}"

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(STOP_TIMEOUT)

    def check_log(self):
        """Reads only the lines that came after the last check: a shared server writes a long log, and is checked after each test."""
        with open(self.log_file.name, "rb") as file:
            file.seek(self.checked)
            lines = file.read()
        text = lines.decode(errors="replace")
        report = SANITIZER.search(text)
        assert report is None, text[report.start() : report.start() + 4000]
        self.checked += lines.rfind(b"\n") + 1

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.stop()
            else:
                print(self.log[-4000:])
        finally:
            self.kill()

    # --- the server's own figures ---

    def metrics(self, begin=""):
        """{(name, ((label, value), ...)): number}, from /metrics; of the names that begin so."""
        reply = client.call(self.port, "GET", "/metrics")
        assert reply.status == 200, reply.text
        return parse_metrics(reply.text, begin)

    def metric(self, name, **labels):
        """Sum over all series of the name that carry the labels."""
        found = [
            value
            for (series, pairs), value in self.metrics(name).items()
            if series == name and labels.items() <= dict(pairs).items()
        ]
        assert found, f"/metrics has no {name} {labels}"
        return sum(found)

    def slots_used(self):
        return self.metric("linnet_slots_used")

    def is_idle(self):
        names = ("linnet_slots_used", "linnet_queue_length")
        return sum(v for (name, _), v in self.metrics(names).items() if name in names) == 0

    def wait_idle(self, timeout=60.0):
        return wait_until(self.is_idle, timeout, "slots and queue empty")

    def requests(self, outcome):
        return self.metric("linnet_requests_total", outcome=outcome)

    def memory(self, name):
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+) kB", status).group(1)) * 1024

    def resident_bytes(self):
        return self.memory("VmRSS")

    def peak_bytes(self):
        """The most memory since the start, or since `forget_peak`."""
        return self.memory("VmHWM")

    def forget_peak(self):
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def cpu_times(self):
        """Seconds of processor time: its own, and the kernel's on its behalf."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) / os.sysconf("SC_CLK_TCK"), int(fields[12]) / os.sysconf("SC_CLK_TCK")

    def cpu_seconds(self):
        return sum(self.cpu_times())

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def describe_sockets(self):
        """How many sockets of its port are in each state, by the kernel's numbers (1 open, 8 closed by the peer)."""
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        states = Counter(int(row[3], 16) for row in rows if int(row[1][-4:], 16) == self.port)
        return f": {self.open_files()} open files, sockets by state {dict(states)}, {self.cpu_seconds()} s of CPU"

    def check_unharmed(self):
        """Alive, healthy, and gives the right answer to a proper request."""
        assert self.process.poll() is None, self.log[-4000:]
        assert client.call(self.port, "GET", "/health").status == 200
        answer = client.complete_ok(self.port, prompt="海上明月", seed=1)
        assert len(answer["choices"][0]["text"]) == 4


def parse_metrics(text, begin=""):
    series = {}
    for line in text.splitlines():
        if not line or line.startswith("#") or not line.startswith(begin):
            continue
        match = re.fullmatch(r"([a-z0-9_]+)(?:\{(.*)\})? (\S+)", line)
        assert match, f"not a Prometheus line: {line}"
        pairs = tuple(re.findall(r'(\w+)="([^"]*)"', match.group(2) or ""))
        assert (match.group(1), pairs) not in series, f"twice: {line}"
        series[match.group(1), pairs] = float(match.group(3))
    return series
