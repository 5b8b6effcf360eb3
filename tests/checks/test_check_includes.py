"""scripts/check-includes finds planted faults: an arrow up, a circle of includes or of calls, a file directly in
server/, a library in the wrong folder, and files and functions that are too long."""

import subprocess
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture
def rules():
    loader = SourceFileLoader("check_includes", str(SCRIPTS / "check-includes"))
    module = ModuleType("check_includes")
    module.__file__ = str(SCRIPTS / "check-includes")
    exec(loader.get_code("check_includes"), module.__dict__)
    return module


# --- sizes


def in_c(lines):
    return "/* Why. */\nstatic int f(int a,\n             int b)\n{\n" + "    a += b;\n" * (lines - 4) + "}\n"


def in_python(lines):
    return "def f(a,\n      b):\n" + "    a += b\n" * (lines - 2)


def in_javascript(lines):
    return "const f = (a) => {\n" + "  a += 1;\n" * (lines - 2) + "};\n"


def of_a_class(lines):
    return "class A {\n  async f(a) {\n" + "    a += 1;\n" * (lines - 2) + "  }\n}\n"


def in_shell(lines):
    return "f() {\n" + "    a=1\n" * (lines - 2) + "}\n"


@pytest.mark.parametrize("lines, found", [(60, False), (61, True), (200, True)])
def test_functions_are_measured_with_their_head(rules, lines, found):
    rules.check_size("server/a.c", "int x;\n\n" + in_c(10) + "\n" + in_c(lines))
    assert rules.faults == ([f"server/a.c:16: a function of {lines} lines"] if found else [])


@pytest.mark.parametrize("name, make", [("kernels/a.cu", in_c), ("kernels/a.cuh", in_c), ("tests/a.cpp", in_c), ("weights/a.py", in_python),
                                        ("web/a.js", in_javascript), ("web/a.js", of_a_class), ("tests/a.sh", in_shell)])
def test_functions_of_every_language_are_measured(rules, name, make):
    rules.check_size(name, make(60))
    assert rules.faults == []
    rules.check_size(name, make(61))
    assert len(rules.faults) == 1 and "a function of 61 lines" in rules.faults[0]


def test_scripts_are_known_by_their_first_line(rules):
    rules.check_size("scripts/a", "#!/usr/bin/env python3\n" + in_python(61))
    rules.check_size("scripts/b", "#!/usr/bin/env bash\n" + in_shell(61))
    assert [fault.split(":")[0] for fault in rules.faults] == ["scripts/a", "scripts/b"]
    names = rules.tracked()
    assert {"scripts/sbom", "scripts/test", "tests/fuzz/run", "web/app.js", "kernels/cpu/body.h", "Dockerfile"} & set(names) == {
        "scripts/sbom", "scripts/test", "tests/fuzz/run", "web/app.js", "kernels/cpu/body.h"}


@pytest.mark.parametrize("name", ["server/a.c", "tests/http/test_a.py", "web/a.css", "scripts/a"])
def test_files_are_measured(rules, name):
    rules.check_size(name, "\n" * 800)
    assert rules.faults == []
    rules.check_size(name, "\n" * 801)
    assert rules.faults == [f"{name}: 801 lines"]


# --- includes of a folder


@pytest.mark.parametrize("name, included, words", [
    ("kernels/cpu/a.c", "model/model.h", "kernels/cpu/ may not include model/model.h"),
    ("model/tasks/a.c", "server/engine/engine.h", "model/tasks/ may not include server/engine/engine.h"),
    ("server/engine/a.c", "server/api/answer.h", "server/engine/ may not include server/api/answer.h"),
    ("server/http/a.c", "server/json/json.h", "server/http/ may not include"),
    ("common/a.c", "kernels/kernels.h", "common/ may not include"),
    ("kernels/ops/norm/op.c", "model/model.h", "kernels/ops/ may not include"),
    ("server/new/a.c", "common/status.h", "server/new/ has no row"),
    ("model/a.c", "../server/main.h", "includes are named from the root"),
])
def test_an_arrow_up_is_found(rules, name, included, words):
    rules.check_own(name, included)
    assert len(rules.faults) == 1 and words in rules.faults[0]


def test_arrows_down_are_let_be(rules):
    for name, included in (("server/engine/a.c", "model/model.h"), ("model/a.c", "kernels/kernels.h"), ("kernels/cpu/a.c", "common/status.h"),
                           ("server/main.c", "server/cli/cli.h"), ("tests/unit/a.c", "server/engine/internal.h")):
        rules.check_own(name, included)
    assert rules.faults == []


def test_no_row_leads_up(rules):
    """By the folders' own rows: the one order in which every folder comes after the folders that it may include; some
    folders make one layer together."""
    layers = ["common", "kernels", "model", "server/engine", "server/speech", "server/registry", "server/states", "server/json",
              "server/api", "server/routes", "server/cli", "server"]

    def layer(folder):
        return max((i for i, name in enumerate(layers) if folder == name or folder.startswith(f"{name}/") and name != "server"), default=-1)

    low = {"server/http": 0, "server/auth": 0}  # they know common alone
    for folder, others in rules.MAY.items():
        for other in others:
            assert low.get(other, layer(other)) <= low.get(folder, layer(folder)), f"{folder} may include {other}"
    assert all(low.get(folder, layer(folder)) >= 0 for folder in rules.MAY)


