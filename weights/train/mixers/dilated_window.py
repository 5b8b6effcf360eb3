"""Softmax attention to every dilation-th of the last tokens, `window` of them; a dilation for each head in turn."""

from mixers.rows import Rows

DEFAULTS = {"window": 8, "dilation": [1, 2, 4, 8]}


class Mixer(Rows):
    def sees(self, head, i, j):
        dilation = self.own["dilation"][head % min(len(self.own["dilation"]), self.n_heads)]
        return ((i - j) % dilation == 0) & (i - j < self.own["window"] * dilation)
