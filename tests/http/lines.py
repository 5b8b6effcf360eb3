"""Upper lines to ask for: the official test pairs where the data set is at hand, own lines else."""

import lzma
import os
from pathlib import Path

from settings import ROOT

HERE = Path(__file__).resolve().parent
OWN = [line for line in (HERE / "lines.txt").read_text("utf-8").split("\n") if line]
TEST_PAIRS = 4000


def data_file():
    """test.tsv.xz of the couplet data, or None."""
    roots = [os.environ.get("LINNET_DATA"), ROOT.parent / "shared" / "data"]
    for root in filter(None, roots):
        path = Path(root) / "couplet" / "test.tsv.xz"
        if path.exists():
            return path
    return None


def official():
    """The upper lines of the official test pairs, None without the data."""
    path = data_file()
    if path is None:
        return None
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
