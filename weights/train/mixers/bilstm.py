"""LSTM both ways (Graves and Schmidhuber 2005), in place of attention and feed-forward net; of a model that is given its
whole input at once. From the first row to the last, and with weights of its own from the last to the first, from zeros on:

    i, f, g, o = W x_t + U^T h_(t-1) + b      c_t = sigmoid(f) c_(t-1) + sigmoid(i) tanh(g)        h_t = sigmoid(o) tanh(c_t)
    A(x) = W_out [h, h of the way back] + b
"""

import torch
from mixers.heads import looks_both_ways
from torch import nn
from unfit import Unfit

DEFAULTS = {"hidden": 120}


class Mixer(nn.Module):
    IS_WHOLE_LAYER = True
    BOTH_WAYS = True

    def __init__(self, c: dict, own: dict):
        super().__init__()
        if not looks_both_ways(c, own):
            raise Unfit('attention.direction of bilstm is "both"')
        n = own["hidden"]
        self.x = nn.Linear(c["d_model"], 8 * n)  # of each way i, f, g, o
        self.u = nn.Parameter((torch.rand(2 * n, 4 * n) * 2 - 1) * n**-0.5)  # U of each way
        self.out = nn.Linear(2 * n, c["d_model"])
        nn.init.zeros_(self.out.weight)
        with torch.no_grad():
            self.x.bias.view(2, 4, n)[:, 1] += 1  # a cell keeps its content at first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = self.u.shape[1] // 4
        zeros, none = x.new_zeros(2, len(x), n), x.new_zeros(4 * n)
        ways = zip(self.x.weight.chunk(2), self.u.chunk(2), self.x.bias.chunk(2))
        flat = [part for w, u, b in ways for part in (w, u.t().contiguous(), b, none)]
        return self.out(torch.lstm(x, (zeros, zeros), flat, True, 1, 0.0, self.training, True, True)[0])
