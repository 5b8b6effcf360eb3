"""The linear transformer of the server, as a PyTorch module for training.

Shapes: B sequences, T tokens, I input streams, d model width, H heads, D = d / H.
The attention is causal linear attention (Katharopoulos et al. 2020, eq. 9-12) with
phi(x) = elu(x) + 1:  y_i = sum_{j<=i} phi(q_i).phi(k_j) v_j / (sum_{j<=i} phi(q_i).phi(k_j) + eps).
It is computed chunk by chunk: quadratic inside a chunk, through the running state s = sum phi(k) v^T,
z = sum phi(k) between chunks, so that memory grows with T and not with T^2. A sequence of at most
one chunk is the exact quadratic form.

What the config may say beyond what the server reads (softmax attention, other feature maps) is for
comparisons: such a model trains, and export.py refuses it.
"""

import json

import torch
import torch.nn.functional as F
from torch import nn


def model_config(task: str, inputs: list[tuple[str, int]], head: dict, n_layers: int = 8, **of_task) -> dict:
    """config.json of a model of the paper's size."""
    return {
        "format": "linnet",
        "format_version": 1,
        "task": task,
        "n_layers": n_layers,
        "n_heads": 8,
        "d_model": 256,
        "d_ff": 1024,
        "norm": "pre",
        "norm_eps": 1e-5,
        "activation": "gelu",
        "attention": {"kind": "linear", "feature_map": "elu+1", "eps": 1e-6},
        "inputs": [{"name": name, "size": size} for name, size in inputs],
        "head": head,
        **of_task,
    }


def override(config: dict, settings: list[str]):
    """Applies settings such as n_layers=4 or attention.feature_map=relu; the field must be there."""
    for setting in settings:
        path, _, value = setting.partition("=")
        *parents, field = path.split(".")
        part = config
        for parent in parents:
            part = part.get(parent) if isinstance(part, dict) else None
        if not isinstance(part, dict) or not isinstance(part.get(field), (str, int, float)):
            raise SystemExit(f"--set {setting}: the config has no such value")
        kind = type(part[field])
        part[field] = value if kind is str else kind(json.loads(value))


class Embedding(nn.Module):
    """Sum of one learned table per input stream (token, position, ...)."""

    def __init__(self, inputs: list[dict], d_model: int):
        super().__init__()
        self.tables = nn.ModuleDict({i["name"]: nn.Embedding(i["size"], d_model) for i in inputs})
        for table in self.tables.values():
            nn.init.normal_(table.weight, std=0.2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # [B, T, I] -> [B, T, d]
        return sum(table(ids[..., i]) for i, table in enumerate(self.tables.values()))


def phi(x: torch.Tensor) -> torch.Tensor:
    """elu(x) + 1, in a form that compiles to one pass."""
    return torch.where(x > 0, x + 1, torch.exp(x.clamp(max=0)))


FEATURE_MAPS = {
    "elu+1": phi,
    "relu": F.relu,
    "exp": lambda x: torch.exp(x.clamp(max=8)),
    "relu2": lambda x: F.relu(x).square(),
}


def in_chunks(x: torch.Tensor, size: int) -> torch.Tensor:
    """[B, H, T, D] -> [B, H, T / size rounded up, size, D]; what is missing at the end is zero."""
    b, h, t, d = x.shape
    return F.pad(x, (0, 0, 0, -t % size)).view(b, h, -1, size, d)


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


class Attention(nn.Module):
    """Causal self-attention of the kind the config names: linear, or the softmax it is compared with."""

    def __init__(self, c: dict, chunk: int):
        super().__init__()
        d_model, kind = c["d_model"], c["attention"]["kind"]
        self.n_heads, self.eps, self.chunk = c["n_heads"], c["attention"]["eps"], chunk
        self.attend = {"linear": self.linear, "softmax": self.softmax}[kind]
        self.phi = FEATURE_MAPS[c["attention"]["feature_map"]]
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)
        nn.init.zeros_(self.out.weight)

    def linear(self, q, k, v):
        return linear_attention(self.phi(q), self.phi(k), v, self.eps, self.chunk)

    def softmax(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)  # [B, H, T, D]
        return self.out(self.attend(q, k, v).to(x.dtype).transpose(1, 2).reshape(b, t, d))


class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.up = nn.Linear(d_model, d_ff)
        self.down = nn.Linear(d_ff, d_model)
        nn.init.zeros_(self.down.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class Layer(nn.Module):
    def __init__(self, c: dict, dropout: float, chunk: int):
        super().__init__()
        self.dropout, self.post = dropout, c["norm"] == "post"
        self.norm1 = nn.LayerNorm(c["d_model"], eps=c["norm_eps"])
        self.attention = Attention(c, chunk)
        self.norm2 = nn.LayerNorm(c["d_model"], eps=c["norm_eps"])
        self.feed_forward = FeedForward(c["d_model"], c["d_ff"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.residual(x, self.norm1, self.attention)
        return self.residual(x, self.norm2, self.feed_forward)

    def residual(self, x: torch.Tensor, norm: nn.Module, branch: nn.Module) -> torch.Tensor:
        y = F.dropout(branch(x if self.post else norm(x)), self.dropout, self.training)
        return norm(x + y) if self.post else x + y


def head_size(head: dict) -> int:
    """Outputs of the head: one logit an id, or weight, mean and log scale a component."""
    return 3 * head["components"] if head["kind"] == "logistic_mixture" else head["size"]


class LinearTransformer(nn.Module):
    def __init__(self, config: dict, dropout: float = 0.0, chunk: int = 112):
        super().__init__()
        self.embedding = Embedding(config["inputs"], config["d_model"])
        self.layers = nn.ModuleList([Layer(config, dropout, chunk) for _ in range(config["n_layers"])])
        self.final_norm = nn.LayerNorm(config["d_model"], eps=config["norm_eps"])
        self.head = nn.Linear(config["d_model"], head_size(config["head"]))
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:  # [B, T, I] -> [B, T, d]
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return self.final_norm(x)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # [B, T, I] -> [B, T, outputs]
        return self.head(self.hidden(ids))
