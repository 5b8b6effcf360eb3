"""`pip install ./weights`: its commands run the scripts of weights/, and its client handles states and images as the
routes do."""

import asyncio
import re
import shutil
import subprocess
import sys
import venv

import pytest

import client as http
import png
from server import Server
from settings import MODEL_DIR, ROOT

PARTS = ("pyproject.toml", "linnet_weights", "train", "convert")
VERSION = re.search(r'LX_VERSION "([0-9.]+)"', (ROOT / "common/version.h").read_text())[1]
PROMPT = "海上明月"


def pip(place, *command, timeout=120):
    """This interpreter's pip, for that environment."""
    python = place / "venv/bin/python"
    return subprocess.run([sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", *command], cwd=place,
                          capture_output=True, text=True, timeout=timeout)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A virtual environment with the package only, made of a copy, because a build leaves files in its source."""
    place = tmp_path_factory.mktemp("weights")
    (place / "weights").mkdir()
    for name in PARTS:
        source, to = ROOT / "weights" / name, place / "weights" / name
        shutil.copy(source, to) if source.is_file() else shutil.copytree(source, to, ignore=shutil.ignore_patterns("__pycache__"))
    venv.create(place / "venv")
    done = pip(place, "install", "-q", "--no-deps", place / "weights", timeout=600)
    if "requirement setuptools" in done.stderr:
        pytest.skip("pip found no setuptools to build with: no package index is reached")
    assert done.returncode == 0, done.stderr
    shutil.rmtree(place / "weights")  # the installed package needs it no more
    return place


def run(place, *command):
    command = [place / "venv/bin" / command[0], *command[1:]]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def package(place):
    (site,) = (place / "venv").glob("lib/python3*/site-packages")
    sys.path.insert(0, str(site))
    try:
        import linnet_weights
    finally:
        sys.path.remove(str(site))
    assert str(linnet_weights.__file__).startswith(str(site))
    return linnet_weights


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    models = tmp_path_factory.mktemp("models")
    (models / "mnist").symlink_to(ROOT / "weights" / "mnist")
    with Server("--models", models) as server:  # next to the couplets
        yield server


@pytest.fixture
def speaker(package, server):
    return package.Client(f"http://{http.HOST}:{server.port}", timeout=60)


# --- the commands


def test_the_version_is_the_programs(place):
    said = pip(place, "show", "linnet-weights").stdout
    assert f"Version: {VERSION}\n" in said


def test_every_script_is_a_command(place):
    for program, folder, others in (("linnet-train", "train", set()), ("linnet-convert", "convert", {"check"})):
        wanted = {p.stem for p in (ROOT / "weights" / folder).glob("*.py") if "__main__" in p.read_text()} - others
        listed = run(place, program, "--help")
        assert listed.returncode == 0
        assert set(listed.stdout.strip().rpartition("one of ")[2].split(", ")) == wanted and len(wanted) > 1
        unknown = run(place, program, "nothing-like-it")
        assert unknown.returncode == 2 and unknown.stderr.count("\n") == 1 and "nothing-like-it" in unknown.stderr


def test_a_script_runs_as_in_a_clone(place):
    assert run(place, "linnet-train", "small_digits", "digits", "3").returncode == 0
    subprocess.run([sys.executable, ROOT / "weights/train/small_digits.py", place / "same", "3"], check=True, timeout=60)
    files = {p.relative_to(place / "same"): p.read_bytes() for p in (place / "same").rglob("*.pgm")}
    assert len(files) == 30
    assert files == {p.relative_to(place / "digits"): p.read_bytes() for p in (place / "digits").rglob("*.pgm")}


@pytest.mark.parametrize("command", [("linnet-train", "image", "--help"), ("linnet-convert", "rwkv", "--help"), ("linnet-check", "--help")])
def test_what_is_missing_is_said_in_one_line(place, command):
    """The environment has no numpy, which all of these want."""
    said = run(place, *command)
    assert said.returncode == 1 and said.stderr.count("\n") == 1 and "numpy" in said.stderr
    assert "linnet-weights" not in said.stderr  # a name that others may hold where pip looks


# --- states


def test_states_are_made_moved_forked_and_removed(speaker, package, server):
    state = speaker.make_state("couplet", PROMPT, seed=3)
    assert state.model == "couplet" and state.tokens == 0 and state.seed == 3 and state.expires_in_s > 0
    again = speaker.state(state.id)
    assert again.id == state.id and again.bytes == state.bytes
    data = speaker.fetch_state(state.id)
    assert len(data) == state.bytes
    moved = speaker.put_state("a-name-of-mine", data)
    assert moved.id == "a-name-of-mine" and moved.position == state.position
    wanted = http.complete_ok(server.port, prompt=PROMPT, seed=3)["choices"][0]["text"]
    for from_ in (state.id, moved.id, data):
        assert speaker.resume(from_).texts == [wanted]
    forks = speaker.fork_state(state.id, n=2)
    assert [fork.sample for fork in forks] == [0, 1] and len({state.id, *(fork.id for fork in forks)}) == 3
    assert [fork.seed for fork in speaker.fork_state(state.id, seeds=[8, 9])] == [8, 9]
    speaker.delete_state(moved.id)
    with pytest.raises(package.Failure) as failed:
        speaker.state(moved.id)
    assert failed.value.status == 404 and failed.value.param == "state" and failed.value.code == "not_found"


def test_a_text_goes_on_turn_by_turn(speaker, server):
    wanted = http.complete_ok(server.port, prompt=PROMPT, seed=5)["choices"][0]["text"]
    state, text = speaker.make_state("couplet", PROMPT, seed=5).id, ""
    for _ in PROMPT:
        turn = speaker.resume(state, max_tokens=1, return_state=True)
        text, state = text + turn.texts[0], turn.states[0].id
    assert text == wanted and speaker.state(state).tokens == len(PROMPT)


def test_a_head_is_looked_at(speaker):
    state = speaker.make_state("couplet", PROMPT)
    look = speaker.inspect_state(state.id, layer=1, head=2)
    assert (look.layer, look.head, look.n_layers, look.n_heads) == (1, 2, 8, 8)
    assert len(look.s) == len(look.z) == 32 and {len(row) for row in look.s} == {32} and min(look.z) > 0
    assert look.rest["object"] == "state.look"


# --- images


def values_of(picture):
    return list(png.read(picture.png).values)


def test_pictures_go_on_from_a_state(speaker):
    whole = speaker.images("mnist", seed=1).pictures[0]
    half = speaker.images("mnist", seed=1, max_tokens=392, return_state=True)
    assert half.seed == 1 and half.states[0].tokens == 392
    (rest,) = speaker.images(state=half.states[0].id).pictures
    assert rest.png == whole.png and values_of(half.pictures[0])[:392] == values_of(whole)[:392]
    forks = speaker.fork_state(half.states[0].id, n=2)  # as in docs/http-api.md
    painted = [speaker.images(state=fork.id).pictures[0].png for fork in forks]
    assert painted[0] == whole.png != painted[1]
    sheet = speaker.images("mnist", n=4, contact_sheet=True)
    assert len(sheet.pictures) == 1 and len(values_of(sheet.pictures[0])) >= 4 * 784


def test_pictures_from_their_first_rows(speaker):
    whole = speaker.images("mnist", seed=2).pictures[0]
    rows = png.write(28, 10, bytes(values_of(whole)[:280]))
    made = speaker.complete_image(rows, "mnist", n=2, seed=3)
    assert [values_of(picture)[:280] for picture in made.pictures] == [values_of(whole)[:280]] * 2
    state = speaker.make_state("mnist", image=rows, seed=3)
    assert speaker.images(state=state.id).pictures[0].png == made.pictures[0].png


def test_a_picture_is_painted_row_by_row(speaker, package):
    *parts, picture = speaker.paint("mnist", seed=4)
    assert all(isinstance(part, package.Values) for part in parts) and isinstance(picture, package.Picture)
    values = []
    for part in parts:
        assert part.start == len(values) and len(part.values) % 28 == 0
        values += part.values
    assert values == values_of(picture) and picture.png == speaker.images("mnist", seed=4).pictures[0].png
    for part in speaker.paint("mnist", unit="pixel", seed=4):
        break  # a reader that has seen enough
    assert part.start == 0


# --- texts


def test_completions_whole_and_as_streams(speaker, server):
    wanted = http.complete_ok(server.port, prompt=PROMPT, seed=3, n=2)
    answer = speaker.complete("couplet", PROMPT, seed=3, n=2, return_state=True)
    assert answer.texts == [choice["text"] for choice in wanted["choices"]] and answer.seed == 3
    assert len(answer.states) == 2
    pieces = list(speaker.stream("couplet", PROMPT, seed=3))
    one = http.complete_ok(server.port, prompt=PROMPT, seed=3)["choices"][0]
    assert "".join(piece.text for piece in pieces) == one["text"] and len(pieces) > 1
    assert [piece.finish_reason for piece in pieces if piece.finish_reason] == [one["finish_reason"]]
    assert speaker.complete("couplet", PROMPT, seed=3, max_tokens=2, rules=True).texts[0] == one["text"][:2]
    for piece in speaker.stream("couplet", PROMPT, seed=3):
        break  # a reader that has seen enough
    assert piece.index == 0


def test_the_states_of_a_key_are_listed_page_by_page(package):
    with Server("--api-key", "a-key-of-mine", model_dir=MODEL_DIR) as own:
        mine = package.Client(f"http://{http.HOST}:{own.port}", api_key="a-key-of-mine")
        assert list(mine.states()) == []
        made = {mine.make_state("couplet", PROMPT, seed=i).id for i in range(5)}
        for limit in (None, 2, 5):
            listed = list(mine.states(limit=limit))
            assert {state.id for state in listed} == made and len(listed) == 5
        assert all(state.bytes > 0 and state.expires_in_s > 0 for state in listed)


def test_asynchronous_calls_are_those_of_the_client(speaker, package, server):
    async def talk():
        client = package.AsyncClient(speaker.base_url, timeout=60)
        answers = await asyncio.gather(*(client.complete("couplet", PROMPT, seed=i) for i in range(4)))
        pieces = [piece async for piece in client.stream("couplet", PROMPT, seed=2)]
        async for _ in client.stream("couplet", PROMPT, seed=2):
            break
        with pytest.raises(package.Failure):
            await client.complete("nothing", PROMPT)
        with pytest.raises(AttributeError):
            _ = client.nothing
        return [answer.texts[0] for answer in answers], "".join(piece.text for piece in pieces)

    texts, streamed = asyncio.run(talk())
    assert texts == [speaker.complete("couplet", PROMPT, seed=i).texts[0] for i in range(4)]
    assert streamed == speaker.complete("couplet", PROMPT, seed=2, rank=False).texts[0]  # a stream is not chosen from a pool


# --- refusals


def test_refusals_name_the_field(speaker, package):
    with pytest.raises(package.Failure, match="temperature") as failed:
        speaker.images("mnist", temperature=-1)
    assert failed.value.status == 400 and failed.value.param == "temperature"
    with pytest.raises(package.Failure) as failed:
        speaker.images("mnist", class_=10)  # it has ten, from 0 on
    assert failed.value.status == 400 and failed.value.param == "class"


def test_a_server_that_is_not_there(package):
    with pytest.raises(package.Failure) as failed:
        package.Client(f"http://{http.HOST}:1", timeout=5).images()
    assert failed.value.status == 0 and f"http://{http.HOST}:1" in str(failed.value)


def test_a_key_is_sent(package):
    with Server("--api-key", "a-key-of-mine", model_dir=MODEL_DIR) as server:
        url = f"http://{http.HOST}:{server.port}"
        assert package.Client(url, api_key="a-key-of-mine").make_state("couplet", PROMPT).tokens == 0
        with pytest.raises(package.Failure) as failed:
            package.Client(url).make_state("couplet", PROMPT)
        assert failed.value.status == 401
