"""A program on a terminal of its own: typed keys, and the resulting screen."""

import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from pathlib import Path

from server import environment
from settings import LINNET


def take_terminal():
    """In the new process. The runner of the tests may have made it ignore ^C."""
    os.close(os.open(os.ttyname(0), os.O_RDWR))
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """`linnet` with all three streams on a terminal, which is its controlling one, so that ^C is a signal."""

    def __init__(self, *args, locale="C.UTF-8"):
        self.screen, slave = pty.openpty()
        self.process = subprocess.Popen([LINNET, *map(str, args)], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        preexec_fn=take_terminal,
                                        env={**environment(), "TERM": "dumb", "LC_ALL": locale})
        os.close(slave)
        self.raw = b""
        self.seen = 0  # of raw, in the result of the last call of `until`

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(60)
        os.close(self.screen)

    def _read(self, end):
        left = end - time.monotonic()
        assert left > 0 and select.select([self.screen], [], [], left)[0], f"it did not come: {self.raw[self.seen:]}"
        try:
            part = os.read(self.screen, 65536)
        except OSError:  # the other end is closed
            part = b""
        self.raw += part
        return part

    def until(self, pattern, timeout=60):
        """The output up to the pattern and with it; starts after the result of the call before."""
        end = time.monotonic() + timeout
        while not (found := re.search(pattern.encode(), self.raw[self.seen:], re.DOTALL)):
            assert self._read(end), f"it ended: {self.raw[self.seen:]}"
        said = self.raw[self.seen : self.seen + found.end()]
        self.seen += found.end()
        return said.decode(errors="replace")

    def takes_keys(self):
        """Whether a key is the program's at once, ^D too; otherwise the terminal collects lines."""
        return not termios.tcgetattr(self.screen)[3] & termios.ICANON

    def blocks(self):
        """Whether the program sleeps in a write, until its screen is read: a call whose first argument is 1."""
        call = Path(f"/proc/{self.process.pid}/syscall").read_text().split()
        return call[1:2] == ["0x1"]

    def type(self, text):
        os.write(self.screen, text.encode() if isinstance(text, str) else text)

    def status(self, timeout=60):
        """Its exit status, when it has ended by itself."""
        end = time.monotonic() + timeout
        while True:
            if not self._read(end):  # to the end of its output
                break
        return self.process.wait(timeout)
