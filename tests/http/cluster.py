"""Redis and HAProxy under test, both from Debian: real processes on free ports, always ended."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

import client
from server import START_TIMEOUT, wait_until
from settings import ROOT


def free_ports(count):
    """Free ports below those that the system gives to a socket bound to port 0, so that a server that starts meanwhile
    takes none. Another process may still take one before it is used, so starts are tried again."""
    found = []
    for port in random.SystemRandom().sample(range(20_000, 32_768), 100 + count):
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind((client.HOST, port))
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError(f"no {count} free ports")


def listens(port):
    try:
        socket.create_connection((client.HOST, port), timeout=5).close()
    except OSError:
        return False
    return True


class Process:
    """A program that listens on `port` once it has started. A context manager."""

    TRIES = 5

    def __init__(self):
        self.process = self.port = None
        self.log_file = tempfile.NamedTemporaryFile(prefix="linnet-log-", suffix=".txt")

    @property
    def log(self):
        return Path(self.log_file.name).read_text(errors="replace")

    def spawn(self, args, program=None, env=None):
        self.process = subprocess.Popen(
            args, executable=program, env=env, stdin=subprocess.DEVNULL,
            stdout=self.log_file, stderr=subprocess.STDOUT,
        )

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def launch(self, port):
        """Starts on the port; False when the process ended instead, as with a port that is taken."""
        self.run_on(port)
        wait_until(lambda: not self.runs() or listens(port), START_TIMEOUT, f"{self.log}")
        return self.runs()

    def start(self):
        for _ in range(self.TRIES):
            self.port = free_ports(1)[0]
            if self.launch(self.port):
                return self
        raise AssertionError(f"does not start: {self.log}")

    def start_again(self):
        """On the port it had."""
        assert not self.runs()
        assert self.launch(self.port), self.log
        return self

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.runs():
            self.process.kill()
            self.process.wait(START_TIMEOUT)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        if kind is not None:
            print(self.log[-4000:])
        self.kill()


class Redis(Process):
    """A Redis without disk. Debian's redis-tools holds the server under the name of its other half:
    which of the two it is, the name it is called by says."""

    NAMES = ("redis-server", "redis-check-rdb")

    def __init__(self, *flags, login=""):
        super().__init__()
        self.flags, self.login = flags, login

    @classmethod
    def program(cls):
        found = next(filter(None, map(shutil.which, cls.NAMES)), None)
        if found is None:
            pytest.skip("there is no redis-server (Debian package redis-tools)")
        return found

    def run_on(self, port):
        self.spawn(["redis-server", "--port", str(port), "--bind", client.HOST, "--save", "",
                    "--appendonly", "no", "--dir", tempfile.gettempdir(), *self.flags], self.program())

    @property
    def url(self):
        return f"redis://{self.login}{client.HOST}:{self.port}/0"

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def command(self, *words):
        """One command, its reply as bytes without a final line end; errors raise."""
        with client.connect(self.port) as sock:
            data = b"*%d\r\n" % len(words)
            for word in map(lambda w: w if isinstance(w, bytes) else str(w).encode(), words):
                data += b"$%d\r\n%s\r\n" % (len(word), word)
            sock.sendall(data)
            reply = sock.makefile("rb")
            line = reply.readline()
            assert line[:1] != b"-", line
            if line[:1] == b"$" and line != b"$-1\r\n":
                return reply.read(int(line[1:]))
            return line[1:-2]


class HAProxy(Process):
    """deploy/haproxy.cfg in front of two servers."""

    CONFIG = ROOT / "deploy" / "haproxy.cfg"

    def __init__(self, *ports, config=CONFIG):
        super().__init__()
        self.ports, self.config = ports, config

    @staticmethod
    def program():
        path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
        found = shutil.which("haproxy", path=path)
        if found is None:
            pytest.skip("there is no haproxy (Debian package haproxy)")
        return found

    def run_on(self, port):
        env = {**os.environ, "LINNET_BIND": f"{client.HOST}:{port}",
               "LINNET_STATUS_BIND": f"{client.HOST}:{free_ports(1)[0]}"}
        for i, backend in enumerate(self.ports, 1):
            env[f"LINNET_{i}"] = f"{client.HOST}:{backend}"
        self.spawn([self.program(), "-db", "-f", str(self.config)], env=env)

    def wait_ready(self):
        """Until a request comes through: haproxy listens before it has checked its servers."""
        wait_until(lambda: client.call(self.port, "GET", "/readyz").status == 200, START_TIMEOUT,
                   f"haproxy {self.log}")
        return self

    def __enter__(self):
        return self.start().wait_ready()
