"""Softmax attention to every token before: A(i) = {0 .. i}; with "direction": "both", of a model that is given its whole
input at once, to every token."""

from mixers.heads import Heads, looks_both_ways, softmax_attention

DEFAULTS = {}


class Mixer(Heads):
    BOTH_WAYS = True

    def __init__(self, c: dict, own: dict):
        super().__init__(c, own)
        self.both = looks_both_ways(c, own)

    def attend(self, q, k, v):
        return softmax_attention(q, k, v, both=self.both)
