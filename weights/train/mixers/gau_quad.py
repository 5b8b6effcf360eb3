"""The gated attention unit (Hua et al. 2022), in place of attention and feed-forward net:

    y_i = sum over j <= i of a_ij v_j,   A(x) = W_out (u y) + b

where a_ij is the square of relu(q_i . k_j), divided as the config says; u and v are silu of products, q and k affine
in silu of a third one.
"""

import torch
import torch.nn.functional as F
from torch import nn

DEFAULTS = {"n_heads": 1, "d_key": 128, "d_value": 512, "div": "count", "div_place": "outside"}


class Mixer(nn.Module):
    IS_WHOLE_LAYER = True

    def __init__(self, c: dict, own: dict):
        super().__init__()
        self.own, self.s, self.e = own, own["d_key"], own["d_value"]
        self.uvz = nn.Linear(c["d_model"], 2 * self.e + self.s)
        self.out = nn.Linear(self.e, c["d_model"])
        # The paper begins near 0, with a bias inside the square; without one, weights and their gradients vanish there.
        self.gamma_q, self.gamma_k = (nn.Parameter(1 + torch.randn(self.s) * 0.02) for _ in range(2))
        self.beta_q, self.beta_k = (nn.Parameter(torch.zeros(self.s)) for _ in range(2))
        nn.init.zeros_(self.out.weight)

    def weights(self, logits: torch.Tensor) -> torch.Tensor:
        """[B, T, T] -> [B, T, T], zero where token i does not see token j."""
        if self.own["div_place"] == "inside":
            return F.relu(logits / self.own["length"]).square().tril()
        t = logits.shape[-1]
        seen = torch.arange(1, t + 1, device=logits.device)[:, None]
        return F.relu(logits).square().tril() / (self.s * (seen if self.own["div"] == "count" else self.own["length"]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        u, v, z = F.silu(self.uvz(x)).split([self.e, self.e, self.s], -1)
        q, k = self.gamma_q * z + self.beta_q, self.gamma_k * z + self.beta_k
        return self.out(u * (self.weights(q @ k.transpose(-1, -2)) @ v))
