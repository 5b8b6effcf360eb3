"""Pictures of a chosen class: by its number or by its name in the prompt, kept by states, on the command line."""

import base64

import pytest

import png
from client import call
from images import (
    CLASS_NAMES, CLASSES, HEIGHT, PIXELS, SMALL, WIDTH, a_picture, content, edit_json, edit_ok, files, generate,
    generate_ok, of_kind, picture_from, stream_ok,
)
from server import run

SEED = 11
TOP = png.write(WIDTH, HEIGHT // 2, a_picture()[: PIXELS // 2])


def paint(port, **fields):
    return generate_ok(port, model=CLASSES, seed=SEED, **fields)


def test_models_list_their_classes(image_port):
    found = {m["id"]: m["meta"].get("classes") for m in call(image_port, "GET", "/v1/models").json()["data"]}
    assert found[CLASSES] == [names.split()[0] for names in CLASS_NAMES]
    assert found[SMALL] == []


def test_every_class_has_its_pictures(image_port):
    seen = {files(paint(image_port))[0]}
    for k in range(len(CLASS_NAMES)):
        answer = paint(image_port, **{"class": k})
        assert answer["class"] == k and "warnings" not in answer
        seen.add(files(answer)[0])
    assert len(seen) == len(CLASS_NAMES) + 1


@pytest.mark.parametrize("prompt, index", [("a circle", 0), ("Draw a BOX!", 1), ("画一个方", None), ("方", 1), ("1", 2)])
def test_a_prompt_names_a_class(image_port, prompt, index):
    answer = paint(image_port, prompt=prompt)
    if index is None:  # 一 names the line
        assert answer["warnings"][0]["param"] == "prompt" and "class" not in answer
        return
    assert content(answer) == content(paint(image_port, **{"class": index}))


def test_what_cannot_be_followed_is_said(image_port):
    plain = paint(image_port)
    assert "warnings" not in plain and "class" not in plain
    assert "warnings" not in paint(image_port, prompt="")
    answer = paint(image_port, prompt="a dragon")
    (warning,) = answer.pop("warnings")
    assert warning["param"] == "prompt" and "/v1/models" in warning["message"]
    assert content(answer) == content(plain)
    (warning,) = generate_ok(image_port, prompt="a dragon", seed=SEED)["warnings"]
    assert "cannot be asked" in warning["message"]


def test_a_number_goes_before_the_prompt(image_port):
    assert paint(image_port, prompt="a box", **{"class": 0})["class"] == 0


def test_edits(image_port):
    by_form = edit_ok(image_port, TOP, model=CLASSES, seed=SEED, prompt="a box")
    number = edit_ok(image_port, TOP, model=CLASSES, seed=SEED, **{"class": 1})
    as_json = edit_json(image_port, TOP, model=CLASSES, seed=SEED, prompt="box").json()
    assert by_form["class"] == 1
    assert content(by_form) == content(number) == content(as_json)
    assert content(by_form) != content(edit_ok(image_port, TOP, model=CLASSES, seed=SEED))


def test_streams(image_port):
    whole = paint(image_port, prompt="方")
    (last,) = of_kind(stream_ok(image_port, model=CLASSES, seed=SEED, prompt="方"), "completed")
    assert base64.b64decode(last["b64_json"]) == files(whole)[0]
    assert last["class"] == 1 and "warnings" not in last
    (last,) = of_kind(stream_ok(image_port, model=CLASSES, seed=SEED, prompt="?"), "completed")
    assert "class" not in last and last["warnings"][0]["param"] == "prompt"


@pytest.mark.parametrize("tokens", [1, 50, PIXELS - 1])
@pytest.mark.parametrize("start", [{}, {"class": 0}, {"class": 2}])
def test_a_state_keeps_its_class(image_port, start, tokens):
    whole = files(paint(image_port, **start))[0]
    state = paint(image_port, **start, max_tokens=tokens, return_state=True)["states"][0]["id"]
    assert picture_from(image_port, state, model=CLASSES) == whole
    (last,) = of_kind(stream_ok(image_port, model=CLASSES, state=state, stream_unit="pixel"),
                      "completed")
    assert base64.b64decode(last["b64_json"]) == whole
    assert last.get("class") == start.get("class")


def test_a_state_of_a_drawing_keeps_its_class(image_port):
    fields = {"model": CLASSES, "seed": SEED, "class": 1}
    whole = files(edit_ok(image_port, TOP, **fields))[0]
    first = edit_ok(image_port, TOP, **fields, max_tokens=9, return_state=True)
    assert picture_from(image_port, first["states"][0]["id"], model=CLASSES) == whole


def test_a_state_is_made_with_a_class(image_port):
    reply = call(image_port, "POST", "/v1/states", {"model": CLASSES, "seed": SEED, "class": 2})
    assert reply.status == 201, reply.text
    assert picture_from(image_port, reply.json()["id"], model=CLASSES) == files(paint(image_port, **{"class": 2}))[0]
    reply = call(image_port, "POST", "/v1/states", {"model": CLASSES, "class": 3})
    assert (reply.status, reply.error["param"]) == (400, "class")


def test_wrong_classes(image_port):
    for value in (-1, 3, 99, 100, 1.5, "1", True, [1]):
        reply = generate(image_port, model=CLASSES, **{"class": value})
        assert (reply.status, reply.error["param"]) == (400, "class"), value
    reply = generate(image_port, model=SMALL, **{"class": 0})
    assert (reply.status, reply.error["param"]) == (400, "class")
    reply = generate(image_port, model=CLASSES, prompt="x" * (32 * 1024 + 1))
    assert (reply.status, reply.error["param"]) == (400, "prompt")
    assert generate(image_port, model=CLASSES, prompt="x" * 32 * 1024).status == 200
    state = paint(image_port, max_tokens=1, return_state=True)["states"][0]["id"]
    reply = generate(image_port, model=CLASSES, state=state, **{"class": 0})
    assert (reply.status, reply.error["param"]) == (400, "class")


def test_command_line(image_port, image_models, tmp_path):
    def generated(*flags):
        result = run("generate", "--model", image_models / CLASSES, "--seed", SEED, "--png", tmp_path / "x.png", *flags)
        assert (result.returncode, result.stderr) == (0, "")
        return (tmp_path / "x.png").read_bytes()

    assert generated("--class", 1) == generated("a box") == files(paint(image_port, **{"class": 1}))[0]
    assert generated() == files(paint(image_port))[0]


@pytest.mark.parametrize("model, flags, part", [
    (CLASSES, ("a dragon",), "one of the model's 3 classes, such as \"circle\""),
    (CLASSES, ("--class", 3), "class must be 0 to 2"),
    (SMALL, ("--class", 0), "--class does not fit"),
    (SMALL, ("a box",), "PROMPT does not fit"),
])
def test_command_line_refusals(image_models, tmp_path, model, flags, part):
    result = run("generate", "--model", image_models / model, "--png", tmp_path / "x.png", *flags)
    assert result.returncode != 0 and part in result.stderr and len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "x.png").exists()
