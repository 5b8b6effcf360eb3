"""Mamba-2 (Dao and Gu 2024), a whole layer (model/mixers/mamba2.c has its equations):

    z, u, d = W_in x        v, B, C = silu(conv(u) + b)        t = softplus(d + dt_bias)
    S = exp(-exp(A_log) t) S + B (t v)^T        y = S^T C + D v        W_out (rms_norm(y silu(z)) gamma)

It is computed chunk by chunk: quadratic inside a chunk, through the state between chunks. `steps` computes it token by
token, as the oracle.
"""

import math

import torch
import torch.nn.functional as F
from mixers.delta import ShortConv, Weight, in_chunks
from torch import nn
from unfit import Unfit

DEFAULTS = {"groups": 1, "conv": 4, "bias": "conv", "norm": "gate_first", "eps": 1e-5}
CHUNK = 64  # tokens


def steps(b, c, v, log_decay):
    """b, c [B, H, T, K], v [B, H, T, V], log_decay [B, H, T] -> S^T c, [B, H, T, V]"""
    state, out = b.new_zeros(*b.shape[:2], b.shape[-1], v.shape[-1]), []
    for t in range(v.shape[2]):
        state = state * log_decay[:, :, t, None, None].exp() + b[:, :, t, :, None] * v[:, :, t, None]
        out.append((c[:, :, t, :, None] * state).sum(-2))
    return torch.stack(out, 2)


def in_parallel(b, c, v, log_decay, chunk: int = CHUNK):
    """As `steps`, in f32. A last chunk is filled up with zeros, which change nothing."""
    t = v.shape[2]
    b, c, v, log_decay = (in_chunks(x.float(), min(chunk, t)) for x in (b, c, v, log_decay))
    total = log_decay.cumsum(-1)  # of the chunk up to each token
    within = (total[..., :, None] - total[..., None, :]).tril().exp().tril()  # from token j to token i >= j
    out = ((c @ b.transpose(-1, -2)) * within) @ v
    added = ((total[..., -1:] - total).exp()[..., None] * b).transpose(-1, -2) @ v  # to the state, by each chunk
    asked, state = total.exp()[..., None] * c, 0
    later = []
    for i in range(1, v.shape[2]):
        state = state * total[:, :, i - 1, -1, None, None].exp() + added[:, :, i - 1]
        later.append(asked[:, :, i] @ state)
    if later:
        out = torch.cat([out[:, :, :1], out[:, :, 1:] + torch.stack(later, 2)], 2)
    return out.flatten(2, 3)[:, :, :t]


class Mixer(nn.Module):
    IS_WHOLE_LAYER = True

    def __init__(self, c: dict, own: dict):
        super().__init__()
        if own["bias"] != "conv" or own["norm"] != "gate_first":
            raise Unfit('mamba2 is trained with bias "conv" and norm "gate_first"')
        d, self.heads, self.groups, self.eps = c["d_model"], own["n_heads"], own["groups"], own["eps"]
        self.inner, state = self.heads * own["d_value"], self.groups * own["d_key"]
        self.parts = [self.inner, self.inner + 2 * state, self.heads]
        self.columns = [self.inner, state, state]
        self.add_module("in", nn.Linear(d, sum(self.parts), bias=False))
        self.out, self.conv = nn.Linear(self.inner, d, bias=False), ShortConv(self.parts[1], own["conv"])
        self.conv.bias = nn.Parameter(torch.zeros(self.parts[1]))
        self.norm, self.D = Weight(torch.ones(self.inner)), nn.Parameter(torch.ones(self.heads))
        # Rates from 1 to 16, steps from 0.001 to 0.1, as the authors begin.
        self.A_log = nn.Parameter(torch.empty(self.heads).uniform_(1, 16).log())
        step = torch.empty(self.heads).uniform_(math.log(0.001), math.log(0.1)).exp()
        self.dt_bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))  # softplus of it is the step
        nn.init.zeros_(self.out.weight)

    def in_heads(self, x: torch.Tensor, n: int) -> torch.Tensor:
        """[B, T, n x size] -> [B, H, T, size]"""
        return x.unflatten(-1, (n, -1)).transpose(1, 2).repeat_interleave(self.heads // n, 1)

    def recur(self, row: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        """The convolution's output, and steps before their bias -> y [B, T, inner]"""
        v, b, c = row.split(self.columns, -1)
        v, b, c = self.in_heads(v, self.heads), self.in_heads(b, self.groups), self.in_heads(c, self.groups)
        step = F.softplus(d + self.dt_bias.float()).transpose(1, 2)
        y = in_parallel(b, c, step[..., None] * v, -self.A_log.float().exp()[:, None] * step)
        return (y + self.D.float()[:, None, None] * v).transpose(1, 2).flatten(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z, row, d = self._modules["in"](x).split(self.parts, -1)
        row = F.silu(self.conv(row) + self.conv.bias)
        with torch.autocast(x.device.type, enabled=False):
            y = self.recur(row.float(), d.float()) * F.silu(z.float())
            y = y.unflatten(-1, (self.groups, -1))
            y = (y * (y.square().mean(-1, keepdim=True) + self.eps).rsqrt()).flatten(2) * self.norm.weight
        return self.out(y.to(x.dtype))
