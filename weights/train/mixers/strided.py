"""The strided pattern of the Sparse Transformer: the last tokens, and the column of those before."""

from mixers.rows import Rows

DEFAULTS = {"stride": 8, "heads": "apart"}


class Mixer(Rows):
    def sees(self, head, i, j):
        stride, heads = self.own["stride"], self.own["heads"]
        local, column = i - j < stride, (i - j) % stride == 0
        if heads == "merged":
            return local | column
        if heads == "apart":
            return column if head % 2 else local
        return local if heads == "local" else column
