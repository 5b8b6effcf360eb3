"""POST /v1/audio/transcriptions: every form of an answer has one text, alone and in company."""

import asyncio
import json
import re

import pytest

import client
import sounds
from images import File
from server import Server, run, wait_until
from settings import MODEL as COUPLET
from sounds import MODEL, babble, encode, events_of, transcribe, transcribe_ok, wav
from speech_model import RATE, ROWS, SPEECH, WORDS

pytestmark = pytest.mark.quick

SAID = wav(babble(2.5))
LONGEST = ((ROWS * SPEECH["stride"] - 1) * SPEECH["hop"] + SPEECH["frame"] + SPEECH["hop"] - 1) / RATE


def verbose(port, sound, **fields):
    both = ["word", "segment"]
    return transcribe_ok(port, sound, response_format="verbose_json", **{"timestamp_granularities[]": both}, **fields)


def local(folder, path, *flags):
    """The output of `linnet transcribe --json` for a file."""
    result = run("transcribe", path, "--model", folder / MODEL, "--json", *flags)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


# --- forms of an answer


def test_every_form_says_what_the_command_line_says(speech_port, speech_models, tmp_path):
    path = tmp_path / "said.wav"
    path.write_bytes(SAID)
    want = local(speech_models, path)
    assert len(want["tokens"]) >= 5 and len({t["text"] for t in want["tokens"]}) >= 3, "a model that says nothing tests nothing"
    assert want["text"] == "".join(t["text"] for t in want["tokens"])
    assert transcribe_ok(speech_port, SAID)["text"] == want["text"]
    assert transcribe(speech_port, SAID, response_format="text").text == want["text"] + "\n"
    answer = verbose(speech_port, SAID)
    assert answer["text"] == want["text"]
    assert [(w["word"], w["start"], w["end"]) for w in answer["words"]] == [
        (t["text"], pytest.approx(t["start"], abs=6e-4), pytest.approx(t["end"], abs=6e-4)) for t in want["tokens"]]
    events = events_of(transcribe(speech_port, SAID, stream=True))
    assert [e["delta"] for e in events[:-1]] == [t["text"] for t in want["tokens"]]
    assert events[-1]["text"] == want["text"]


def test_a_beam_is_that_of_the_command_line(speech_port, speech_models, tmp_path):
    path = tmp_path / "said.wav"
    path.write_bytes(SAID)
    for width in (1, 8):
        assert transcribe_ok(speech_port, SAID, beam=width)["text"] == local(speech_models, path, "--beam", width)["text"]


def test_json(speech_port):
    answer = transcribe_ok(speech_port, SAID)
    assert set(answer) == {"text", "usage", "model", "system_fingerprint"}
    assert answer["model"] == MODEL
    assert answer["usage"] == {"type": "duration", "seconds": pytest.approx(2.5)}


def test_the_model_may_be_left_out(speech_port):
    assert transcribe_ok(speech_port, SAID, model=None) == transcribe_ok(speech_port, SAID)


def test_verbose(speech_port):
    answer = verbose(speech_port, SAID, language="en")
    assert (answer["task"], answer["language"], answer["duration"]) == ("transcribe", "en", pytest.approx(2.5))
    words, segments = answer["words"], answer["segments"]
    assert all(set(w) == {"word", "start", "end"} and 0 <= w["start"] < w["end"] <= 2.5 for w in words)
    assert [w["start"] for w in words] == sorted(w["start"] for w in words)
    assert "".join(s["text"] for s in segments) == answer["text"]
    assert [s["id"] for s in segments] == list(range(len(segments)))
    assert sum((s["tokens"] for s in segments), []) == [1 + WORDS.index(w["word"]) for w in words]
    assert segments[0]["start"] == words[0]["start"] and segments[-1]["end"] == words[-1]["end"]


def test_what_a_verbose_answer_has_is_chosen(speech_port):
    plain = transcribe_ok(speech_port, SAID, response_format="verbose_json")
    assert "segments" in plain and "words" not in plain and plain["language"] == "und"
    words = transcribe_ok(speech_port, SAID, response_format="verbose_json", **{"timestamp_granularities[]": "word"})
    assert "words" in words and "segments" not in words
    same = transcribe_ok(speech_port, SAID, response_format="verbose_json", timestamp_granularities="word")
    assert same == words


def clock(seconds, mark):
    ms = round(seconds * 1000)
    return f"{ms // 3600000:02}:{ms // 60000 % 60:02}:{ms // 1000 % 60:02}{mark}{ms % 1000:03}"


