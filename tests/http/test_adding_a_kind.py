"""docs/adding-a-kind.md, tried literally: in a copy of the tree the files that the page shows, and no others, make
kinds that the build finds and that keep the laws of kinds. The first, a pattern of rows, is served, kept, forked,
inspected and trained. The second, a recurrence, is served from Linnet's own folder and from a folder of another
program. The first, a pattern of rows, is served, kept, forked, looked into and trained; the second, a recurrence, is
served from Linnet's own folder and from one of another program.

Only files that include the list of kinds are compiled again; the rest is of the build under test.
"""

import base64
import importlib.util
import json
import math
import random
import re
import shlex
import subprocess
import sys
from array import array

import pytest

import hf_model
import server
import text_model
from client import call, complete_ok
from server import Server, environment
from settings import LINNET, ROOT, SANITIZED

BUILD = LINNET.parent
LINKED = {"linnet": BUILD / "CMakeFiles/linnet.dir/link.txt", "test_mixers": BUILD / "tests/CMakeFiles/test_mixers.dir/link.txt"}
PAGE = (ROOT / "docs/adding-a-kind.md").read_text()
KIND = "every_other"
SECOND = "fading"
LISTS = {"model/mixers/mixers.def": 2, "model/formats/hugging_face/kinds.def": 1}  # and the lines that they get
SAME = {"kind": "dilated_window", "window": 3, "dilation": [2]}  # a kind of the tree that sees the same tokens
TRAINERS = ("torch", "numpy", "tqdm", "matplotlib")

pytestmark = [
    pytest.mark.training,
    pytest.mark.skipif(SANITIZED or not all(path.exists() for path in LINKED.values()),
                       reason="the build under test was not made by make, or with sanitizers, or has no unit tests"),
]


def files_of_the_page(head=r"## \d+\."):
    """[(path, text)]: of every section with such a heading the first file that it names, and its block of code."""
    found = []
    for section in re.split(rf"^{head} ", PAGE, flags=re.M)[1:]:
        path = re.search(r"`([\w/]+/[\w.]+)`", section)[1]
        found.append((path, re.search(r"^```\w+\n(.*?)^```$", section, re.M | re.S)[1]))
    return found


def all_files():
    return files_of_the_page() + files_of_the_page("###")


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
    for path, text in all_files():
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
    parts = ["model/mixers/mixer.c", "model/formats/hugging_face/folder.c"] + [path for path, _ in all_files() if path.endswith(".c")]
    for name in [*parts, "tests/unit/model/test_mixers.c"]:
        entry = commands[str(tree / name)]  # CMake has found it
        words = shlex.split(entry["command"])
        objects[name] = configured / f"{name.replace('/', '_')}.o"
        words[words.index("-o") + 1] = str(objects[name])
        run(*words, cwd=entry["directory"])
    kind = [objects[name] for name in parts]
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
    first, second = ({path for path, _ in files} for files in (files_of_the_page(), files_of_the_page("###")))
    assert len(first) == 4 and "it makes four files" in PAGE
    changed = {line[3:] for line in git(tree, "status", "--porcelain", "-uall").splitlines()}
    assert first == {f"model/mixers/{KIND}.c", "model/mixers/mixers.def", f"tests/mixers/{KIND}.json",
                     f"weights/train/mixers/{KIND}.py"}
    assert second == {f"model/mixers/{SECOND}.c", f"tests/mixers/{SECOND}.json", f"model/formats/hugging_face/{SECOND}.c", *LISTS}
    assert changed == first | second
    lines = dict(line.split("\t")[::2][::-1] for line in git(tree, "diff", "--numstat").splitlines())
    assert lines == {path: str(n) for path, n in LISTS.items()}


def test_the_trees_checks_accept_it(tree):
    run("scripts/check-includes", cwd=tree)
    paths = [path for path, _ in all_files()]
    run("scripts/check-prose", *paths, cwd=tree)
    run("clang-format", "--dry-run", "-Werror", *(path for path in paths if path.endswith(".c")), cwd=tree)


