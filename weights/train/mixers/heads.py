"""The shared part of kinds with queries, keys and values: one product for the three, one back."""

import torch
import torch.nn.functional as F
from torch import nn
from unfit import Unfit


def looks_both_ways(c: dict, own: dict) -> bool:
    """Whether a token sees later tokens too: only if a model gets its whole input at once."""
    if "direction" in own and not (own["direction"] == "both" and c["task"] == "speech"):
        raise Unfit('attention.direction is "both", of a model of speech, or is not there')
    return "direction" in own


def softmax_attention(q, k, v, mask: "torch.Tensor | None" = None, both: bool = False) -> torch.Tensor:
    """[B, H, T, D] each. A query sees the keys of the mask; a mask of numbers is added to the logits. Without a mask it
    sees keys up to its own, or with `both` to all. PyTorch 1 has no function for it."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None and not both)
    if mask is None:
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
        mask = mask if both else mask.tril()
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1).to(v.dtype) @ v


class Heads(nn.Module):
    def __init__(self, c: dict, own: dict):
        super().__init__()
        self.n_heads, self.d_key, self.d_value = own["n_heads"], own["d_key"], own["d_value"]
        self.qkv = nn.Linear(c["d_model"], self.n_heads * (2 * self.d_key + self.d_value))
        self.out = nn.Linear(self.n_heads * self.d_value, c["d_model"])
        nn.init.zeros_(self.out.weight)

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """q, k [B, H, T, D], v [B, H, T, M] -> [B, H, T, M]"""
        raise NotImplementedError

    def heads(self, qkv: torch.Tensor) -> list[torch.Tensor]:
        """A product's [B, T, rows of q, k and v] -> q, k, v as `attend` takes them."""
        keys, values = self.n_heads * self.d_key, self.n_heads * self.d_value
        return [part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
                for part in qkv.split([keys, keys, values], -1)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.back(self.attend(*self.heads(self.qkv(x))).to(x.dtype))

    def back(self, y: torch.Tensor) -> torch.Tensor:
        """[B, H, T, M] -> [B, T, d]"""
        return self.out(y.transpose(1, 2).flatten(2))
