"""Attention by buckets of hashes (Kitaev et al. 2020), each token to the last `cap` before it of its bucket, a bucket
in every round:

    y_i = sum over rounds and j of exp(x_ij) v_j / sum of exp(x_ij),   x_ij = scale qk_i . qk_j / |qk_j|

and y_i = v_i where no bucket holds a token before i. The seen tokens do not depend on tokens after i, unlike with
sorted chunks, so steps give the result of the whole sequence. Hashes are drawn once and stay.

With "direction": "both" the model has its whole input at once. Each round sorts the tokens by bucket and place,
and cuts that order into chunks of `cap`. A token then sees the other tokens of its chunk and the tokens of both neighbouring chunks.
"""

import math

import torch
import torch.nn.functional as F
from mixers.heads import looks_both_ways, softmax_attention
from torch import nn

DEFAULTS = {"rounds": 4, "buckets": 16, "cap": 32, "scale": "key"}


def beside(x: torch.Tensor) -> torch.Tensor:
    """[..., N, C, D] -> [..., N, 3 C, D]: of the previous chunk, the chunk, the next chunk; zeros for a missing chunk."""
    wide = F.pad(x, (0, 0, 0, 0, 1, 1))
    return torch.cat([wide[..., :-2, :, :], x, wide[..., 2:, :, :]], -2)


def chunk_attention(q, k, v, order: torch.Tensor, size: int) -> torch.Tensor:
    """q, k [B, H, T, D], v [B, H, T, M], order [R, B, H, T]: the tokens of each round, sorted -> [B, H, T, M]"""
    t, n = q.shape[2], -(-q.shape[2] // size)
    if t == 1:
        return v

    def chunks(x):
        x = x.expand(len(order), *x.shape).gather(-2, order[..., None].expand(*order.shape, x.shape[-1]))
        return F.pad(x, (0, 0, 0, n * size - t)).unflatten(-2, (n, size))

    i = torch.arange(n * size, device=q.device).view(n, size, 1)
    j = i[:, :1] + torch.arange(-size, 2 * size, device=q.device)
    sees = (j >= 0) & (j < t) & (j != i) | (i >= t)  # padding after the end sees anything, and is dropped
    x = (chunks(q) @ beside(chunks(k)).transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~sees, -math.inf)
    total = x.logsumexp(-1, keepdim=True)
    y = ((x - total).exp() @ beside(chunks(v))).flatten(-3, -2)
    place = order.argsort(-1)[..., None]
    y, total = (x.gather(-2, place.expand(*order.shape, x.shape[-1])) for x in (y, total.flatten(-3, -2)))
    return (total.softmax(0) * y).sum(0)


class Mixer(nn.Module):
    BOTH_WAYS = True

    def __init__(self, c: dict, own: dict):
        super().__init__()
        self.both = looks_both_ways(c, own)
        self.own, self.n_heads, self.d_key, self.d_value = own, own["n_heads"], own["d_key"], own["d_value"]
        self.qk_v = nn.Linear(c["d_model"], self.n_heads * (self.d_key + self.d_value))
        self.out = nn.Linear(self.n_heads * self.d_value, c["d_model"])
        nn.init.zeros_(self.out.weight)
        drawn = torch.randn(own["rounds"] * self.d_key, own["buckets"] // 2)
        self.hashes = nn.Parameter(drawn.bfloat16().float(), requires_grad=False)  # as the file will have them

    def buckets(self, qk: torch.Tensor) -> torch.Tensor:
        """qk [B, H, T, D] -> of each round [R, B, H, T]"""
        rounds = [qk.float() @ hashes for hashes in self.hashes.float().view(self.own["rounds"], self.d_key, -1)]
        return torch.stack([torch.cat([h, -h], -1).argmax(-1) for h in rounds])

    def times_seen(self, qk: torch.Tensor) -> torch.Tensor:
        """qk [B, H, T, D] -> in how many rounds token i sees token j, [B, H, T, T]."""
        far = qk.shape[2] + self.own["cap"]
        count = torch.zeros(*qk.shape[:3], qk.shape[2], dtype=torch.uint8, device=qk.device)
        for bucket in self.buckets(qk):
            # How many of its bucket there are up to a token; the numbers of two buckets are too far apart to be close.
            rank = F.one_hot(bucket, self.own["buckets"]).cumsum(2).gather(-1, bucket[..., None])[..., 0]
            place = (bucket * far + rank).int()
            apart = place[..., :, None] - place[..., None, :]
            count += (apart > 0) & (apart <= self.own["cap"])
        return count

    def before(self, q, k, v):
        with torch.no_grad():
            count = self.times_seen(q)
            nothing = count.amax(-1, keepdim=True) == 0
            weight = torch.full(count.shape, -math.inf, device=q.device).masked_fill_(nothing, 0)
            for n in range(1, self.own["rounds"] + 1):
                weight.masked_fill_(count == n, math.log(n))  # exp(x + log n) = n exp(x)
        return torch.where(nothing, v, softmax_attention(q, k, v, weight))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        split = self.qk_v(x).split([self.n_heads * self.d_key, self.n_heads * self.d_value], -1)
        qk, v = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in split)
        q, v = qk.float(), v.float()
        k = q / torch.sqrt(q.square().sum(-1, keepdim=True) + 1e-12)
        if self.own["scale"] != "key":
            k = k * math.sqrt(self.d_key)
        y = chunk_attention(q, k, v, self.buckets(q).argsort(stable=True, dim=-1), self.own["cap"]) if self.both else self.before(q, k, v)
        return self.out(y.transpose(1, 2).flatten(2).to(x.dtype))
