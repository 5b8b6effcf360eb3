"""weights/convert/fast_transformers.py: a checkpoint with the library's names, its equations in float64, and the
program's results for the converted folder. A tensor without a place is refused by its name."""

import json
import math
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "weights" / "convert"), str(ROOT / "tests" / "golden"), str(ROOT / "tests" / "http")]

import fast_transformers as converter  # noqa: E402
import library_models  # noqa: E402
from server import Server  # noqa: E402

pytestmark = pytest.mark.training

BUILDERS = {
    "linear": {"attention_type": "causal-linear", "activation": "gelu", "eps": 1e-3},
    "recurrent": {"attention_type": "linear", "query_dimensions": 5, "final_normalization": False},
    "softmax": {"attention_type": "full", "softmax_temp": 0.9, "attention_dropout": 0.1},
    "local": {"attention_type": "local", "local_context": 5},
    "even": {"attention_type": "local", "local_context": 6, "softmax_temp": 0.2},
}


# --- the library's equations, token after token


def norm(w, name, x):
    return (x - x.mean()) / numpy.sqrt(x.var() + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]


def product(w, name, x):
    return w[f"{name}.weight"] @ x + w[f"{name}.bias"]


def phi(x):
    return numpy.where(x > 0, x + 1, numpy.exp(numpy.minimum(x, 0)))


def weights_of(b, q, keys):
    """Of the last of the keys and those before it."""
    if "linear" in b["attention_type"]:
        w = numpy.array([phi(q) @ phi(k) for k in keys])
        return w / (w.sum() + b.get("eps", 1e-6))
    logits = numpy.array([q @ k for k in keys]) * (b.get("softmax_temp") or 1 / math.sqrt(len(q)))
    if b["attention_type"] == "local":  # start = l - context / 2
        logits[:max(0, len(keys) - 1 - b["local_context"] // 2)] = -numpy.inf
    w = numpy.exp(logits - logits.max())
    return w / w.sum()


def attention(w, name, b, rows):
    """The last row's sum over all rows up to itself."""
    heads = b["n_heads"]
    q = product(w, f"{name}.query_projection", rows[-1]).reshape(heads, -1)
    k = [product(w, f"{name}.key_projection", row).reshape(heads, -1) for row in rows]
    v = [product(w, f"{name}.value_projection", row).reshape(heads, -1) for row in rows]
    out = [sum(a * row[h] for a, row in zip(weights_of(b, q[h], [row[h] for row in k]), v)) for h in range(heads)]
    return product(w, f"{name}.out_projection", numpy.concatenate(out))


def activation(b, x):
    return numpy.maximum(x, 0) if b["activation"] == "relu" else x * (1 + numpy.vectorize(math.erf)(x / math.sqrt(2))) / 2


def surprise(w, b, values):
    """Bits of every value, given those before it."""
    rows, bits = [[] for _ in range(b["n_layers"])], []
    for t, value in enumerate(values):
        x = numpy.concatenate([w["value_embedding.weight"][0 if t == 0 else values[t - 1] + 1], w["positions"][0, t]])
        for i in range(b["n_layers"]):
            name = f"transformer.layers.{i}"
            rows[i].append(x)
            x = norm(w, f"{name}.norm1", x + attention(w, f"{name}.attention", b, rows[i]))
            x = norm(w, f"{name}.norm2", x + product(w, f"{name}.linear2", activation(b, product(w, f"{name}.linear1", x))))
        if b["final_normalization"]:
            x = norm(w, "transformer.norm", x)
        logits = product(w, "predictor", x)
        bits.append((numpy.logaddexp.reduce(logits) - logits[value]) / math.log(2))
    return numpy.array(bits)


# --- the program


@pytest.fixture
def write(tmp_path):
    def made(name, builder, **fields):
        """A checkpoint and its MODEL.json; (tensors, the builder's arguments, both paths)."""
        b = converter.BUILDER | library_models.SIZES | builder
        tensors = library_models.random_checkpoint(b)
        torch.save({"model_state": tensors}, tmp_path / f"{name}.pt")
        (tmp_path / f"{name}.json").write_text(json.dumps(library_models.description(library_models.SIZES | builder) | fields))
        return tensors, b, (tmp_path / f"{name}.pt", tmp_path / f"{name}.json")
    return made


def test_the_folder_says_what_the_checkpoint_says(tmp_path, write):
    wanted = {}
    for name, builder in BUILDERS.items():
        tensors, b, paths = write(name, builder)
        converter.convert(*paths, tmp_path / "models" / name)
        wanted[name] = surprise({n: t.double().numpy() for n, t in tensors.items()}, b, library_models.VALUES)
    with Server("--models", tmp_path / "models", "--precision", "f32") as server:
        for name, bits in wanted.items():
            got = library_models.score(server.port, name)
            assert abs(got - bits).max() < 1e-3, name
            assert bits.std() > 0.5


@pytest.mark.parametrize("builder, fields, words", [
    ({"attention_type": "reformer"}, {}, "reformer"),
    ({"attention_type": "improved-clustered"}, {}, "improved-clustered"),
    ({"feature_map": "favor"}, {}, "feature_map"),
    ({"clusters": 5}, {}, "builder.clusters"),
    ({"attention_type": "local"}, {}, "local_context"),
    ({"activation": "silu"}, {}, "silu"),
    ({"n_layers": 3}, {}, "transformer.layers.2"),
    ({"n_layers": 1}, {}, "transformer.layers.1"),
    ({"feed_forward_dimensions": 20}, {}, "linear1.weight is"),
    ({}, {"state_dict": "weights"}, "state_dict"),
    ({}, {"encoder": "encoder"}, "encoder.layers.0"),
    ({}, {"inputs": {"token": "value_embedding.weight"}}, "inputs.token is 8 wide"),
    ({}, {"inputs": {"token": {"columns": ["value_embedding.weight", 8], "rows": [300]}}}, "inputs.token.rows"),
    ({}, {"head": {"kind": "categorical", "size": 10, "from": "predictor"}}, "predictor.weight is"),
    ({}, {"head": {"kind": "categorical", "size": 256}}, "head.from"),
    ({}, {"name": 1}, "name is not a known field"),
])
def test_what_has_no_place_is_refused(tmp_path, write, builder, fields, words):
    _, _, (checkpoint, _) = write("right", {})
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(library_models.description(library_models.SIZES | builder) | fields))
    with pytest.raises(SystemExit) as ended:
        converter.convert(checkpoint, path, tmp_path / "out")
    assert words in str(ended.value) and not (tmp_path / "out").exists()


def test_what_is_no_checkpoint_is_refused(tmp_path, write):
    _, _, (checkpoint, path) = write("right", {})
    checkpoint.write_bytes(b"nothing")
    with pytest.raises(SystemExit, match="right.pt"):
        converter.convert(checkpoint, path, tmp_path / "out")
