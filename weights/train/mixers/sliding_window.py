"""Softmax attention to the last `window` tokens, and the first `sinks` of all."""

from mixers.rows import Rows

DEFAULTS = {"window": 16}


class Mixer(Rows):
    def sees(self, head, i, j):
        return (i - j < self.own["window"]) | (j < self.own.get("sinks", 0))
