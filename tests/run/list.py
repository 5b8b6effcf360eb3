#!/usr/bin/env python3
"""Prints the Python test files with their markers and the first sentence of their docstrings: tests/run/list.py [FOLDER...]

    --marked NAME    only the paths of the files with a test of this marker, one per line
"""

import argparse
import ast
import re
import signal
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ["tests/http", "tests/browser", "tests/deploy", "tests/checks"]
MARKER = re.compile(r"\bmark\.(\w+)")
BUILT_IN = {"parametrize", "skip", "skipif", "xfail", "usefixtures", "timeout"}


def describe(path):
    """(markers, first sentence) of a test file."""
    text = path.read_text()
    sentence = " ".join((ast.get_docstring(ast.parse(text)) or "").split())
    markers = sorted(set(MARKER.findall(text)) - BUILT_IN)
    return markers, re.split(r"(?<=[.;]) ", sentence, maxsplit=1)[0].rstrip(";")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    parser.add_argument("--marked")
    arguments = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it without a word
    for path in (p for folder in arguments.folders for p in sorted((ROOT / folder).glob("test_*.py"))):
        markers, sentence = describe(path)
        name = path.relative_to(ROOT)
        if arguments.marked is None:
            print(f"{name}{' [' + ', '.join(markers) + ']' if markers else ''}\n    {sentence}")
        elif arguments.marked in markers:
            print(name)


if __name__ == "__main__":
    main()
