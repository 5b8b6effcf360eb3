"""A log without a reader stops nothing: requests get answers, SIGTERM ends the server, and lost lines are counted."""

import fcntl
import os
import socket
import subprocess

import pytest

import client
from client import complete_ok
from server import READY, START_TIMEOUT, Server, environment, wait_until

F_SETPIPE_SZ = 1031
PAGE = 4096
SHOWN = "月" * 1300  # of which a line of JSON shows about 4 kB


class Unread(Server):
    """A server whose standard error is a pipe or a socket; read until it is ready, then when asked."""

    def __init__(self, kind, *flags):
        super().__init__("--log-format", "json", "--log-prompts", *flags)
        if kind == "pipe":
            self.reader, self.writer = os.pipe()
            fcntl.fcntl(self.writer, F_SETPIPE_SZ, PAGE)
        else:
            ends = socket.socketpair()
            ends[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PAGE)
            self.reader, self.writer = (end.detach() for end in ends)
        os.set_blocking(self.reader, False)
        self.text = ""

    @property
    def log(self):
        return self.text

    def read(self):
        try:
            self.text += os.read(self.reader, 1 << 20).decode(errors="replace")
        except BlockingIOError:
            pass
        return self.text

    def start(self):
        self.process = subprocess.Popen(list(map(str, self.args)), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=self.writer,
                                        env=environment())
        os.close(self.writer)
        wait_until(lambda: READY.search(self.read()), START_TIMEOUT, "start")
        self.port = int(READY.search(self.text).group(1))
        return self

    def dropped(self):
        return self.metric("linnet_log_lines_dropped_total")

    def fill(self):
        """Requests, each answered, until lines are dropped."""
        for _ in range(2000):
            reply = client.complete(self.port, prompt=SHOWN)
            assert reply.status == 400, reply.text
            if self.dropped() > 0:
                return
        raise AssertionError("the log took it all")

    def __exit__(self, *args):
        try:
            super().__exit__(*args)
        finally:
            os.close(self.reader)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_requests_are_answered_and_what_is_lost_is_told(kind):
    with Unread(kind) as server:
        server.fill()
        before = server.dropped()
        for _ in range(20):
            assert complete_ok(server.port, prompt="月下", seed=1)["choices"][0]["text"]
        server.check_unharmed()
        assert server.dropped() >= before
        wait_until(lambda: "lines of the log were dropped" in server.read(), 60, "the report")
        lost = server.dropped()
        complete_ok(server.port, prompt="月下", seed=1)
        lines = server.read().splitlines()
        assert all(line.startswith("{") and line.endswith("}") for line in lines if line), "whole"
        assert server.dropped() == lost, "none is lost when it is read"


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_sigterm_ends_it(kind):
    with Unread(kind) as server:
        server.fill()
        server.signal()
        assert server.wait() == 0


def test_a_reader_that_is_gone():
    with Unread("pipe") as server:
        os.close(server.reader)
        server.reader = os.open(os.devnull, os.O_RDONLY)
        server.check_unharmed()
        wait_until(lambda: server.dropped() > 0, 60, "lines that cannot be read")
        server.signal()
        assert server.wait() == 0
