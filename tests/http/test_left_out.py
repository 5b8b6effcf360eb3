"""A build that leaves features out (docs/operations.md): it says which, refuses each in one error, and does all the rest.
A build with the instruction sets of its machine alone computes with the sets that a full build chooses."""

import json
import re
import shutil
import subprocess

import pytest

import speech_model
from client import call
from server import Server, environment, run
from settings import LINNET, MODEL, ROOT
from terminal import Terminal

LINE = "海上明月"
REQUIRED = {"libmicrohttpd", "libjansson", "libpng16", "libz", "libpcre2-8"}  # libz: libpng's own
SYSTEM = {"libc", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}
LIBRARIES = {"LINNET_SPEECH": {"libsndfile", "libvorbis", "libogg", "libsamplerate", "libkissfft-float"},
             "LINNET_LINK_PICTURES": {"libfreetype"}, "LINNET_REDIS": {"libhiredis"}, "LINNET_SQLITE": {"libsqlite3"}, "LINNET_TLS": {"libgnutls"},
             "LINNET_LINE_EDITOR": {"libedit"}, "LINNET_UNICODE": {"libunistring"}}


FULL = ROOT / "build" / "linnet"  # the release, with all instruction sets
CACHE = LINNET.parent / "CMakeCache.txt"
NATIVE = CACHE.exists() and "LINNET_INSTRUCTION_SETS:STRING=native\n" in CACHE.read_text()
native = pytest.mark.skipif(not NATIVE, reason="this build has the instruction sets of all machines")
STEP = ("bench", "--model", ROOT / "weights" / "copy" / "linear", "--batch", "1", "--steps", "1", "--json")


def left_out():
    said = run("--version").stdout.splitlines()
    assert len(said) in (1, 2) and said[0].startswith("linnet ")
    return said[1].removeprefix("built without ").split(", ") if len(said) == 2 else []


@pytest.fixture
def without(request):
    """The parameter: an option that this build has left out."""
    if request.param not in left_out():
        pytest.skip(f"this build has {request.param}")
    return request.param


def option(name):
    return pytest.mark.parametrize("without", [name], indirect=True)


def refused(*args, status):
    ended = run(*args)
    assert ended.returncode == status and ended.stdout == "", ended.stderr
    return ended.stderr.splitlines()[-1]


def test_only_libraries_of_what_is_built_in():
    said = subprocess.run(["readelf", "-d", LINNET], capture_output=True, text=True, check=True, timeout=60).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[([^\]]+?)\.so[^\]]*\]", said)) - SYSTEM
    optional = set().union(*(libraries for name, libraries in LIBRARIES.items() if name not in left_out()))
    assert REQUIRED <= needed
    if not re.search(r"lib(asan|tsan)", said):
        assert needed == REQUIRED | optional


def test_the_start_says_it():
    names = left_out()
    with Server() as server:
        lines = [line for line in server.log.splitlines() if " info built without " in line]
        assert len(lines) == bool(names)
        if names:
            assert lines[0].endswith("built without " + ", ".join(names))


def test_answers_keys_and_signed_states():
    """Keys and signatures are digests, which GnuTLS computes where it is built in."""
    bearer = {"Authorization": "Bearer sk-one"}
    with Server("--api-key", "sk-one", "--state-key", "a key", "--public", "/readyz,/metrics") as server:
        body = {"model": MODEL, "prompt": LINE, "seed": 1, "return_state": True}
        assert call(server.port, "POST", "/v1/completions", body).status == 401
        answer = call(server.port, "POST", "/v1/completions", body, bearer).json()
        assert len(answer["choices"][0]["text"]) == len(LINE)
        path, octets = f"/v1/states/{answer['states'][0]['id']}", "application/octet-stream"
        state = call(server.port, "GET", path, headers=bearer | {"Accept": octets})
        assert state.status == 200
        put = bearer | {"Content-Type": octets}
        assert call(server.port, "PUT", path, state.body, put).status == 201
        changed = state.body[:-1] + bytes([state.body[-1] ^ 1])
        assert call(server.port, "PUT", path, changed, put).status == 400


@option("LINNET_SPEECH")
def test_no_speech(without, tmp_path):
    speech_model.write(tmp_path / "ears")
    words = f"this linnet was built without speech ({without})"
    assert refused("transcribe", "sound.wav", status=1) == f"linnet transcribe: {words}"
    assert words in refused("serve", "--model", tmp_path / "ears", "--port", "0", status=1)
    with Server() as server:
        reply = call(server.port, "POST", "/v1/audio/transcriptions", b"--x--", {"Content-Type": "multipart/form-data; boundary=x"})
        assert reply.status == 404 and reply.error["message"] == words


