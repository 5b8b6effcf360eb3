"""Small HTTP clients for the tests: one blocking, one for a thousand connections, one for raw bytes.

They are written on sockets on purpose. A library would repair, pool, retry or hide exactly the facts that these tests
check: the order of bytes, the moment a connection closes, a repeated header.
"""

import asyncio
import json
import socket
import struct
import time
from dataclasses import dataclass, field

from settings import MODEL

HOST = "127.0.0.1"
PATIENCE = 120.0  # seconds any single wait may take before a test fails


@dataclass
class Reply:
    """One HTTP answer. Header names are lower case; a repeated header is joined with a comma."""

    status: int
    headers: dict = field(default_factory=dict)
    body: bytes = b""

    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.body.decode("utf-8")

    @property
    def error(self):
        """The error object, after checking that the envelope is complete."""
        envelope = self.json()
        assert set(envelope) - {"type"} == {"error"}, envelope
        assert envelope.get("type", "error") == "error", envelope  # in Anthropic's form
        error = envelope["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        assert isinstance(error["message"], str) and error["message"], error
        assert "\n" not in error["message"], error
        assert isinstance(error["type"], str) and error["type"], error
        assert error["param"] is None or isinstance(error["param"], str), error
        assert error["code"] is None or isinstance(error["code"], str), error
        return error


def encode_request(method, path, body=None, headers=None, port=0):
    """The bytes of a request; a dict as body is sent as JSON."""
    lines = {"Host": f"{HOST}:{port}", **(headers or {})}
    if isinstance(body, (dict, list)):
        body = json.dumps(body, ensure_ascii=False).encode()
        lines.setdefault("Content-Type", "application/json")
    if body is not None:
        lines.setdefault("Content-Length", str(len(body)))
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
    return head.encode("latin-1") + b"\r\n" + (body or b"")


def parse_head(head):
    """Status and headers of the bytes up to and including the empty line."""
    lines = head.decode("latin-1").split("\r\n")
    version, status = lines[0].split(" ")[:2]
    assert version in ("HTTP/1.1", "HTTP/1.0"), lines[0]
    headers = {}
    for line in lines[1:]:
        if line:
            name, value = line.split(":", 1)
            name, value = name.strip().lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return int(status), headers


def parse_replies(data):
    """All complete answers in `data`, and the rest of the bytes. For answers to anything but HEAD."""
    replies = []
    while data:
        head, mark, rest = data.partition(b"\r\n\r\n")
        if not mark:
            break
        status, headers = parse_head(head + mark)
        if "content-length" in headers:
            size = int(headers["content-length"])
            if len(rest) < size:
                break
            body, data = rest[:size], rest[size:]
        elif headers.get("transfer-encoding") == "chunked":
            body, data, complete = split_chunks(rest)
            if not complete:
                break
        elif status in (100, 204, 304):
            body, data = b"", rest
        else:
            body, data = rest, b""
        if status != 100:
            replies.append(Reply(status, headers, body))
    return replies, data


def split_chunks(data):
    """(body, rest, complete) of a chunked body at the start of `data`."""
    body, at = [], 0
    while True:
        end = data.find(b"\r\n", at)
        if end < 0:
            return b"".join(body), data[at:], False
        size = int(data[at:end].split(b";")[0], 16)
        start, after = end + 2, end + 4 + size
        if len(data) < after:
            return b"".join(body), data[at:], False
        assert data[after - 2 : after] == b"\r\n", "chunk is not closed"
        body.append(data[start : after - 2])
        at = after
        if size == 0:
            return b"".join(body), data[at:], True


# --- blocking --------------------------------------------------------------------------------


def connect(port, timeout=PATIENCE, source=None):
    """`source`: the client's own address, of 127.0.0.0/8; None: HOST."""
    sock = socket.create_connection((HOST, port), timeout=timeout, source_address=source and (source, 0))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def reset(sock):
    """Closes with RST, as a killed client's machine does."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def exchange(port, data, timeout=PATIENCE):
    """Sends raw bytes and returns everything the server says until it closes or falls silent."""
    with connect(port, timeout) as sock:
        try:
            sock.sendall(data)
        except OSError:
            pass  # refused while sending: the answer may have arrived nevertheless
        return read_all(sock, timeout)


def read_all(sock, timeout, least=1):
    """Reads until the end, a reset, `least` complete answers followed by silence, or `timeout`."""
    received = b""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        replies, rest = parse_replies(received)
        quiet = 0.3 if len(replies) >= least and not rest else max(0.01, end - time.monotonic())
        sock.settimeout(quiet)
        try:
            part = sock.recv(65536)
        except TimeoutError:
            break
        except OSError:
            break
        if not part:
            break
        received += part
    return received


def call(port, method, path, body=None, headers=None, timeout=PATIENCE, source=None):
    """One request on its own connection."""
    headers = {"Connection": "close", **(headers or {})}
    with connect(port, timeout, source) as sock:
        try:
            sock.sendall(encode_request(method, path, body, headers, port))
        except OSError:
            pass
        parts = []
        while True:
            try:
                parts.append(sock.recv(65536))
            except ConnectionResetError:
                break
            if not parts[-1]:
                break
    received = b"".join(parts)
    if method == "HEAD":
        head, mark, rest = received.partition(b"\r\n\r\n")
        assert mark and not rest, f"HEAD was answered with a body: {rest[:80]!r}"
        return Reply(*parse_head(head + mark))
    replies, rest = parse_replies(received)
    assert len(replies) == 1 and not rest, received[:400]
    return replies[0]


def complete(port, **fields):
    """POST /v1/completions, of the model under test unless `model` says otherwise. Pools, which test_pools.py tests,
    are off, so that an answer equals a stream."""
    return call(port, "POST", "/v1/completions", {"model": MODEL, "rank": False, **fields})


def complete_ok(port, **fields):
    reply = complete(port, **fields)
    assert reply.status == 200, reply.text
    return reply.json()


# --- server-sent events ----------------------------------------------------------------------


class EventParser:
    """Bytes in, payloads of complete `data:` events out. Comments are counted, not returned."""

    def __init__(self):
        self.buffer = b""
        self.comments = 0

    def feed(self, data):
        self.buffer += data
        *frames, self.buffer = self.buffer.split(b"\n\n")
        events = []
        for frame in frames:
            lines = frame.split(b"\n")
            if all(line.startswith(b":") for line in lines):
                self.comments += 1
                continue
            assert len(lines) == 1 and lines[0].startswith(b"data: "), frame
            events.append(lines[0][len(b"data: ") :].decode("utf-8"))
        return events


def parse_events(body):
    """The JSON events of a complete stream; checks that it ends with [DONE] and nothing after."""
    parser = EventParser()
    events = parser.feed(body)
    assert parser.buffer == b"", parser.buffer
    assert events and events[-1] == "[DONE]", events[-1:]
    assert "[DONE]" not in events[:-1]
    return [json.loads(event) for event in events[:-1]]


def join_stream(events):
    """The texts of a stream's samples, by index, and their finish reasons."""
    texts, reasons = {}, {}
    for event in events:
        assert "error" not in event, event
        for choice in event["choices"]:
            index = choice["index"]
            assert index not in reasons, "text after the sample's end"
            texts[index] = texts.get(index, "") + choice["text"]
            if choice.get("finish_reason") is not None:
                reasons[index] = choice["finish_reason"]
    return texts, reasons


def stream_ok(port, **fields):
    """A whole streamed completion: its events."""
    reply = complete(port, stream=True, **fields)
    assert reply.status == 200, reply.text
    assert reply.headers["content-type"].startswith("text/event-stream"), reply.headers
    return parse_events(reply.body)


# --- many at once ----------------------------------------------------------------------------


class Connection:
    """One keep-alive connection under asyncio."""

    def __init__(self, port):
        self.port = port
        self.reader = self.writer = None

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection(HOST, self.port, limit=1 << 20)
        return self

    async def __aexit__(self, *_):
        self.close()

    def close(self):
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def abort(self):
        """Leaves without a word: pending data is dropped and the peer sees a reset."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
        self.writer = None

    async def send(self, method, path, body=None, headers=None):
        self.writer.write(encode_request(method, path, body, headers, self.port))
        await self.writer.drain()

    async def read_head(self):
        head = await self.reader.readuntil(b"\r\n\r\n")
        return parse_head(head)

    async def read_chunk(self):
        """The next chunk of a chunked body, b"" at its end."""
        size = int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16)
        data = await self.reader.readexactly(size + 2)
        assert data.endswith(b"\r\n")
        return data[:-2]

    async def read_reply(self):
        status, headers = await self.read_head()
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while part := await self.read_chunk():
                body += part
        else:
            body = await self.reader.readexactly(int(headers["content-length"]))
        return Reply(status, headers, body)

    async def request(self, method, path, body=None, headers=None):
        await self.send(method, path, body, headers)
        return await asyncio.wait_for(self.read_reply(), PATIENCE)

    async def complete(self, **fields):
        return await self.request("POST", "/v1/completions", {"model": MODEL, "rank": False, **fields})

    async def events(self, **fields):
        """Streams a completion: yields each JSON event as it comes, ends after [DONE]."""
        await self.send("POST", "/v1/completions", {"model": MODEL, **fields, "stream": True})
        status, headers = await asyncio.wait_for(self.read_head(), PATIENCE)
        if status != 200:
            body = await self.reader.readexactly(int(headers["content-length"]))
            raise AssertionError(f"{status}: {body!r}")
        parser, done = EventParser(), False
        while part := await asyncio.wait_for(self.read_chunk(), PATIENCE):
            for event in parser.feed(part):
                assert not done, "an event after [DONE]"
                if event == "[DONE]":
                    done = True
                else:
                    yield json.loads(event)
        assert done and parser.buffer == b"", "the stream ended without [DONE]"


async def gather_limited(limit, jobs):
    """Runs coroutine functions, at most `limit` at once; results in the order of `jobs`."""
    gate = asyncio.Semaphore(limit)

    async def run(job):
        async with gate:
            return await job()

    return await asyncio.gather(*(run(job) for job in jobs))


async def answer_all(port, requests, in_flight):
    """Answers many completions over `in_flight` keep-alive connections; replies in their order."""
    replies = [None] * len(requests)
    queue = iter(enumerate(requests))

    async def worker():
        async with Connection(port) as connection:
            for i, fields in queue:
                replies[i] = await connection.complete(**fields)
                if replies[i].headers.get("connection", "").lower() == "close":
                    raise AssertionError(f"connection closed after: {replies[i].text}")

    await asyncio.gather(*(worker() for _ in range(min(in_flight, len(requests)))))
    return replies
