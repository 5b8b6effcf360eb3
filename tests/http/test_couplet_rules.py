"""The judge itself: it must accept proper couplets and name the faults of wrong couplets."""

import pytest

from couplet_rules import broken_rules

PROPER = [
    ("海上明月", "天涯故人"),
    ("月", "风"),
    ("雪落梅花梅落雪", "风吹竹叶竹吹风"),
    ("山远云低，归舟一叶", "天高日暖，去雁几行"),
    ("山远云低,归舟一叶", "天高日暖，去雁几行"),
    ("  谁识春心?", "我知秋意？"),
    ("一二三", "〇花鸟"),
]

BROKEN = [
    ("海上明月", "天涯故", {"length"}),
    ("海上明月", "天涯故人人", {"length"}),
    ("海上明月", "", {"length"}),
    ("山远，云低", "天高日暖，"[:5], {"punctuation"}),
    ("山远云低", "天高，暖", {"punctuation"}),
    ("山远，云低", "天高、日暖", {"punctuation"}),
    ("谁识春心？", "我知秋意！", {"punctuation"}),
    ("雪落梅花梅落雪", "风吹竹叶竹吹雨", {"repetition"}),
    ("海上明月", "天天故人", {"repetition"}),
    ("海上明月", "月涯故人", {"shared"}),
    ("海上明月", "海上明月", {"shared"}),
    ("海上明月", "天涯故\ufffd", {"unknown"}),
    ("海上明月", "天涯故a", {"unknown"}),
    ("海上明月", "天涯\U0001f600人", {"unknown"}),
]


@pytest.mark.parametrize("upper, lower", PROPER)
def test_proper_couplets_pass(upper, lower):
    assert broken_rules(upper, lower) == set()


@pytest.mark.parametrize("upper, lower, rules", BROKEN)
def test_broken_couplets_are_named(upper, lower, rules):
    assert broken_rules(upper, lower) == rules


def test_several_faults_are_all_named():
    assert broken_rules("山山，水", "山x。水") == {"punctuation", "repetition", "shared", "unknown"}
