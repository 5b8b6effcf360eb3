"""Compares converted folders with the library of the paper's authors itself:

    python3 tests/golden/against_fast_transformers.py

For every kind that weights/convert/fast_transformers.py takes a model around TransformerEncoderBuilder's encoder, and
where the library has one its recurrent twin, scores a picture; so does the program (build/linnet, or LINNET). Needs
torch and pytorch-fast-transformers, and reports their absence. Prints the largest difference in bits of a value; more
than 1e-3 is an error.
"""

import importlib.util
import json
import pathlib
import sys
import tempfile

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "http"), str(ROOT / "tests" / "golden")]

try:
    import torch
    from fast_transformers.builders import RecurrentEncoderBuilder, TransformerEncoderBuilder
    from fast_transformers.masking import TriangularCausalMask
except ImportError as error:
    sys.exit(f"against_fast_transformers.py: without the library there is nothing to compare with ({error}): "
             "pip install pytorch-fast-transformers")

import library_models  # noqa: E402 (the lines above say where)
from server import Server  # noqa: E402

CASES = {  # the builder's arguments, and the attention type of its recurrent twin
    "linear": ({"attention_type": "causal-linear", "activation": "gelu"}, "linear"),
    "softmax": ({"attention_type": "full", "softmax_temp": 0.9}, "full"),
    "no-final-norm": ({"attention_type": "full", "final_normalization": False}, "full"),
    "local": ({"attention_type": "local", "local_context": 5}, None),
    "local-even": ({"attention_type": "local", "local_context": 6}, None),
}


class Model(torch.nn.Module):
    def __init__(self, builder, arguments):
        super().__init__()
        d = arguments["n_heads"] * arguments["value_dimensions"]
        self.value_embedding = torch.nn.Embedding(257, d // 2)
        self.register_buffer("positions", torch.zeros(1, 2 * library_models.SIDE**2, d // 2))
        self.transformer = builder.from_kwargs(**arguments).get()
        self.predictor = torch.nn.Linear(d, 256)

    def embed(self, ids):
        """[T] -> [1, T, d]"""
        return torch.cat([self.value_embedding(ids)[None], self.positions[:, :len(ids)]], -1)

    def bits(self, x):
        """[T, d] -> [T]"""
        chosen = torch.log_softmax(self.predictor(x), -1)[range(len(x)), library_models.VALUES]
        return (-chosen / numpy.log(2)).double().numpy()

    def whole(self, ids):
        return self.bits(self.transformer(self.embed(ids), attn_mask=TriangularCausalMask(len(ids)))[0])

    def steps(self, ids):
        rows, state = [], None
        for x in self.embed(ids)[0]:
            y, state = self.transformer(x[None], state)
            rows.append(y[0])
        return self.bits(torch.stack(rows))


def convert(folder, name, builder, model):
    """The converter's file is called as the library is, and so is not on the path."""
    checkpoint, description = folder / f"{name}.pt", folder / f"{name}.json"
    spec = importlib.util.spec_from_file_location("converter", ROOT / "weights" / "convert" / "fast_transformers.py")
    converter = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(converter)
    torch.save({"model_state": model.state_dict()}, checkpoint)
    description.write_text(json.dumps(library_models.description(builder)))
    converter.convert(checkpoint, description, folder / "models" / name)


def main():
    ids, wanted, worst = torch.tensor([0] + [value + 1 for value in library_models.VALUES[:-1]]), {}, 0.0
    with tempfile.TemporaryDirectory() as path, torch.no_grad():
        folder = pathlib.Path(path)
        for name, (own, twin) in CASES.items():
            arguments = library_models.SIZES | own
            tensors = library_models.random_checkpoint({"final_normalization": True} | arguments)
            model = Model(TransformerEncoderBuilder, arguments).eval()
            model.load_state_dict(tensors)
            wanted[name] = [model.whole(ids)]
            if twin is not None:
                recurrent = Model(RecurrentEncoderBuilder, arguments | {"attention_type": twin}).eval()
                recurrent.load_state_dict(tensors)
                wanted[name].append(recurrent.steps(ids))
            convert(folder, name, arguments, model)
        with Server("--models", folder / "models", "--precision", "f32") as server:
            for name, readings in wanted.items():
                got = library_models.score(server.port, name)
                off = max(abs(got - bits).max() for bits in readings)
                worst = max(worst, off if numpy.isfinite(off) else numpy.inf)
                print(f"{name}: {off:.2g}{'' if len(readings) > 1 else ', without a recurrent twin'}")
    sys.exit(0 if worst < 1e-3 else 1)


if __name__ == "__main__":
    main()
