"""RWKV-7's time mix (Peng et al. 2025; model/mixers/rwkv7.c has its equations). Its recurrence,

    S = diag(w) S - b (S^T e)^T + k v^T        y = S^T r

reads the removed values before the state decays. It is computed chunk by chunk. W_t is the product of the decays of a
chunk up to token t. The values taken from the state, u_t = S_{t-1}^T e_t, are the solution of a triangular system,

    (I + tril(E B^T, -1)) U = E S_0 + tril(E K^T, -1) V        E_t = W_{t-1} e_t,  B_t = b_t / W_t,  K_t = k_t / W_t
    Y = R S_0 + tril(R K^T) V - tril(R B^T) U                  R_t = W_t r_t

and between chunks the state goes on. A decay is at least exp(-e^-0.5), so that in a chunk of 64 no quotient is above 1e17.
`steps` computes it token by token, as the oracle.
"""

import math

import torch
import torch.nn.functional as F
from mixers.delta import in_chunks
from torch import nn

DEFAULTS = {"w_rank": 32, "a_rank": 32, "v_rank": 16, "g_rank": 64, "group_eps": 64e-5}
CHUNK = 32  # tokens
FASTEST = -math.exp(-0.5)  # logarithm of the fastest decay


def steps(r, log_w, k, v, e, b):
    """[B, H, T, K] each, v [B, H, T, V] -> [B, H, T, V]"""
    state, out = k.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1]), []
    for t in range(k.shape[2]):
        taken = (e[:, :, t, :, None] * state).sum(-2)
        state = state * log_w[:, :, t, :, None].exp() - b[:, :, t, :, None] * taken[:, :, None] + k[:, :, t, :, None] * v[:, :, t, None]
        out.append((r[:, :, t, :, None] * state).sum(-2))
    return torch.stack(out, 2)


def in_parallel(r, log_w, k, v, e, b, chunk: int = CHUNK):
    """As `steps`, in f32. A last chunk is filled up with zeros, which change nothing."""
    t = k.shape[2]
    r, log_w, k, v, e, b = (in_chunks(x.float(), min(chunk, t)) for x in (r, log_w, k, v, e, b))
    total = log_w.cumsum(-2)
    r, e = r * total.exp(), e * (total - log_w).exp()
    later = (-total).exp()
    k, b, left = k * later, b * later, total[..., -1, :, None].exp()
    k_t, b_t = k.transpose(-1, -2), b.transpose(-1, -2)
    sides = torch.cat([(e @ k_t).tril(-1) @ v, e], -1)
    eye = torch.eye(k.shape[-2], device=k.device)
    solved = torch.linalg.solve_triangular((e @ b_t).tril(-1) + eye, sides, upper=False, unitriangular=True)
    own, of_state = solved.split([v.shape[-1], k.shape[-1]], -1)
    by_b, out = (r @ b_t).tril(), (r @ k_t).tril() @ v
    state, parts = 0, []
    for i in range(v.shape[2]):
        taken, y = own[:, :, i], out[:, :, i]
        if i > 0:
            taken, y = taken + of_state[:, :, i] @ state, y + r[:, :, i] @ state
        parts.append(y - by_b[:, :, i] @ taken)
        state = left[:, :, i] * (state + k_t[:, :, i] @ v[:, :, i] - b_t[:, :, i] @ taken)
    return torch.cat(parts, 2)[:, :, :t]


def pair(d: int, rank: int, n: int, bias: "torch.Tensor | None" = None) -> tuple[nn.Linear, nn.Linear]:
    """A low-rank product, which begins as its bias."""
    first, second = nn.Linear(d, rank, bias=False), nn.Linear(rank, n, bias=bias is not None)
    nn.init.zeros_(first.weight)
    nn.init.orthogonal_(second.weight, 0.1)
    if bias is not None:
        with torch.no_grad():
            second.bias.copy_(bias)
    return first, second


class Mixer(nn.Module):
    CARRIES = True  # values of layer 0, for later layers

    def __init__(self, c: dict, own: dict):
        super().__init__()
        d, self.heads, self.eps, self.is_first = c["d_model"], own["n_heads"], own["group_eps"], own["layer"] == 0
        keys, values = self.heads * own["d_key"], self.heads * own["d_value"]
        depth = own["layer"] / max(1, c["n_layers"] - 1)
        at = torch.arange(d) / d
        for name, power in zip("rwkvag", (0.2, 0.9, 0.7, 0.4, 0.9, 0.2)):  # channels see more or less of the token before
            self.register_parameter(f"x_{name}", nn.Parameter(1 - at ** (power * (1 - 0.5 * depth))))
        self.r, self.k, self.v = (nn.Linear(d, n, bias=False) for n in (keys, keys, values))
        self.out = nn.Linear(values, d, bias=False)
        slow_to_fast = -6.5 + 5 * (torch.arange(keys) / max(1, keys - 1)) ** (0.85 + depth**0.5)
        self.w1, self.w2 = pair(d, own["w_rank"], keys, slow_to_fast)
        self.a1, self.a2 = pair(d, own["a_rank"], keys, torch.zeros(keys))
        self.g1, self.g2 = pair(d, own["g_rank"], values)
        nn.init.normal_(self.g1.weight, std=d**-0.5)
        nn.init.orthogonal_(self.g2.weight)
        if not self.is_first:
            self.v1, self.v2 = pair(d, own["v_rank"], values, torch.ones(values))
        self.k_k, self.k_a = nn.Parameter(torch.full((keys,), 0.85)), nn.Parameter(torch.ones(keys))
        self.r_k = nn.Parameter(torch.zeros(self.heads, own["d_key"]))
        self.norm = nn.GroupNorm(self.heads, values, eps=self.eps)
        nn.init.zeros_(self.out.weight)

    def in_heads(self, x: torch.Tensor) -> torch.Tensor:
        """[B, T, H x size] -> [B, H, T, size], f32"""
        return x.float().unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def recur(self, r, w, k, v, rate):
        """[B, T, ...] each, w and rate before their sigmoid -> [B, T, M]"""
        rate = rate.float().sigmoid()
        e = F.normalize(self.in_heads(k * self.k_k), dim=-1, eps=1e-12)
        k = k.float() * (1 + (rate - 1) * self.k_a)
        r, k, v, rate, log_w = (self.in_heads(x) for x in (r, k, v, rate, FASTEST * w.float().sigmoid()))
        y = in_parallel(r, log_w, k, v, e, rate * e).transpose(1, 2)  # [B, T, H, V]
        y = self.norm(y.flatten(0, 1).flatten(1)).view_as(y)
        bonus = (r * k * self.r_k.float()[:, None]).sum(-1, keepdim=True) * v
        return (y + bonus.transpose(1, 2)).flatten(2)

    def forward(self, x: torch.Tensor, carried: dict) -> torch.Tensor:
        delta = F.pad(x, (0, 0, 1, 0))[:, :-1] - x
        r, w, k, v, a, g = (x + getattr(self, f"x_{name}") * delta for name in "rwkvag")
        values = self.v(v)
        if self.is_first:
            carried["values"] = values
        else:
            values = values + (carried["values"] - values) * self.v2(self.v1(v)).sigmoid()
        w, rate = self.w2(self.w1(w).tanh()), self.a2(self.a1(a))
        r, k = self.r(r), self.k(k)
        with torch.autocast(x.device.type, enabled=False):
            y = self.recur(r, w, k, values, rate)
        return self.out(y.to(x.dtype) * self.g2(self.g1(g).sigmoid()))
