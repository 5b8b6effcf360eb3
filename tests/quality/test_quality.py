"""The shipped couplet model on upper.tsv: its pools keep the limits, and are better than plain samples."""

import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "http")]

import measure
import poems
from server import Server
from settings import ROOT

DATA = os.environ.get("LINNET_DATA")
# Least and most of all 200 lines; tests/quality/README.md explains the scores.
LIMITS = {"likely": (-1.35, 0), "tone": (0.97, 1), "distinct": (0.99, 1), "openings": (4.4, 5), "stock": (0, 0.1)}


@pytest.fixture(scope="module")
def scores():
    known = measure.read_known(pathlib.Path(DATA) / "couplet" / "train.tsv.xz") if DATA else set()
    with Server() as server:
        url = f"http://127.0.0.1:{server.port}"
        yield [measure.measure(measure.collect(url, plain, seed=1), known)["all"] for plain in (False, True)]


def test_lines_are_of_all_kinds():
    kinds = [kind for kind, _ in measure.read_lines()]
    assert len(kinds) == len({line for _, line in measure.read_lines()}) == 200
    assert all(kinds.count(kind) >= 20 for kind in set(kinds)) and len(set(kinds)) == 7


def test_rank_correlations_are_those_of_grades(tmp_path):
    assert measure.spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert measure.spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert measure.spearman([1, 1, 1], [1, 2, 3]) == 0
    assert measure.ranks([5, 7, 5]) == [1.5, 3, 1.5]
    table = measure.read_tones()
    assert measure.tones_of("春风，月a", table) == "平平，仄a"
    (tmp_path / "grades.tsv").write_text("春风\t秋月\t3\n春风\t花开\t1\tremark\n", encoding="utf-8")
    rows = measure.read_grades(tmp_path / "grades.tsv")
    assert measure.graded_scores(rows, {"moon": lambda upper, lower: "月" in lower}) == {"moon": (1.0, 1.0)}
    (tmp_path / "wrong.tsv").write_text("春风\t秋月\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="wrong.tsv:1"):
        measure.read_grades(tmp_path / "wrong.tsv")


def test_agreement_compares_answers_to_one_line():
    rows = [("春", "秋", 3), ("春", "花", 1), ("春", "月", 1), ("山", "水", 0), ("天", "地", 2), ("天", "人", 0)]
    assert measure.agreement(rows, [3, 2, 1, 9, 0, 5]) == pytest.approx(2 / 3)
    assert measure.agreement(rows, [1, 1, 1, 0, 1, 0]) == pytest.approx(2 / 3)
    assert measure.agreement(rows[:1], [1]) == 0


def test_first_answers_are_graded():
    found = [{"line": line, "choices": [{"text": first}, {"text": "水"}]} for line, first in (("春", "秋"), ("山", "海"), ("天", "人"))]
    rows = [("春", "秋", 3), ("天", "人", 0), ("山", "水", 2)]
    assert measure.first_grades(found, rows) == {"graded": 2, "mean": 1.5, "good": 0.5, "nonsense": 0.5}
    assert measure.first_grades(found[1:2], rows) == {"graded": 0}


def test_grades_are_of_the_lines_here():
    rows = measure.read_grades(HERE / "grades.tsv")
    lines = {line for _, line in measure.read_lines()}
    assert all(upper in lines and len(upper) == len(lower) and grade in (0, 1, 2, 3) for upper, lower, grade in rows)
    assert len({row[:2] for row in rows}) == len(rows) > 1500


@pytest.mark.parametrize("name", LIMITS)
def test_limits(scores, name):
    least, most = LIMITS[name]
    assert least <= scores[0][name] <= most, scores


def test_pools_are_better(scores):
    pooled, plain = scores
    for name in ("likely", "tone", "openings"):
        assert pooled[name] > plain[name], scores


def test_few_first_answers_are_lines_of_the_data(scores):
    if not DATA:
        pytest.skip("LINNET_DATA names no folder with couplet/train.tsv.xz")
    assert scores[0]["known"] <= 0.15


# --- poems ---


@pytest.fixture(scope="module")
def poem_scores():
    with Server(model_dir=ROOT / "weights/poem") as server:
        url = f"http://127.0.0.1:{server.port}"
        yield [poems.mean_scores(url, poems.collect(url, plain, seed=1)) for plain in (False, True)]


def test_poems_of_pools_are_better(poem_scores):
    pooled, plain = poem_scores
    for name in ("likely", "fits", "fresh", "rhymes"):
        assert pooled[name] > plain[name], poem_scores
    assert pooled["likely"] > -2.3 and pooled["rhymes"] >= 0.9, poem_scores


@pytest.mark.parametrize("poem, heard", [("床前明月光，疑是地上霜。举头望明月，低头思故乡。", True),
                                         ("床前明月光，疑是地上霜。举头望明月，低头思故人。", False),
                                         ("床前明月光，疑是地上霜。举头望明月，低头思故霜。", False)])
def test_rhymes_are_those_of_modern_mandarin(poem, heard):
    assert poems.rhymes(poem, poems.read_finals()) is heard


def test_titles_are_of_their_own():
    assert len(set(poems.read_titles())) == 40
