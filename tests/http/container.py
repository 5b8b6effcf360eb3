"""A memory cgroup for a server under test, as a container has one: version 1 or 2, where this user may make one."""

import contextlib
import os
from pathlib import Path

import pytest

import server
from server import wait_until

MOUNT = Path("/sys/fs/cgroup")


class Container:
    """A context manager; `run_in` goes to Server as its preexec_fn."""

    def __init__(self, limit_bytes):
        second = (MOUNT / "cgroup.controllers").exists()
        self.path = (MOUNT if second else MOUNT / "memory") / f"linnet-test-{os.getpid()}-{limit_bytes >> 20}"
        self.limit_file = "memory.max" if second else "memory.limit_in_bytes"
        self.swap = ("memory.swap.max", 0) if second else ("memory.memsw.limit_in_bytes", limit_bytes)
        self.events_file = "memory.events" if second else "memory.oom_control"
        self.limit_bytes = limit_bytes

    def __enter__(self):
        try:
            if (MOUNT / "cgroup.subtree_control").exists():
                (MOUNT / "cgroup.subtree_control").write_text("+memory")
            self.path.mkdir()
            (self.path / self.limit_file).write_text(str(self.limit_bytes))
        except OSError as error:
            with contextlib.suppress(OSError):
                self.path.rmdir()
            pytest.skip(f"no memory cgroup may be made here: {error}")
        with contextlib.suppress(OSError):  # a kernel that does not count swap
            (self.path / self.swap[0]).write_text(str(self.swap[1]))
        return self

    def __exit__(self, *_):
        wait_until(self.is_empty, server.STOP_TIMEOUT, "the cgroup has no process")
        self.path.rmdir()

    def is_empty(self):
        return (self.path / "cgroup.procs").read_text() == ""

    def run_in(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def kills(self):
        """How many processes the kernel ended because the limit was reached."""
        words = (self.path / self.events_file).read_text().split()
        return int(words[words.index("oom_kill") + 1])
