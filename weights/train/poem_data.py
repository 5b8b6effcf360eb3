"""Reads the file of poems: a poem a line, kind TAB author TAB title TAB text."""

import lzma
import pathlib

from unfit import Unfit

GIVEN = "》"  # ends the title in a document


def read_poems(path: pathlib.Path) -> list[tuple[str, str, str]]:
    """Kind, title and text of each."""
    poems = []
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            parts = line.rstrip("\n").split("\t")
            if len(parts) != 4 or not parts[3] or GIVEN in parts[2] + parts[3]:
                raise Unfit(f"{path}:{number}: it is not kind TAB author TAB title TAB text, without {GIVEN}")
            poems.append((parts[0], parts[2], parts[3]))
    return poems
