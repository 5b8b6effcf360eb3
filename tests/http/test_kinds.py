"""Models of every kind of state on one server: a state that never grows, rows in a ring, rows in pages. An answer that
continues from a state equals the answer without a stop, alone and among others, here, in a copy, on another server, and
after the server was killed. Growing states are counted in bytes."""

import base64
import concurrent.futures

import pytest

import holding
import image_model
import images
import png
from client import MODEL, call
from cluster import Redis
from images import picture_from
from server import Server, wait_until
from test_footprint import SLACK
from test_states import blob_of, fork_one

WIDTH, HEIGHT = 14, 13  # 182 values: three pages of 64 rows
VALUES = WIDTH * HEIGHT
KINDS = {
    "linear": image_model.LINEAR,
    "rwkv7": image_model.RWKV7,
    "softmax": {"kind": "softmax"},
    "recomputed": {"kind": "softmax_recompute"},
    "window": {"kind": "sliding_window", "window": 20, "sinks": 2},
    "global": {"kind": "global_window", "window": 20, "global_prefix": 18},
    "gau": [
        {"kind": "gau_quad", "n_heads": 1, "d_key": 8, "d_value": 64, "div": "count", "div_place": "outside"},
        image_model.LINEAR,
    ],
    "spans": {"kind": "adaptive_span", "max_span": 90, "ramp": 5, "spans": [3, 30, 80], "pad_memory": True},
    "lsh": {"kind": "lsh", "rounds": 4, "buckets": 8, "cap": 9, "scale": "key"},
    "compressed": {"kind": "memory_compressed", "factor": 3, "visible": "strict", "null": "learned"},
    "flash": {"kind": "flash", "n_heads": 1, "d_key": 8, "d_value": 64, "chunk": 20},
    "strided": {"kind": "strided", "stride": WIDTH, "heads": "apart"},
    "hybrid": [image_model.LINEAR, {"kind": "fixed", "stride": WIDTH, "summary": 2, "cells": 2}],
}
FEED_FORWARDS = {"rwkv7": {"kind": "channel_mix"}}
PLACES = [1, 63, 64, 65, 130, VALUES - 1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("kinds")
    for kind, attention in KINDS.items():
        image_model.write(path / kind, WIDTH, HEIGHT, attention=attention, feed_forward=FEED_FORWARDS.get(kind))
    return path


@pytest.fixture(scope="module")
def server(folder):
    with Server("--models", folder, "--slots", "4") as started:
        yield started


def generate(port, **fields):
    return images.generate_ok(port, **fields)


def picture(port, **fields):
    (file,) = images.files(generate(port, **fields))
    return file


def begun(port, kind, tokens, **fields):
    answer = generate(port, model=kind, seed=3, max_tokens=tokens, return_state=True, **fields)
    return answer["states"][0]["id"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_goes_on(server, kind):
    whole = picture(server.port, model=kind, seed=3)
    for tokens in PLACES:
        state = begun(server.port, kind, tokens)
        copy = fork_one(server.port, state)
        blob = base64.b64encode(blob_of(server.port, state)).decode()
        for start in (state, copy, blob):
            assert picture_from(server.port, start, model=kind) == whole, (tokens, start[:40])


def test_what_is_recomputed_is_what_is_kept(server):
    """The same weights, with a cache and without."""
    assert picture(server.port, model="recomputed", seed=3) == picture(server.port, model="softmax", seed=3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_says_what_an_answer_says(server, kind):
    whole = picture(server.port, model=kind, seed=4)
    events = images.stream_ok(server.port, model=kind, seed=4, stream_unit="pixel")
    assert images.completed(events) == {0: whole}


def test_kinds_do_not_disturb_each_other(server):
    alone = {(kind, seed): images.files(generate(server.port, model=kind, seed=seed, n=3))
             for kind in KINDS for seed in (1, 2)}
    with concurrent.futures.ThreadPoolExecutor(len(alone)) as pool:
        together = {key: pool.submit(generate, server.port, model=key[0], seed=key[1], n=3) for key in alone}
        for key, answer in together.items():
            assert images.files(answer.result()) == alone[key], key
    server.wait_idle()
    for kind in KINDS:
        assert server.metric("linnet_growing_bytes", model=kind) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_goes_on_elsewhere(server, folder, kind):
    whole, blob = picture(server.port, model=kind, seed=3), blob_of(server.port, begun(server.port, kind, 100))
    with Server("--models", folder) as other:
        assert picture_from(other.port, base64.b64encode(blob).decode(), model=kind) == whole


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_with_the_server(folder, kind):
    with Redis() as redis:
        flags = ("--models", folder, "--state-store", redis.url)
        first = Server(*flags).start()
        try:
            whole, state = picture(first.port, model=kind, seed=3), begun(first.port, kind, 100)
        finally:
            first.kill()
        with Server(*flags) as second:
            assert picture_from(second.port, state, model=kind) == whole


def test_what_grows_is_counted_in_bytes(tmp_path):
    """A row of both layers is 512 bytes, a page 32 KiB, a picture of 40 x 40 has 25 pages; 1 MiB is 32 pages."""
    image_model.write(tmp_path / "softmax", 40, 40, attention={"kind": "softmax"})
    with Server("--models", tmp_path, "--slots", "8", "--state-mb", "1") as small:
        assert small.metric("linnet_growing_bytes_limit", model="softmax") == 1 << 20
        alone = [picture(small.port, model="softmax", seed=seed) for seed in range(3)]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            parts = [pool.submit(picture, small.port, model="softmax", seed=seed) for seed in range(3)]
            assert [part.result() for part in parts] == alone
        reply = call(small.port, "POST", images.GENERATIONS, {"model": "softmax", "n": 2})
        assert reply.status == 400 and reply.error["param"] == "max_tokens", reply.text
        assert f"{50 * 32768} bytes" in reply.error["message"] and f"{1 << 20}" in reply.error["message"]
        generate(small.port, model="softmax", n=2, max_tokens=600)
        small.wait_idle()
        assert small.metric("linnet_growing_bytes", model="softmax") == 0


@pytest.mark.heavy
@pytest.mark.long
def test_many_streams_that_grow_beside_others(tmp_path, monkeypatch):
    """256 pictures at a time that take 13 pages of 16 KiB each, which is the whole pool, 16 of a kind that does not
    grow, and one more that has to wait. No page is lost, and memory stays within its plan."""
    for name, value in {"D_MODEL": 16, "D_FF": 32, "HEADS": 2}.items():
        monkeypatch.setattr(image_model, name, value)
    image_model.write(tmp_path / "softmax", 28, 28, attention={"kind": "softmax"})
    image_model.write(tmp_path / "linear", 28, 28)
    streams, each, grown = 256, 8, 256 * 13 * 16 << 10
    with Server("--models", tmp_path, "--slots", str(streams), "--state-mb", "52", "--prefix-cache-mb", "0",
                *holding.IMAGE_FLAGS) as server:
        plan = grown + SLACK + sum(file.stat().st_size for file in tmp_path.glob("*/model.safetensors"))
        for model in ("softmax", "linear", MODEL):
            plan += (streams + 1) * call(server.port, "GET", f"/v1/models/{model}").json()["meta"]["state_bytes"]
        assert server.metric("linnet_growing_bytes_limit", model="softmax") == grown
        alone = {(kind, seed): images.files(generate(server.port, model=kind, seed=seed, n=2))
                 for kind in ("softmax", "linear") for seed in (0, 7)}
        is_taken = lambda: server.metric("linnet_growing_bytes", model="softmax") == grown
        with concurrent.futures.ThreadPoolExecutor(streams // each + 3) as pool:
            everything = {"model": "softmax", "n": 20_000}  # some minutes of work, which is never done
            with images.connect_and_send(server.port, everything):  # all others wait for it, and then begin together
                wait_until(is_taken, 60, "every page is taken")
                parts = {("softmax", seed): pool.submit(generate, server.port, model="softmax", seed=seed, n=each)
                         for seed in range(streams // each)}
                waiting = lambda: server.metric("linnet_queue_length", model="softmax")
                wait_until(lambda: waiting() == len(parts), 60, "all requests wait", lambda: f": {waiting()} do")
                late = pool.submit(generate, server.port, model="softmax", seed=streams, n=1)
            parts |= {("linear", seed): pool.submit(generate, server.port, model="linear", seed=seed, n=each)
                      for seed in (0, 7)}
            wait_until(lambda: waiting() <= 1 and is_taken(), 60, "all have begun but one", lambda: f": {waiting()} wait")
            answers = {key: images.files(part.result()) for key, part in parts.items()}
            assert len(images.files(late.result())) == 1
        resident = server.resident_bytes()
        assert all(len(set(answer)) == each for answer in answers.values())
        for key, pictures in alone.items():
            assert answers[key][:2] == pictures, key
        assert grown < resident < plan
        server.wait_idle()
        assert server.metric("linnet_growing_bytes", model="softmax") == 0


@pytest.mark.parametrize(("kind", "page_kib"), [("softmax", 32), ("hybrid", 16), ("window", 0), ("lsh", 42), ("flash", 0),
                                                ("compressed", 11)])
def test_prompts_that_begin_alike_share_what_grows(folder, kind, page_kib):
    """Ten rows are given: two full pages, which the picture has too, and one that is copied."""
    given = png.write(WIDTH, 10, images.a_picture(WIDTH, 10))
    with Server("--models", folder, "--prefix-cache-mb", "0") as plain:
        want = images.files(images.edit_ok(plain.port, given, model=kind, seed=3, n=2))
    with Server("--models", folder) as server:
        answers = [images.edit_ok(server.port, given, model=kind, seed=3, n=2) for _ in range(2)]
        assert [images.files(answer) for answer in answers] == [want, want]
        cached = [answer["usage"]["input_tokens_details"]["cached_tokens"] for answer in answers]
        assert cached == [0, 10 * WIDTH - 1]  # all rows but the last, of which the first is no pixel's
        assert server.metric("linnet_cached_prompt_tokens_total", model=kind) == 10 * WIDTH
        assert server.metric("linnet_growing_bytes_kept", model=kind) == 3 * page_kib * 1024
        assert server.metric("linnet_growing_bytes", model=kind) == 0


def test_looking_at_what_is_kept(server):
    """The rows of the newest tokens, oldest first, with their positions."""
    state = begun(server.port, "window", 90)
    look = call(server.port, "GET", f"/v1/states/{state}/inspect?layer=1&head=2").json()
    assert look["positions"][:2] == [0, 1] and look["positions"][-1] == 89
    assert set(range(70, 90)) <= set(look["positions"])
    assert len(look["k"]) == len(look["v"]) == len(look["positions"]) and len(look["k"][0]) == 8


@pytest.mark.parametrize(("kind", "shapes"), [
    ("lsh", {"last": (4, 8)}),
    ("compressed", {"open_k": (1, 8), "open_v": (1, 8)}),
    ("linear", None),
])
def test_looking_at_what_is_carried(server, kind, shapes):
    """The fields of a head, with numbers in them; those of linear attention have names of their own."""
    state = begun(server.port, kind, 91)
    look = call(server.port, "GET", f"/v1/states/{state}/inspect?layer=1&head=2").json()
    if shapes is None:
        assert len(look["s"]) == len(look["z"]) == 8
        return
    assert {field["name"]: (field["rows"], field["cols"]) for field in look["fields"]} == shapes
    assert all(field["norm"] > 0 for field in look["fields"])
    if kind == "lsh":  # the newest token of every bucket, 1 being the first
        newest = [number for row in look["fields"][0]["values"] for number in row]
        assert max(newest) == 91 and all(number == int(number) >= 0 for number in newest)
