"""Makes operators/KIND.txt: results of the reference functions of flash-linear-attention for random inputs of one head.

    python3 tests/golden/operators.py FOLDER

FOLDER is that of the package, or an unpacked wheel of fla-core. Its files are loaded one by one, which needs only torch
and einops. The conformance test operators_equal_those_of_fla compares the back ends with them. A file holds tokens, K
and V; then one line of numbers per token: q, k, v, w (the factors of the state, 1 or K), a, b, beta, u, y. A line is
empty where the kind has no such array.
"""

import importlib.util
import pathlib
import sys

import torch
from torch.nn.functional import logsigmoid, normalize

HERE = pathlib.Path(__file__).parent / "operators"
TOKENS, K, V = 40, 6, 5
# Where in it each kind lies.
FILES = {"simple_gla": "simple_gla/naive.py", "gla": "gla/naive.py", "delta_rule": "delta_rule/naive.py",
         "gated_delta_rule": "gated_delta_rule/naive.py", "kda": "kda/naive.py", "dplr": "generalized_delta_rule/dplr/naive.py",
         "rwkv6": "rwkv6/recurrent_naive.py"}


def load(folder, name):
    path = folder / "fla" / "ops" / FILES[name]
    spec = importlib.util.spec_from_file_location(f"fla_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(name):
    """Inputs [T, n] of a kind, decays as their logarithms."""
    generator = torch.Generator().manual_seed(1 + sum(name.encode()))

    def normal(n):
        return torch.randn(TOKENS, n, generator=generator)

    x = {"q": normal(K), "k": normal(K), "v": normal(V)}
    if name in ("delta_rule", "gated_delta_rule", "kda"):
        x |= {"k": normalize(x["k"], dim=-1), "beta": 2 * torch.sigmoid(normal(1))}
    if name != "delta_rule":
        x["w"] = logsigmoid(normal(1 if name in ("simple_gla", "gated_delta_rule") else K) + 2)
    if name == "dplr":
        taken = normalize(normal(K), dim=-1)
        x |= {"a": -taken, "b": taken * torch.sigmoid(normal(K))}
    if name == "rwkv6":
        x["u"] = normal(K)[:1]
    return x


def outputs(module, name, x):
    def rows(key):  # [1, T, 1, n]
        return x[key][None, :, None]

    def heads(key):  # [1, 1, T, n]
        return x[key][None, None]

    if name == "simple_gla":
        return module.naive_recurrent_simple_gla(rows("q"), rows("k"), rows("v"), rows("w")[..., 0])[0][0, :, 0]
    if name == "gla":
        return module.naive_recurrent_gla(rows("q"), rows("k"), rows("v"), rows("w"))[0][0, :, 0]
    if name == "delta_rule":
        return module.delta_rule_recurrence(heads("q"), heads("k"), heads("v"), heads("beta")[..., 0])[0][0, 0]
    if name == "gated_delta_rule":
        return module.naive_recurrent_gated_delta_rule(rows("q"), rows("k"), rows("v"), rows("beta")[..., 0],
                                                       rows("w")[..., 0])[0][0, :, 0]
    if name == "kda":
        return module.naive_recurrent_kda(rows("q"), rows("k"), rows("v"), rows("w"), rows("beta")[..., 0])[0][0, :, 0]
    if name == "dplr":
        return module.dplr_recurrence(*map(heads, ("q", "k", "v", "a", "b", "w")))[0][0, 0]
    return module.naive_recurrent_rwkv6(*map(heads, ("q", "k", "v", "w")), x["u"])[0][0, 0]


def main():
    HERE.mkdir(exist_ok=True)
    for name in FILES:
        x = drawn(name)
        x["y"] = outputs(load(pathlib.Path(sys.argv[1]), name), name, x)
        if "w" in x:
            x["w"] = x["w"].exp()
        lines = [f"{TOKENS} {K} {V}"]
        for key in ("q", "k", "v", "w", "a", "b", "beta", "u", "y"):
            lines += [" ".join(f"{number:.9g}" for number in row) for row in x[key].tolist()] if key in x else [""]
        (HERE / f"{name}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