def test_a_library_elsewhere_is_found(rules):
    rules.check_library("server/engine/a.c", "microhttpd.h")
    rules.check_library("server/http/a.c", "microhttpd.h")
    assert len(rules.faults) == 1 and "server/engine/a.c" in rules.faults[0]


@pytest.mark.parametrize("included, words", [
    ({"a.h": ["b.h"], "b.h": ["c.h"], "c.h": ["a.h"]}, "files include each other in a circle: a.h -> b.h -> c.h -> a.h"),
    ({"x_internal.h": ["y_internal.h"], "y_internal.h": ["x_internal.h"]}, "files include"),  # of any kind
    ({"kernels/op.h": ["kernels/op.h"]}, "files include"),
    ({"a.c": ["b.h"], "b.c": ["a.h"]}, "modules include each other in a circle: a -> b -> a"),
])
def test_a_circle_is_found(rules, included, words):
    rules.check_circles(included)
    assert any(words in fault for fault in rules.faults), rules.faults


def test_a_module_and_its_inside_are_no_circle(rules):
    rules.check_circles({"a.c": ["a.h", "b.h", "internal.h"], "b.c": ["b.h", "internal.h"], "internal.h": ["a.h"], "b.h": []})
    assert rules.faults == []


# --- circles of calls


def build(folder, sources):
    """An object for each source, where CMake puts it."""
    objects = folder / "CMakeFiles" / "a.dir" / "server" / "a"
    objects.mkdir(parents=True)
    for name, text in sources.items():
        (folder / name).write_text(text)
        subprocess.run(["cc", "-c", folder / name, "-o", objects / f"{name}.o"], check=True, timeout=60)
    return [f"server/a/{name}" for name in sources]


RING = {"a.c": "void b(void); void a(void) { b(); }", "b.c": "void c(void); void b(void) { c(); }",
        "c.c": "void a(void); void c(void) { a(); }", "d.c": "void a(void); void d(void) { a(); }"}


def test_a_planted_circle_of_calls_is_found(rules, tmp_path):
    rules.check_build(tmp_path, True, build(tmp_path, RING))
    assert rules.faults == ["files call each other in a circle: server/a/a.c, server/a/b.c, server/a/c.c",
                            "    server/a/a.c -> server/a/b.c: b", "    server/a/b.c -> server/a/c.c: c",
                            "    server/a/c.c -> server/a/a.c: a"]


def test_calls_of_one_direction_are_let_be(rules, tmp_path):
    rules.check_build(tmp_path, True, build(tmp_path, RING | {"c.c": "static void a(void) {} void c(void) { a(); }"}))
    assert rules.faults == []


def test_a_registry_of_tables_is_no_circle(rules, tmp_path):
    kinds = {"list.c": "struct kind { void (*f)(void); }; extern const struct kind k; const struct kind *all[] = {&k};"
                       "void help(void) {}",
             "kind.c": "struct kind { void (*f)(void); }; void help(void); static void f(void) { help(); }"
                       "const struct kind k = {f};"}
    rules.check_build(tmp_path, True, build(tmp_path, kinds))
    assert rules.faults == []


def test_objects_of_tests_and_of_deleted_files_do_not_count(rules, tmp_path):
    names = build(tmp_path, RING)
    rules.check_build(tmp_path, True, names[1:])
    assert rules.faults == []


def test_an_allowed_circle_is_let_be_and_the_list_is_short(rules):
    calls = {"a.c": {"b.c": ["b"]}, "b.c": {"a.c": ["a"]}}
    rules.check_calls(calls, {("a.c", "b.c"): "why"})
    assert rules.faults == []
    rules.check_calls(calls, {("a.c", "c.c"): "why"})
    assert len(rules.faults) == 3
    rules.faults.clear()
    rules.check_calls({}, {(str(i),): "why" for i in range(6)})
    assert rules.faults == ["scripts/check-includes: CALL_CIRCLES has 6 entries, 5 are allowed"]


def test_a_build_that_is_named_must_have_objects(rules, tmp_path, capsys):
    rules.check_build(tmp_path, False, ["server/a/a.c"])
    assert rules.faults == [] and "circles of calls were not checked" in capsys.readouterr().out
    rules.check_build(tmp_path, True, ["server/a/a.c"])
    assert rules.faults == [f"{tmp_path}: no objects of the product: build it first"]


# --- limits of a file


@pytest.mark.parametrize("name, text, words", [
    ("server/other.c", "int x;", "belongs into one of the folders of server/"),
    ("server/engine/a.c", "    exit(1);", "only server/main.c ends the process"),
    ("model/a.c", "    strcpy(a, b);", "an unbounded string function"),
])
def test_what_a_file_must_not_do(rules, name, text, words):
    rules.check_text(name, text)
    assert len(rules.faults) == 1 and words in rules.faults[0]


def test_main_may(rules):
    rules.check_text("server/main.c", "    exit(1);")
    assert rules.faults == []
