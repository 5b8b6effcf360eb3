"""Prompts share the states of their common beginning: the counted tokens, and equal bytes."""

import itertools

import pytest

import client
import images
import png
from client import complete_ok
from images import COLOUR, COLOUR_WIDTH, PIXELS, SMALL, WIDTH, a_picture, data_url, files
from server import Server
from test_reload import Folder

pytestmark = pytest.mark.asan

LINES = ["海上明月", "海上明月", "海上明月春风", "海上明花", "海上明雨", "海上"]


@pytest.fixture(scope="module")
def servers():
    """One that keeps no prefix, one that keeps ends and branches, one that keeps every token's."""
    flags = (["--prefix-cache-mb", 0], [], ["--prefix-every", 1])
    with Server("--slots", 4, *flags[0]) as a, Server("--slots", 4, *flags[1]) as b:
        with Server("--slots", 4, *flags[2]) as c:
            yield a, b, c


def cached(answer):
    usage, timings = answer["usage"], answer["timings"]
    n = usage["prompt_tokens_details"]["cached_tokens"]
    assert timings["cache_n"] == n
    assert timings["prompt_n"] == usage["prompt_tokens"] - n
    return n


def test_the_same_bytes_whatever_is_kept(servers):
    for line, n in itertools.product(LINES, (1, 3)):
        fields = {"prompt": line, "n": n, "seed": 9, "logprobs": 2}
        answers = [complete_ok(s.port, **fields) for s in servers]
        assert answers[0]["choices"] == answers[1]["choices"] == answers[2]["choices"]
        assert cached(answers[0]) == 0


def test_cached_tokens_are_those_that_prompts_share():
    with Server("--slots", 4) as own:
        rows = [cached(complete_ok(own.port, prompt=line)) for line in LINES]
        assert rows == [0, 5, 5, 0, 4, 0]
        assert own.metric("linnet_cached_prompt_tokens_total") == sum(rows)
        assert cached(complete_ok(own.port, prompt=["海上明月", "海上明月春风"])) == 5 + 7
    with Server("--slots", 4, "--prefix-every", 1) as own:
        rows = [cached(complete_ok(own.port, prompt=line)) for line in LINES]
        assert rows == [0, 5, 5, 4, 4, 3]


KEYS = {"alice": "ka", "bob": "kb"}


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text("".join(f"{name} {key}\n" for name, key in KEYS.items()))
    return path


def asks(server, path, **fields):
    """Cached rows as the answers report them to two keys and to a client without one, in turn, twice."""
    told = []
    for key in [*KEYS.values(), None] * 2:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        reply = client.call(server.port, "POST", path, {"model": client.MODEL, "seed": 1, **fields}, headers)
        assert reply.status == 200, reply.text
        told.append(reply.json()["timings"]["cache_n"])
    return told


def test_no_key_learns_what_another_has_sent(key_file):
    """Else a key could find out another's prompt, character by character."""
    flags = "--api-key-file", key_file, "--public", "/v1/*,/health,/readyz,/metrics", "--prefix-every", 1
    with Server(*flags) as server:
        assert asks(server, "/v1/completions", prompt="海上明月") == [0, 0, 0, 5, 5, 5]
        # From here on each has seen the row that every prompt begins with.
        assert asks(server, "/v1/score", prompt="春风", completion="明月")[:3] == [1, 1, 1]
        assert asks(server, "/v1/chat/completions", messages=[{"role": "user", "content": "秋雨花"}])[:3] == [1, 1, 1]
        # Each starts from its own first prompt, not from the whole one that another has just sent.
        assert asks(server, "/v1/completions", prompt="海上明月春风") == [5, 5, 5, 7, 7, 7]
    with Server(*flags, "--share-prefixes") as server:
        assert asks(server, "/v1/completions", prompt="海上明月") == [0, 5, 5, 5, 5, 5]


# --- pictures: the first rows of a picture, as a drawing is completed again and again ------------------


def rows_of(values, n):
    """A request that gives the first n rows of a grey picture."""
    return {"images": [{"image_url": data_url(png.write(WIDTH, n, values[: WIDTH * n]))}], "model": SMALL}


def cached_pixels(answer):
    usage, timings = answer["usage"], answer["timings"]
    n = usage["input_tokens_details"]["cached_tokens"]
    assert n == max(timings["cache_n"] - 1, 0)  # the first row of the network is no pixel
    assert timings["prompt_n"] == usage["input_tokens"] + 1 - timings["cache_n"]
    return n


def edit_ok(port, **fields):
    reply = client.call(port, "POST", images.EDITS, fields)
    assert reply.status == 200, reply.text
    return reply.json()


def test_pictures_that_begin_alike(image_models):
    one = a_picture()
    other = one[: WIDTH * 5] + bytes(PIXELS - WIDTH * 5)
    requests = [rows_of(one, 6), rows_of(one, 6), rows_of(one, 9), rows_of(other, 8), rows_of(other, 7)]
    flags = (["--prefix-cache-mb", "0"], [], ["--prefix-every", "1"])
    with Folder(image_models, *flags[0]) as none, Folder(image_models, *flags[1]) as some:
        with Folder(image_models, *flags[2]) as every:
            servers = none, some, every
            told = [[edit_ok(s.port, **fields, seed=4, n=2) for fields in requests] for s in servers]
    assert [[files(a) for a in answers] for answers in told[1:]] == [[files(a) for a in told[0]]] * 2
    cached = [[cached_pixels(answer) for answer in answers] for answers in told]
    assert cached[0] == [0] * 5
    # All but the newest pixel's row: that one is computed, so that there is something to sample from. Where a
    # picture parts from another a state is kept for the next one; with one at every pixel, it was there before.
    assert cached[1:] == [[0, 6 * WIDTH - 1, 6 * WIDTH - 1, 0, 5 * WIDTH],
                          [0, 6 * WIDTH - 1, 6 * WIDTH - 1, 5 * WIDTH, 7 * WIDTH - 1]]


def test_colours_are_counted_in_pixels(image_models):
    values = a_picture(COLOUR_WIDTH, 2, 3)
    fields = {"model": COLOUR, "seed": 1, "images": [{"image_url": data_url(png.write(COLOUR_WIDTH, 2, values, png.RGB))}]}
    with Folder(image_models) as server:
        answers = [edit_ok(server.port, **fields) for _ in range(2)]
    assert files(answers[0]) == files(answers[1])
    assert answers[1]["timings"]["cache_n"] == 3 * 2 * COLOUR_WIDTH
    told = [answer["usage"]["input_tokens_details"]["cached_tokens"] for answer in answers]
    assert told == [0, 2 * COLOUR_WIDTH - 1]
