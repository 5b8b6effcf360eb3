"""Causal linear attention (Katharopoulos et al. 2020, eq. 9-12):

    y_i = sum_{j<=i} phi(q_i).phi(k_j) v_j / (sum_{j<=i} phi(q_i).phi(k_j) + eps),   phi(x) = elu(x) + 1

It is computed chunk by chunk: quadratic inside a chunk, through the running state s = sum phi(k) v^T,
z = sum phi(k) between chunks, so that memory grows with T and not with T^2. A sequence of at most
one chunk is the exact quadratic form. `feature_map` is phi, one of FEATURE_MAPS, which the server has too.
With "direction": "both", of a model that is given its whole input at once, j goes over all tokens.
"""

import torch
import torch.nn.functional as F
from mixers.heads import Heads, looks_both_ways
from unfit import Unfit

DEFAULTS = {"feature_map": "elu+1", "eps": 1e-6}
CHUNK = 112  # tokens


def phi(x: torch.Tensor) -> torch.Tensor:
    """elu(x) + 1, in a form that compiles to one pass."""
    return torch.where(x > 0, x + 1, torch.exp(x.clamp(max=0)))


FEATURE_MAPS = {
    "elu+1": phi,
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),
    "exp": lambda x: torch.exp(x.clamp(max=8)),
}


def in_chunks(x: torch.Tensor, size: int) -> torch.Tensor:
    """[B, H, T, D] -> [B, H, T / size rounded up, size, D]; padding at the end is zero."""
    b, h, t, d = x.shape
    return F.pad(x, (0, 0, 0, -t % size)).view(b, h, -1, size, d)


def both_ways(q, k, v, eps: float) -> torch.Tensor:
    """Attention with j over all tokens: q, k, v as `linear_attention` takes them."""
    s, z = k.transpose(-1, -2) @ v, k.float().sum(-2, keepdim=True)
    return (q @ s) / ((q.float() * z).sum(-1, keepdim=True) + eps)


def before(x: torch.Tensor) -> torch.Tensor:
    """Sums over the chunks before each chunk, in f32: [B, H, N, ...] -> the same shape."""
    return x.float().cumsum(2) - x.float()


def linear_attention(q, k, v, eps: float, chunk: int) -> torch.Tensor:
    """q, k: phi already applied; [B, H, T, D] each -> [B, H, T, D] in f32."""
    b, h, t, d = v.shape
    if t > chunk:
        q, k, v = (in_chunks(x, chunk) for x in (q, k, v))
    weights = (q @ k.transpose(-1, -2)).tril()
    y, norm = weights @ v, weights.float().sum(-1, keepdim=True)
    if t > chunk:
        s, z = before(k.transpose(-1, -2) @ v), before(k.float().sum(-2, keepdim=True))
        y = y + q @ s.to(q.dtype)
        norm = norm + (q.float() * z).sum(-1, keepdim=True)
    return (y / (norm + eps)).view(b, h, -1, d)[:, :, :t]


class Mixer(Heads):
    BOTH_WAYS = True

    def __init__(self, c: dict, own: dict):
        super().__init__(c, own)
        if own["feature_map"] not in FEATURE_MAPS:
            raise Unfit(f"attention.feature_map {own['feature_map']} is none of {', '.join(FEATURE_MAPS)}")
        self.eps, self.phi = own["eps"], FEATURE_MAPS[own["feature_map"]]
        self.both = looks_both_ways(c, own)

    def attend(self, q, k, v):
        if self.both:
            return both_ways(self.phi(q), self.phi(k), v, self.eps)
        return linear_attention(self.phi(q), self.phi(k), v, self.eps, CHUNK)
