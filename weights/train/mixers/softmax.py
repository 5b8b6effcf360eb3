"""Softmax attention to every token before: A(i) = {0 .. i}."""

import torch.nn.functional as F
from mixers.heads import Heads

DEFAULTS = {}


class Mixer(Heads):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
