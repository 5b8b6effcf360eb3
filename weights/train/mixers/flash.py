"""The gated attention unit with mixed chunk attention (Hua et al. 2022), in place of attention and feed-forward net:

    y_i = sum over j <= i in the chunk of i of relu(q_i . k_j / C)^2 v_j + q'_i . (sum over chunks before of k' v^T) / C

Chunks of C tokens begin with the first token; the linear part leaves a token's own chunk out.
"""

import torch
import torch.nn.functional as F
from torch import nn

DEFAULTS = {"n_heads": 1, "d_key": 64, "d_value": 512, "chunk": 64}


class Mixer(nn.Module):
    IS_WHOLE_LAYER = True

    def __init__(self, c: dict, own: dict):
        super().__init__()
        self.chunk, self.s, self.e = own["chunk"], own["d_key"], own["d_value"]
        self.uvz = nn.Linear(c["d_model"], 2 * self.e + self.s)
        self.out = nn.Linear(self.e, c["d_model"])
        for name in ("q", "k", "far_q", "far_k"):  # near 1: see gau_quad.py
            self.register_parameter(f"gamma_{name}", nn.Parameter(1 + torch.randn(self.s) * 0.02))
            self.register_parameter(f"beta_{name}", nn.Parameter(torch.zeros(self.s)))
        nn.init.zeros_(self.out.weight)

    def affine(self, z: torch.Tensor, name: str) -> torch.Tensor:
        return getattr(self, f"gamma_{name}") * z + getattr(self, f"beta_{name}")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, c = x.shape[1], self.chunk
        u, v, z = F.silu(self.uvz(x)).split([self.e, self.e, self.s], -1)
        z, values = (F.pad(part, (0, 0, 0, -t % c)).unflatten(1, (-1, c)) for part in (z, v))  # [B, chunks, C, ...]
        q, k, far_q, far_k = (self.affine(z, name) for name in ("q", "k", "far_q", "far_k"))
        near = F.relu(q @ k.transpose(-1, -2) / c).square().tril() @ values
        sums = (far_k.transpose(-1, -2) @ values).float()
        far = far_q @ (sums.cumsum(1) - sums).to(far_q.dtype) / c
        return self.out(u * (near + far).flatten(1, 2)[:, :t])
