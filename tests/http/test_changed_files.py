"""Files of a model that someone shortens, overwrites and completes in place, as `cp new/model.safetensors live/` does:
at the start, while reloads read them, and while they are served. The process continues, and names the fault."""

import itertools
import shutil
import threading

import pytest

import client
import hf_model
import sounds
from hf_model import folders
from server import Server, run, wait_until
from settings import MODEL, MODEL_DIR, ROOT, SANITIZED
from test_reload import Folder, answer, facts, other_weights, reload, replace, weights_file

SHARDS, SPEECH = "shards", "digits-spoken"
REFUSALS = 5 if SANITIZED else 20


class Writer:
    """Writes whole files over themselves in place, again and again: cut off at ever other places, then completed in parts."""

    PART = 1 << 16

    def __init__(self, *paths):
        self.good = {path: path.read_bytes() for path in paths}
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.work)

    def write(self, path, data, cut):
        with open(path, "r+b") as file:
            file.truncate(cut)
            for at in range(cut, len(data), self.PART):
                file.seek(at)
                file.write(data[at : at + self.PART])
                file.flush()

    def work(self):
        for i in itertools.count():
            for path, data in self.good.items():
                if self.stopping.is_set():
                    return
                self.write(path, data, i * 7919 * 4096 % len(data) if i % 4 else 0)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join(client.PATIENCE)
        assert not self.thread.is_alive()
        for path, data in self.good.items():
            assert path.read_bytes() == data


@pytest.fixture
def models(tmp_path):
    folder = tmp_path / "models"
    shutil.copytree(MODEL_DIR, folder / MODEL)
    shutil.copytree(ROOT / "weights" / SPEECH, folder / SPEECH)
    hf_model.write(folder / SHARDS, folders.GATED, folders.delta_tensors, shards=3)
    return folder


@pytest.fixture
def server(models):
    with Folder(models, "--slots", "4") as running:
        yield running


def answers(server):
    """Of each model one answer, which its weights alone decide."""
    text = client.complete_ok(server.port, model=SHARDS, prompt="Once", max_tokens=8, seed=1)
    heard = sounds.transcribe(server.port, sounds.wav(sounds.babble(1.0)), model=SPEECH)
    assert heard.status == 200, heard.text
    return facts(answer(server)), facts(text), heard.json()["text"]


@pytest.mark.parametrize("name", [MODEL, SHARDS, SPEECH])
def test_reloads_while_a_file_is_written_in_place(server, models, name):
    before = answers(server)
    files = sorted((models / name).glob("*.safetensors"))
    refused = []
    with Writer(*files):
        while len(refused) < REFUSALS:
            reply = reload(server)
            assert reply.status in (200, 409, 422), reply.text
            if reply.status == 200:
                assert not any(m["changed"] for m in reply.json()["models"]), "the same bytes as before"
                continue
            refused.append(reply)
            assert reply.error["message"].startswith(f"{name}/"), reply.text
            assert ".safetensors: " in reply.error["message"], reply.text
            assert answers(server) == before
    reply = reload(server)
    assert reply.status == 200, reply.text
    assert answers(server) == before
    assert server.log.count("the served models stay") == len(refused)


def test_other_weights_are_served_once_they_are_complete(server, models):
    old = answer(server)["system_fingerprint"]
    path = weights_file(models / MODEL)
    other = other_weights(path.read_bytes())
    for cut in (0, 1, 8, 4096, len(other) // 2, len(other) - 1):
        path.write_bytes(other[:cut])
        reply = reload(server)
        assert reply.status == 422 and reply.error["message"].startswith(f"{MODEL}/{path.name}: "), (cut, reply.text)
        assert answer(server)["system_fingerprint"] == old
    path.write_bytes(other)
    reply = reload(server)
    assert reply.status == 200, reply.text
    assert answer(server)["system_fingerprint"] != old


def test_a_file_is_shortened_while_it_is_served(server, models):
    before = answers(server)
    files = sorted(models.glob("*/*.safetensors"))
    good = {path: path.read_bytes() for path in files}
    for share in (0.9, 0.5, 0.1, 0):
        for path, data in good.items():
            with open(path, "r+b") as file:
                file.truncate(int(len(data) * share))
        assert answers(server) == before
    assert reload(server).status == 422
    assert answers(server) == before
    for path, data in good.items():
        path.write_bytes(data)
    assert reload(server).status == 200
    assert answers(server) == before


@pytest.mark.parametrize("name", [MODEL, SHARDS])
def test_a_start_while_a_file_is_written_in_place(models, name):
    said = []
    with Writer(*(models / name).glob("*.safetensors")):
        for _ in range(200):
            result = run("generate", "--model", models / name, "--seed", "1", "海上明月")
            assert result.returncode in (0, 1), result
            if result.returncode == 1:
                assert result.stderr.count("\n") == 1 and ".safetensors" in result.stderr, result
                said.append(result.stderr)
            if len(said) == REFUSALS // 2:
                break
    assert said, "no start met a file that was being written"


def test_a_server_does_not_start_on_a_cut_file(tmp_path):
    shutil.copytree(MODEL_DIR, tmp_path / MODEL)
    path = weights_file(tmp_path / MODEL)
    path.write_bytes(path.read_bytes()[:-4096])
    result = run("serve", "--port", "0", "--model", tmp_path / MODEL)
    errors = [line for line in result.stderr.splitlines() if line.startswith("linnet serve: ")]
    assert result.returncode == 1 and len(errors) == 1, result.stderr
    assert f"{MODEL}/{path.name}: tensor " in errors[0]


def test_a_tokenizer_that_is_cut_off_is_refused(server, models):
    before = answers(server)
    path = models / SHARDS / "tokenizer.json"
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2])
    reply = reload(server)
    assert reply.status == 422 and reply.error["message"].startswith(f"{SHARDS}/tokenizer.json"), reply.text
    assert answers(server) == before
    path.write_bytes(good)
    assert reload(server).status == 200


def test_faults_name_the_model_and_no_folder(tmp_path):
    """With any names of folders: several folders, one below another, and a folder with a base."""
    models, base = tmp_path / "models", tmp_path / "mnist"
    shutil.copytree(ROOT / "weights" / "mnist", base)
    (models / "a").mkdir(parents=True)
    (models / "a/config.json").write_text('{"base": "../../mnist", "image": {"height": 56, "period": 28}}')
    path, hidden = weights_file(base), base / "hidden"
    server = Server("--slots", "4")
    server.args = [server.args[0], "serve", "--port", "0", "--models", f"{models}:{tmp_path}/", "--slots", "4"]
    with server:
        replace(path, path.read_bytes()[:100_000])
        message = reload(server).error["message"]
        assert message.startswith("a/../../mnist/model.safetensors: "), message
        (base / "config.json").rename(hidden)
        reply = reload(server)
        assert reply.status == 422 and reply.error["message"].startswith("a/../../mnist/config.json: "), reply.text
        hidden.rename(base / "config.json")
        shutil.rmtree(models)
        reply = reload(server)
        assert reply.status == 422 and "cannot be listed" in reply.error["message"], reply.text
        assert str(tmp_path) not in reply.text and str(tmp_path) in server.log
        wait_until(server.is_ready, 60, "the server goes on")
