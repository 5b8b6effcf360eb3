"""docs/adding-a-kind.md, tried literally: in a copy of the tree the files that the page shows, and no others, make a kind that
the build finds, that keeps the laws of kinds, and that is served, kept, forked, looked into and trained.

Only what includes the list of kinds is compiled again; the rest is of the build under test.
"""

import base64
import importlib.util
import json
import re
import shlex
import subprocess
import sys

import pytest

import server
import text_model
from client import call, complete_ok
from server import Server, environment
from settings import LINNET, ROOT, SANITIZED

BUILD = LINNET.parent
LINKED = {"linnet": BUILD / "CMakeFiles/linnet.dir/link.txt", "test_mixers": BUILD / "tests/CMakeFiles/test_mixers.dir/link.txt"}
PAGE = (ROOT / "docs/adding-a-kind.md").read_text()
KIND = "every_other"
SAME = {"kind": "dilated_window", "window": 3, "dilation": [2]}  # a kind of the tree that sees the same tokens
TRAINERS = ("torch", "numpy", "tqdm", "matplotlib")

pytestmark = [
    pytest.mark.training,
    pytest.mark.skipif(SANITIZED or not all(path.exists() for path in LINKED.values()),
                       reason="the build under test was not made by make, or with sanitizers, or has no unit tests"),
]


def files_of_the_page():
    """{path: text}: of every numbered section the first file that it names, and its block of code."""
    found = {}
    for section in re.split(r"^## \d+\. ", PAGE, flags=re.M)[1:]:
        path = re.search(r"`([\w/]+/[\w.]+)`", section)[1]
        found[path] = re.search(r"^```\w+\n(.*?)^```$", section, re.M | re.S)[1]
    return found


def run(*command, cwd, timeout=300, **options):
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=timeout, **options)
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-4000:])
    return done.stdout


def git(tree, *arguments):
    return run("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "core.quotepath=off", *arguments, cwd=tree)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the tree, without weights and pictures, to which the page was applied."""
    tree = tmp_path_factory.mktemp("tree") / "linnet"
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", cwd=ROOT).splitlines()
    for name in listed:
        if (ROOT / name).is_file() and not name.endswith((".safetensors", ".bin")):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
            (tree / name).chmod((ROOT / name).stat().st_mode)
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "before")
    for path, text in files_of_the_page().items():
        with (tree / path).open("a") as file:  # a new file, or a line more
            file.write(text)
    return tree


@pytest.fixture(scope="module")
def configured(tree):
    """The copy's own build, as far as CMake; the options of the build under test that say how it is compiled."""
    cache = (BUILD / "CMakeCache.txt").read_text()
    same = [f"-D{name}={re.search(rf'^{name}:[A-Z]+=(.*)$', cache, re.M)[1]}" for name in ("CMAKE_BUILD_TYPE", "CMAKE_C_COMPILER")]
    run("cmake", "-S", tree, "-B", tree / "build", "-G", "Unix Makefiles", "-DLINNET_CUDA=OFF", "-DLINNET_WERROR=ON", *same, cwd=tree)
    return tree / "build"


@pytest.fixture(scope="module")
def built(configured, tree):
    """{name: program}: linnet and test_mixers with the kind."""
    commands = {entry["file"]: entry for entry in json.loads((configured / "compile_commands.json").read_text())}
    objects = {}
    for name in ("model/mixers/mixer.c", f"model/mixers/{KIND}.c", "tests/unit/model/test_mixers.c"):
        entry = commands[str(tree / name)]  # CMake has found it
        words = shlex.split(entry["command"])
        objects[name] = configured / f"{name.replace('/', '_')}.o"
        words[words.index("-o") + 1] = str(objects[name])
        run(*words, cwd=entry["directory"])
    kind = [objects["model/mixers/mixer.c"], objects[f"model/mixers/{KIND}.c"]]
    programs = {}
    for name, link in LINKED.items():
        words = shlex.split(link.read_text())
        at = words.index("-o")
        programs[name] = configured / name
        words[at + 1] = programs[name]
        words = [objects["tests/unit/model/test_mixers.c"] if str(w).endswith("/test_mixers.c.o") else w for w in words]
        run(*words[:at], *kind, *words[at:], cwd=link.parents[2])
    return programs


@pytest.fixture
def linnet(built, monkeypatch):
    monkeypatch.setattr(server, "LINNET", built["linnet"])
    return built["linnet"]


def test_the_page_touches_its_files_and_no_others(tree):
    files = files_of_the_page()
    assert len(files) == 4 and "These four are all." in PAGE
    changed = {line[3:] for line in git(tree, "status", "--porcelain", "-uall").splitlines()}
    assert changed == set(files) == {f"model/mixers/{KIND}.c", "model/mixers/mixers.def", f"tests/mixers/{KIND}.json",
                                     f"weights/train/mixers/{KIND}.py"}
    assert git(tree, "diff", "--numstat").split() == ["1", "0", "model/mixers/mixers.def"]


def test_the_trees_checks_accept_it(tree):
    run("scripts/check-includes", cwd=tree)
    run("scripts/check-prose", *files_of_the_page(), cwd=tree)
    run("clang-format", "--dry-run", "-Werror", f"model/mixers/{KIND}.c", cwd=tree)


def test_the_build_finds_kind_and_test(configured):
    tests = run("ctest", "--test-dir", configured, "-N", cwd=configured)
    assert re.search(rf"\bmixer_{KIND}\b", tests)


