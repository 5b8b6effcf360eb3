"""Out of memory at every allocation of a request: allocation 1, 2, ... fails until the request needs no more.

Each time the server must give its usual answer or a clear error (5xx in the envelope), or close the connection where it
could not accept it. The next such request gets the usual answer, and no block stays allocated.
"""

import base64
import contextlib
import mmap
import struct
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import client
import images
import png
from client import MODEL
from common import (
    CUT,
    LINNET,
    Row,
    Server,
    image_model,
    lasting,
    lasting_headers,
    library,
    put_models,
    symbol,
    temporary,
    try_call,
)

OFF, ONCE, ALL = range(3)
MODES = {"once": ONCE, "from there on": ALL}
FRAMES = 16
FIELDS = ("mode", "at", "count", "failed", "held", "frames")
SIZE = 8 * (len(FIELDS) + FRAMES + 1)
QUIET = 10.0  # seconds until all memory of a request must be free
MOST = 20_000  # allocations of one request


class Allocations:
    """The control of allocations.c, shared with the server."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile(prefix="linnet-allocations-")
        self.file.truncate(SIZE)
        self.map = mmap.mmap(self.file.fileno(), SIZE)

    def get(self, name):
        return struct.unpack_from("<q", self.map, 8 * FIELDS.index(name))[0]

    def set(self, name, value):
        struct.pack_into("<q", self.map, 8 * FIELDS.index(name), value)

    def fail_json(self, on):
        struct.pack_into("<q", self.map, 8 * (len(FIELDS) + FRAMES), int(on))

    def arm(self, mode, at):
        for name, value in (("at", at), ("count", 0), ("failed", 0), ("frames", 0), ("mode", mode)):
            self.set(name, value)

    def disarm(self):
        """How many allocations were failed."""
        self.set("mode", OFF)
        return self.get("failed")

    def place(self):
        """The functions of the program that the first failure was in, innermost first."""
        offsets = struct.unpack_from(f"<{self.get('frames')}Q", self.map, 8 * len(FIELDS))
        return [symbol(LINNET, offset - 1) for offset in offsets if offset][:4]

    def environment(self):
        return {"LD_PRELOAD": str(library("campaign_allocations.so")),
                "CAMPAIGN_ALLOCATIONS": self.file.name, "MALLOC_PERTURB_": "165"}


def essence(reply):
    """The parts of an answer that repeat for one request."""
    return reply.status, lasting(reply.body), lasting_headers(reply.headers)


def is_envelope(reply):
    try:
        return bool(reply.error["message"])
    except (AssertionError, ValueError):
        return False


@dataclass
class Kind:
    """A kind of request; `before` makes its conditions, `after` removes its remains."""

    name: str
    method: str
    path: str
    body: object = None
    headers: dict = field(default_factory=dict)
    expected: int = 200
    before: object = None
    after: object = None


@dataclass
class Tally:
    allocations: int = 0
    same: int = 0  # answered as ever
    errors: int = 0  # 5xx in the envelope
    cut: int = 0  # a stream that had begun and was cut
    closed: int = 0  # closed without an answer
    faults: list = field(default_factory=list)

    def add(self, other):
        for name in ("allocations", "same", "errors", "cut", "closed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.faults += other.faults


class Walk:
    """One kind of request, one server."""

    def __init__(self, server, allocations, kind):
        self.server, self.allocations, self.kind = server, allocations, kind
        self.reference = None

    def ask(self, timeout=60):
        kind = self.kind
        return try_call(self.server.port, kind.method, kind.path, kind.body, kind.headers, timeout)

    def clean(self):
        if self.kind.after is not None:
            self.kind.after(self.server)

    def prepare(self):
        if self.kind.before is not None:
            self.kind.before(self.server)

    def plain(self):
        """The request with enough memory: its status and the lasting part of its body."""
        self.prepare()
        reply = self.ask()
        self.clean()
        return essence(reply) if reply is not None else None

    def settle(self, most):
        """The blocks that are held once no more than `most` are, or when time is over."""
        end = time.monotonic() + QUIET
        while (held := self.allocations.get("held")) > most and time.monotonic() < end:
            time.sleep(0.002)
        return held

    def base(self):
        """The blocks an idle server holds: the same after two requests in a row."""
        for _ in range(50):
            first = self.plain_and_held()
            if self.plain_and_held() == first:
                return first
        raise AssertionError(f"{self.kind.name}: every request leaves more blocks")

    def plain_and_held(self):
        assert self.plain() == self.reference, f"{self.kind.name}: two answers differ"
        time.sleep(0.02)
        return self.allocations.get("held")

    def judge(self, reply, tally):
        """The fault of an answer, None for none."""
        if reply is None:
            tally.closed += 1
            return None
        if reply is CUT:
            tally.cut += 1
            return None
        if essence(reply) == self.reference:
            tally.same += 1
            return None
        if reply.status >= 500 and is_envelope(reply):
            tally.errors += 1
            return None
        if reply.status == 200 and b'"error":' in reply.body:
            tally.errors += 1  # a stream that had begun, or a state that could not be kept
            return None
        return f"{reply.status} {reply.headers} {reply.body[:200]!r}"

    def step(self, mode, at, base, tally):
        """Whether the request needed allocation `at`."""
        self.prepare()
        self.allocations.arm(mode, at)
        reply = self.ask(20)
        failed = self.allocations.disarm()
        if self.server.process.poll() is not None:
            tally.faults.append(f"{self.kind.name}, {at}: the server ended: {self.allocations.place()}")
            raise RuntimeError(tally.faults[-1])
        self.clean()
        wrong = self.judge(reply, tally) if failed else None
        if failed and wrong is None and self.plain() != self.reference:
            wrong = "the next answer differs"
        if failed and wrong is None and (held := self.settle(base)) > base:
            wrong = f"{held - base} blocks stay"
        if wrong is not None:
            tally.faults.append(f"{self.kind.name}, {at}: {wrong}: {self.allocations.place()}")
        return failed > 0

    def walk(self, modes, limit=MOST):
        tally = Tally()
        self.reference = self.plain()
        assert self.reference[0] == self.kind.expected, (self.kind.name, self.reference)
        base = self.base()
        for mode in modes:
            at = 1
            while at <= limit and self.step(MODES[mode], at, base, tally):
                at += 1
                base = max(base, 0)
            assert at <= MOST, f"{self.kind.name}: no end"
            tally.allocations += at - 1
        return tally


# --- the kinds --------------------------------------------------------------------------------------


RELOAD = Kind("reload", "POST", "/v1/models/reload", {})


def drop(name):
    def after(server):
        try_call(server.port, "DELETE", f"/v1/states/{name}")
    return after


def put(name, blob):
    def before(server):
        reply = try_call(server.port, "PUT", f"/v1/states/{name}", blob,
                         {"Content-Type": "application/octet-stream"})
        assert reply is not None and reply.status in (200, 201), reply
    return before


def form(path, name, **fields):
    kind, body = images.encode_form(fields)
    return Kind(name, "POST", path, body, {"Content-Type": kind})


def plain_kinds():
    text = {"model": MODEL, "prompt": "海上明月", "seed": 1}
    grey = {"model": images.SMALL, "seed": 1}
    values = images.a_picture()
    top = png.write(images.WIDTH, images.HEIGHT - 2, values[: images.WIDTH * (images.HEIGHT - 2)])
    full = png.write(images.WIDTH, images.HEIGHT, values)
    alpha = bytes([255] * images.WIDTH * 12 + [0] * images.WIDTH * 2)
    mask = png.write(images.WIDTH, images.HEIGHT, png.with_alpha(values, alpha), png.GREY_ALPHA)
    line = "/v1/completions"
    picture = {"images": [{"image_url": images.data_url(full)}],
               "mask": {"image_url": images.data_url(mask)}}
    return [
        Kind("completion", "POST", line, text),
        Kind("completion, every field", "POST", line, {
            **text, "prompt": ["海上明月", "春风"], "n": 2, "best_of": 3, "stop": ["月", "风"],
            "logprobs": 5, "logit_bias": {"100": 5}, "echo": True, "top_p": 0.9, "top_k": 50}),
        Kind("stream", "POST", line, {**text, "stream": True,
                                      "stream_options": {"include_usage": True}}),
        Kind("chat", "POST", "/v1/chat/completions", {
            "model": MODEL, "seed": 1, "messages": [{"role": "user", "content": "海上明月"}]}),
        Kind("pictures", "POST", images.GENERATIONS, {**grey, "n": 3}),
        Kind("contact sheet", "POST", images.GENERATIONS, {**grey, "n": 3, "contact_sheet": True}),
        Kind("pictures' stream", "POST", images.GENERATIONS, {**grey, "n": 2, "stream": True,
                                                              "partial_images": 1}),
        form(images.EDITS, "edit, a form", **grey, image=images.File(top)),
        form(images.EDITS, "edit, a mask", **grey, image=images.File(full), mask=images.File(mask)),
        Kind("edit, JSON", "POST", images.EDITS, {**grey, **picture}),
        Kind("score of a line", "POST", images.SCORE,
             {"model": MODEL, "prompt": "海上明月", "completion": "天涯比邻"}),
        form(images.SCORE, "score of a picture", model=images.SMALL, image=images.File(full)),
        Kind("bad field", "POST", line, {**text, "n": -1}, expected=400),
        Kind("bad JSON", "POST", line, b'{"model":', {"Content-Type": "application/json"}, expected=400),
        Kind("no such path", "GET", "/nothing", expected=404),
        *[Kind(path, "GET", path) for path in (
            "/", "/v1/models", f"/v1/models/{MODEL}", "/health", "/livez", "/openapi.json")],
    ]


def state_kinds(server):
    """The routes of states, and answers that leave or take them."""
    text = {"model": MODEL, "prompt": "海上明月", "seed": 1}
    made = client.complete_ok(server.port, **text, max_tokens=2, return_state=True)
    name = made["states"][0]["id"]
    binary = {"Accept": "application/octet-stream"}
    blob = client.call(server.port, "GET", f"/v1/states/{name}", headers=binary).body
    drop(name)(server)
    keep, gone = put("walked", blob), drop("walked")
    path = "/v1/states/walked"
    encoded = base64.b64encode(blob).decode()
    return [
        Kind("goes on from an id", "POST", "/v1/completions", {"state": "walked"}, before=keep,
             after=gone),
        Kind("goes on from bytes", "POST", "/v1/completions", {"state": encoded}),
        Kind("facts of a state", "GET", path, before=keep, after=gone),
        Kind("bytes of a state", "GET", path, headers=binary, before=keep, after=gone),
        Kind("inspect a state", "GET", path + "/inspect?layer=0&head=0", before=keep, after=gone),
        Kind("put a state", "PUT", path, blob, {"Content-Type": "application/octet-stream"},
             expected=201, after=gone),
        Kind("delete a state", "DELETE", path, expected=204, before=keep, after=gone),
    ]


@contextlib.contextmanager
def walked_server(allocations, folder, *flags):
    allocations.arm(OFF, 0)
    # One thread and no rows of its own accord, so that the count of a request's allocations is its own.
    flags = ("--slots", "4", "--http-threads", "1", "--threads", "1", "--probe-interval", "0",
             "--prefix-cache-mb", "0", *flags)
    with Server(*flags, models=folder, env=allocations.environment()) as server:
        yield server


def out_of_memory(options):
    """The row of the table."""
    if library("campaign_allocations.so") is None:
        return Row("out of memory at every allocation", False,
                   "no campaign_allocations.so next to the program", skipped=True)
    total, count, allocations = Tally(), 0, Allocations()
    allocations.fail_json(True)
    with temporary() as folder, temporary() as small:
        image_model.write(Path(small) / images.SMALL, images.WIDTH, images.HEIGHT)
        try:
            with walked_server(allocations, put_models(folder)) as server:
                for kind in [*plain_kinds(), *state_kinds(server)][: options.kinds]:
                    walk_kind(Walk(server, allocations, kind), total, options)
                    count += 1
            with walked_server(allocations, small) as server:  # large weights would take their time
                walk_kind(Walk(server, allocations, RELOAD), total, options)
                count += 1
        except (AssertionError, OSError, RuntimeError) as error:
            total.faults.append(str(error)[-1000:])
    for fault in total.faults[:20]:
        print(f"  {fault[:300]}")
    return Row("out of memory at every allocation of a request", not total.faults,
               f"{count} kinds of requests, {total.allocations} failed allocations: {total.errors} answered "
               f"with an error, {total.same} as ever, {total.closed} closed before the answer, {total.cut} cut "
               f"in it; {len(total.faults)} faults")


def walk_kind(walk, total, options):
    tally = walk.walk(options.modes, options.allocations)
    total.add(tally)
    if options.verbose:
        print(f"  {walk.kind.name}: {tally.allocations} failed, {tally.same} as ever, {tally.errors} errors, "
              f"{tally.cut} cut, {tally.closed} closed, {len(tally.faults)} faults", flush=True)


def check(name):
    """Walks one kind of request with one failure each; an error when a fault is found."""
    allocations = Allocations()
    allocations.fail_json(True)
    with temporary() as folder, walked_server(allocations, put_models(folder)) as server:
        (kind,) = [kind for kind in plain_kinds() if kind.name == name]
        tally = Walk(server, allocations, kind).walk(["once"])
        assert tally.allocations > 10 and not tally.faults, tally
