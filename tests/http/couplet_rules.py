"""The rules of a couplet, judged from the two lines alone.

Written from the task's description and not from the server's code, so that one can find the
other's faults. Works on plain text: it knows no vocabulary, no ids and no model.
"""

import unicodedata

FULL_WIDTH = str.maketrans(",;:?!", "，；：？！")
UNKNOWN = "\ufffd"


def normalise(upper):
    """The upper line as the server reads it."""
    return upper.strip().translate(FULL_WIDTH)


def is_punctuation(char):
    category = unicodedata.category(char)
    return category.startswith("P") or category in ("Sm", "Sc", "Sk")


def broken_rules(upper, lower):
    """Names of the rules that the pair breaks, empty for a proper couplet."""
    upper = normalise(upper)
    if len(upper) != len(lower):
        return {"length"}
    broken = set()
    words = []
    for u, l in zip(upper, lower):
        if is_punctuation(u) or is_punctuation(l):
            if u != l:
                broken.add("punctuation")
        else:
            words.append((u, l))
    # Same character above <=> same character below is a one-to-one relation between the two.
    pairs = set(words)
    if len({u for u, _ in pairs}) != len(pairs) or len({l for _, l in pairs}) != len(pairs):
        broken.add("repetition")
    if {u for u, _ in words} & {l for _, l in words}:
        broken.add("shared")
    if any(not is_ideograph(l) for _, l in words):
        broken.add("unknown")
    return broken


def is_ideograph(char):
    """A Han character, or 〇 and 々, which Unicode counts as number and modifier letters."""
    return char in "〇々" or unicodedata.name(char, "").startswith("CJK ")
