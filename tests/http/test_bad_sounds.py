"""Bad requests for transcriptions: a 4xx that names the field, within bounded time and memory."""

import struct
import time
from array import array

import pytest

import client
import images
import sounds
from client import call
from server import Server
from settings import MODEL as COUPLET
from sounds import MODEL, ROUTE, File, babble, encode, transcribe, wav

SAID = wav(babble(0.5))


def check_refused(reply, param, status=400):
    assert reply.status == status, (reply.status, reply.text[:300])
    assert reply.error["param"] == param, reply.error
    return reply.error["message"]


# --- fields

FIELDS = [
    ("response_format", "diarized_json"),
    ("response_format", ""),
    ("response_format", ["json", "text"]),
    ("temperature", "warm"),
    ("temperature", -0.1),
    ("temperature", 1.5),
    ("temperature", ["0", "0"]),
    ("language", "x" * 36),
    ("beam", -1),
    ("beam", 257),
    ("beam", 1.5),
    ("beam", "wide"),
    ("stream", "maybe"),
    ("stream", 2),
    ("timeout_ms", 0),
    ("timeout_ms", "soon"),
    ("timestamp_granularities", "word"),
    ("timestamp_granularities[]", ["word"]),
]


@pytest.mark.parametrize("name, value", FIELDS, ids=[f"{i}-{name}" for i, (name, _) in enumerate(FIELDS)])
def test_bad_field(speech_port, name, value):
    check_refused(transcribe(speech_port, SAID, **{name: value}), name.removesuffix("[]"))


@pytest.mark.parametrize("value", ["letter", "", ["word", "letter"]])
def test_bad_granularity(speech_port, value):
    reply = transcribe(speech_port, SAID, response_format="verbose_json", **{"timestamp_granularities[]": value})
    check_refused(reply, "timestamp_granularities")


@pytest.mark.parametrize("form", ["text", "verbose_json", "srt", "vtt"])
def test_a_stream_is_json(speech_port, form):
    check_refused(transcribe(speech_port, SAID, stream=True, response_format=form), "response_format")


def test_a_list_that_is_text_too(speech_port):
    reply = transcribe(speech_port, SAID, **{"include": "a", "include[]": "b"})
    check_refused(reply, "include")


def test_models(speech_port):
    reply = transcribe(speech_port, SAID, model="nothing")
    assert check_refused(reply, "model", 404) and reply.error["code"] == "model_not_found"
    assert MODEL in reply.error["message"]
    assert "/v1/completions" in check_refused(transcribe(speech_port, SAID, model=COUPLET), "model")
    check_refused(transcribe(speech_port, SAID, model=""), "model", 404)


def test_no_model_of_speech_is_served(port):
    assert "speech" in check_refused(transcribe(port, SAID, model=None), "model", 404)


def test_no_file(speech_port):
    kind, body = images.encode_form({"model": MODEL})
    assert "missing" in check_refused(call(speech_port, "POST", ROUTE, body, {"Content-Type": kind}), "file")


def test_a_file_of_another_field(speech_port):
    kind, body = images.encode_form({"model": MODEL, "sound": File(SAID)})
    assert "missing" in check_refused(call(speech_port, "POST", ROUTE, body, {"Content-Type": kind}), "file")


def test_two_files(speech_port):
    check_refused(transcribe(speech_port, [File(SAID), File(SAID)]), "file")


def test_no_form(speech_port):
    reply = call(speech_port, "POST", ROUTE, {"model": MODEL, "file": "x"})
    assert reply.status == 415 and reply.error["param"] == "Content-Type"
    broken = call(speech_port, "POST", ROUTE, b"--x\r\n", {"Content-Type": "multipart/form-data; boundary=x"})
    check_refused(broken, "body")


# --- files


def eight_channels():
    return wav(babble(0.5), channels=8)


def an_hour():
    """One of FLAC, whose silence has hardly any bytes."""
    return encode("flac", array("f", bytes(4 * 3600 * 4000)), rate=4000)


