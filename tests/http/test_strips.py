"""Folders that change the config.json of a base folder and share its weights; strips of pictures, one below another in
one sequence; streams of a part that end with a state; several folders of models."""

import json

import pytest

import image_model
import images
import png
from client import call
from server import Server, run

pytestmark = pytest.mark.asan

WIDTH, PERIOD, COUNT = 14, 13, 4
PICTURE, STRIP = WIDTH * PERIOD, WIDTH * PERIOD * COUNT
TALL = {"height": PERIOD * COUNT, "period": PERIOD}


def change(folder, **keys):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(keys))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("strips")
    image_model.write(path / "base", WIDTH, PERIOD)
    change(path / "more/strip", base="../../base", image=TALL)
    change(path / "more/rows", base="../../base", image=TALL, attention={"kind": "softmax"})
    image_model.write(path / "classes", WIDTH, PERIOD, classes=["one", "two"])
    change(path / "more/chosen", base="../../classes", image=TALL)
    return path


@pytest.fixture(scope="module")
def server(folder):
    with Server("--models", f"{folder}:{folder / 'more'}", "--slots", "4") as started:
        yield started


def values_of(answer):
    (file,) = images.files(answer)
    return list(png.read(file).values)


def generate(server, **fields):
    return images.generate_ok(server.port, **fields)


def stream(server, **fields):
    """(values, the last event)"""
    body = {"stream": True, "stream_unit": "row", **fields}
    reply = call(server.port, "POST", images.GENERATIONS, body)
    assert reply.status == 200, reply.text
    events = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
    return [v for e in events for v in e.get("values", [])], events[-1]


def test_models_of_several_folders_are_served(server):
    found = {m["id"]: m["meta"] for m in call(server.port, "GET", "/v1/models").json()["data"]}
    assert list(found)[:5] == ["base", "classes", "chosen", "rows", "strip"]  # and the one that --model names
    found = {name: found[name] for name in ("base", "rows", "strip")}
    assert [(m["height"], m["period"]) for m in found.values()] == [
        (PERIOD, PERIOD), (PERIOD * COUNT, PERIOD), (PERIOD * COUNT, PERIOD)]
    assert [m["attention"] for m in found.values()] == [["linear"], ["softmax"], ["linear"]]
    assert [m["state_grows"] for m in found.values()] == [False, True, False]
    assert len({m["fingerprint"] for m in found.values()}) == 3
    assert len({m["n_params"] for m in found.values()}) == 1


def test_a_strip_begins_with_the_picture_of_its_base(server):
    strip = values_of(generate(server, model="strip", seed=3))
    assert len(strip) == STRIP
    assert strip[:PICTURE] == values_of(generate(server, model="base", seed=3))
    assert strip[PICTURE : 2 * PICTURE] != strip[:PICTURE]


def test_a_strip_is_never_the_first_choice(tmp_path):
    """Without a model's name a single picture is painted, although the strip has classes."""
    image_model.write(tmp_path / "plain", WIDTH, PERIOD)
    image_model.write(tmp_path / "classes", WIDTH, PERIOD, classes=["one", "two"])
    change(tmp_path / "models/a-strip", base="../../classes", image=TALL)
    with Server("--models", str(tmp_path / "models"), model_dir=tmp_path / "plain") as server:
        assert generate(server, model=None, seed=3)["model"] == "plain"


@pytest.mark.parametrize("piece", [PICTURE, WIDTH, 50])
def test_a_strip_in_streams_with_states_is_the_uninterrupted_one(server, piece):
    whole = values_of(generate(server, model="strip", seed=3))
    made, fields = [], {"model": "strip", "seed": 3}
    while len(made) < STRIP:
        count = min(piece, STRIP - len(made))
        values, last = stream(server, **fields, max_tokens=count, return_state=True)
        assert len(values) == count
        made += values
        (state,) = last["states"]
        assert state["tokens"] == len(made)
        fields = {"state": state["id"]}
    assert made == whole


def test_each_picture_of_a_strip_may_have_its_class(server):
    """A request with the class that the state has already changes nothing."""
    first = generate(server, model="chosen", seed=3, max_tokens=PICTURE, return_state=True, **{"class": 0})
    (state,) = first["states"]

    def following(state, **fields):
        return generate(server, model="chosen", state=state["id"], max_tokens=PICTURE, return_state=True, **fields)

    same, kept, other = (following(state, **fields) for fields in ({"class": 0}, {}, {"class": 1}))
    assert values_of(same) == values_of(kept) != values_of(other)
    assert [answer["class"] for answer in (same, kept, other)] == [0, 0, 1]
    assert values_of(other)[:PICTURE] == values_of(first)[:PICTURE]
    half = generate(server, model="chosen", state=state["id"], max_tokens=50, return_state=True, **{"class": 1})
    rest = generate(server, model="chosen", state=half["states"][0]["id"], max_tokens=PICTURE - 50)
    assert rest["class"] == 1 and values_of(rest)[: 2 * PICTURE] == values_of(other)[: 2 * PICTURE]
    for state_, number in ((half["states"][0], 1), (half["states"][0], 0), (state, 2)):  # within a picture; no class of the model
        reply = images.generate(server.port, model="chosen", state=state_["id"], **{"class": number})
        assert reply.status == 400 and reply.error["param"] == "class", reply.text


