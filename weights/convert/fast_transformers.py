#!/usr/bin/env python3
"""Writes a model of fast-transformers, the library of the linear transformer's authors, as a folder that Linnet serves.

    python3 weights/convert/fast_transformers.py CHECKPOINT.pt MODEL.json OUT

The checkpoint holds the state_dict of a module around TransformerEncoderBuilder's encoder or RecurrentEncoderBuilder's,
which have equal names. MODEL.json has the rest (weights/convert/README.md): the arguments of the builder, and the tensors of
embeddings and head. The library is not needed. Tensors and options without a place in Linnet's format are refused by name;
numbers stay f32.
"""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))
import packages  # noqa: E402, F401 (the line above says where; before the packages that may be missing)

import torch  # noqa: E402
import tensors as files  # noqa: E402 (the line above says where)

NORM_EPS = 1e-5  # of the library's norms, and of PyTorch's
BUILDER = {"attention_type": "full", "n_layers": 4, "n_heads": 4, "query_dimensions": 64, "value_dimensions": 64,
           "feed_forward_dimensions": 1024, "activation": "relu", "final_normalization": True}  # the builder's defaults
UNUSED = ("dropout", "attention_dropout")  # when a model is served
OF_KIND = {"linear": ("eps",), "causal-linear": ("eps",), "full": ("softmax_temp",), "local": ("softmax_temp", "local_context")}
FIELDS = ("task", "image", "copy", "text", "builder", "state_dict", "encoder", "inputs", "head")


def refuse(what: str):
    raise SystemExit(f"fast_transformers.py: {what}")


# --- what MODEL.json says


def read_description(path: pathlib.Path) -> dict:
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        refuse(f"{path}: {error}")
    for name in described:
        if name not in FIELDS:
            refuse(f"{path}: {name} is not a known field, which are {', '.join(FIELDS)}")
    for name in ("task", "builder", "inputs", "head"):
        if name not in described:
            refuse(f"{path}: {name} is missing")
    return described


def read_builder(given: dict) -> dict:
    """The builder's arguments, with its defaults."""
    kind = given.get("attention_type", BUILDER["attention_type"])
    if kind == "reformer":
        refuse("builder.attention_type is \"reformer\": the library draws new hashes at every call and cuts chunks that "
               "depend on later tokens, so that there is no model to step through; train lsh (weights/train) instead")
    if kind not in OF_KIND:
        refuse(f"builder.attention_type is {json.dumps(kind)}, not one of {', '.join(OF_KIND)}")
    for name in given:
        if name == "feature_map":
            refuse("builder.feature_map: the library's own, elu(x) + 1, is converted, and no other")
        if name not in (*BUILDER, *UNUSED, *OF_KIND[kind]):
            refuse(f"builder.{name} is not known of {kind} attention")
    if kind == "local" and not isinstance(given.get("local_context"), int):
        refuse("builder.local_context is missing: local attention needs it")
    b = BUILDER | given
    if b["activation"] not in ("relu", "gelu"):
        refuse(f"builder.activation is {json.dumps(b['activation'])}, not relu or gelu")
    return b


