"""A window of softmax attention with global tokens, the first `global_prefix` ones: all tokens see them, and they
see all tokens before, by projections of their own."""

import torch
from mixers.heads import softmax_attention
from mixers.rows import Rows
from torch import nn

DEFAULTS = {"window": 16, "global_prefix": 4}


class Mixer(Rows):
    def __init__(self, c, own):
        super().__init__(c, own)
        self.add_module("global", nn.Linear(self.qkv.in_features, self.qkv.out_features))
        self.get_submodule("global").load_state_dict(self.qkv.state_dict())

    def sees(self, head, i, j):
        return (i - j < self.own["window"]) | (j < self.own["global_prefix"])

    def forward(self, x):
        first = self.own["global_prefix"]
        y = self.attend(*self.heads(self.qkv(x)))
        own = self.heads(self.get_submodule("global")(x[:, :first]))
        y = torch.cat([softmax_attention(*own), y[:, :, first:]], 2)
        return self.back(y.to(x.dtype))
