"""Softmax attention to every token before: A(i) = {0 .. i}."""

from mixers.heads import Heads, softmax_attention

DEFAULTS = {}


class Mixer(Heads):
    def attend(self, q, k, v):
        return softmax_attention(q, k, v)
