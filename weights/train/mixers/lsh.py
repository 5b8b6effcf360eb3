"""Attention by buckets of hashes (Kitaev et al. 2020), each token to the last `cap` before it of its bucket, a bucket
in every round:

    y_i = sum over rounds and j of exp(x_ij) v_j / sum of exp(x_ij),   x_ij = scale qk_i . qk_j / |qk_j|

and y_i = v_i where no bucket holds a token before i. Which tokens are seen depends on none behind i, unlike with sorted
chunks, so that a token gets the same one by one. Hashes are drawn once and stay.
"""

import math

import torch
from torch import nn

DEFAULTS = {"rounds": 4, "buckets": 16, "cap": 32, "scale": "key"}


class Mixer(nn.Module):
    def __init__(self, c: dict, own: dict):
        super().__init__()
        self.own, self.n_heads, self.d_key, self.d_value = own, own["n_heads"], own["d_key"], own["d_value"]
        self.qk_v = nn.Linear(c["d_model"], self.n_heads * (self.d_key + self.d_value))
        self.out = nn.Linear(self.n_heads * self.d_value, c["d_model"])
        nn.init.zeros_(self.out.weight)
        drawn = torch.randn(own["rounds"] * self.d_key, own["buckets"] // 2)
        self.hashes = nn.Parameter(drawn.bfloat16().float(), requires_grad=False)  # as the file will have them

    def times_seen(self, qk: torch.Tensor) -> torch.Tensor:
        """qk [B, H, T, D] -> in how many rounds token i sees token j, [B, H, T, T]."""
        count = 0
        for hashes in self.hashes.float().view(self.own["rounds"], self.d_key, -1):
            h = qk.float() @ hashes
            bucket = torch.cat([h, -h], -1).argmax(-1)
            same = (bucket[..., :, None] == bucket[..., None, :]).tril(-1)
            newer = same.int().flip(-1).cumsum(-1).flip(-1)  # of the bucket's, from j to i
            count = count + (same & (newer <= self.own["cap"])).float()
        return count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        split = self.qk_v(x).split([self.n_heads * self.d_key, self.n_heads * self.d_value], -1)
        qk, v = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in split)
        with torch.no_grad():
            count = self.times_seen(qk)
        q, v = qk.float(), v.float()
        k = q / torch.sqrt(q.square().sum(-1, keepdim=True) + 1e-12)
        logits = q @ k.transpose(-1, -2) / (math.sqrt(self.d_key) if self.own["scale"] == "key" else 1)
        nothing = (count == 0).all(-1, keepdim=True)
        logits = logits.masked_fill(count == 0, -math.inf).masked_fill(nothing, 0)
        w = count * torch.exp(logits - logits.amax(-1, keepdim=True).detach())
        y = torch.where(nothing, v, w @ v / w.sum(-1, keepdim=True).clamp(min=1e-30))
        return self.out(y.transpose(1, 2).flatten(2).to(x.dtype))