@pytest.mark.parametrize("model, grows", [("strip", False), ("rows", True)])
def test_the_memory_of_a_state_is_told(server, model, grows):
    """One size for ever, or one more page every 64 rows; /v1/states gives the same sizes."""
    found = []
    for count in (1, 64, 65, 200):
        (state,) = generate(server, model=model, seed=1, max_tokens=count, return_state=True)["states"]
        assert state["memory_bytes"] < state["bytes"]
        facts = call(server.port, "GET", f"/v1/states/{state['id']}").json()
        assert facts["memory_bytes"] == state["memory_bytes"]
        found.append(state["memory_bytes"])
    page = found[0]
    assert found == ([page, page, 2 * page, 4 * page] if grows else [page] * 4)


def test_saving_a_state_has_a_time_of_its_own(server):
    with_state, without = (
        generate(server, model="rows", max_tokens=200, return_state=kept)["timings"] for kept in (True, False))
    assert 0 < with_state["state_ms"] < with_state["predicted_ms"]
    assert without["state_ms"] == 0


def test_a_stream_keeps_the_state_of_one_picture(server):
    reply = images.generate(server.port, model="strip", stream=True, return_state=True, n=2)
    assert reply.status == 400 and reply.error["param"] == "return_state"


@pytest.mark.parametrize("base, words", [
    ("../nowhere", "nowhere/config.json"), ("/tmp", "must be the path"), ("", "must be the path"),
    ("../a b", "must be the path"), (7, "must be the path"), ("../more/strip", "a base of its own"),
])
def test_a_wrong_base_is_refused(folder, tmp_path, base, words):
    (tmp_path / "more").symlink_to(folder / "more")
    wrong = change(tmp_path / "wrong", base=base)
    result = run("inspect", wrong)
    assert result.returncode != 0 and words in result.stderr


def test_another_height_needs_the_period(folder, tmp_path):
    """Without it the table of rows is too small."""
    (tmp_path / "base").symlink_to(folder / "base")
    result = run("inspect", change(tmp_path / "tall", base="../base", image={"height": 2 * PERIOD}))
    assert result.returncode != 0 and "row" in result.stderr


GATED = {"kind": "gated_linear", "feature_map": "elu+1", "eps": 1e-6}


def add_gates(folder, names=("forget",), spread=2.0):
    shapes = {}
    for layer in range(image_model.LAYERS):
        for name in names:
            shapes |= {f"layers.{layer}.attn.{name}.weight": ([image_model.HEADS, image_model.D_MODEL], spread),
                       f"layers.{layer}.attn.{name}.bias": ([image_model.HEADS], spread)}
    image_model.write_tensors(folder / "model.safetensors", None, 1, shapes)


def test_a_folder_adds_tensors_to_those_of_its_base(folder, tmp_path):
    """Its strip is another one than that of its base, whose weights it has."""
    (tmp_path / "base").symlink_to(folder / "base")
    add_gates(change(tmp_path / "gated", base="../base", image=TALL, attention=GATED))
    change(tmp_path / "plain", base="../base", image=TALL)
    with Server("--models", str(tmp_path), "--slots", "2") as server:
        meta = {m["id"]: m["meta"] for m in call(server.port, "GET", "/v1/models").json()["data"]}
        gates = image_model.LAYERS * image_model.HEADS * (image_model.D_MODEL + 1)
        assert meta["gated"]["n_params"] == meta["base"]["n_params"] + gates
        assert meta["gated"]["fingerprint"] != meta["plain"]["fingerprint"]
        assert values_of(generate(server, model="gated", seed=3)) != values_of(generate(server, model="plain", seed=3))


@pytest.mark.parametrize("names, words", [(("forgot",), "attn.forget.weight is missing"), (("forgot", "forget"), "attn.forgot.weight is not one"),
                                          (("forget", "out"), "the base has a tensor layers.0.attn.out.weight, too")])
def test_wrong_tensors_next_to_a_base_are_refused(folder, tmp_path, names, words):
    (tmp_path / "base").symlink_to(folder / "base")
    add_gates(change(tmp_path / "gated", base="../base", image=TALL, attention=GATED), names)
    result = run("inspect", tmp_path / "gated")
    assert result.returncode != 0 and words in result.stderr


@pytest.mark.parametrize("image, words", [
    ({"period": 0}, "image.period must be"),
    ({"height": 2 * PERIOD, "period": PERIOD - 1}, "image.period must divide"),
    ({"base": ".."}, "image.base is not a known key"),
])
def test_a_wrong_strip_is_refused(folder, tmp_path, image, words):
    (tmp_path / "base").symlink_to(folder / "base")
    result = run("inspect", change(tmp_path / "wrong", base="../base", image=image))
    assert result.returncode != 0 and words in result.stderr
