"""Models of recurrent kinds in float64, read from Hugging Face folders independently of the C program: only their
equations, one token after the other, and numpy.

`python3 tests/golden/kinds.py` writes tests/golden/kinds/NAME.json: a config.json, tensors by shape and spread, whose
values both sides take from the same generator, tokens, and some of the logits. test_golden_kinds holds the C program
to them.
"""

import json
import pathlib

import numpy

import folders

HERE = pathlib.Path(__file__).parent
IDS, TOKENS = 256, 40
ROWS, COLUMNS = [0, 1, 2, 3, 4, 9, 20, 39], range(0, IDS, 4)


# --- numbers


def uniform(state, n):
    """n numbers from -1 to 1 of splitmix64, and its next state."""
    out, mask = numpy.empty(n), (1 << 64) - 1
    for i in range(n):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        out[i] = ((z ^ z >> 31) >> 40) * 2.0**-23 - 1
    return out, state


def rounded(values, dtype):
    """As a file of this dtype holds them."""
    single = values.astype(numpy.float32)
    if dtype == "BF16":
        bits = single.view(numpy.uint32)
        bits = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
        single = bits.astype(numpy.uint32).view(numpy.float32)
    return single.astype(numpy.float64)


def make_tensors(tensors, seed):
    state, out = seed, {}
    for name, t in tensors.items():
        values, state = uniform(state, int(numpy.prod(t["shape"])))
        out[name] = rounded(t["mean"] + t["scale"] * values, t["dtype"]).reshape(t["shape"])
    return out


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def silu(x):
    return x * sigmoid(x)


def softplus(x):
    return numpy.logaddexp(0, x)


def rms_norm(x, weight, eps):
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def l2(x):
    return x / numpy.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def convolved(rows, weight):
    """rows: all inputs up to now, [t, channels]; weight [channels, 1, taps]. What it makes of the last."""
    taps = weight.shape[-1]
    padded = numpy.concatenate([numpy.zeros((taps, rows.shape[1])), rows])[-taps:]
    return (padded * weight[:, 0].T).sum(0)


class Rows:
    """What a layer remembers: every row it was given, by name."""

    def __init__(self):
        self.rows, self.states = {}, {}

    def append(self, name, row):
        self.rows.setdefault(name, []).append(row)
        return numpy.array(self.rows[name])


# --- kinds: a layer's mixer is a function of (its tensors by their names, config, memory, x)


