"""The transformer of the server, as a PyTorch module for training. Its parameters are called as the weights
file calls its tensors.

Shapes: B sequences, T tokens, I input streams, d model width, H heads, D = d / H. How a token sees those
before it is the layer's mixer (mixers/), linear attention unless the config names another.
"""

import json
import types

import mixers
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
    """Applies settings such as n_layers=4 or attention.eps=1e-5, and mixer=NAME: that kind in every layer, with its
    defaults; attention=[{"kind": NAME, ...}, ...]: one a layer. The field must be there, but attention may get one
    that its kind's defaults lack."""
    for setting in settings:
        path, _, value = setting.partition("=")
        if path == "mixer":
            config["attention"] = {"kind": value} | mixers.find(value).DEFAULTS
            continue
        if path == "attention":
            config["attention"] = [{"kind": own["kind"]} | mixers.find(own["kind"]).DEFAULTS | own for own in json.loads(value)]
            continue
        *parents, field = path.split(".")
        part = config
        for parent in parents:
            part = part.get(parent) if isinstance(part, dict) else None
        if parents == ["attention"] and field not in part:
            part[field] = json.loads(value)
            continue
        if not isinstance(part, dict) or not isinstance(part.get(field), (str, int, float, list)):
            raise SystemExit(f"--set {setting}: the config has no such value")
        kind = type(part[field])
        part[field] = value if kind is str else kind(json.loads(value))


def autocast(device: str) -> torch.autocast:
    """Products in bf16 on that device, which may have a number ("cuda:1")."""
    return torch.autocast(torch.device(device).type, dtype=torch.bfloat16)


class Embedding(nn.ModuleDict):
    """Sum of one learned table per input stream (token, position, ...)."""

    def __init__(self, inputs: list[dict], d_model: int):
        super().__init__({i["name"]: nn.Embedding(i["size"], d_model) for i in inputs})
        for table in self.values():
            nn.init.normal_(table.weight, std=0.2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # [B, T, I] -> [B, T, d]
        return sum(table(ids[..., i]) for i, table in enumerate(self.values()))


class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.up = nn.Linear(d_model, d_ff)
        self.down = nn.Linear(d_ff, d_model)
        nn.init.zeros_(self.down.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class GatedMlp(nn.Module):
    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)
        nn.init.zeros_(self.down.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class RmsNorm(nn.Module):
    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.float() * (x.float().square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight).to(x.dtype)


def make_norm(c: dict, width: int) -> nn.Module:
    """Of the config's kind."""
    kind = RmsNorm if c.get("norm_kind") == "rms" else nn.LayerNorm
    return kind(width, eps=c["norm_eps"])


FEED_FORWARDS = {"mlp": FeedForward, "gated_mlp": GatedMlp}


class Layer(nn.Module):
    def __init__(self, c: dict, index: int, dropout: float):
        super().__init__()
        self.dropout, self.wiring = dropout, c["norm"]
        self.norm1 = make_norm(c, c["d_model"])
        self.attn = mixers.make(c, index)
        self.is_whole = mixers.is_whole_layer(c, index)
        if not self.is_whole:
            self.norm2 = make_norm(c, c["d_model"])
            self.ff = FEED_FORWARDS[c.get("feed_forward", {}).get("kind", "mlp")](c["d_model"], c["d_ff"])

    def mix(self, x: torch.Tensor, carried: dict) -> torch.Tensor:
        return self.attn(x, carried) if getattr(self.attn, "CARRIES", False) else self.attn(x)

    def forward(self, x: torch.Tensor, carried: dict) -> torch.Tensor:  # [B, T, d]; reversible: two of them side by side
        x = self.residual(x, self.norm1, lambda y: self.mix(y, carried))
        return x if self.is_whole else self.residual(x, self.norm2, self.ff)

    def drop(self, y: torch.Tensor) -> torch.Tensor:
        return F.dropout(y, self.dropout, self.training)

    def residual(self, x: torch.Tensor, norm: nn.Module, branch) -> torch.Tensor:
        if self.wiring == "reversible":  # then the other one is the first
            x1, x2 = x.chunk(2, -1)
            return torch.cat([x2, x1 + self.drop(branch(norm(x2)))], -1)
        post = self.wiring == "post"
        y = self.drop(branch(x if post else norm(x)))
        return norm(x + y) if post else x + y


def head_size(head: dict) -> int:
    """Outputs of the head: one logit an id, or weight, mean and log scale a component."""
    return 3 * head["components"] if head["kind"] == "logistic_mixture" else head["size"]


class LinearTransformer(nn.Module):
    def __init__(self, config: dict, dropout: float = 0.0):
        super().__init__()
        self.two = config["norm"] == "reversible"
        width = config["d_model"] * (2 if self.two else 1)
        self.embed = Embedding(config["inputs"], config["d_model"])
        self.layers = nn.ModuleList([Layer(config, i, dropout) for i in range(config["n_layers"])])
        self.final_norm = make_norm(config, width)
        self.head = nn.Linear(width, head_size(config["head"]), bias=config["head"].get("bias", True))
        nn.init.zeros_(self.head.weight)
        if self.head.bias is not None:
            nn.init.zeros_(self.head.bias)

    def compile_parts(self, **options):
        """Compiles the tables and one layer, whose code serves all layers: a tenth of the time that the whole model takes."""
        self.embed.forward = torch.compile(self.embed.forward, **options)
        one_layer = torch.compile(Layer.forward, **options)
        for layer in self.layers:
            layer.forward = types.MethodType(one_layer, layer)

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:  # [B, T, I] -> [B, T, d or 2 d]
        x, carried = self.embed(ids), {}
        if self.two:
            x = torch.cat([x, x], -1)
        for layer in self.layers:
            x = layer(x, carried)
        if self.two and sum(layer.is_whole for layer in self.layers) % 2:
            x = torch.cat(x.chunk(2, -1)[::-1], -1)
        return self.final_norm(x)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # [B, T, I] -> [B, T, outputs]
        return self.head(self.hidden(ids))
