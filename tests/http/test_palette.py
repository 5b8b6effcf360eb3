"""Models of images with fewer values than 256: every route and command sends values of the palette, and takes a
received value as the nearest of them."""

import json
import struct

import pytest

import client
import image_model
import png
from images import data_url, edit_ok, files, generate_ok, score, stream_ok, told_values
from server import Server, run

pytestmark = pytest.mark.asan

PALETTE = [0, 85, 170, 250]
WIDTH, HEIGHT = 6, 5


def write_model(folder, channels, mixture):
    folder.mkdir()
    conf = image_model.config(WIDTH, HEIGHT, channels, mixture)
    conf["image"]["palette"] = PALETTE
    conf["head"] = conf["head"] | ({"levels": len(PALETTE)} if mixture else {"size": len(PALETTE)})
    for stream in conf["inputs"]:
        stream["size"] = len(PALETTE) + 1 if stream["size"] == 257 else stream["size"]
    (folder / "config.json").write_text(json.dumps(conf))
    image_model.write_tensors(folder / "model.safetensors", conf, 3)
    return folder


@pytest.fixture(scope="module", params=[(1, False), (1, True), (3, False)], ids=["grey", "grey mixture", "colour"])
def model(request, tmp_path_factory):
    channels, mixture = request.param
    return write_model(tmp_path_factory.mktemp("palette") / "few", channels, mixture)


@pytest.fixture(scope="module")
def server(model):
    with Server(model_dir=model) as server:
        yield server


def channels_of(model):
    return json.loads((model / "config.json").read_text())["image"]["channels"]


def values_of(file):
    return list(png.read(file).values)


def picture(model, rows=HEIGHT, shift=0):
    """A PNG whose values are `shift` away from the palette's, and these."""
    values = [PALETTE[(3 * i + i // 5) % 4] for i in range(WIDTH * rows * channels_of(model))]
    moved = bytes(min(255, v + shift) for v in values)
    return png.write(WIDTH, rows, moved, png.RGB if channels_of(model) == 3 else png.GREY), values


def test_pictures_have_the_palettes_values(server, model):
    made = [values_of(file) for file in files(generate_ok(server.port, model="few", n=8, seed=1))]
    assert {len(values) for values in made} == {WIDTH * HEIGHT * channels_of(model)}
    assert {value for values in made for value in values} == set(PALETTE)
    told = told_values(stream_ok(server.port, model="few", seed=1, stream_unit="row"), 0)
    assert {index: list(values) for index, values in told.items()} == {0: made[0]}


def test_guesses_change_nothing(server):
    pictures = [files(generate_ok(server.port, model="few", n=4, seed=2, draft=draft)) for draft in (True, False)]
    assert pictures[0] == pictures[1]


def test_what_is_given_is_the_nearest(server, model):
    exact, values = picture(model, rows=2)
    moved, _ = picture(model, rows=2, shift=4)
    made = [files(edit_ok(server.port, file, model="few", n=2, seed=3)) for file in (exact, moved)]
    assert made[0] == made[1]
    assert all(values_of(file)[:len(values)] == values for file in made[0])


def test_a_state_goes_on_to_the_byte(server):
    (whole,) = files(generate_ok(server.port, model="few", seed=4))
    for tokens in (1, 7, 20):
        half = generate_ok(server.port, model="few", seed=4, max_tokens=tokens, return_state=True)
        assert files(generate_ok(server.port, model="few", state=half["states"][0]["id"])) == [whole]


def test_a_state_of_given_rows_goes_on(server, model):
    given, _ = picture(model, rows=2, shift=4)
    (whole,) = files(edit_ok(server.port, given, model="few", seed=5))
    reply = client.call(server.port, "POST", "/v1/states", {"model": "few", "image": data_url(given), "seed": 5})
    assert reply.status == 201, reply.text
    assert files(generate_ok(server.port, model="few", state=reply.json()["id"])) == [whole]


def test_scores_are_those_it_was_made_with(server, model):
    made = generate_ok(server.port, model="few", seed=6)
    said = score(server.port, model="few", image=data_url(files(made)[0])).json()
    assert said["bits_per_dim"] == pytest.approx(made["data"][0]["bits_per_dim"], abs=1e-5)
    said = [score(server.port, model="few", image=data_url(picture(model, shift=shift)[0])).json()["surprise"] for shift in (0, 4)]
    assert said[0] == said[1] and len(said[0]) == WIDTH * HEIGHT * channels_of(model)


def test_commands(server, model, tmp_path):
    assert "palette      0 85 170 250\n" in run("inspect", model).stdout
    sheet = tmp_path / "sheet.png"
    assert run("generate", "--model", model, "-n", "2", "--seed", "1", "--png", sheet).returncode == 0
    if channels_of(model) == 3:
        return  # an idx file is grey
    _, values = picture(model)
    (tmp_path / "in.idx").write_bytes(struct.pack(">4i", 2051, 1, HEIGHT, WIDTH) + bytes(min(255, v + 4) for v in values))
    said = json.loads(run("eval", "--model", model, "--json", tmp_path / "in.idx").stdout)
    want = score(server.port, model="few", image=data_url(picture(model)[0])).json()["bits_per_dim"]
    assert said["bits_per_dim"] == pytest.approx(want, abs=1e-4)


def test_a_head_of_another_size_is_refused(model, tmp_path):
    conf = json.loads((model / "config.json").read_text())
    conf["image"]["palette"] = PALETTE[:3]
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/config.json").write_text(json.dumps(conf))
    (tmp_path / "bad/model.safetensors").symlink_to(model / "model.safetensors")
    said = run("inspect", tmp_path / "bad")
    assert said.returncode == 1 and "an image has 3" in said.stderr