BAD = {
    "empty": b"",
    "no sound": b"once upon a time",
    "text": "once upon a time",
    "an MP3": b"ID3\x04\x00\x00\x00\x00\x00\x00" + b"\xff\xfb\x90\x64" + bytes(400),
    "a PNG": b"\x89PNG\r\n\x1a\n" + bytes(64),
    "an MP4": struct.pack(">I", 24) + b"ftypM4A " + bytes(400),
    "a head alone": SAID[:44],
    "part of a head": SAID[:20],
    "less than a frame": wav(babble(0.01)),
    "no samples": wav([]),
    "eight channels": eight_channels(),
    "no channels": SAID[:22] + b"\0\0" + SAID[24:],
    "no rate": SAID[:24] + bytes(4) + SAID[28:],
    "a rate of 1 Hz": wav(babble(0.5), rate=1),
    "a rate of 10 MHz": wav(babble(0.5), rate=10_000_000),
    "too long": wav(babble(1) * 14),
    "a cut FLAC": encode("flac", babble(1))[:500],
    "a FLAC in disorder": encode("flac", babble(1))[:2000] + bytes(3000),
    "a cut Ogg": encode("ogg-vorbis", babble(1))[:300],
    "two FLACs": encode("flac", babble(1)) * 2,
    "a FLAC and an Ogg": encode("flac", babble(1)) + encode("ogg-vorbis", babble(1)),
    "an Ogg and a WAV": encode("ogg-vorbis", babble(1)) + SAID,
    "two WAVs": SAID * 2,
    "a second Ogg that is damaged": encode("ogg-vorbis", babble(1)) + encode("ogg-vorbis", babble(1))[:40] + bytes(3000),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_file(speech_port, name):
    check_refused(transcribe(speech_port, BAD[name]), "file")
    events = sounds.events_of(transcribe(speech_port, BAD[name], stream=True))
    assert [e["error"]["param"] for e in events] == ["file"]


def test_an_hour(speech_server):
    """Refused by its length, its header or its samples, in no more time than the longest sound takes."""
    sound = an_hour()
    before, start = speech_server.resident_bytes(), time.monotonic()
    for _ in range(5):
        assert "s" in check_refused(transcribe(speech_server.port, sound), "file")
    assert speech_server.resident_bytes() - before < 64 << 20
    assert time.monotonic() - start < 60


def test_claims_of_a_head(speech_server):
    """A header's number of missing samples is not believed: the file is refused as truncated, or its existing samples
    are transcribed."""
    before = speech_server.resident_bytes()
    for claims in (0xFFFFFFF0, 1 << 30, 0):
        assert transcribe(speech_server.port, wav(babble(0.5), claims=claims)).status in (200, 400)
    assert speech_server.resident_bytes() - before < 64 << 20


def test_too_large(speech_port):
    check_refused(transcribe(speech_port, bytes(9 << 20)), "body", 413)


def test_more_than_all_requests_may_take(speech_models):
    with Server("--models", speech_models, "--answer-memory", "4") as server:
        message = check_refused(transcribe(server.port, SAID), "file")
        assert "answer-memory" in message
        assert client.call(server.port, "GET", "/v1/capacity").json()["answer_bytes"]["used"] == 0


def test_damaged_files(speech_server):
    """A byte changed here and there: an answer or a refusal of the file, and the server is well."""
    whole = [SAID, encode("flac", babble(0.5)), encode("ogg-vorbis", babble(0.5))]
    statuses = set()
    for i in range(60):
        file = bytearray(whole[i % 3])
        for k in range(1 + i % 4):
            file[(i * 7919 + k * 104729) % len(file)] ^= 1 << i % 8
        reply = transcribe(speech_server.port, bytes(file))
        statuses.add(reply.status)
        assert reply.status == 200 or check_refused(reply, "file")
    assert statuses == {200, 400}
