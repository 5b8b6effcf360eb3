"""Causal linear attention that can forget: linear.py with a factor w per head and token, before the token's own product.

    s = w s + phi(k) v^T     z = w z + phi(k)     y = phi(q)^T s / (phi(q)^T z + eps)     w = sigmoid(W_forget x + b)

Inside a chunk it is quadratic; the state goes from chunk to chunk.
"""

import torch
import torch.nn.functional as F
from mixers.linear import CHUNK, DEFAULTS, Mixer as Linear, in_chunks  # noqa: F401 (DEFAULTS are this kind's, too)
from torch import nn

KEEPS = 8.0  # where the bias begins: a state loses a quarter in a picture of 784 pixels


def fading_attention(q, k, v, log_w, eps: float, chunk: int = CHUNK) -> torch.Tensor:
    """q, k: phi already applied; [B, H, T, D] each, log_w [B, H, T] -> [B, H, T, D] in f32."""
    t = q.shape[2]
    v = F.pad(v.float(), (0, 1), value=1.0)  # the last column of the state is z
    q, k, v = (in_chunks(x.float(), chunk) for x in (q, k, v))
    total = in_chunks(log_w.float()[..., None], chunk)[..., 0].cumsum(-1)  # of the chunk up to each token
    within = (total[..., :, None] - total[..., None, :]).tril().exp().tril()  # from token j to token i >= j
    own = ((q @ k.transpose(-1, -2)) * within) @ v
    asked, left = q * total.exp()[..., None], (total[..., -1:] - total).exp()[..., None] * k
    made, out, state = left.transpose(-1, -2) @ v, [own[:, :, 0]], 0
    for i in range(1, q.shape[2]):
        state = state * total[:, :, i - 1, -1, None, None].exp() + made[:, :, i - 1]
        out.append(own[:, :, i] + asked[:, :, i] @ state)
    y = torch.cat(out, 2)[:, :, :t]
    return y[..., :-1] / (y[..., -1:] + eps)


class Mixer(Linear):
    BOTH_WAYS = False

    def __init__(self, c: dict, own: dict):
        super().__init__(c, own)
        self.forget = nn.Linear(c["d_model"], self.n_heads)
        nn.init.zeros_(self.forget.weight)
        nn.init.constant_(self.forget.bias, KEEPS)

    def forward(self, x):
        q, k, v = self.heads(self.qkv(x))
        with torch.autocast(x.device.type, enabled=False):
            log_w = F.logsigmoid(self.forget(x.float())).transpose(1, 2)
            y = fading_attention(self.phi(q), self.phi(k), v, log_w, self.eps)
        return self.back(y.to(x.dtype))
