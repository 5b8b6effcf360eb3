"""The manual pages and the completions, which the build makes of the program's tables of options."""

import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

from server import environment, run
from settings import LINNET

MANUAL = LINNET.parent / "manual"
COMMANDS = re.findall(r"^  ([a-z]+) ", run("--help").stdout, re.MULTILINE)
ROW = re.compile(r"^\| `--(\[no-\])?([\w-]+)[^`]*`(?:, `-(\w)`)? \|[^|]*\|[^|]*\| ((?:\\\||[^|])*) \|", re.MULTILINE)


def options(command):
    """[(negatable, name, letter, words of a choice)] as --help=markdown has them."""
    rows = ROW.findall(run(command, "--help=markdown").stdout)
    assert rows
    return [(bool(no), name, letter, allowed.split(r"\|") if r"\|" in allowed else [])
            for no, name, letter, allowed in rows]


def flags(command):
    return {flag for no, name, _, _ in options(command)
            for flag in ([f"--{name}", f"--no-{name}"] if no else [f"--{name}"])}


def tool(name):
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name} here")
    return name


def test_every_command_has_a_page():
    assert len(COMMANDS) >= 7
    pages = {p.name for p in (MANUAL / "man1").iterdir()}
    assert pages == {"linnet.1", *(f"linnet-{command}.1" for command in COMMANDS)}
    program = (MANUAL / "man1/linnet.1").read_text()
    for command in COMMANDS:
        assert program.count(f".BR linnet\\-{command} (1)") == 2  # listed, and seen also


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_has_every_option(command):
    page = (MANUAL / f"man1/linnet-{command}.1").read_text()
    for no, name, letter, words in options(command):
        head = f"\\fB\\-\\-{name.replace('-', chr(92) + '-')}\\fR"
        (line,) = [line for line in page.splitlines() if head in line and "no\\-" not in line.split(head)[0]]
        assert ("\\-\\-no\\-" in line) == no
        assert line.startswith(f"\\fB\\-{letter}\\fR, ") == bool(letter)
        assert ", ".join(words) in page


@pytest.mark.parametrize("page", ["linnet", *(f"linnet-{command}" for command in COMMANDS)])
def test_troff_finds_no_fault(page):
    path = MANUAL / f"man1/{page}.1"
    said = subprocess.run([tool("man"), "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path], capture_output=True,
                          text=True, timeout=60, env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
    assert said.returncode == 0 and said.stderr == ""
    assert said.stdout.startswith("x T utf8")


@pytest.mark.parametrize("page", ["linnet", *(f"linnet-{command}" for command in COMMANDS)])
def test_mandoc_finds_no_error(page):
    """Errors: it warns of the missing date, which is meant, and of a missing page's style."""
    said = subprocess.run([tool("mandoc"), "-T", "lint", "-W", "error", MANUAL / f"man1/{page}.1"], capture_output=True,
                          text=True, timeout=60)
    assert said.returncode == 0, said.stdout


# --- bash

ASK = """
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_linnet linnet
printf '%s\\n' "${COMPREPLY[@]}"
"""


def bash(*words, cwd=None):
    """The words that bash offers for the last one."""
    result = subprocess.run(["bash", "--norc", "-c", ASK, "ask", MANUAL / "linnet.bash", "linnet", *words], cwd=cwd,
                            capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    return set(result.stdout.split("\n")) - {""}


def test_bash_is_told_of_the_function():
    result = subprocess.run(["bash", "--norc", "-c", 'source "$1" && complete -p linnet', "ask", MANUAL / "linnet.bash"],
                            capture_output=True, text=True, timeout=60)
    assert result.stdout == "complete -F _linnet linnet\n"


def test_shellcheck_finds_no_fault():
    said = subprocess.run([tool("shellcheck"), MANUAL / "linnet.bash"], capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stdout


def test_bash_offers_commands():
    assert bash("") == {*COMMANDS, "--help", "--version"}
    assert bash("in") == {"inspect"}
    assert bash("nothing", "--") == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_bash_offers_every_option_and_word(command):
    assert bash(command, "--") == flags(command) | {"--help"}
    for no, name, letter, words in options(command):
        if words:
            assert bash(command, f"--{name}", "") == set(words)
            assert bash(command, f"--{name}", "=") == set(words)  # as bash divides --name=
            assert bash(command, f"--{name}", "=", words[0]) == {w for w in words if w.startswith(words[0])}
        if not no and letter:
            assert bash(command, f"-{letter}", "") == bash(command, f"--{name}", "")


def test_bash_offers_files_and_folders(tmp_path):
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a file").touch()
    assert bash("inspect", "--model", "a", cwd=tmp_path) == {"a folder"}
    assert bash("inspect", "a", cwd=tmp_path) == {"a folder"}
    assert bash("eval", "a", cwd=tmp_path) == {"a folder", "a file"}
    assert bash("generate", "--png", "a", cwd=tmp_path) == {"a folder", "a file"}
    assert bash("serve", "--port", "", cwd=tmp_path) == set()
    assert bash("eval", "--", "--", cwd=tmp_path) == set()


# --- zsh

@pytest.fixture
def zsh():
    """An interactive zsh with the completions of the build: a function from the typed keys to the resulting line."""
    master, slave = pty.openpty()
    shell = subprocess.Popen([tool("zsh"), "-f", "-i"], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                             env={**environment(), "TERM": "dumb", "PS1": "", "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"})
    os.close(slave)

    def until(pattern):
        seen, end = "", time.monotonic() + 60
        while not re.search(pattern, seen):
            left = end - time.monotonic()
            assert left > 0 and select.select([master], [], [], left)[0], f"{pattern} did not come: {seen}"
            seen += os.read(master, 65536).decode(errors="replace")
        return seen

    def typed(text, pattern):
        os.write(master, text.encode())
        until(pattern)
        os.write(master, b"\x15")  # the line is taken back

    try:
        os.write(master, f"fpath=({MANUAL} $fpath); autoload -U compinit; compinit -u -D; print re''ady\n".encode())
        until(r"\nready")
        yield typed
    finally:
        shell.kill()
        shell.wait()
        os.close(master)


def test_zsh_reads_the_file():
    said = subprocess.run([tool("zsh"), "-n", MANUAL / "_linnet"], capture_output=True, text=True, timeout=60)
    assert said.returncode == 0 and said.stderr == "", said.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_zsh_has_every_option(command):
    text = (MANUAL / "_linnet").read_text()
    part = re.search(rf"^        {command}\)\n(.*?)^        ;;", text, re.MULTILINE | re.DOTALL)[1]
    assert set(re.findall(r"^ +'\([^)]*\)(--[\w-]+)", part, re.MULTILINE)) == flags(command)
    for _, name, letter, words in options(command):
        assert not letter or re.search(rf"\)-{letter}\+?\[", part), name
        assert " ".join(words) in part


def test_zsh_completes(zsh):
    zsh("linnet inspe\t", r"linnet inspect ")
    zsh("linnet serve --log-lev\t", r"--log-level=")
    zsh("linnet serve --log-level inf\t", r"--log-level info ")
    zsh("linnet generate --no-rul\t", r"--no-rules ")