def test_the_build_finds_kind_and_test(configured):
    tests = run("ctest", "--test-dir", configured, "-N", cwd=configured)
    assert re.search(rf"\bmixer_{KIND}\b", tests) and re.search(rf"\bmixer_{SECOND}\b", tests)


@pytest.mark.parametrize("kind", [KIND, SECOND])
def test_it_keeps_the_laws_of_kinds(built, kind):
    run(built["test_mixers"], kind, cwd=BUILD)


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


# --- a folder of another program

WIDTH, COLUMNS, LAYERS, BYTES = 32, 64, 2, 256
BLOCK = {"norm1": "attn_norm", "norm2": "mlp_norm", "attn.q": "attn.q_proj", "attn.k": "attn.k_proj", "attn.v": "attn.v_proj",
         "attn.out": "attn.o_proj", "ff.gate": "mlp.gate_proj", "ff.up": "mlp.up_proj", "ff.down": "mlp.down_proj"}
AROUND = {"embed.token": "model.embeddings", "final_norm": "model.norm", "head": "lm_head"}


def shape_of(name):
    rows = {"embed.token": BYTES, "head": BYTES, "ff.gate": COLUMNS, "ff.up": COLUMNS}.get(name, WIDTH)
    return [WIDTH] if "norm" in name else [rows, COLUMNS if name == "ff.down" else WIDTH]


def names_of_both():
    """(our name, theirs, shape)"""
    for own, theirs in AROUND.items():
        yield f"{own}.weight", f"{theirs}.weight", shape_of(own)
    for i in range(LAYERS):
        for own, theirs in BLOCK.items():
            yield f"layers.{i}.{own}.weight", f"model.layers.{i}.{theirs}.weight", shape_of(own)


@pytest.fixture
def both(tmp_path):
    """The same weights as Linnet's own folder and as one of the page's reader."""
    rng, own, theirs = random.Random(5), {}, {}
    for name, other, shape in names_of_both():
        data = array("f", [rng.gauss(1 if len(shape) == 1 else 0, 0.2) for _ in range(math.prod(shape))]).tobytes()
        own[name] = theirs[other] = (shape, data)
    sizes = {"n_layers": LAYERS, "n_heads": 4, "d_model": WIDTH, "d_ff": COLUMNS}
    config = {"format": "linnet", "format_version": 1, "task": "text", **sizes, "norm": "pre", "norm_kind": "rms", "norm_eps": 1e-6,
              "activation": "relu", "attention": {"kind": SECOND, "half_life": 9}, "feed_forward": {"kind": "gated_mlp"},
              "inputs": [{"name": "token", "size": BYTES}], "head": {"kind": "categorical", "size": BYTES, "bias": False},
              "text": {"tokenizer": "bytes", "context": 300}}
    other = {"model_type": SECOND, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_heads": 4, "intermediate_size": COLUMNS,
             "half_life": 9, "vocab_size": BYTES, "max_position_embeddings": 300}
    for name, conf, tensors in (("own", config, own), ("theirs", other, theirs)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(conf))
        hf_model.write_safetensors(tmp_path / name / "model.safetensors", tensors)
    return tmp_path


def test_a_folder_of_another_program_is_read(linnet, both):
    fields = {"prompt": "Once upon", "max_tokens": 30, "seed": 3}
    with Server("--models", both) as s:
        own, theirs = (complete_ok(s.port, model=model, **fields)["choices"][0]["text"] for model in ("own", "theirs"))
    assert own == theirs


def test_a_key_that_the_reader_does_not_take_is_refused(linnet, both):
    config = both / "theirs/config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"quarter_life": 1}))
    done = subprocess.run([linnet, "inspect", both / "theirs"], capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode == 1 and "quarter_life is not a known key" in done.stderr, done.stderr


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


@pytest.mark.skipif(not all(map(importlib.util.find_spec, TRAINERS)), reason="there is no PyTorch, or another package of the recipes")
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
