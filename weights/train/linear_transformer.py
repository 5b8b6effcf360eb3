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

from unfit import Unfit


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


OF_THE_DATA = {"format", "format_version", "task", "inputs", "max_chars", "image", "copy", "text", "speech"}  # and of the options
LIMITS = {"n_layers": (1, 256), "n_heads": (1, 1024), "d_model": (1, 65536), "d_ff": (1, 262144), "d_key": (1, 4096),
          "d_value": (1, 4096), "norm_eps": (1e-30, 1), "eps": (1e-30, 1), "components": (1, 64)}  # the server's (docs/weights-format.md)
MOST_ROWS = 262144  # of a product that makes queries, keys and values
WORDS = {"norm": ("pre", "post", "reversible"), "norm_kind": ("layer", "rms"), "activation": ("gelu",)}  # that are trained


def read_json(setting: str, value: str):
    try:
        return json.loads(value)
    except ValueError as error:
        raise Unfit(f"--set {setting}: the value is no JSON: {error}") from error


def mixers_of(setting: str, value: str) -> list:
    own = read_json(setting, value)
    if not isinstance(own, list) or not all(isinstance(one, dict) and isinstance(one.get("kind"), str) for one in own):
        raise Unfit(f"--set {setting}: it is no list of objects with a kind")
    return [{"kind": one["kind"]} | mixers.find(one["kind"]).DEFAULTS | one for one in own]


def alike(setting: str, before, value: str):
    """The value, if it is of the same type as the one before."""
    if isinstance(before, str):
        return value
    read = read_json(setting, value)
    if isinstance(before, float) and type(read) is int:
        return float(read)
    if type(read) is not type(before):
        raise Unfit(f"--set {setting}: the value is not of the kind of {json.dumps(before)}")
    return read


def override(config: dict, settings: list[str]):
    """Applies settings such as n_layers=4 or attention.eps=1e-5, and mixer=NAME: that kind in every layer, with its
    defaults; attention=[{"kind": NAME, ...}, ...]: one a layer. The field must be there, but attention may get one
    that its kind's defaults lack. The config is then one that the server takes."""
    for setting in settings:
        path, equals, value = setting.partition("=")
        *parents, field = path.split(".")
        if not equals:
            raise Unfit(f"--set {setting}: it is not FIELD=VALUE")
        if path == "mixer":
            config["attention"] = {"kind": value} | mixers.find(value).DEFAULTS
            continue
        if path == "attention":
            config["attention"] = mixers_of(setting, value)
            continue
        if path.split(".")[0] in OF_THE_DATA or path in ("head.kind", "head.size", "head.levels"):
            raise Unfit(f"--set {setting}: the data and the other options say this value")
        part = config
        for parent in parents:
            part = part.get(parent) if isinstance(part, dict) else None
        before = part.get(field) if isinstance(part, dict) else None
        if parents == ["attention"] and isinstance(part, dict) and field not in part:
            part[field] = read_json(setting, value)
        elif isinstance(before, (str, int, float, list)):
            part[field] = alike(setting, before, value)
        else:
            raise Unfit(f"--set {setting}: the config has no such value")
    check_config(config)


def check_config(config: dict):
    """What the server would refuse, or what is not trained."""
    for name, words in WORDS.items():
        if config.get(name, words[0]) not in words:
            raise Unfit(f"{name} {config[name]} is not trained: {', '.join(words)}")
    for part in (config, config["head"]):
        check_limits(part)
    own_feed_forward = config.get("feed_forward", {}).get("kind", "mlp")
    if own_feed_forward not in FEED_FORWARDS:
        raise Unfit(f"feed_forward.kind {own_feed_forward} is not trained: {', '.join(FEED_FORWARDS)}")
    if not {"d_key", "d_value"} <= config.keys() and config["d_model"] % config["n_heads"]:
        raise Unfit(f"d_model {config['d_model']} is not a multiple of n_heads {config['n_heads']}")
    for layer in range(config["n_layers"]):
        own = mixers.own_config(config, layer)
        check_limits(own)
        if own["n_heads"] * (2 * own["d_key"] + own["d_value"]) > MOST_ROWS:
            raise Unfit(f"n_heads {own['n_heads']} times (2 d_key + d_value) is more than {MOST_ROWS}")


def check_limits(part: dict):
    for name, (least, most) in LIMITS.items():
        value = part.get(name, least)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise Unfit(f"{name} {json.dumps(value)} is not from {least} to {most}")


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
