"""The sets of tests/golden/visible.py, compared with the sets of tests/mixers that the program must have."""

import json
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "golden"))
from visible import SEES  # noqa: E402 (the line above says where)

HEADS = 4  # of the models of test_mixers.c


@pytest.mark.parametrize("kind", SEES)
def test_tokens_see_what_the_program_shows_them(kind):
    sets = 0
    for case in json.loads((TESTS / "mixers" / f"{kind}.json").read_text())["cases"]:
        own = {"n_heads": HEADS} | case["attention"]
        for i, seen in case.get("sees", {}).items():
            heads = [SEES[kind](own, head, int(i)) for head in range(own["n_heads"])]
            assert sorted(j for j in set.union(*heads) if 0 <= j <= int(i)) == seen, (own, i)
            sets += 1
    assert sets > 0
