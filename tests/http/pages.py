"""Documents that are tried literally: the commands of a page, and an environment in which they are those under test."""

import os
import re
import shlex
import sys
from pathlib import Path

from settings import LINNET, ROOT


def commands(page):
    """The lines of its blocks of shell commands."""
    text = (ROOT / "docs" / page).read_text()
    return [line for block in re.findall(r"```sh\n(.*?)```", text, re.S) for line in block.splitlines()]


def environment(place):
    """`linnet` and `python3` are those under test; a Python script gets the program of CHECK_LINNET as --linnet."""
    tools = place / "tools"
    if not tools.exists():
        tools.mkdir()
        (tools / "linnet").symlink_to(Path(LINNET).resolve())
        (tools / "python3").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@" ${{CHECK_LINNET:+--linnet "$CHECK_LINNET"}}\n')
        (tools / "python3").chmod(0o755)
    return os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"}


def environment_of(line, place):
    return environment(place) | ({"CHECK_LINNET": str(Path(LINNET).resolve())} if "check.py" in line else {})
