"""Reads a file of lines, packed by xz or not."""

import lzma
import pathlib
from collections.abc import Iterator

from unfit import Unfit


def lines_file(folder: pathlib.Path, name: str) -> pathlib.Path:
    """The file of that name, or NAME.xz; only one of the two may be there."""
    found = [path for path in (folder / f"{name}.xz", folder / name) if path.is_file()]
    if len(found) != 1:
        raise Unfit(f"{folder} has {'both' if found else 'neither'} {name} {'and' if found else 'nor'} {name}.xz")
    return found[0]


def read_lines(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Each line with its number, from 1, without the ends and the first mark that Windows writes; a line that is no UTF-8, or is
    cut off, is Unfit."""
    number = 0
    try:
        with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(file, 1):
                yield number, line.rstrip("\r\n")
    except (lzma.LZMAError, EOFError) as error:
        raise Unfit(f"{path} cannot be unpacked: {error}") from error
    except UnicodeDecodeError as error:
        raise Unfit(f"{path} is not UTF-8 after line {number}") from error