def attention_of(b: dict) -> dict:
    if b["attention_type"] in ("linear", "causal-linear"):
        return {"kind": "linear", "feature_map": "elu+1", "eps": b.get("eps", 1e-6)}
    if b["attention_type"] == "full":
        return {"kind": "softmax"}
    return {"kind": "sliding_window", "window": b["local_context"] // 2 + 1}  # of its neighbourhood the half before


# --- tensors


class Checkpoint:
    """Tensors by their names, each of which is taken once at least."""

    def __init__(self, path: pathlib.Path, key: str | None):
        try:
            tensors = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch passes on the exceptions of its readers
            refuse(f"{path}: {str(error).splitlines()[0]}")
        if key is not None:
            tensors = tensors.get(key) if isinstance(tensors, dict) else None
        if not isinstance(tensors, dict) or not all(isinstance(t, torch.Tensor) for t in tensors.values()):
            refuse(f"{path}: there is no state_dict{' in ' + key if key else ''}; state_dict in MODEL.json names its key")
        self.tensors, self.taken = {name: t.float() for name, t in tensors.items()}, set()

    def take(self, name: str, *shape: int) -> torch.Tensor:
        if name not in self.tensors:
            refuse(f"the checkpoint has no {name}")
        self.taken.add(name)
        tensor = self.tensors[name]
        while tensor.ndim > len(shape) and tensor.shape[0] == 1:  # as buffers of positions have
            tensor = tensor[0]
        if tensor.ndim != len(shape) or any(want not in (-1, got) for want, got in zip(shape, tensor.shape)):
            refuse(f"{name} is {list(tensor.shape)}, not {['any' if n < 0 else n for n in shape]}")
        return tensor

    def left(self, prefix: str) -> list[str]:
        return sorted(name for name in self.tensors if name.startswith(prefix) and name not in self.taken)


def linear_of(c: Checkpoint, name: str, rows: int, columns: int) -> dict:
    return {"weight": c.take(f"{name}.weight", rows, columns), "bias": c.take(f"{name}.bias", rows)}


def norm_of(c: Checkpoint, name: str, d: int) -> dict:
    return {"weight": c.take(f"{name}.weight", d), "bias": c.take(f"{name}.bias", d)}


def layer_of(c: Checkpoint, name: str, b: dict) -> dict:
    """A layer's tensors by the names that Linnet has for them."""
    keys, values = (b["n_heads"] * b[size] for size in ("query_dimensions", "value_dimensions"))
    d, d_ff = values, b["feed_forward_dimensions"]
    q, k, v = (linear_of(c, f"{name}.attention.{part}_projection", rows, d)
               for part, rows in (("query", keys), ("key", keys), ("value", values)))
    temperature = b.get("softmax_temp")
    if temperature:  # Linnet's is 1 / sqrt(D)
        q = {what: t * (temperature * b["query_dimensions"] ** 0.5) for what, t in q.items()}
    return {
        "norm1": norm_of(c, f"{name}.norm1", d),
        "attn.qkv": {what: torch.cat([q[what], k[what], v[what]]) for what in q},
        "attn.out": linear_of(c, f"{name}.attention.out_projection", d, values),
        "norm2": norm_of(c, f"{name}.norm2", d),
        "ff.up": linear_of(c, f"{name}.linear1", d_ff, d),
        "ff.down": linear_of(c, f"{name}.linear2", d, d_ff),
    }


def encoder_of(c: Checkpoint, prefix: str, b: dict, d: int) -> dict:
    parts = {f"layers.{i}.{name}": part for i in range(b["n_layers"])
             for name, part in layer_of(c, f"{prefix}layers.{i}", b).items()}
    if b["final_normalization"]:
        parts["final_norm"] = norm_of(c, f"{prefix}norm", d)
    else:  # the last layer's own norm takes its place; its output has mean 0 and deviation 1
        last = f"layers.{b['n_layers'] - 1}.norm2"
        parts["final_norm"] = parts[last]
        parts[last] = {"weight": torch.ones(d), "bias": torch.zeros(d)}
    if c.left(f"{prefix}layers."):
        refuse(f"the encoder has {c.left(f'{prefix}layers.')[0]}, which the builder's arguments do not account for")
    return {f"{name}.{what}": t for name, part in parts.items() for what, t in part.items()}


def rows_of(table: torch.Tensor, ranges: list, name: str) -> torch.Tensor:
    """Rows by numbers and ranges [from, to], both included."""
    chosen = []
    for one in ranges:
        first, last = one if isinstance(one, list) else (one, one)
        if not 0 <= first <= last < table.shape[0]:
            refuse(f"inputs.{name}.rows: {first} to {last}, and the table has {table.shape[0]} rows")
        chosen.append(table[first:last + 1])
    return torch.cat(chosen)


def table_of(c: Checkpoint, name: str, given, d: int) -> torch.Tensor:
    """An input's embedding, [size, d]."""
    given = {"columns": [given]} if isinstance(given, str) else given
    if not isinstance(given, dict) or not given.get("columns") or set(given) - {"columns", "rows"}:
        refuse(f"inputs.{name} must be a tensor's name, or an object with columns and perhaps rows")
    parts = [part if isinstance(part, int) else c.take(part, -1, -1) for part in given["columns"]]
    size = max((part.shape[0] for part in parts if not isinstance(part, int)), default=0)
    table = torch.cat([torch.zeros(size, part) if isinstance(part, int) else part for part in parts], 1)
    if table.shape[1] != d:
        refuse(f"inputs.{name} is {table.shape[1]} wide, and the model {d}")
    return rows_of(table, given["rows"], name) if "rows" in given else table


# --- the folder


def convert(checkpoint: pathlib.Path, description: pathlib.Path, out: pathlib.Path):
    described = read_description(description)
    b, c = read_builder(described["builder"]), Checkpoint(checkpoint, described.get("state_dict"))
    d, head, encoder = b["n_heads"] * b["value_dimensions"], dict(described["head"]), described.get("encoder", "")
    predictor = head.pop("from", None)
    if not isinstance(predictor, str):
        refuse("head.from is missing: the name of the linear layer that makes the outputs")
    tables = {name: table_of(c, name, given, d) for name, given in described["inputs"].items()}
    outputs = 3 * head["components"] if head["kind"] == "logistic_mixture" else head["size"]
    tensors = {f"embed.{name}.weight": table for name, table in tables.items()}
    tensors |= encoder_of(c, f"{encoder}." if encoder else "", b, d)
    tensors |= {f"head.{what}": t for what, t in linear_of(c, predictor, outputs, d).items()}
    config = {
        "format": "linnet", "format_version": 1, "task": described["task"], "n_layers": b["n_layers"],
        "n_heads": b["n_heads"], "d_model": d, "d_ff": b["feed_forward_dimensions"], "d_key": b["query_dimensions"],
        "d_value": b["value_dimensions"], "norm": "post", "norm_eps": NORM_EPS, "activation": b["activation"],
        "attention": attention_of(b),
        "inputs": [{"name": name, "size": table.shape[0]} for name, table in tables.items()], "head": head,
        **{name: described[name] for name in ("image", "copy", "text") if name in described},
    }
    out.mkdir(parents=True, exist_ok=True)
    files.write(out / "model.safetensors", [(name, "F32", list(t.shape), t.contiguous().numpy().tobytes())
                                            for name, t in tensors.items()], "fast-transformers")
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for name in c.left(""):
        print(f"not used: {name}", file=sys.stderr)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("checkpoint", type=pathlib.Path)
    p.add_argument("description", type=pathlib.Path, metavar="MODEL.json")
    p.add_argument("out", type=pathlib.Path)
    args = p.parse_args()
    convert(args.checkpoint, args.description, args.out)


if __name__ == "__main__":
    main()
