"""Gated DeltaNet (Yang et al. 2024): the delta rule on a state whose heads decay. See delta.py."""

import math

import torch
import torch.nn.functional as F
from mixers.delta import Delta
from torch import nn

DEFAULTS = {"conv": 4, "beta": "sigmoid", "gate": "silu", "eps": 1e-6}


class Mixer(Delta):
    def __init__(self, c: dict, own: dict):
        super().__init__(c, own)
        self.a = nn.Linear(c["d_model"], self.heads, bias=False)
        # Rates from 0 to 16, steps from 0.001 to 0.1, as the authors begin.
        self.A_log = nn.Parameter(torch.empty(self.heads).uniform_(1e-3, 16).log())
        step = torch.empty(self.heads).uniform_(math.log(0.001), math.log(0.1)).exp()
        self.dt_bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))  # softplus of it is the step

    def log_decay(self, x):
        with torch.autocast(x.device.type, enabled=False):
            return -self.A_log.float().exp() * F.softplus(self.a(x.float()) + self.dt_bias.float())
