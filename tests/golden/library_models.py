"""Small models around an encoder of fast-transformers, as programs that use the library make them: a value's embedding
and a position's side by side, the encoder, a linear layer. For the test of weights/convert and the comparison with the
library itself."""

import torch

import images
import png
from client import call

SIDE = 4
SIZES = {"n_layers": 2, "n_heads": 2, "query_dimensions": 8, "value_dimensions": 8, "feed_forward_dimensions": 24}
VALUES = [(37 * i * i + 11 * i) % 256 for i in range(SIDE * SIDE)]


def names(b):
    """Shapes of the tensors around and in the encoder, and how they begin: (shape, mean, spread)."""
    d, d_ff = b["n_heads"] * b["value_dimensions"], b["feed_forward_dimensions"]
    keys = b["n_heads"] * b["query_dimensions"]
    found = {"value_embedding.weight": ([257, d // 2], 0, 1), "positions": ([1, 2 * SIDE * SIDE, d // 2], 0, 1)}

    def product(name, rows, columns):
        found[f"{name}.weight"] = [rows, columns], 0, 1.5 * columns**-0.5
        found[f"{name}.bias"] = [rows], 0, 0.3

    def norm(name):
        found[f"{name}.weight"], found[f"{name}.bias"] = ([d], 1, 0.3), ([d], 0, 0.3)

    for i in range(b["n_layers"]):
        layer = f"transformer.layers.{i}"
        for part, rows, columns in (("query", keys, d), ("key", keys, d), ("value", d, d), ("out", d, d)):
            product(f"{layer}.attention.{part}_projection", rows, columns)
        product(f"{layer}.linear1", d_ff, d)
        product(f"{layer}.linear2", d, d_ff)
        norm(f"{layer}.norm1")
        norm(f"{layer}.norm2")
    if b["final_normalization"]:
        norm("transformer.norm")
    product("predictor", 256, d)
    return found


def random_checkpoint(b):
    torch.manual_seed(5)
    return {name: mean + spread * torch.randn(*shape) for name, (shape, mean, spread) in names(b).items()}


def description(builder):
    """MODEL.json: in the library's embedding value 0 is the start."""
    half = builder["n_heads"] * builder["value_dimensions"] // 2
    return {"task": "image", "image": {"width": SIDE, "height": SIDE, "channels": 1}, "builder": builder,
            "state_dict": "model_state", "encoder": "transformer",
            "inputs": {"token": {"columns": ["value_embedding.weight", half], "rows": [[1, 256], 0]},
                       "position": {"columns": [half, "positions"], "rows": [[0, SIDE * SIDE - 1]]}},
            "head": {"kind": "categorical", "size": 256, "from": "predictor"}}


def score(port, model):
    """Bits of every value that a server's model says."""
    picture = images.data_url(png.write(SIDE, SIDE, bytes(VALUES)))
    reply = call(port, "POST", images.SCORE, {"model": model, "image": picture})
    assert reply.status == 200, reply.text
    return torch.tensor(reply.json()["surprise"], dtype=torch.float64).numpy()
