"""Sounds, the files that hold them, and requests to have them written down."""

import ctypes
import ctypes.util
import functools
import json
import math
import os
import random
import struct
import tempfile
from array import array

import client
from images import File, encode_form

ROUTE = "/v1/audio/transcriptions"
MODEL = "ears"

# --- sounds


@functools.cache  # files make their sounds when they are collected, by each worker
def babble(seconds, seed=1, rate=8000):
    """Tones that change ten times per second, with noise: (n) of -1 .. 1."""
    rng, samples = random.Random(seed), []
    for _ in range(math.ceil(seconds * 10)):
        tones = [(rng.uniform(100, rate / 2.5), rng.uniform(0, 0.3)) for _ in range(3)]
        for i in range(rate // 10):
            tone = sum(loud * math.sin(2 * math.pi * hertz * i / rate) for hertz, loud in tones)
            samples.append(max(-1.0, min(1.0, tone + rng.gauss(0, 0.01))))
    return tuple(samples[: int(seconds * rate)])


# --- files


def wav(samples, rate=8000, channels=1, claims=None):
    """16 bits; `claims`: the number of bytes of samples by its header."""
    data = array("h", [value for x in samples for value in [round(x * 32767)] * channels]).tobytes()
    form = struct.pack("<HHIIHH", 1, channels, rate, 2 * channels * rate, 2 * channels, 16)
    size = len(data) if claims is None else claims
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", size) + data
    return b"RIFF" + struct.pack("<I", (len(body) - len(data) + size) % (1 << 32)) + body


class Info(ctypes.Structure):
    """SF_INFO of sndfile.h."""

    _fields_ = [("frames", ctypes.c_int64), ("rate", ctypes.c_int), ("channels", ctypes.c_int), ("format", ctypes.c_int),
                ("sections", ctypes.c_int), ("seekable", ctypes.c_int)]


FORMATS = {"wav-float": 0x010006, "flac": 0x170002, "ogg-vorbis": 0x200060, "ogg-opus": 0x200064}


def encode(kind, samples, rate=8000, channels=1):
    """The bytes of a file of one of FORMATS, by libsndfile, which the program itself needs."""
    library = ctypes.CDLL(ctypes.util.find_library("sndfile") or "libsndfile.so.1")
    library.sf_open.restype = ctypes.c_void_p
    info = Info(rate=rate, channels=channels, format=FORMATS[kind])
    handle, path = tempfile.mkstemp()
    os.close(handle)
    try:
        opened = ctypes.c_void_p(library.sf_open(path.encode(), 0x20, ctypes.byref(info)))
        assert opened.value, f"libsndfile writes no {kind} of {rate} Hz"
        values = array("f", samples if channels == 1 else [x for x in samples for _ in range(channels)])
        pointer = (ctypes.c_float * len(values)).from_buffer(values)
        written = library.sf_writef_float(opened, pointer, ctypes.c_int64(len(samples)))
        library.sf_close(opened)
        assert written & 0xFFFFFFFF == len(samples)
        with open(path, "rb") as file:
            return file.read()
    finally:
        os.unlink(path)


# --- requests


def form_of(file, **fields):
    """(headers, body); a field's value None leaves it out."""
    form = {"model": MODEL, "file": file if isinstance(file, (File, list, str)) else File(file, "sound.wav"), **fields}
    kind, body = encode_form({name: value for name, value in form.items() if value is not None})
    return {"Content-Type": kind}, body


def transcribe(port, file, headers=None, **fields):
    own, body = form_of(file, **fields)
    return client.call(port, "POST", ROUTE, body, own | (headers or {}))


def transcribe_ok(port, file, **fields):
    reply = transcribe(port, file, **fields)
    assert reply.status == 200, reply.text
    return reply.json()


def reserved(server):
    """Bytes of all answers, and of the sounds on their way to one."""
    return server.metric("linnet_answer_bytes")


def events_of(reply):
    """The JSON events of a whole stream."""
    assert reply.status == 200, reply.text
    assert reply.headers["content-type"].startswith("text/event-stream"), reply.headers
    parser = client.EventParser()
    events = [json.loads(event) for event in parser.feed(reply.body)]
    assert parser.buffer == b""
    return events
