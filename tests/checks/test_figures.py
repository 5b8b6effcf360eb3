"""scripts/figures writes results into documents, finds documents that differ, and records the tables of a command."""

import json
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "figures"
RESULT = {"machine": "a machine", "commit": "1234abc", "command": "bench", "source": "an old page",
          "tables": {"decoding": {"head": ["n", "m", "ms", "kept"],
                                  "rows": [["1", "8", "1,234.5 (15.1x)", "97%"], ["2", "8", "3.25", "73%"]]}}}
FIGURES = {"ms": {"result": "r", "table": "decoding", "row": "1 | 8", "column": "ms"},
           "times": {"result": "r", "table": "decoding", "row": "1 | 8", "column": "ms", "number": 2},
           "short": {"result": "r", "table": "decoding", "row": "2", "column": "ms", "format": ".1f"},
           "no-row": {"result": "r", "table": "decoding", "row": "3", "column": "ms"},
           "no-column": {"result": "r", "table": "decoding", "row": "1", "column": "s"},
           "no-number": {"result": "r", "table": "decoding", "row": "1", "column": "ms", "number": 3}}


@pytest.fixture
def figures(tmp_path):
    module = ModuleType("figures")
    module.__file__ = str(SCRIPT)
    exec(SourceFileLoader("figures", module.__file__).get_code("figures"), module.__dict__)
    module.RESULTS = tmp_path
    (tmp_path / "r.json").write_text(json.dumps(RESULT))
    (tmp_path / "figures.json").write_text(json.dumps(FIGURES))
    return module


@pytest.mark.parametrize("name, text", [("ms", "1,234.5"), ("times", "15.1"), ("short", "3.2")])
def test_a_figure_is_written(figures, name, text):
    assert figures.generated(f"It takes <!-- figure: {name} -->9<!-- end --> ms.") == \
        f"It takes <!-- figure: {name} -->{text}<!-- end --> ms."


def test_a_table_and_its_machine_are_written(figures):
    page = '<!-- machine: r -->\n<!-- end -->\n\n<!-- table: r "decoding" -->\nold\n<!-- end -->\n'
    new = figures.generated(page)
    assert "\na machine, commit 1234abc: `bench`. Copied by hand from an old page, not recorded by the command.\n" in new
    assert "\n| n | m | ms | kept |\n| --- | ---: | ---: | ---: |\n| 1 | 8 | 1,234.5 (15.1x) | 97% |\n| 2 |" in new and "old\n<" not in new
    assert figures.generated(new) == new


def test_rows_of_a_table_are_chosen_by_a_column(figures):
    machine = '<!-- machine: r -->\n<!-- end -->\n'
    new = figures.generated(machine + '<!-- table: r "decoding" n=2 -->\n<!-- end -->')
    assert "\n| n | m | ms | kept |\n| --- | ---: | ---: | ---: |\n| 2 |" in new and "1,234.5" not in new
    with pytest.raises(figures.Fault, match="no column 'none'"):
        figures.generated(machine + '<!-- table: r "decoding" none=2 -->\n<!-- end -->')


@pytest.mark.parametrize("mark, fault", [
    ("figure: none", "no 'none'"), ("figure: no-row", "0 rows"), ("figure: no-column", "columns: n, m"),
    ("figure: no-number", "2 numbers"), ("machine: gone", "no docs/results/gone.json"),
    ('table: r "decoding"', "do not name their machine"),
])
def test_a_mark_without_its_result_is_a_fault(figures, mark, fault):
    with pytest.raises(figures.Fault, match=fault):
        figures.generated(f"<!-- {mark} -->\n<!-- end -->")


@pytest.mark.parametrize("commit", [{}, {"commit": ""}, {"commit": "not recorded"}, {"commit": "unknown commit"}, {"no_commit": ""}])
def test_a_result_without_a_commit_is_a_fault(figures, commit, monkeypatch):
    result = {key: value for key, value in RESULT.items() if key != "commit"}
    (figures.RESULTS / "old.json").write_text(json.dumps(result | commit))
    with pytest.raises(figures.Fault, match="old.json names no commit"):
        figures.machine_text("old")
    monkeypatch.setattr(sys, "argv", ["figures"])
    with pytest.raises(figures.Fault, match="old.json names no commit"):
        figures.main()


def test_a_reason_stands_for_an_unknown_commit(figures):
    result = {key: value for key, value in RESULT.items() if key != "commit"}
    (figures.RESULTS / "old.json").write_text(json.dumps(result | {"no_commit": "made by hand"}))
    assert "\na machine, commit unknown (made by hand): `bench`." in figures.machine_text("old")


PRINTED = """AMD, 2 cores, commit 12
# 1 core

Milliseconds per step (and more):

| a | b |
| --- | ---: |
| x | 1 |

mnist, 6796288 parameters:

 threads    batch      ms/step
       1        1        0.229
"""


def test_the_tables_of_a_command_are_recorded(figures, tmp_path, capsys):
    figures.record("new", [sys.executable, "-c", f"print({PRINTED!r})"])
    assert PRINTED in capsys.readouterr().out
    result = json.loads((tmp_path / "new.json").read_text())
    assert result["machine"] and result["commit"] and result["status"] == 0
    assert result["tables"] == {
        "1 core/milliseconds per step": {"head": ["a", "b"], "rows": [["x", "1"]]},
        "1 core/mnist, 6796288 parameters": {"head": ["threads", "batch", "ms/step"], "rows": [["1", "1", "0.229"]]}}


def test_the_peers_of_a_command_are_recorded_and_told(figures, tmp_path):
    """A comparison names the build of the other program next to its table."""
    figures.record("new", [sys.executable, "-c", f"print('peer: llama.cpp of x 1, built with AVX2\\n' + {PRINTED!r})"])
    assert json.loads((tmp_path / "new.json").read_text())["peers"] == ["llama.cpp of x 1, built with AVX2"]
    assert " Compared with llama.cpp of x 1, built with AVX2." in figures.machine_text("new")
    assert "Compared" not in figures.machine_text("r")


def test_a_command_without_a_table_is_a_fault(figures):
    with pytest.raises(figures.Fault, match="status 3 and printed no table"):
        figures.record("new", [sys.executable, "-c", "raise SystemExit(3)"])


def test_the_documents_of_the_tree_agree(figures):
    figures.RESULTS = figures.ROOT / "docs" / "results"
    sys.argv = ["figures"]
    assert not figures.main()
