"""Fixtures: a server shared by the tests that leave no trace, and a factory for all others."""

import contextlib
import importlib
from pathlib import Path

import pytest

import image_model
import images
import sounds
import speech_model
from server import Server
from settings import LINNET, MODEL_DIR


def pytest_sessionstart(session):
    for path in (LINNET, MODEL_DIR / "config.json"):
        if not path.exists():
            pytest.exit(f"{path} is missing: build first, or set LINNET and LINNET_MODEL_DIR", 2)


def pytest_collection(session):
    """Each worker collects every file, and pytest compiles the assertions of a file where no earlier run has left the result. So
    each worker begins at another file, and finds the rest compiled. What is wrong with a file shows when it is collected."""
    of = getattr(session.config, "workerinput", None)
    if of is None:
        return
    given = [Path(arg.partition("::")[0]) for arg in session.config.args]
    files = sorted({file.stem for path in given for file in (path.glob("test_*.py") if path.is_dir() else [path])
                    if file.resolve().parent == Path(__file__).parent})
    first = len(files) * int(of["workerid"].removeprefix("gw")) // of["workercount"]
    for name in files[first:] + files[:first]:
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)


@pytest.fixture(scope="session")
def shared_server():
    with Server() as server:
        yield server


@pytest.fixture
def server(shared_server):
    """The shared server, checked to be idle and well after each test, and so before the next."""
    yield shared_server
    shared_server.check_unharmed()
    shared_server.wait_idle()
    shared_server.check_log()


@pytest.fixture
def port(server, request):
    """Of the shared server, or of the server that a file has for itself."""
    yield server.port
    if "shared_server" not in request.fixturenames:  # else `server` checks it
        server.check_unharmed()


@pytest.fixture(scope="session")
def image_models(tmp_path_factory):
    """A folder with small image models: two grey ones, a coloured one, and one with classes."""
    folder = tmp_path_factory.mktemp("models")
    image_model.write(folder / images.SMALL, images.WIDTH, images.HEIGHT)
    image_model.write(folder / images.SPECKS, images.SPECKS_SIDE, images.SPECKS_SIDE)
    size = images.COLOUR_WIDTH, images.COLOUR_HEIGHT
    image_model.write(folder / images.COLOUR, *size, channels=3, mixture=False)
    image_model.write(folder / images.CLASSES, images.WIDTH, images.HEIGHT, classes=images.CLASS_NAMES)
    return folder


@pytest.fixture(scope="session")
def shared_image_server(image_models):
    with Server("--models", image_models, "--max-upload", str(1 << 20)) as server:
        yield server


@pytest.fixture
def image_server(shared_image_server):
    """A server of couplets and images, checked as the shared server is."""
    yield shared_image_server
    shared_image_server.check_unharmed()
    shared_image_server.wait_idle()
    shared_image_server.check_log()


@pytest.fixture
def image_port(image_server):
    return image_server.port


@pytest.fixture(scope="session")
def speech_models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("speech")
    speech_model.write(folder / sounds.MODEL)
    return folder


@pytest.fixture(scope="session")
def shared_speech_server(speech_models):
    with Server("--models", speech_models) as server:
        yield server


@pytest.fixture
def speech_server(shared_speech_server):
    """A server of couplets and speech, checked as the shared server is."""
    yield shared_speech_server
    shared_speech_server.check_unharmed()
    shared_speech_server.wait_idle()
    shared_speech_server.check_log()


@pytest.fixture
def speech_port(speech_server):
    return speech_server.port