@option("LINNET_LINK_PICTURES")
def test_no_pictures_of_links(without, tmp_path):
    words = f"this linnet was built without pictures of links ({without})"
    assert words in refused("serve", "--model", ROOT / "weights" / MODEL, "--port", "0", "--font", tmp_path / "font.ttf", status=2)
    with Server() as server:
        for query in (f"line={LINE}&seed=1", "tab=images&seed=1", "tab=poems&seed=1"):
            page = call(server.port, "GET", f"/?{query}".replace(LINE, "%E6%B5%B7")).text
            assert re.search(r'og:image" content="[^"]*/card\.png"', page) and "/link.png" not in page
            reply = call(server.port, "GET", f"/link.png?{query}".replace(LINE, "%E6%B5%B7"))
            assert reply.status == 404 and reply.error["message"] == words


@option("LINNET_REDIS")
def test_no_redis(without):
    line = refused("serve", "--port", "0", "--state-store", "redis://:secret@127.0.0.1:1", status=2)
    assert f"this linnet was built without Redis ({without})" in line and "secret" not in line


@option("LINNET_SQLITE")
def test_no_file_of_states(without, tmp_path):
    words = f"this linnet was built without SQLite ({without})"
    assert words in refused("serve", "--port", "0", "--state-store", tmp_path / "states.db", status=2)
    assert refused("states", "list", tmp_path / "states.db", status=1) == f"linnet states: {words}"
    assert not (tmp_path / "states.db").exists()


@option("LINNET_TLS")
def test_no_tls(without, tmp_path):
    words = f"--tls-cert: this linnet was built without TLS ({without})"
    for name in ("cert", "key"):
        (tmp_path / name).write_text("-----BEGIN\n")
    pair = "--tls-cert", tmp_path / "cert", "--tls-key", tmp_path / "key"
    assert words in refused("serve", "--model", ROOT / "weights" / MODEL, "--port", "0", *pair, status=2)
    with Server() as server:
        assert words in refused("health", "--port", server.port, "--tls-cert", tmp_path / "cert", status=1)
        assert run("health", "--port", server.port).stdout == "ready\n"


@option("LINNET_LINE_EDITOR")
def test_lines_without_an_editor(without):
    with Terminal("generate", "--model", ROOT / "weights" / MODEL, "--interactive", "--seed", "1") as terminal:
        terminal.until("> ")
        terminal.type(f"{LINE}\n")
        terminal.until("> ")
        assert terminal.process.poll() is None


def change_tokenizer(folder, change):
    """The poem's model with another tokenizer.json."""
    shutil.copytree(ROOT / "weights" / "poem", folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    change(tokenizer)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


@option("LINNET_UNICODE")
@pytest.mark.parametrize("field, change", [
    ("normalizer", lambda t: t.update(normalizer={"type": "NFC"})),
    ("added_tokens", lambda t: t["added_tokens"][0].update(lstrip=True)),
    ("added_tokens", lambda t: t["added_tokens"][0].update(single_word=True)),
])
def test_no_tables_of_unicode(without, tmp_path, field, change):
    line = refused("inspect", change_tokenizer(tmp_path / "poem", change), status=1)
    assert f"tokenizer.json: {field}: this linnet was built without the tables of Unicode ({without})" in line
    assert run("tokenize", "--model", ROOT / "weights" / "poem", LINE).returncode == 0


@native
@pytest.mark.parametrize("precision", ["f32", "auto", "int8", "int4"])
def test_the_instruction_set_is_that_of_a_full_build(precision):
    full = subprocess.run([FULL, *STEP, "--precision", precision], capture_output=True, text=True, check=True, timeout=60,
                          env=environment())
    assert json.loads(run(*STEP, "--precision", precision).stdout)["backend"] == json.loads(full.stdout)["backend"]


@native
def test_instruction_sets_that_are_left_out_are_named():
    names = re.search(r"\(auto\|(plain\|[^)]*)\)", run("bench", "--help").stdout)[1].split("|")
    said = [run(*STEP, "--isa", name).stderr for name in names]
    left_out = [text for text in said if "-DLINNET_INSTRUCTION_SETS=all" in text]
    # Those that stand for other processors are no processor's choice.
    assert any(text.startswith("linnet bench: amxplain with precision auto is not in this build") for text in left_out), said
    assert len(left_out) >= 2, said


@native
@pytest.mark.parametrize("precision", ["auto", "int8", "int4"])
def test_a_set_that_is_chosen_for_f32_alone_has_no_other_products(precision):
    chosen = [json.loads(run(*STEP, "--precision", p).stdout)["backend"] for p in ("f32", "auto", "int8", "int4")]
    names = [re.match(r"cpu \((\w+)", backend)[1] for backend in chosen]
    asked = run(*STEP, "--isa", names[0], "--precision", precision)
    assert run(*STEP, "--isa", names[0], "--precision", "f32").returncode == 0
    if names[0] in names[1:]:
        assert asked.returncode == 0
    else:
        assert asked.returncode == 1
        assert asked.stderr.startswith(f"linnet bench: {names[0]} with precision {precision} is not in this build")
