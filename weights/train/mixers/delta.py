"""The delta rule, which gated_deltanet and delta_net have in common (model/mixers/delta.c has their equations):

    R = alpha S        S' = R + beta k (v - R^T k)^T        y = S'^T q / sqrt(K)

It is computed chunk by chunk (Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule"): inside a chunk
the corrections of all tokens are the solution of a triangular system, between chunks the state goes on. `steps`
computes it token by token, as the oracle.
"""

import torch
import torch.nn.functional as F
from torch import nn

CHUNK = 96  # tokens, at most


def steps(q, k, v, log_decay, beta):
    """q, k [B, H, T, K], v [B, H, T, V], log_decay and beta [B, H, T] -> [B, H, T, V]"""
    state, out = q.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1]), []
    for t in range(q.shape[2]):
        state = state * log_decay[:, :, t, None, None].exp()
        held = (k[:, :, t, :, None] * state).sum(-2)
        change = beta[:, :, t, None] * (v[:, :, t] - held)
        state = state + k[:, :, t, :, None] * change[:, :, None]
        out.append((q[:, :, t, :, None] * state).sum(-2))
    return torch.stack(out, 2) * k.shape[-1] ** -0.5


def in_chunks(x: torch.Tensor, size: int) -> torch.Tensor:
    """[B, H, T, ...] -> [B, H, T / size rounded up, size, ...]; padding at the end is zero."""
    missing = -x.shape[2] % size
    x = F.pad(x, (0, 0) * (x.dim() - 3) + (0, missing)) if missing else x
    return x.unflatten(2, (-1, size))


def delta_rule(q, k, v, log_decay, beta, chunk: int = CHUNK):
    """As `steps`, in f32, in chunks of about one size. Where k is 0 and log_decay, too, nothing changes: so a last chunk
    is filled up. The first chunk meets no state."""
    t, scale = q.shape[2], k.shape[-1] ** -0.5
    chunks = -(-t // chunk)
    chunk = -(-t // chunks)
    q, k, v, log_decay, beta = (in_chunks(x.float(), chunk) for x in (q * scale, k, v, log_decay, beta))
    total = log_decay.cumsum(-1)  # of the chunk up to each token
    within = (total[..., :, None] - total[..., None, :]).tril().exp().tril()  # from token j to token i >= j
    known = (beta[..., None] * (k @ k.transpose(-1, -2)) * within).tril(-1)
    sides = beta[..., None] * v
    if chunks > 1:
        sides = torch.cat([sides, (beta * total.exp())[..., None] * k], -1)
    solved = torch.linalg.solve_triangular(known + torch.eye(chunk, device=k.device), sides, upper=False, unitriangular=True)
    own, of_state = solved.split([v.shape[-1], solved.shape[-1] - v.shape[-1]], -1)
    weights = (q @ k.transpose(-1, -2)) * within
    asked, left = q * total.exp()[..., None], (total[..., -1:] - total).exp()[..., None] * k
    change, out = own[:, :, 0], [weights[:, :, 0] @ own[:, :, 0]]
    state = 0
    for i in range(1, chunks):
        state = state * total[:, :, i - 1, -1, None, None].exp() + left[:, :, i - 1].transpose(-1, -2) @ change
        change = own[:, :, i] - of_state[:, :, i] @ state
        out.append(asked[:, :, i] @ state + weights[:, :, i] @ change)
    return torch.cat(out, 2)[:, :, :t]


class Weight(nn.Module):
    """A parameter that the server calls NAME.weight."""

    def __init__(self, value: torch.Tensor):
        super().__init__()
        self.weight = nn.Parameter(value)


class ShortConv(Weight):
    """Each channel by itself over the last `taps` tokens, the newest under the last weight."""

    def __init__(self, channels: int, taps: int):
        super().__init__((torch.rand(channels, taps) * 2 - 1) * taps**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # [B, T, channels]
        taps = self.weight.shape[1]
        return F.conv1d(F.pad(x.transpose(1, 2), (taps - 1, 0)), self.weight[:, None], groups=x.shape[-1]).transpose(1, 2)


def l2(x: torch.Tensor) -> torch.Tensor:
    return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()


class Delta(nn.Module):
    """A kind defines the decay of each token."""

    def __init__(self, c: dict, own: dict):
        super().__init__()
        d, self.own = c["d_model"], own
        self.heads, self.key_heads = own["n_heads"], own.get("key_heads", own["n_heads"])
        keys, values = self.key_heads * own["d_key"], self.heads * own["d_value"]
        self.q, self.k, self.v = (nn.Linear(d, n, bias=False) for n in (keys, keys, values))
        self.b, self.out = nn.Linear(d, self.heads, bias=False), nn.Linear(values, d, bias=False)
        self.norm = Weight(torch.ones(own["d_value"]))
        if own["conv"]:
            self.q_conv, self.k_conv, self.v_conv = (ShortConv(n, own["conv"]) for n in (keys, keys, values))
        if own["gate"] == "silu":
            self.g = nn.Linear(d, values, bias=False)
        nn.init.zeros_(self.out.weight)

    def log_decay(self, x: torch.Tensor) -> torch.Tensor:
        """[B, T, d] -> [B, T, H]"""
        raise NotImplementedError

    def part(self, name: str, x: torch.Tensor, heads: int) -> torch.Tensor:
        """q, k or v: [B, H, T, ...]"""
        y = getattr(self, name)(x)
        if self.own["conv"]:
            y = getattr(self, f"{name}_conv")(y)
        return F.silu(y).unflatten(-1, (heads, -1)).transpose(1, 2).float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k = (l2(self.part(name, x, self.key_heads)).repeat_interleave(self.heads // self.key_heads, 1) for name in "qk")
        v = self.part("v", x, self.heads)
        beta = self.b(x).float().sigmoid() * (2 if self.own["beta"] == "twice_sigmoid" else 1)
        with torch.autocast(x.device.type, enabled=False):
            y = delta_rule(q, k, v, self.log_decay(x).transpose(1, 2), beta.transpose(1, 2))
        y = y * (y.square().mean(-1, keepdim=True) + self.own["eps"]).rsqrt() * self.norm.weight
        y = y.transpose(1, 2).flatten(2)
        if self.own["gate"] == "silu":
            y = y * F.silu(self.g(x).float())
        return self.out(y.to(x.dtype))