def test_it_keeps_the_laws_of_kinds(built):
    run(built["test_mixers"], KIND, cwd=BUILD)


def test_a_kind_without_its_table_fails(built, tree):
    table = tree / f"tests/mixers/{KIND}.json"
    text = table.read_text()
    table.unlink()
    try:
        assert subprocess.run([built["test_mixers"], KIND], capture_output=True, timeout=60).returncode != 0
    finally:
        table.write_text(text)


def test_it_is_listed(linnet):
    listed = run(linnet, "inspect", "--kinds", cwd="/", env=environment())
    assert re.search(rf"^{KIND} +softmax attention to every second token\n +window +1 to 65536$", listed, re.M), listed


@pytest.fixture
def models(tmp_path):
    """The same weights under the page's kind and under one that sees the same tokens."""
    text_model.write_bytes(tmp_path / "new", attention={"kind": KIND, "window": 3})
    text_model.write_bytes(tmp_path / "known", attention=SAME)
    return tmp_path


def test_it_is_served_kept_forked_and_looked_into(linnet, models):
    fields = {"prompt": "Once upon", "max_tokens": 40, "seed": 3, "ignore_eos": True}
    with Server("--models", models) as s:
        known, new = (complete_ok(s.port, model=model, **fields)["choices"][0]["text"] for model in ("known", "new"))
        assert new == known
        begun = complete_ok(s.port, model="new", **fields | {"max_tokens": 15}, return_state=True)
        state = begun["states"][0]["id"]
        sizes = {m["id"]: m["meta"]["state_bytes"] for m in call(s.port, "GET", "/v1/models").json()["data"]}
        assert sizes["new"] == sizes["known"] > 0
        forks = call(s.port, "POST", f"/v1/states/{state}/fork", {"n": 1})
        assert forks.status == 201, forks.text
        for id_ in (state, forks.json()["data"][0]["id"]):
            rest = complete_ok(s.port, model="new", state=id_, max_tokens=25, ignore_eos=True)["choices"][0]["text"]
            assert begun["choices"][0]["text"] + rest == new
        look = call(s.port, "GET", f"/v1/states/{state}/inspect?layer=0&head=0").json()
        last = look["positions"][-1]
        assert {last, last - 2, last - 4} <= set(look["positions"]) and len(look["k"]) == len(look["v"]) == len(look["positions"])
        kept = call(s.port, "GET", f"/v1/states/{state}", headers={"Accept": "application/octet-stream"}).body
    with Server("--models", models) as s:
        rest = complete_ok(s.port, model="new", state=base64.b64encode(kept).decode(), max_tokens=25, ignore_eos=True)
        assert begun["choices"][0]["text"] + rest["choices"][0]["text"] == new


def test_its_keys_are_checked(linnet, models):
    config = models / "new/config.json"
    config.write_text(config.read_text().replace('"window": 3', '"window": 0'))
    done = subprocess.run([linnet, "inspect", models / "new"], capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode == 1 and "attention.window must be a whole number from 1" in done.stderr, done.stderr


TRAINED = """
import json, sys
sys.path.insert(0, sys.argv[1])
sys.argv = ["text.py", *json.loads(sys.argv[2])]
import torch, text
recipe = text.Text(text.parse_arguments())
recipe.model.load_state_dict(torch.load(recipe.args.run / "checkpoint.pt", weights_only=True)["model"])
with torch.no_grad():
    for p in recipe.model.parameters():
        p.copy_(p.bfloat16())
    ids = list("the fox sees the hill, and more of it than before".encode())
    logits = recipe.model(torch.tensor(ids)[None, :, None])[0].double().log_softmax(-1)
print(json.dumps([-logits[i - 1, ids[i]].item() for i in range(12, len(ids))]))
"""


@pytest.mark.skipif(not all(map(importlib.util.find_spec, TRAINERS)), reason="there is no PyTorch, or what the recipes want beside it")
@pytest.mark.parametrize("recipe", ["copy_task.py", "text.py"])
def test_it_is_trained_and_the_server_computes_what_was_trained(linnet, tree, tmp_path, recipe):
    flags = ["--set", f"mixer={KIND}", "--run", str(tmp_path / "run"), "--out", str(tmp_path / "own"), "--threads", "1",
             "--device", "cpu", "--batch-tokens", "512", "--tokens", "20000", "--no-compile"]
    if recipe == "text.py":
        (tmp_path / "text.txt").write_text("the fox sees the hill. a bird leaves the hill. " * 100)
        flags += ["--data", str(tmp_path / "text.txt"), "--layers", "2", "--width", "32", "--heads", "2", "--length", "64",
                  "--tokenizer", "bytes"]
    run(sys.executable, tree / "weights/train" / recipe, *flags, cwd=tmp_path)
    config = json.loads((tmp_path / "own/config.json").read_text())
    assert config["attention"]["kind"] == KIND and config["attention"]["window"] == 8
    if recipe == "copy_task.py":
        run(linnet, "eval", "--model", tmp_path / "own", cwd=tmp_path, env=environment())
        return
    want = json.loads(run(sys.executable, "-c", TRAINED, tree / "weights/train", json.dumps(flags), cwd=tmp_path).splitlines()[-1])
    with Server("--precision", "f32", model_dir=tmp_path / "own") as s:
        reply = call(s.port, "POST", "/v1/score", {"model": "own", "prompt": "the fox sees", "completion": " the hill, and more of it than before"})
        assert reply.status == 200, reply.text
        assert reply.json()["surprise"] == pytest.approx(want, abs=1e-3)
