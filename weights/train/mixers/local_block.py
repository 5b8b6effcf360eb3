"""Softmax attention within a block of tokens, and `look_back` blocks before it."""

from mixers.rows import Rows

DEFAULTS = {"block": 8, "look_back": 1}


class Mixer(Rows):
    def sees(self, head, i, j):
        return i // self.own["block"] - j // self.own["block"] <= self.own["look_back"]
