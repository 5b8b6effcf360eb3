"""What an answer warns of: fields that change nothing, characters that are not read as they stand."""

import json

import pytest

import png
from client import call, complete, complete_ok, stream_ok
from images import HEIGHT, WIDTH, a_picture, edit_ok, generate_ok
from images import stream_ok as image_stream_ok
from settings import ROOT
from test_text import PROMPT, models, port, server  # noqa: F401 (fixtures)

pytestmark = pytest.mark.quick

UNKNOWN = "characters that are not in the vocabulary, read as <unk>: "


def test_ignored_fields_are_told(port):
    fields = {"model": "bytes", "prompt": PROMPT, "max_tokens": 3, "seed": 1, "ignore_eos": True}
    plain = complete_ok(port, **fields)
    assert "warnings" not in plain
    told = complete_ok(port, **fields, repeat_penalty=1.3, mirostat=2, grammar=None, user="me")
    assert [w["param"] for w in told["warnings"]] == ["repeat_penalty", "mirostat"]
    assert told["warnings"][0]["message"] == "repeat_penalty changes nothing here"
    assert told["choices"] == plain["choices"]
    events = list(stream_ok(port, **fields, n=2, tools=[]))
    assert [w["param"] for w in events[0]["warnings"]] == ["tools"]
    assert not any("warnings" in e for e in events[1:])


def specified(*routes):
    """The fields of their requests."""
    specification = json.loads((ROOT / "web" / "openapi.json").read_text())
    names = set()
    for route in routes:
        schema = specification["paths"][route]["post"]["requestBody"]["content"]["application/json"]["schema"]
        if "$ref" in schema:
            schema = specification["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        names |= set(schema["properties"])
    return names


TEXT_FIELDS = specified("/v1/completions", "/v1/chat/completions", "/v1/responses")
IMAGE_FIELDS = specified("/v1/images/generations", "/v1/images/edits")


def misspellings(name):
    """A letter missing, another one, one too many, two swapped."""
    i = len(name) // 2
    return [name[:i] + name[i + 1:], name[:i] + "z" + name[i + 1:], name[:i] + "z" + name[i:], name[1] + name[0] + name[2:]]


@pytest.mark.parametrize("meant", sorted(name for name in TEXT_FIELDS if len(name) >= 4))
def test_a_misspelt_field_is_told(port, meant):
    fields = {"model": "bytes", "prompt": PROMPT, "max_tokens": 1, "seed": 1}
    for name in misspellings(meant):
        told = complete_ok(port, **fields, **{name: 1})
        if len(name) < 4:  # too short to be sure
            assert "warnings" not in told
        else:
            assert told["warnings"][0]["param"] == name, told
            assert told["warnings"][0]["message"] == f"{name} is no field here and changes nothing: {meant}?"


@pytest.mark.parametrize("meant", sorted(name for name in IMAGE_FIELDS if len(name) >= 4))
def test_a_misspelt_field_of_images_is_told(image_port, meant):
    for name in misspellings(meant):
        told = generate_ok(image_port, max_tokens=1, seed=1, **{name: None if name in IMAGE_FIELDS else 1}).get("warnings")
        if len(name) < 4 or name in {*IMAGE_FIELDS, "image"}:
            assert told is None, told
        else:
            assert told == [{"param": name, "message": f"{name} is no field here and changes nothing: {meant}?"}]


def test_fields_of_images_are_told_once(image_port):
    """In a stream with the finished picture, in an edit, beside another warning; what any server is sent is not told."""
    assert "warnings" not in generate_ok(image_port, max_tokens=1, quality="high", style="vivid", user="me", tools=[])
    streamed = [event.get("warnings") for _, event in image_stream_ok(image_port, seed=1, timeout_m=1, partial_images=1)]
    assert [w["param"] for w in streamed[-1]] == ["timeout_m"] and not any(streamed[:-1])
    edited = edit_ok(image_port, png.write(WIDTH, HEIGHT // 2, a_picture()[: WIDTH * HEIGHT // 2]), seed=1, sede="2")
    assert [w["param"] for w in edited["warnings"]] == ["sede"]
    both = generate_ok(image_port, max_tokens=1, prompt="a dragon", timeout_m=1)
    assert [w["param"] for w in both["warnings"]] == ["timeout_m", "prompt"]


def test_fields_that_are_no_misspellings_are_not_told(port):
    fields = {"model": "bytes", "prompt": PROMPT, "max_tokens": 1, "seed": 1}
    others = {"x": 1, "zz": 1, "store": True, "user": "me", "prompt_cache_key": "k", "temperate_zone": 1, "t" * 3000: 1, "温度": 1, "sede": None}
    assert "warnings" not in complete_ok(port, **fields, **others)
    crowd = {f"own_{i}": i for i in range(1000)}
    assert "warnings" not in complete_ok(port, **fields, **crowd, max_token=1)  # only the first fields are looked at
    first = complete_ok(port, max_token=1, **fields, **crowd, sede=2)
    assert [w["param"] for w in first["warnings"]] == ["max_token"]


def test_unknown_characters_are_told(port):
    told = complete_ok(port, model="couplet", prompt="海㒲明月")
    assert told["warnings"] == [{"param": "prompt", "message": UNKNOWN + "1"}]
    two = complete_ok(port, model="couplet", prompt=["海上明月", "㒲㒲"])
    assert two["warnings"][0]["message"] == UNKNOWN + "2"


def test_traditional_characters_and_spaces_are_read(port):
    """As the simplified line, which the warning counts; only when it is wished."""
    fields = {"model": "couplet", "seed": 5, "echo": True}
    simple = complete_ok(port, prompt="云淡风轻近午天", **fields)
    told = complete_ok(port, prompt="雲淡風輕 近午天", **fields)
    assert told["choices"] == simple["choices"]
    assert told["warnings"] == [{"param": "prompt", "message": "characters read as their simplified forms: 3"}]
    both = complete_ok(port, prompt="雲㒲", **fields)
    assert [w["message"] for w in both["warnings"]] == [UNKNOWN + "1", "characters read as their simplified forms: 1"]
    exact = complete_ok(port, prompt="雲淡風輕近午天", normalize=False, **fields)
    assert exact["choices"][0]["text"].startswith("雲淡風輕近午天") and exact["warnings"][0]["message"] == UNKNOWN + "1"
    spaced = complete(port, prompt="云淡风轻 近午天", normalize=False, **fields)
    assert spaced.status == 400 and spaced.error["param"] == "prompt"
    made = call(port, "POST", "/v1/states", {"model": "couplet", "prompt": "雲淡 風輕"})
    assert made.status == 201, made.text
    whole = complete_ok(port, model="couplet", prompt="云淡风轻", temperature=0)
    assert complete_ok(port, model="couplet", state=made.json()["id"], temperature=0)["choices"][0]["text"] == whole["choices"][0]["text"]
