"""Starts the server once and a headless Chromium; gives every test a page that is watched.

A watched page fails its test on anything that must never happen: a console error, a violation of the
Content-Security-Policy, an uncaught exception, a request to another origin.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/http"))  # image_model, poem_model and speech_model, which write models of any shape

import image_model  # noqa: E402
import poem_model  # noqa: E402
import speech_model  # noqa: E402

START_SECONDS = 60  # a server or a page may wait while other programs build
PATIENCE_MS = START_SECONDS * 1000
expect.set_options(timeout=PATIENCE_MS)


def pytest_addoption(parser):
    parser.addoption("--screenshots", metavar="DIR", help="folder for the pictures of the page")
    parser.addoption("--sound", metavar="FILE", type=Path, help="a WAV file of words that the served model of speech knows")
    parser.addoption("--late-frames", metavar="MS", type=int, default=0,
                     help="draw every frame so much later, as a busy machine does: a test that does not wait for it fails")
    parser.addoption("--late-answers", metavar="MS", type=int, default=0,
                     help="send every request so much later: a test that takes the answer before for the new one fails")
    parser.addoption("--calm", action="store_true", help="pages do not move, except in tests that ask for it: drawn frames are "
                     "most of a page's processor time")


def _spawn(models, options):
    binary = os.environ.get("LINNET", str(ROOT / "build/linnet"))
    command = [binary, "serve", "--port", "0", "--models", str(models), *options]
    environment = {"LINNET_TIMEOUT": "600", **os.environ}  # the server's own 60 s are too few for a sheet of pictures at load 40
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _address(process):
    """The address the server prints; everything it prints is kept for the error message."""
    printed = []
    timer = threading.Timer(START_SECONDS, process.kill)
    timer.start()
    for line in process.stdout:
        printed.append(line)
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        if found:
            timer.cancel()
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return found.group()
    raise RuntimeError("the server did not start:\n" + "".join(printed))


@contextlib.contextmanager
def running(models, *options):
    """The address of a server of these models."""
    process = _spawn(models, options)
    try:
        yield _address(process)
        process.terminate()
        assert process.wait(timeout=START_SECONDS) == 0
    finally:
        process.kill()
        process.wait(timeout=START_SECONDS)


def quick_models(folder):
    """The shipped models. The painter, the poet and the speech model are small and random instead: the page shows any
    picture, any poem and any words."""
    (folder / "couplet").symlink_to(ROOT / "weights/couplet")
    image_model.write(folder / "mnist", 28, 28)
    image_model.write(folder / "mnist-softmax", 28, 28, attention={"kind": "softmax"})
    poem_model.write(folder / "poem")
    speech_model.write(folder / "ears")
    for name in ("race-linear", "race-softmax", "demo"):
        shutil.copytree(ROOT / "weights" / name, folder / name)
    (folder / "strip").mkdir()
    (folder / "strip/config.json").write_text('{"base": "../mnist", "image": {"height": 14336, "period": 28}}')
    return f"{folder}:{folder}/demo"


@pytest.fixture(scope="session")
def origin(pytestconfig, tmp_path_factory):
    if "LINNET_URL" in os.environ:
        yield os.environ["LINNET_URL"].rstrip("/")
        return
    models = os.environ.get("LINNET_MODELS_DIR")
    if not models and pytestconfig.getoption("screenshots"):
        models = f"{ROOT}/weights:{ROOT}/weights/demo"
    with running(models or quick_models(tmp_path_factory.mktemp("models"))) as address:
        yield address


@pytest.fixture
def serve():
    """serve(models, *options) -> the address of a new server, which ends after the test's pages: a request to a stopped server
    fails, and the page's console says so."""
    with contextlib.ExitStack() as servers:
        yield lambda models, *options: servers.enter_context(running(models, *options))


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        # One process draws the pages of a context; by itself the browser keeps a spare one, and begins another for each.
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium-headless-shell"),
            args=["--no-sandbox", "--disable-gpu", "--renderer-process-limit=1", "--process-per-site"],
        )
        yield browser
        browser.close()


@pytest.fixture
def screenshots(request, tmp_path):
    folder = Path(request.config.getoption("--screenshots") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


# A tab's script comes after the page: until then its form is the plain one.
READY = "() => !document.querySelector('script[src$=\"app.js\"]') || document.documentElement.dataset.ready"


LATE_FRAMES = "{ const now = requestAnimationFrame; window.requestAnimationFrame = (f) => setTimeout(() => now(f), %d); }"
LATE_ANSWERS = """{
    const now = fetch;
    window.fetch = async (...what) => {
        await new Promise((goOn) => setTimeout(goOn, %d));
        return now(...what);
    };
}"""


@pytest.fixture
def open_page(browser, origin, serve, pytestconfig):
    """open_page(hash="", allow=None, at=None, **options of the browser context) -> page. A console error
    that matches the expression `allow` is expected; `at` is the address of another server."""
    contexts, wrong = [], []
    late = {LATE_FRAMES: pytestconfig.getoption("late_frames"), LATE_ANSWERS: pytestconfig.getoption("late_answers")}

    def listen(page, allow, home):
        def console(message):
            expected = allow and re.search(allow, message.text)
            if message.type == "error" and not expected:
                wrong.append(f"console: {message.text} {message.location.get('url')}")

        def request(sent):
            scheme, host = urlsplit(sent.url)[:2]
            if scheme not in ("data", "blob") and f"{scheme}://{host}" != home:
                wrong.append(f"request to another origin: {sent.url}")

        page.on("console", console)
        page.on("request", request)
        page.on("pageerror", lambda error: wrong.append(f"uncaught: {error}"))

    def open_(hash="", allow=None, at=None, **options):
        home = at or origin
        motion = "reduce" if pytestconfig.getoption("calm") else "no-preference"
        context = browser.new_context(**{"locale": "en-US", "reduced_motion": motion, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        listen(page, allow, home)
        if options.get("java_script_enabled", True):
            page.add_init_script(
                "addEventListener('securitypolicyviolation',"
                " (e) => console.error('policy: ' + e.violatedDirective + ' ' + e.blockedURI))"
            )
            for script, milliseconds in late.items():
                if milliseconds:
                    page.add_init_script(script % milliseconds)
        page.goto(home + "/" + hash)
        if options.get("java_script_enabled", True):
            page.wait_for_function(READY)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert wrong == []
