"""Memory-compressed attention (Liu et al. 2018): of every `factor` tokens a convolution of each head makes one key and
one value. A token attends to a first row and to the blocks that have ended:

    K_c = sum over t of k_(c factor + t) W_t + b;   i sees the first row and blocks 0 .. n - 1,
    n = i / factor, with "inclusive" (i + 1) / factor

Blocks are counted from the first token on, so that the rows that a token sees do not depend on later tokens. The block of
the token itself is not seen: such layers go between others (`--set attention=[...]`).
"""

import torch
from mixers.heads import Heads, softmax_attention
from torch import nn

DEFAULTS = {"factor": 3, "visible": "strict", "null": "learned"}


class Mixer(Heads):
    def __init__(self, c: dict, own: dict):
        super().__init__(c, own)
        self.own, self.factor = own, own["factor"]
        h, d, m, r = self.n_heads, self.d_key, self.d_value, self.factor
        self.compress_k, self.compress_v = (nn.Parameter(torch.randn(h * r * n, n) * (r * n) ** -0.5) for n in (d, m))
        self.compress_k_bias, self.compress_v_bias = (nn.Parameter(torch.zeros(h * n)) for n in (d, m))
        if own["null"] == "learned":
            self.null = nn.Parameter(torch.randn(h, d + m) * 0.5)

    def compress(self, rows: torch.Tensor, taps: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """[B, H, T, n] -> of whole blocks [B, H, T / factor, n]"""
        n, whole = rows.shape[-1], rows.shape[2] // self.factor
        blocks = rows[:, :, :whole * self.factor].unflatten(2, (whole, self.factor))
        taps = taps.view(self.n_heads, self.factor, n, n)
        return torch.einsum("bhctd,htde->bhce", blocks, taps) + bias.view(self.n_heads, 1, n)

    def first_row(self, k, v):
        if self.own["null"] == "first":
            return k[:, :, :1], v[:, :, :1]
        null = self.null[None, :, None].expand(k.shape[0], -1, -1, -1).to(k.dtype)
        return null.split([self.d_key, self.d_value], -1)

    def attend(self, q, k, v):
        first_k, first_v = self.first_row(k, v)
        keys = torch.cat([first_k, self.compress(k, self.compress_k, self.compress_k_bias)], 2)
        values = torch.cat([first_v, self.compress(v, self.compress_v, self.compress_v_bias)], 2)
        i = torch.arange(q.shape[2], device=q.device)[:, None]
        ended = (i + (self.own["visible"] == "inclusive")) // self.factor
        seen = torch.arange(keys.shape[2], device=q.device)[None, :] <= ended
        return softmax_attention(q, keys.to(q.dtype), values.to(q.dtype), seen)
