"""Attention with a span of its own for every head (Sukhbaatar et al. 2019), the span's length being learned.
With x = i - 1 - j >= 0, the distance of a token from token i - 1:

    w_x = clamp((ramp + span - x) / ramp, 0, 1) exp(q_i . (k_j + p_x) / sqrt(D)),   y_i = sum w_x v_j / sum w_x

The server needs whole numbers, so the forward pass rounds spans, while their gradient is that of the exact number.
Learned spans replace `spans` of the config.
"""

import math

import torch
from mixers.heads import Heads
from torch import nn

DEFAULTS = {"max_span": 64, "ramp": 8, "spans": [16], "pad_memory": False}
MOST_SPANS = 16  # that the server takes: more heads share them in turn


class Mixer(Heads):
    IN_CONFIG = {"span"}  # a parameter that becomes keys of the config, and is no tensor of the file

    def __init__(self, c: dict, own: dict):
        super().__init__(c, own)
        self.own, spans = own, own["spans"]
        n = min(self.n_heads, MOST_SPANS)
        self.span = nn.Parameter(torch.tensor([spans[h % len(spans)] / own["max_span"] for h in range(n)]))
        self.distance = nn.Parameter(torch.randn(self.d_key, own["max_span"]) * 0.02)

    def spans(self) -> torch.Tensor:
        """Of the heads in turn: whole numbers, [at most MOST_SPANS]."""
        span = self.span.clamp(0, 1) * self.own["max_span"]
        return span + (span.round() - span).detach()

    def learned(self) -> dict:
        return {"spans": [int(span) for span in self.spans().tolist()]}

    def fading(self, x: torch.Tensor) -> torch.Tensor:
        """m of distances x [...]: [H, ...]; 0 where they are none."""
        of_heads = torch.arange(self.n_heads, device=x.device) % len(self.span)
        ramp, span = self.own["ramp"], self.spans()[of_heads].view(-1, *[1] * x.dim())
        return ((ramp + span - x) / ramp).clamp(0, 1) * ((x >= 0) & (x < self.own["max_span"]))

    def attend(self, q, k, v):
        t, most = q.shape[2], self.own["max_span"]
        n = t + most if self.own["pad_memory"] else t
        if n > t:  # rows of zeros before the first token
            k, v = (torch.cat([x.new_zeros(*x.shape[:2], most, x.shape[3]), x], 2) for x in (k, v))
        i, j = torch.arange(t, device=q.device)[:, None] + n - t, torch.arange(n, device=q.device)[None, :]
        x = i - 1 - j
        q = q.float() / math.sqrt(self.d_key)
        far = (q @ self.distance.float()).gather(-1, x.clamp(0, most - 1).expand(*q.shape[:2], t, n))
        logits, m = q @ k.float().transpose(-1, -2) + far, self.fading(x)
        nothing = (m == 0).all(-1, keepdim=True)
        logits = logits.masked_fill(m == 0, -math.inf).masked_fill(nothing, 0)
        w = m * torch.exp(logits - logits.amax(-1, keepdim=True).detach())
        return w @ v.float() / w.sum(-1, keepdim=True).clamp(min=1e-30)
