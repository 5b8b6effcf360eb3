"""Upper lines to ask for: own ones, and those of the official test pairs where LINNET_DATA names their folder."""

import lzma
import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
OWN = [line for line in (HERE / "lines.txt").read_text("utf-8").split("\n") if line]
TEST_PAIRS = 4000


def official():
    """The upper lines of the official test pairs, None where no data was given."""
    folder = os.environ.get("LINNET_DATA")
    if not folder:
        return None
    path = Path(folder) / "couplet" / "test.tsv.xz"
    with lzma.open(path, "rt", encoding="utf-8") as pairs:
        uppers = [line.split("\t")[0] for line in pairs]
    assert len(uppers) == TEST_PAIRS, path
    return uppers


def of_length(n):
    """An own line of exactly n characters."""
    return next(line for line in OWN if len(line.strip()) == n).strip()


def mixed(count):
    """`count` own lines of mixed lengths; they repeat when there are not enough."""
    return [OWN[(i * 37) % len(OWN)] for i in range(count)]