def delta(w, c, memory, x):
    """Gated DeltaNet and DeltaNet."""
    gated = c["model_type"] == "gated_deltanet"
    key_heads = c["num_heads"]
    heads = (c.get("num_v_heads") or key_heads) if gated else key_heads
    parts = {}
    for part in "qkv":
        row = w[f"{part}_proj.weight"] @ x
        if c["use_short_conv"]:
            row = convolved(memory.append(part, row), w[f"{part}_conv1d.weight"])
        parts[part] = silu(row)
    q, k = (numpy.repeat(l2(parts[part].reshape(key_heads, -1)), heads // key_heads, 0) for part in "qk")
    v = parts["v"].reshape(heads, -1)
    beta = sigmoid(w["b_proj.weight"] @ x) * (2 if c["allow_neg_eigval"] else 1)
    alpha = numpy.ones(heads)
    if gated:
        alpha = numpy.exp(-numpy.exp(w["A_log"]) * softplus(w["a_proj.weight"] @ x + w["dt_bias"]))
    out = []
    for h in range(heads):
        state = memory.states.get(h, numpy.zeros((k.shape[1], v.shape[1]))) * alpha[h]
        state = state + beta[h] * numpy.outer(k[h], v[h] - k[h] @ state)
        memory.states[h] = state
        out.append(rms_norm(q[h] @ state / numpy.sqrt(k.shape[1]), w["o_norm.weight"], c["norm_eps"]))
    out = numpy.concatenate(out)
    if c["use_gate"]:
        out = out * silu(w["g_proj.weight"] @ x)
    return w["o_proj.weight"] @ out


def fla_model(mixer):
    def logits(w, c, ids):
        def below(prefix):
            return {name[len(prefix):]: t for name, t in w.items() if name.startswith(prefix)}

        layers = [below(f"model.layers.{i}.") for i in range(c["num_hidden_layers"])]
        attention = [below(f"model.layers.{i}.attn.") for i in range(c["num_hidden_layers"])]
        memories, out = [Rows() for _ in layers], []
        for token in ids:
            x = w["model.embeddings.weight"][token]
            for layer, own, memory in zip(layers, attention, memories):
                x = x + mixer(own, c, memory, rms_norm(x, layer["attn_norm.weight"], c["norm_eps"]))
                y = rms_norm(x, layer["mlp_norm.weight"], c["norm_eps"])
                hidden = silu(layer["mlp.gate_proj.weight"] @ y) * (layer["mlp.up_proj.weight"] @ y)
                x = x + layer["mlp.down_proj.weight"] @ hidden
            head = w["model.embeddings.weight" if c["tie_word_embeddings"] else "lm_head.weight"]
            out.append(head @ rms_norm(x, w["model.norm.weight"], c["norm_eps"]))
        return numpy.array(out)

    return logits


# --- cases


def cases():
    """NAME: config, tensors, logits by the equations."""
    grouped = folders.GATED | {"num_v_heads": 4}
    yield "gated_deltanet", grouped, folders.delta_tensors(grouped), fla_model(delta)
    # beta next to 0 and 2, decays next to 0 and 1, softplus on both sides of its cut.
    wide = folders.GATED | {"allow_neg_eigval": True, "tie_word_embeddings": True, "conv_size": 2}
    yield "gated_deltanet_extremes", wide, folders.delta_tensors(wide, **{
        "b_proj.weight": folders.tensor([2, 16], 0, 9), "A_log": folders.tensor([2], 0, 9),
        "dt_bias": folders.tensor([2], 8, 30)}), fla_model(delta)
    bare = folders.GATED | {"use_gate": False, "use_short_conv": False}
    yield "gated_deltanet_bf16", bare, folders.in_bf16(folders.delta_tensors(bare)), fla_model(delta)
    yield "delta_net", folders.PLAIN, folders.delta_tensors(folders.PLAIN), fla_model(delta)
    ungated = folders.PLAIN | {"use_gate": False, "allow_neg_eigval": True, "conv_size": 3}
    yield "delta_net_ungated", ungated, folders.delta_tensors(ungated), fla_model(delta)


# What is refused of a case's config, and what is said then.
REFUSED = {
    "gated_deltanet": [
        ({"model_type": "gated_deltanet2"}, "model_type gated_deltanet2 is not supported: those that are"),
        ({"conv_size": 5}, "conv_size must be a whole number from 2 to 4"),
        ({"conv_bias": True}, "conv_bias must be false"),
        ({"num_v_heads": 3}, "num_v_heads must be a multiple of num_heads"),
        ({"expand_v": 1.3}, "expand_v does not give a whole number of columns"),
        ({"hidden_act": "powlu"}, 'hidden_act must be "swish"'),
        ({"attn": {"layers": [1], "num_heads": 2}}, "attn must be null"),
        ({"attnres_block_size": 1}, "attnres_block_size must be null"),
        ({"norm_eps": 0}, "norm_eps must be a number"),
        ({"rope_theta": 10000}, "rope_theta is not a known key"),
        ({"use_gate": False}, "attn.g_proj.weight is not one that the config asks for"),
        ({"tie_word_embeddings": True}, "lm_head.weight is not one that the config asks for"),
        ({"intermediate_size": None}, "mlp.gate_proj.weight has shape [24, 16], the config asks for [256, 16]"),
        ({"num_v_heads": None}, "v_proj.weight has shape [36, 16], the config asks for [18, 16]"),
        ({"conv_size": 3}, "q_conv1d.weight has shape [12, 4], the config asks for [12, 3]"),
    ],
    "delta_net": [
        ({"qk_norm": "sum"}, 'qk_norm must be "l2"'),
        ({"qk_activation": "relu"}, 'qk_activation must be "silu"'),
        ({"use_beta": False}, "use_beta must be true"),
        ({"num_heads": 3}, "num_heads must divide the columns"),
        ({"expand_k": 0.51}, "expand_k does not give a whole number"),
        ({"head_dim": 4}, "head_dim is not a known key"),
    ],
}


def write(name, config, tensors, logits):
    seed = 1 + sum(name.encode())
    ids = [int(u * 128 + 128) % IDS for u in uniform(seed + 1000, TOKENS)[0]]
    rows = logits(make_tensors(tensors, seed), config, ids)
    lines = [f'"config": {json.dumps(config)}', f'"seed": {seed}', f'"ids": {json.dumps(ids)}',
             '"tensors": {\n  ' + ",\n  ".join(f"{json.dumps(n)}: {json.dumps(t)}" for n, t in tensors.items()) + "}",
             f'"columns": {json.dumps(list(COLUMNS))}',
             '"logits": {\n  ' + ",\n  ".join(
                 f'"{row}": [{", ".join(f"{rows[row][column]:.9g}" for column in COLUMNS)}]' for row in ROWS) + "}",
             '"refused": [' + ",\n  ".join(json.dumps({"set": change, "error": error})
                                          for change, error in REFUSED.get(name, [])) + "]"]
    (HERE / "kinds" / f"{name}.json").write_text("{" + ",\n ".join(lines) + "}\n")


if __name__ == "__main__":
    for case in cases():
        write(*case)