@pytest.mark.parametrize("kind, mark, content_type", [("srt", ",", "application/x-subrip"), ("vtt", ".", "text/vtt")])
def test_subtitles(speech_port, kind, mark, content_type):
    segments = verbose(speech_port, SAID)["segments"]
    cues = [f"{clock(s['start'], mark)} --> {clock(s['end'], mark)}\n{s['text']}\n\n" for s in segments]
    want = "WEBVTT\n\n" + "".join(cues) if kind == "vtt" else "".join(f"{i}\n{cue}" for i, cue in enumerate(cues, 1))
    reply = transcribe(speech_port, SAID, response_format=kind)
    assert reply.status == 200 and reply.headers["content-type"].startswith(content_type)
    assert reply.text == want


def test_events(speech_port):
    *deltas, done = events_of(transcribe(speech_port, SAID, stream=True))
    assert {tuple(sorted(e)) for e in deltas} == {("delta", "type")}
    assert {e["type"] for e in deltas} == {"transcript.text.delta"}
    assert done["type"] == "transcript.text.done" and done["text"] == "".join(e["delta"] for e in deltas)
    usage = done["usage"]
    assert usage["type"] == "tokens" and usage["output_tokens"] == len(deltas)
    assert usage["input_tokens"] == usage["input_token_details"]["audio_tokens"] == pytest.approx(2.5 / 0.03, abs=2)
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_fields_that_change_nothing_are_named(speech_port):
    plain = transcribe_ok(speech_port, SAID)
    asked = transcribe_ok(speech_port, SAID, language="de", prompt="digits", temperature=0.5, **{"include[]": "logprobs"})
    assert [w["param"] for w in asked.pop("warnings")] == ["language", "prompt", "temperature", "include"]
    assert asked == plain
    assert [w["param"] for w in events_of(transcribe(speech_port, SAID, stream=True, prompt="x"))[-1]["warnings"]] == ["prompt"]


def test_a_file_is_no_text(speech_port):
    """A file part where a text is meant, as curl's -F prompt=@file sends it."""
    for content in (b"", b"digits"):
        told = transcribe_ok(speech_port, SAID, prompt=File(content, "prompt.txt"))
        assert [w["param"] for w in told["warnings"]] == ["prompt"]
        for name in ("language", "response_format", "temperature", "stream", "beam", "timeout_ms", "model", "timestamp_granularities[]"):
            reply = transcribe(speech_port, SAID, **{name: File(content, "a.txt")})
            assert reply.status == 400 and reply.error["param"] == name.removesuffix("[]"), reply.text


@pytest.mark.parametrize("form", ["text", "srt", "vtt"])
def test_answers_that_are_no_json_name_them_in_a_header(speech_port, form):
    asked = transcribe(speech_port, SAID, response_format=form, language="de", own="x")
    assert asked.status == 200 and asked.headers["linnet-ignored"] == "language, own"
    assert "linnet-ignored" not in transcribe(speech_port, SAID, response_format=form).headers


@pytest.mark.parametrize("length, named", [(4, 12), (40, 5)])
def test_the_header_counts_the_fields_that_it_has_no_room_for(speech_port, length, named):
    names = [f"own{i:02}".ljust(length, "x") for i in range(20)]
    told = transcribe(speech_port, SAID, response_format="srt", **dict.fromkeys(names, "x")).headers["linnet-ignored"]
    assert told == f"{', '.join(names[:named])} and {20 - named} more"


def test_silence_says_something_or_nothing(speech_port):
    """It is a sound as any other: no band has a deviation, so all are 0."""
    answer = verbose(speech_port, wav([0.0] * 4000))
    assert answer["duration"] == 0.5 and answer["text"] == "".join(w["word"] for w in answer["words"])


# --- files


@pytest.mark.parametrize("kind", list(sounds.FORMATS))
def test_kinds_of_files(speech_port, kind):
    rate = 48000 if kind == "ogg-opus" else 8000
    samples = babble(1.5, rate=rate)
    exact = [round(x * 32767) / 32768 for x in samples]  # as 16 bits have them
    answer = transcribe_ok(speech_port, encode(kind, exact if kind == "wav-float" else samples, rate), response_format="verbose_json")
    assert answer["duration"] == pytest.approx(1.5, abs=0.03)
    if kind in ("flac", "wav-float"):
        assert answer["text"] == transcribe_ok(speech_port, wav(samples))["text"]


def test_two_channels_are_their_mean(speech_port):
    assert transcribe_ok(speech_port, wav(babble(1), channels=2))["text"] == transcribe_ok(speech_port, wav(babble(1)))["text"]


