"""Shared by the campaigns: the helpers of tests/http, rows of the table, servers with an environment."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "http"))

import client  # noqa: E402
import image_model  # noqa: E402
import images  # noqa: E402
import server as http_server  # noqa: E402
from settings import LINNET, MODEL_DIR  # noqa: E402

# The parts that differ between two answers to one request.
PASSING = re.compile(
    rb'"timings":\{[^}]*\}|"(created|created_at|expires_in|last_step_ms|cached_tokens)": ?[0-9.]+|"id":"[a-z]+-[^"]*"'
    rb"|state-[0-9a-f]+"
    rb"|(?m:^: ping\n\n)"  # the server sends it after a silence, which a busy machine causes
)
CUT = client.Reply(0)
TRANSIENT = (429, 500, 502, 503, 504)


def find_faketime():
    """The library that gives a program other clocks, of the Debian package libfaketime; None without it."""
    found = sorted(Path("/").glob("usr/lib/*/faketime/libfaketimeMT.so.1"))
    return str(found[0]) if found else None


@dataclass
class Row:
    """A line of the table. `held` is the verdict, `figures` are its evidence."""

    what: str
    held: bool
    figures: str
    skipped: bool = False

    def line(self):
        verdict = "not run" if self.skipped else "held" if self.held else "NOT HELD"
        return f"| {self.what} | {verdict} | {self.figures} |"


class Server(http_server.Server):
    """A server with words added to its environment, and in front of its command line."""

    def __init__(self, *flags, models=None, env=None, before=(), **options):
        super().__init__(*flags, **options)
        if models is not None:
            self.args = [LINNET, "serve", "--port", "0", "--models", models, *flags]
        self.args = [*before, *self.args]
        self.env = env or {}

    def start(self):
        kept = http_server.environment
        http_server.environment = lambda: {**kept(), **self.env}
        try:
            return super().start()
        finally:
            http_server.environment = kept


def put_models(folder):
    """A folder of the couplet model and a small one of pictures; the latter may be written anew."""
    folder = Path(folder)
    (folder / MODEL_DIR.name).symlink_to(MODEL_DIR)
    image_model.write(folder / images.SMALL, images.WIDTH, images.HEIGHT)
    return folder


def temporary(prefix="linnet-campaign-"):
    return tempfile.TemporaryDirectory(prefix=prefix)


def lasting(body):
    """A body without the parts that differ between two answers to one request. Events are sorted: those of different
    samples come as they are made."""
    body = PASSING.sub(b"", body)
    return b"\n\n".join(sorted(body.split(b"\n\n"))) if b"data: " in body else body


def try_call(port, method, path, body=None, headers=None, timeout=60):
    """A reply; CUT where the connection ended in the middle of it, None where it ended before."""
    received = b""
    headers = {"Connection": "close", **(headers or {})}
    with client.connect(port, timeout) as sock:
        with contextlib.suppress(ConnectionError):
            sock.sendall(client.encode_request(method, path, body, headers, port))
        with contextlib.suppress(ConnectionError):
            while part := sock.recv(65536):
                received += part
    replies, rest = client.parse_replies(received)
    if len(replies) == 1 and not rest:
        return replies[0]
    return CUT if received else None


def lasting_headers(headers):
    return {k: v for k, v in headers.items() if k not in ("date", "x-request-id", "content-length")}


def symbol(program, offset):
    """The function that holds an offset of the program."""
    names = subprocess.run(["addr2line", "-f", "-e", program, hex(offset)], capture_output=True,
                           text=True)
    return names.stdout.split("\n")[0] or "?"


def library(name):
    """A library of the build, from the program's folder; None where it was not built."""
    path = Path(os.path.dirname(LINNET)) / name
    return path if path.exists() else None
