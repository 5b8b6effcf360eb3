"""scripts/check-prose finds each phrase that it bans, counts each pattern of hard English, and holds folders to limits."""

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

BANNED = [
    "/* Who asks for it waits. */", "// whoever comes next is first", "The reader is told so.", "They were told.",
    "an event that tells of a state", "what was told about it", "Nobody uses it.", "somebody else's",
    "room for everybody", "is anybody there", "as lx_plan has it", "# as config.json says it", "computed in vain",
    "a request that is gone on with", "many rows a step", "it asks ahead", "a drawn id",
]
GOOD = [
    "int nobody_waits = everybody_else;", "the caller asks", "see lx_plan", "a client that reads slowly", "told = read();",
    "who it is", "rows per step", "a foretold end", "A continued request", "as it has",
]
COUNTED = {
    "what": "It frees what it has.", "What first": "What comes first is read.", "those that": "Those that wait are freed.",
    "likewise": "States likewise.", "behind": "The row behind it.", "beside": "Faster beside PyTorch.",
    "of one": "The bytes of one are freed.", "a for per": "It writes 12 bytes a token.", "the same": "The rest is the same.",
    "long": "a word " * 16,
}
NOT_COUNTED = [
    "What is a slot?", "It runs behind a proxy.", "The bytes of one slot.", "It reads a token.", "The same bytes.", "a word " * 15,
    "It names `what it is`.", "1 of 5 models",
]


def run(tmp_path, text):
    path = tmp_path / "text.md"
    path.write_text(text, encoding="utf-8")
    return subprocess.run([sys.executable, SCRIPTS / "check-prose", path], capture_output=True, text=True, timeout=60,
                          check=False)


@pytest.fixture
def prose():
    module = ModuleType("check_prose")
    module.__file__ = str(SCRIPTS / "check-prose")
    exec(SourceFileLoader("check_prose", module.__file__).get_code("check_prose"), module.__dict__)
    return module


@pytest.mark.parametrize("line", BANNED)
def test_found(tmp_path, line):
    result = run(tmp_path, f"A plain line.\n{line}\n")
    assert result.returncode == 1 and ":2: " in result.stdout, result.stdout


@pytest.mark.parametrize("line", GOOD)
def test_left_alone(tmp_path, line):
    result = run(tmp_path, line + "\n")
    assert result.returncode == 0, result.stdout


def test_a_reason_lets_a_line_be(tmp_path):
    assert run(tmp_path, "the user nobody  # check-prose: its name\n").returncode == 0
    assert run(tmp_path, "the user nobody  # check-prose:\n").returncode == 1


def test_every_pattern_has_an_example(prose):
    assert set(COUNTED) == set(prose.PATTERNS)


@pytest.mark.parametrize("pattern, sentence", COUNTED.items())
def test_counted(prose, pattern, sentence):
    assert prose.findings_of(sentence) == [pattern]


@pytest.mark.parametrize("sentence", NOT_COUNTED)
def test_not_counted(prose, sentence):
    assert prose.measure("page.md", sentence)[1] == []


@pytest.mark.parametrize("name, text, line", [
    ("a.md", "# Head\n\n```\nwhat is it\n```\n\nIt is\n- likewise\n", 8),
    ("a.md", "| a | b |\n| --- | --- |\n| x | likewise |\n", 3),
    ("a.c", 'int x;\n/* Frees.\n *\n * Likewise. */\nputs("likewise");\n', 4),
    ("a.c", '// One line.\n// Two, likewise.\n', 1),
    ("a.c", "int a; // One row.\nint b; // Likewise.\n", 2),
    ("a.py", "a = 1  # One row.\nb = 2  # Likewise.\n", 2),
    ("a.c", 'puts("It frees the state, "\n     "likewise.");\n', 1),
    ("a.c", 'puts("{\\"key\\": \\"a text that is likewise data\\"}");\n// Likewise.\n', 2),
    ("a.py", 'x = "a text that is likewise not prose here"\n\ndef f():\n    """Likewise."""\n', 4),
    ("run", "#!/bin/sh\n# Likewise.\necho likewise\n", 2),
    ("run", "#!/bin/sh\n# run A    the first\n# run B    likewise\n", 3),
    ("a.json", '{"name": "likewise",\n "description": "likewise"}', 2),
    ("a.html", "<p>one</p>\n<script>likewise</script>\n<p>Text, <b>likewise</b></p>\n", 3),
])
def test_the_prose_of_a_file(prose, name, text, line):
    words, found = prose.measure(name, text)
    assert [(number, patterns) for number, _, patterns in found] == [(line, ["likewise"])] and words


def test_a_folder_above_its_limit_fails(prose, tmp_path, capsys):
    subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=60)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("one two three likewise\n")
    (tmp_path / "b.md").write_text("plain words\n")
    prose.ROOMS[:] = [("", 0), ("docs/", 250)]
    assert not prose.check_tree(tmp_path, True) and "| docs/ | 4 |" in capsys.readouterr().out
    prose.ROOMS[:] = [("", 0), ("docs/", 249)]
    assert prose.check_tree(tmp_path, False) and "docs/: 250.0 findings per 1,000 words" in capsys.readouterr().out


def test_equations_are_no_sentences(prose):
    terms = "a b c d e " * 4
    assert not prose.measure("a.h", f"/*\n * With rows\n *\n * x = {terms}\n * y = {terms}\n *     {terms}\n * of a slot. */\n")[1]
    assert [p for *_, p in prose.measure("a.h", f"/* With {terms}\n * {terms} */\n")[1]] == [["long"]]