def test_the_name_of_a_file_says_nothing(speech_port):
    file = sounds.File(SAID, "song.mp3")
    assert transcribe_ok(speech_port, file)["text"] == transcribe_ok(speech_port, SAID)["text"]


def test_the_longest_sound(speech_port):
    meta = client.call(speech_port, "GET", f"/v1/models/{MODEL}").json()["meta"]
    assert meta["max_seconds"] == pytest.approx(LONGEST) and meta["sample_rate"] == RATE
    samples = babble(LONGEST + 1)
    most = round(LONGEST * RATE)
    assert transcribe_ok(speech_port, wav(samples[:most]))["usage"]["seconds"] == pytest.approx(LONGEST)
    assert transcribe(speech_port, wav(samples[: most + 1])).error["param"] == "file"


# --- in company


def answers(server, files, in_flight):
    async def ask(file, gate):
        async with gate, client.Connection(server.port) as connection:
            headers, body = sounds.form_of(file, response_format="verbose_json", **{"timestamp_granularities[]": "word"})
            return await connection.request("POST", sounds.ROUTE, body, headers)

    async def ask_all():
        gate = asyncio.Semaphore(in_flight)
        return await asyncio.gather(*(ask(file, gate) for file in files))

    replies = asyncio.run(ask_all())
    assert {reply.status for reply in replies} == {200}
    return [reply.body for reply in replies]


def test_alone_is_among_others_to_the_byte(speech_models):
    files = [wav(babble(0.3 + 0.2 * i, seed=i)) for i in range(16)]
    with Server("--models", speech_models, "--threads", "1") as one:
        alone = answers(one, files, 1)
        passes = one.metric("linnet_steps_total", model=MODEL)
        assert passes == len(files)
    with Server("--models", speech_models, "--threads", "2") as two:
        for _ in range(3):
            assert answers(two, files, len(files)) == alone
        assert two.metric("linnet_steps_total", model=MODEL) < 3 * len(files), "no pass had two sounds"
    assert len(set(alone)) == len(files)


# --- other routes


def test_the_model_is_listed(speech_port):
    (model,) = [m for m in client.call(speech_port, "GET", "/v1/models").json()["data"] if m["id"] == MODEL]
    assert model["architecture"] == {"input_modalities": ["audio"], "output_modalities": ["text"]}
    assert model["meta"]["task"] == "speech" and model["meta"]["state_bytes"] == 0
    (capacity,) = [m for m in client.call(speech_port, "GET", "/v1/capacity").json()["models"] if m["id"] == MODEL]
    assert capacity["slots"]["total"] == 16 and capacity["queue"]["length"] == 0


OTHERS = [
    ("/v1/completions", {"prompt": "a"}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
    ("/v1/responses", {"input": "a"}),
    ("/v1/images/generations", {"prompt": "a"}),
    ("/v1/images/edits", {"images": [{"image_url": "data:image/png;base64,AAAA"}]}),
    ("/v1/score", {"prompt": "a", "completion": "b"}),
    ("/v1/score", {}),
    ("/v1/states", {"prompt": "a"}),
    ("/v1/states", {}),
    ("/tokenize", {"content": "a"}),
    ("/detokenize", {"tokens": [1]}),
]


@pytest.mark.parametrize("path, body", OTHERS, ids=[f"{i}{path}" for i, (path, _) in enumerate(OTHERS)])
def test_other_routes_refuse_the_model(speech_port, path, body):
    reply = client.call(speech_port, "POST", path, {"model": MODEL, **body})
    assert reply.status == 400 and reply.error["param"] == "model"
    assert sounds.ROUTE in reply.error["message"]


def test_metrics_and_log(speech_models):
    with Server("--models", speech_models) as server:
        transcribe_ok(server.port, SAID)
        events_of(transcribe(server.port, SAID, stream=True))
        assert transcribe(server.port, b"no sound").status == 400
        assert server.metric("linnet_sound_seconds_total", model=MODEL) == pytest.approx(5.0)
        assert server.metric("linnet_requests_total", model=MODEL, outcome="ok") == 2
        assert server.metric("linnet_requests_total", model=MODEL, outcome="invalid") == 1
        assert server.metric("linnet_request_duration_seconds_count", model=MODEL) == 3
        assert server.metric("linnet_queue_time_seconds_count", model=MODEL) == 2
        assert server.metric("linnet_sound_seconds_total", model=COUPLET) == 0
        wait_until(lambda: sounds.reserved(server) == 0, 60, "all bytes are given back")
        wait_until(lambda: len(re.findall(rf"POST {sounds.ROUTE} (?:200|400)", server.log)) == 3, 60, "three lines")
