"""Attention by buckets of hashes (Kitaev et al. 2020), each token to the last `cap` before it of its bucket, a bucket
in every round:

    y_i = sum over rounds and j of exp(x_ij) v_j / sum of exp(x_ij),   x_ij = scale qk_i . qk_j / |qk_j|

and y_i = v_i where no bucket holds a token before i. Which tokens are seen depends on none behind i, unlike with sorted
chunks, so that a token gets the same one by one. Hashes are drawn once and stay.
"""

import math

import torch
import torch.nn.functional as F
from mixers.heads import softmax_attention
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
        far = qk.shape[2] + self.own["cap"]
        count = torch.zeros(*qk.shape[:3], qk.shape[2], dtype=torch.uint8, device=qk.device)
        for hashes in self.hashes.float().view(self.own["rounds"], self.d_key, -1):
            h = qk.float() @ hashes
            bucket = torch.cat([h, -h], -1).argmax(-1)
            # How many of its bucket there are up to a token; the numbers of two buckets are too far apart to be close.
            rank = F.one_hot(bucket, 2 * h.shape[-1]).cumsum(2).gather(-1, bucket[..., None])[..., 0]
            place = (bucket * far + rank).int()
            apart = place[..., :, None] - place[..., None, :]
            count += (apart > 0) & (apart <= self.own["cap"])
        return count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        split = self.qk_v(x).split([self.n_heads * self.d_key, self.n_heads * self.d_value], -1)
        qk, v = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in split)
        q, v = qk.float(), v.float()
        with torch.no_grad():
            count = self.times_seen(q)
            nothing = count.amax(-1, keepdim=True) == 0
            weight = torch.full(count.shape, -math.inf, device=q.device).masked_fill_(nothing, 0)
            for n in range(1, self.own["rounds"] + 1):
                weight.masked_fill_(count == n, math.log(n))  # exp(x + log n) = n exp(x)
        k = q / torch.sqrt(q.square().sum(-1, keepdim=True) + 1e-12)
        if self.own["scale"] != "key":
            k = k * math.sqrt(self.d_key)
        y = torch.where(nothing, v, softmax_attention(q, k, v, weight))
        return self.out(y.transpose(1, 2).flatten(2).to(x.dtype))
