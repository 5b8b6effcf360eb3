"""Softmax attention with rotary positions, whose heads of queries may share keys and values (model/mixers/grouped_query.c):
what language models are made of. The first half of a head's columns turns against the second, by its token's position."""

import torch
from mixers.heads import softmax_attention
from torch import nn
from unfit import Unfit

DEFAULTS = {"base": 10000, "bias": False, "norm": "none", "gate": "none"}


def rotated(x: torch.Tensor, base: float) -> torch.Tensor:
    """x [B, H, T, D], D even"""
    half = x.shape[-1] // 2
    rates = base ** (-torch.arange(half, device=x.device) / half)
    angles = torch.arange(x.shape[2], device=x.device)[:, None] * rates
    left, right = x.float().chunk(2, -1)
    return torch.cat([left * angles.cos() - right * angles.sin(), right * angles.cos() + left * angles.sin()], -1).to(x.dtype)


class Mixer(nn.Module):
    def __init__(self, c: dict, own: dict):
        super().__init__()
        if own["norm"] != "none" or own["gate"] != "none" or own["bias"] or "window" in own or "rotated" in own:
            raise Unfit("grouped_query is trained without norm, gate, bias, window and rotated")
        if own["d_key"] % 2:
            raise Unfit(f"grouped_query turns pairs of columns, and a head has {own['d_key']}")
        d, self.heads, self.base = c["d_model"], own["n_heads"], own["base"]
        self.key_heads = own.get("key_heads", self.heads)
        self.q, self.out = nn.Linear(d, self.heads * own["d_key"], bias=False), nn.Linear(self.heads * own["d_value"], d, bias=False)
        self.k, self.v = (nn.Linear(d, self.key_heads * n, bias=False) for n in (own["d_key"], own["d_value"]))
        nn.init.zeros_(self.out.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part(x).unflatten(-1, (n, -1)).transpose(1, 2)
                   for part, n in ((self.q, self.heads), (self.k, self.key_heads), (self.v, self.key_heads)))
        if self.base > 0:
            q, k = rotated(q, self.base), rotated(k, self.base)
        k, v = (y.repeat_interleave(self.heads // self.key_heads, 1) for y in (k, v))
        return self.out(softmax_attention(q, k, v).to(x.dtype).transpose(1, 2).flatten(2))
