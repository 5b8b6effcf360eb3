"""Warnings of an answer: fields without effect, characters that are not read as they stand."""

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


def params(answer):
    return [w["param"] for w in answer.get("warnings", [])]


def test_ignored_fields_are_told(port):
    fields = {"model": "bytes", "prompt": PROMPT, "max_tokens": 3, "seed": 1, "ignore_eos": True}
    plain = complete_ok(port, **fields)
    assert "warnings" not in plain
    told = complete_ok(port, **fields, repeat_penalty=1.3, mirostat=2, grammar=None, user="me", own_field={"a": 1})
    assert params(told) == ["repeat_penalty", "mirostat", "own_field"]
    assert told["warnings"][1]["message"] == "mirostat changes nothing here"
    assert told["warnings"][0]["message"] == "repeat_penalty changes nothing here: it is repetition_penalty here"
    assert told["choices"] == plain["choices"]
    events = list(stream_ok(port, **fields, n=2, tools=[{}]))
    assert params(events[0]) == ["tools"]
    assert not any("warnings" in e for e in events[1:])


NEUTRAL = {"use_beam_search": False, "num_beams": 1, "do_sample": True, "cache_prompt": True, "mirostat": 0, "tools": [], "n_predict": -1,
           "tool_choice": "auto", "store": False, "user": "me", "sede": None}


def test_fields_that_ask_for_what_happens_anyway_are_not_told(port):
    assert "warnings" not in complete_ok(port, model="bytes", prompt=PROMPT, max_tokens=1, **NEUTRAL)


def test_a_crowd_of_unknown_fields_is_counted(port):
    fields = {"model": "bytes", "prompt": PROMPT, "max_tokens": 1, "seed": 1}
    told = complete_ok(port, **fields, **{f"own_{i}": i for i in range(1000)})["warnings"]
    assert [w["param"] for w in told] == [f"own_{i}" for i in range(12)] + ["body"]
    assert told[-1]["message"] == "more fields that change nothing here: 988"
    strange = complete_ok(port, **fields, **{"t" * 3000: 1, "温度": 1, 'a"\n\\': 1})["warnings"]
    assert [w["param"] for w in strange] == ["t" * 63, "温度", "a???"]


def specification():
    return json.loads((ROOT / "web" / "openapi.json").read_text())


def specified(route):
    """The fields of its JSON requests."""
    document = specification()
    schema = document["paths"][route]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return set(document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]["properties"])


def misspellings(name):
    """A letter missing, another one, one too many, two swapped."""
    i = len(name) // 2
    return [name[:i] + name[i + 1:], name[:i] + "z" + name[i + 1:], name[:i] + "z" + name[i:], name[1:2] + name[0] + name[2:]]


def check_told(told, name, meant):
    assert told["param"] == name
    if len(name) < 4:  # too short to be sure
        assert told["message"] == f"{name} changes nothing here"
    else:
        assert told["message"] == f"{name} is no field here and changes nothing: {meant}?"


@pytest.mark.parametrize("meant", sorted(specified("/v1/completions") - {"suffix"}))
def test_a_misspelt_field_is_told(port, meant):
    fields = {"model": "bytes", "prompt": PROMPT, "max_tokens": 1, "seed": 1}
    for name in misspellings(meant):
        if name and name not in specified("/v1/completions"):
            check_told(complete_ok(port, **fields, **{name: 1})["warnings"][0], name, meant)


@pytest.mark.parametrize("meant", sorted(specified("/v1/images/generations")))
def test_a_misspelt_field_of_images_is_told(image_port, meant):
    for name in misspellings(meant):
        if name and name not in specified("/v1/images/generations") | {"image"}:
            check_told(generate_ok(image_port, max_tokens=1, seed=1, **{name: 1})["warnings"][0], name, meant)


def test_fields_of_images_are_told_once(image_port):
    """In a stream with the finished picture, in an edit, next to another warning."""
    ordinary = {"quality": "auto", "style": None, "background": "auto", "user": "me"}
    assert "warnings" not in generate_ok(image_port, max_tokens=1, **ordinary)
    assert params(generate_ok(image_port, max_tokens=1, quality="high", style="vivid", tools=[1])) == ["quality", "style", "tools"]
    streamed = [params(event) for _, event in image_stream_ok(image_port, seed=1, timeout_m=1, partial_images=1)]
    assert streamed[-1] == ["timeout_m"] and not any(streamed[:-1])
    edited = edit_ok(image_port, png.write(WIDTH, HEIGHT // 2, a_picture()[: WIDTH * HEIGHT // 2]), seed=1, sede="2")
    assert params(edited) == ["sede"]
    assert params(generate_ok(image_port, max_tokens=1, prompt="a dragon", timeout_m=1)) == ["timeout_m", "prompt"]


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
