"""Softmax attention to some of the tokens before: a kind says which, head by head, as the set A(i).

    y_i = sum over j in A(i) of softmax_j(q_i . k_j / sqrt(D)) v_j;  0 where A(i) is empty
"""

import torch
from mixers.heads import Heads, softmax_attention


class Rows(Heads):
    def __init__(self, c: dict, own: dict):
        super().__init__(c, own)
        self.own, self.masks = own, {}

    def sees(self, head: int, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        """Whether token i [T, 1] sees token j [1, T], as [T, T]; values for j > i are ignored."""
        raise NotImplementedError

    def mask(self, t: int, device) -> torch.Tensor:
        if (t, device) not in self.masks:
            i, j = torch.arange(t, device=device)[:, None], torch.arange(t, device=device)[None, :]
            heads = [self.sees(head, i, j) & (j <= i) for head in range(self.n_heads)]
            self.masks[t, device] = torch.stack([torch.broadcast_to(m, (t, t)) for m in heads])
        return self.masks[t, device]

    def attend(self, q, k, v):
        mask = self.mask(q.shape[2], q.device)
        nothing = ~mask.any(-1, keepdim=True)
        y = softmax_attention(q, k, v, mask | nothing)
        return y.masked_fill(nothing, 0)
