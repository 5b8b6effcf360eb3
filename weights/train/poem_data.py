"""Reads the file of poems: a poem a line, kind TAB author TAB title TAB text."""

import pathlib

from text_lines import read_lines
from unfit import Unfit

GIVEN = "》"  # ends the title in a document


def read_poems(path: pathlib.Path) -> list[tuple[str, str, str]]:
    """Kind, title and text of each."""
    poems = []
    for number, line in read_lines(path):
        parts = line.split("\t")
        if len(parts) != 4 or not parts[3] or GIVEN in parts[2] + parts[3]:
            raise Unfit(f"{path}:{number}: it is not kind TAB author TAB title TAB text, without {GIVEN}")
        poems.append((parts[0], parts[2], parts[3]))
    return poems
