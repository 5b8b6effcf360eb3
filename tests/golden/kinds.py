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
    """What a layer remembers: every row it was given, by name. `layer` and `model`, all tensors, are what it is of,
    `position` is how many tokens came before."""

    def __init__(self, layer=0, model=None):
        self.rows, self.states, self.layer, self.model, self.position = {}, {}, layer, model, 0

    def append(self, name, row):
        self.rows.setdefault(name, []).append(row)
        return numpy.array(self.rows[name])


# --- kinds: a layer's mixer is a function of (its tensors by their names, config, memory, x)


def delta(w, c, memory, x):
    """Gated DeltaNet, DeltaNet and KDA."""
    gated, kda = c["model_type"] == "gated_deltanet", c["model_type"] == "kda"
    key_heads = c["num_heads"]
    heads = c.get("num_v_heads") or key_heads
    parts = {}
    for part in "qkv":
        row = w[f"{part}_proj.weight"] @ x
        if c["use_short_conv"]:
            row = convolved(memory.append(part, row), w[f"{part}_conv1d.weight"])
        parts[part] = silu(row)
    q, k = (numpy.repeat(l2(parts[part].reshape(key_heads, -1)), heads // key_heads, 0) for part in "qk")
    v = parts["v"].reshape(heads, -1)
    beta = sigmoid(w["b_proj.weight"] @ x) * (2 if c["allow_neg_eigval"] else 1)
    alpha = numpy.ones((heads, 1))
    if gated:
        alpha = numpy.exp(-numpy.exp(w["A_log"]) * softplus(w["a_proj.weight"] @ x + w["dt_bias"]))[:, None]
    if kda:
        f = (w["f_proj.1.weight"] @ (w["f_proj.0.weight"] @ x) + w["dt_bias"]).reshape(heads, -1)
        alpha = numpy.exp(-numpy.exp(w["A_log"])[:, None] * softplus(f))
    out = []
    for h in range(heads):
        state = memory.states.get(h, numpy.zeros((k.shape[1], v.shape[1]))) * alpha[h][:, None]
        state = state + beta[h] * numpy.outer(k[h], v[h] - k[h] @ state)
        memory.states[h] = state
        out.append(rms_norm(q[h] @ state / numpy.sqrt(k.shape[1]), w["o_norm.weight"], c["norm_eps"]))
    out = numpy.concatenate(out)
    if kda:
        out = out * sigmoid(w["g_proj.1.weight"] @ (w["g_proj.0.weight"] @ x) + w["g_proj.1.bias"])
    elif c["use_gate"]:
        out = out * silu(w["g_proj.weight"] @ x)
    return w["o_proj.weight"] @ out


def gla(w, c, memory, x):
    heads = c["num_heads"]
    shared = heads // (c["num_kv_heads"] or heads)
    parts = {}
    for part in "qkv":
        parts[part] = w[f"{part}_proj.weight"] @ x
        if c["use_short_conv"]:
            parts[part] = silu(convolved(memory.append(part, parts[part]), w[f"{part}_conv1d.weight"]))
    decay = sigmoid(w["gk_proj.1.weight"] @ (w["gk_proj.0.weight"] @ x) + w["gk_proj.1.bias"]) ** (1 / 16)
    q = parts["q"].reshape(heads, -1)
    k, v, decay = (numpy.repeat(row.reshape(heads // shared, -1), shared, 0) for row in (parts["k"], parts["v"], decay))
    out = []
    for h in range(heads):
        state = memory.states.get(h, numpy.zeros((k.shape[1], v.shape[1])))
        memory.states[h] = state = decay[h][:, None] * state + numpy.outer(k[h], v[h])
        norm = w["g_norm_swish_gate.weight" if "g_norm_swish_gate.weight" in w else "g_norm.weight"]
        out.append(rms_norm(q[h] @ state / numpy.sqrt(k.shape[1]), norm, c["norm_eps"]))
    out = numpy.concatenate(out)
    return w["o_proj.weight"] @ (out * silu(w["g_proj.weight"] @ x) if c["use_output_gate"] else out)


def rotated(x, position, base=10000.0):
    """x [heads, d]; pairs are halves."""
    half = x.shape[1] // 2
    angles = position * base ** (-numpy.arange(half) / half)
    left, right = x[:, :half], x[:, half:]
    return numpy.concatenate([left * numpy.cos(angles) - right * numpy.sin(angles),
                              right * numpy.cos(angles) + left * numpy.sin(angles)], 1)


def retnet(w, c, memory, x):
    heads = c["num_heads"]
    shared = heads // (c["num_kv_heads"] or heads)
    parts = {}
    for part in "qkv":
        parts[part] = w[f"{part}_proj.weight"] @ x
        if c["use_short_conv"]:
            parts[part] = silu(convolved(memory.append(part, parts[part]), w[f"{part}_conv1d.weight"]))
    q = rotated(parts["q"].reshape(heads, -1), memory.position)
    k = numpy.repeat(rotated(parts["k"].reshape(heads // shared, -1), memory.position), shared, 0)
    v = numpy.repeat(parts["v"].reshape(heads // shared, -1), shared, 0)
    norm = w["g_norm_swish_gate.weight" if "g_norm_swish_gate.weight" in w else "g_norm.weight"]
    out = []
    for h in range(heads):
        state = memory.states.get(h, numpy.zeros((k.shape[1], v.shape[1])))
        memory.states[h] = state = (1 - 2.0 ** (-5 - h)) * state + numpy.outer(k[h], v[h])
        out.append(rms_norm(q[h] @ state / numpy.sqrt(k.shape[1]), norm, c["norm_eps"]))
    out = numpy.concatenate(out)
    return w["o_proj.weight"] @ (out * silu(w["g_proj.weight"] @ x) if c["use_output_gate"] else out)


def hgrn2(w, c, memory, x):
    parts = {}
    for part in "qfi":
        parts[part] = w[f"{part}_proj.weight"] @ x
        if c["use_short_conv"]:
            parts[part] = convolved(memory.append(part, parts[part]), w[f"{part}_conv1d.weight"])
    kept = sigmoid(parts["f"])
    if c["use_lower_bound"]:
        bounds = numpy.exp(memory.model["model.lower_bounds"])
        bounds = numpy.cumsum(bounds / bounds.sum(0), 0)
        bound = bounds[memory.layer] - bounds[0]
        kept = bound + (1 - bound) * kept
    size = c["expand_ratio"]
    q, kept, v = (row.reshape(-1, size) for row in (silu(parts["q"]), kept, parts["i"]))
    out = []
    for h in range(len(q)):
        state = memory.states.get(h, numpy.zeros((size, size)))
        memory.states[h] = state = kept[h][:, None] * state + numpy.outer(1 - kept[h], v[h])
        out.append(q[h] @ state / numpy.sqrt(size))
    return w["o_proj.weight"] @ rms_norm(numpy.concatenate(out), w["g_norm.weight"], 1e-5)


def layer_norm(x, weight, bias, eps):
    x = x - x.mean(-1, keepdims=True)
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight + bias


def before(memory, name, x):
    """The row before x, which is remembered."""
    rows = memory.append(name, x)
    return rows[-2] if len(rows) > 1 else numpy.zeros_like(x)


def rwkv6_mixer(w, c, memory, x):
    heads, delta = c["num_heads"], before(memory, "x", x) - x
    low = numpy.tanh(w["x_proj.0.linear.weight"] @ (x + delta * w["x_proj.0.mu"])).reshape(5, -1)
    second = w["x_proj.2.weight"].reshape(len(x), 5, -1)
    mixed = {name: x + delta * (second[:, i] @ low[i] + w["x_bias"][i]) for i, name in enumerate("rwkvg")}
    r, k, v, g = (w[f"{name}_proj.linear.weight"] @ mixed[name] for name in "rkvg")
    decay = w["w_proj.linear.lora.2.weight"] @ numpy.tanh(w["w_proj.linear.lora.0.weight"] @ mixed["w"])
    decay = numpy.exp(-numpy.exp(decay + w["w_proj.linear.lora.2.bias"]))
    r, k, v, decay = (row.reshape(heads, -1) for row in (r, k, v, decay))
    out = []
    for h in range(heads):
        state = memory.states.get(h, numpy.zeros((k.shape[1], v.shape[1])))
        out.append(r[h] @ (state + numpy.outer(w["bonus"][h] * k[h], v[h])))
        memory.states[h] = decay[h][:, None] * state + numpy.outer(k[h], v[h])
    weight, bias = (w[f"g_norm.{part}"].reshape(heads, -1) for part in ("weight", "bias"))
    return w["o_proj.weight"] @ (layer_norm(numpy.array(out), weight, bias, c["norm_eps"]).reshape(-1) * silu(g))


def rwkv6(w, c, ids):
    """Logits."""
    memories, out = [Rows() for _ in range(c["num_hidden_layers"])], []
    for token in ids:
        x = w["model.embeddings.weight"][token]
        for i, memory in enumerate(memories):
            p = f"model.layers.{i}."
            own = {name[len(p):]: t for name, t in w.items() if name.startswith(p)}
            if "pre_norm.weight" in own:
                x = layer_norm(x, own["pre_norm.weight"], own["pre_norm.bias"], c["norm_eps"])
            mixer = {name[5:]: t for name, t in own.items() if name.startswith("attn.")}
            y = layer_norm(x, own["attn_norm.weight"], own["attn_norm.bias"], c["norm_eps"])
            x = x + rwkv6_mixer(mixer, c, memory, y)
            y = layer_norm(x, own["ffn_norm.weight"], own["ffn_norm.bias"], c["norm_eps"])
            shift = before(memory, "ffn", y) - y
            key = own["ffn.key.linear.weight"] @ (y + shift * own["ffn.key.mu"])
            value = own["ffn.value.weight"] @ numpy.maximum(key, 0) ** 2
            x = x + sigmoid(own["ffn.receptance.linear.weight"] @ (y + shift * own["ffn.receptance.mu"])) * value
        head = w["model.embeddings.weight" if c["tie_word_embeddings"] else "lm_head.weight"]
        out.append(head @ layer_norm(x, w["model.norm.weight"], w["model.norm.bias"], c["norm_eps"]))
    return numpy.array(out)


def softmax_layer(w, c, memory, x):
    """What `attn` makes of a layer."""
    own = c["attn"]
    heads, shared = own["num_heads"], own["num_heads"] // (own.get("num_kv_heads") or own["num_heads"])
    q, k, v = ((w[f"{part}_proj.weight"] @ x + w.get(f"{part}_proj.bias", 0)).reshape(-1, len(x) // heads) for part in "qkv")
    base = own.get("rope_theta") or 10000.0
    keys = memory.append("k", rotated(k, memory.position, base))
    values = memory.append("v", v)
    q = rotated(q, memory.position, base)
    seen = slice(max(0, len(keys) - (own.get("window_size") or len(keys))), None)
    out = []
    for h in range(heads):
        logits = keys[seen, h // shared] @ q[h] / numpy.sqrt(q.shape[1])
        weights = numpy.exp(logits - logits.max())
        out.append(weights @ values[seen, h // shared] / weights.sum())
    return w["o_proj.weight"] @ numpy.concatenate(out)


def fla_model(mixer):
    def logits(w, c, ids):
        def below(prefix):
            return {name[len(prefix):]: t for name, t in w.items() if name.startswith(prefix)}

        layers = [below(f"model.layers.{i}.") for i in range(c["num_hidden_layers"])]
        attention = [below(f"model.layers.{i}.attn.") for i in range(c["num_hidden_layers"])]
        memories, out = [Rows(i, w) for i in range(len(layers))], []
        for token in ids:
            x = w["model.embeddings.weight"][token]
            for layer, own, memory in zip(layers, attention, memories):
                kind = softmax_layer if c["attn"] and memory.layer in c["attn"]["layers"] else mixer
                x = x + kind(own, c, memory, rms_norm(x, layer["attn_norm.weight"], c["norm_eps"]))
                memory.position += 1
                y = rms_norm(x, layer["mlp_norm.weight"], c["norm_eps"])
                hidden = silu(layer["mlp.gate_proj.weight"] @ y) * (layer["mlp.up_proj.weight"] @ y)
                x = x + layer["mlp.down_proj.weight"] @ hidden
            head = w["model.embeddings.weight" if c["tie_word_embeddings"] else "lm_head.weight"]
            out.append(head @ rms_norm(x, w["model.norm.weight"], c["norm_eps"]))
        return numpy.array(out)

    return logits


def lightning_mixer(w, c, layer, state, x):
    """x: all rows. The state is there for a layer's heads, [K, V] each, and changes."""
    heads, size = c["n_heads"], c["d_key"]
    steep = 1 - layer / (c["n_layers"] - 1 + 1e-5) + 1e-5
    out = []
    for row in x:
        q, k, v = silu(w["qkv.weight"] @ row).reshape(heads, 3, size).transpose(1, 0, 2)
        for h in range(heads):
            state[h] = numpy.exp(-(2.0 ** (-8 * (h + 1) / heads)) * steep) * state[h] + numpy.outer(k[h], v[h])
        read = numpy.concatenate([q[h] @ state[h] for h in range(heads)])
        gate = sigmoid(w["g.weight"] @ row)
        out.append(w["out.weight"] @ (rms_norm(read, w["norm.weight"], c["attention"]["eps"]) * gate))
    return numpy.array(out)


def lightning(w, c, ids):
    """Logits of a folder of our own."""
    eps, x = c["norm_eps"], w["embed.token.weight"][ids]
    for i in range(c["n_layers"]):
        layer = {name[len(f"layers.{i}."):]: t for name, t in w.items() if name.startswith(f"layers.{i}.")}
        own = {name[5:]: t for name, t in layer.items() if name.startswith("attn.")}
        state = numpy.zeros((c["n_heads"], c["d_key"], c["d_value"]))
        x = x + lightning_mixer(own, c, i, state, rms_norm(x, layer["norm1.weight"], eps))
        y = rms_norm(x, layer["norm2.weight"], eps).T
        x = x + (layer["ff.down.weight"] @ (silu(layer["ff.gate.weight"] @ y) * (layer["ff.up.weight"] @ y))).T
    return rms_norm(x, w["final_norm.weight"], eps) @ w["head.weight"].T


def gated_softmax_layer(w, c, memory, x):
    """Of Qwen3.5: norms of 1 + weight of queries and keys, rotation of their first columns, and a gate."""
    size, heads, key_heads = c["head_dim"], c["num_attention_heads"], c["num_key_value_heads"]
    q, gate = numpy.split((w["q_proj.weight"] @ x).reshape(heads, 2 * size), 2, 1)
    k, v = ((w[f"{part}_proj.weight"] @ x).reshape(key_heads, size) for part in "kv")
    q, k = (rms_norm(rows, 1 + w[f"{part}_norm.weight"], c["rms_norm_eps"]) for part, rows in (("q", q), ("k", k)))
    turning = int(size * c["rope_parameters"]["partial_rotary_factor"])
    q, k = (numpy.concatenate([rotated(rows[:, :turning], memory.position, c["rope_parameters"]["rope_theta"]),
                               rows[:, turning:]], 1) for rows in (q, k))
    keys, values, out = memory.append("k", k), memory.append("v", v), []
    for h in range(heads):
        logits = keys[:, h * key_heads // heads] @ q[h] / numpy.sqrt(size)
        weights = numpy.exp(logits - logits.max())
        out.append(weights @ values[:, h * key_heads // heads] / weights.sum())
    return w["o_proj.weight"] @ (numpy.array(out) * sigmoid(gate)).reshape(-1)


def qwen_delta(w, c, memory, x):
    """Gated DeltaNet under Qwen3.5's names."""
    keys = c["linear_num_key_heads"] * c["linear_key_head_dim"]
    own = {"model_type": "gated_deltanet", "num_heads": c["linear_num_key_heads"], "num_v_heads": c["linear_num_value_heads"],
           "use_short_conv": True, "allow_neg_eigval": False, "use_gate": True, "norm_eps": c["rms_norm_eps"]}
    tensors = {"A_log": w["A_log"], "dt_bias": w["dt_bias"], "o_norm.weight": w["norm.weight"],
               "o_proj.weight": w["out_proj.weight"], "g_proj.weight": w["in_proj_z.weight"],
               "a_proj.weight": w["in_proj_a.weight"], "b_proj.weight": w["in_proj_b.weight"]}
    for part, projection, taps in zip("qkv", numpy.split(w["in_proj_qkv.weight"], [keys, 2 * keys]),
                                      numpy.split(w["conv1d.weight"], [keys, 2 * keys])):
        tensors |= {f"{part}_proj.weight": projection, f"{part}_conv1d.weight": taps}
    return delta(tensors, own, memory, x)


def qwen(w, c, ids):
    """Logits."""
    whole, c = c["model_type"] == "qwen3_5", c.get("text_config", c)
    begin, eps = "model.language_model." if whole else "model.", c["rms_norm_eps"]
    memories, out = [Rows() for _ in range(c["num_hidden_layers"])], []
    for token in ids:
        x = w[f"{begin}embed_tokens.weight"][token]
        for i, memory in enumerate(memories):
            p = f"{begin}layers.{i}."
            layer = {name[len(p):]: t for name, t in w.items() if name.startswith(p)}
            full = c["layer_types"][i] == "full_attention"
            own = {name.split(".", 1)[1]: t for name, t in layer.items() if "_attn." in name}
            y = rms_norm(x, 1 + layer["input_layernorm.weight"], eps)
            x = x + (gated_softmax_layer if full else qwen_delta)(own, c, memory, y)
            memory.position += 1
            y = rms_norm(x, 1 + layer["post_attention_layernorm.weight"], eps)
            hidden = silu(layer["mlp.gate_proj.weight"] @ y) * (layer["mlp.up_proj.weight"] @ y)
            x = x + layer["mlp.down_proj.weight"] @ hidden
        head = w[f"{begin}embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"]
        out.append(head @ rms_norm(x, 1 + w[f"{begin}norm.weight"], eps))
    return numpy.array(out)


def mamba2_mixer(w, c, memory, x):
    heads, size, groups, state_size = c["num_heads"], c["head_dim"], c["n_groups"], c["state_size"]
    inner, channels = heads * size, heads * size + 2 * groups * state_size
    projected = w["in_proj.weight"] @ x + w.get("in_proj.bias", 0)
    z, row, d = numpy.split(projected, [inner, inner + channels])
    row = silu(convolved(memory.append("row", row), w["conv1d.weight"]) + w.get("conv1d.bias", 0))
    v, b, read = numpy.split(row, [inner, inner + groups * state_size])
    v, b, read = v.reshape(heads, size), b.reshape(groups, -1), read.reshape(groups, -1)
    step = softplus(d + w["dt_bias"])
    out = numpy.empty((heads, size))
    for h in range(heads):
        g = h // (heads // groups)
        state = memory.states.get(h, numpy.zeros((size, state_size)))
        state = numpy.exp(-numpy.exp(w["A_log"][h]) * step[h]) * state + step[h] * numpy.outer(v[h], b[g])
        memory.states[h] = state
        out[h] = state @ read[g] + w["D"][h] * v[h]
    out = out.reshape(-1)
    eps = c.get("norm_eps", c.get("layer_norm_epsilon"))
    if not c.get("rmsnorm", True):
        out = out * silu(z)
    elif c.get("norm_before_gate"):
        out = rms_norm(out.reshape(groups, -1), w["norm.weight"].reshape(groups, -1), eps).reshape(-1) * silu(z)
    else:
        out = rms_norm((out * silu(z)).reshape(groups, -1), w["norm.weight"].reshape(groups, -1), eps).reshape(-1)
    return w["out_proj.weight"] @ out + w.get("out_proj.bias", 0)


def mamba2(w, c, ids):
    """Logits."""
    eps = c.get("norm_eps", c.get("layer_norm_epsilon"))
    memories, out = [Rows() for _ in range(c["num_hidden_layers"])], []
    for token in ids:
        x = w["backbone.embeddings.weight"][token]
        for i, memory in enumerate(memories):
            p = f"backbone.layers.{i}.mixer."
            own = {name[len(p):]: t for name, t in w.items() if name.startswith(p)}
            x = x + mamba2_mixer(own, c, memory, rms_norm(x, w[f"backbone.layers.{i}.norm.weight"], eps))
        head = w["backbone.embeddings.weight" if c["tie_word_embeddings"] else "lm_head.weight"]
        out.append(head @ rms_norm(x, w["backbone.norm_f.weight"], eps))
    return numpy.array(out)


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
    hybrid = folders.GATED | {"num_hidden_layers": 3, "attn": folders.ATTN}
    yield "hybrid", hybrid, folders.delta_tensors(hybrid), fla_model(delta)
    hybrid = folders.GLA | {"attn": folders.ATTN | {"layers": [0], "num_kv_heads": None, "window_size": 7, "qkv_bias": True,
                                                    "rope_theta": 500.0}}
    yield "hybrid_window", hybrid, folders.in_bf16(folders.gla_tensors(hybrid)), fla_model(gla)
    yield "delta_net", folders.PLAIN, folders.delta_tensors(folders.PLAIN), fla_model(delta)
    ungated = folders.PLAIN | {"use_gate": False, "allow_neg_eigval": True, "conv_size": 3}
    yield "delta_net_ungated", ungated, folders.delta_tensors(ungated), fla_model(delta)
    shared = folders.KDA | {"num_v_heads": 4, "expand_v": 1.5, "allow_neg_eigval": True}
    yield "kda", shared, folders.delta_tensors(shared), fla_model(delta)
    yield "kda_extremes", folders.KDA, folders.in_bf16(folders.delta_tensors(folders.KDA, **{
        "b_proj.weight": folders.tensor([2, 16], 0, 9), "A_log": folders.tensor([2], 0, 9),
        "dt_bias": folders.tensor([12], 8, 30)})), fla_model(delta)
    for name, config in (
        ("gla", folders.GLA | {"num_kv_heads": 2, "use_short_conv": True, "conv_size": 3}),
        ("gla_ungated", folders.GLA | {"use_output_gate": False, "tie_word_embeddings": True}),
    ):
        yield name, config, folders.gla_tensors(config), fla_model(gla)
    unfused = folders.GLA | {"fuse_norm": False}
    yield "gla_extremes", unfused, folders.in_bf16(folders.gla_tensors(unfused, **{
        "gk_proj.1.bias": folders.tensor([8], -100, 200)})), fla_model(gla)  # decays next to 0 and 1
    for name, config in (
        ("retnet", folders.RETNET),
        ("retnet_grouped", folders.RETNET | {"num_heads": 4, "num_kv_heads": 2, "use_short_conv": True, "conv_size": 3,
                                            "fuse_norm": False, "tie_word_embeddings": True}),
    ):
        yield name, config, folders.gla_tensors(config), fla_model(retnet)
    for name, config in (
        ("hgrn2", folders.HGRN2 | {"num_hidden_layers": 3}),
        ("hgrn2_unbounded", folders.HGRN2 | {"use_lower_bound": False, "use_short_conv": True, "tie_word_embeddings": True}),
    ):
        yield name, config, folders.hgrn2_tensors(config), fla_model(hgrn2)
    steep = folders.in_bf16(folders.hgrn2_tensors(folders.HGRN2, **{"f_proj.weight": folders.tensor([16, 16], 0, 9)}))
    steep["model.lower_bounds"] = folders.tensor([2, 16], 0, 9)
    yield "hgrn2_extremes", folders.HGRN2, steep, fla_model(hgrn2)  # decays and bounds next to 0 and 1
    for name, config in (
        ("rwkv6", folders.RWKV6),
        ("rwkv6_tied", folders.RWKV6 | {"norm_first": False, "tie_word_embeddings": True, "expand_k": 1.0, "num_heads": 4}),
    ):
        yield name, config, folders.rwkv6_tensors(config), rwkv6
    steep = folders.in_bf16(folders.rwkv6_tensors(folders.RWKV6))
    for name in steep:  # decays next to 0 and 1
        if name.endswith("w_proj.linear.lora.2.bias"):
            steep[name] = folders.tensor([8], -4, 8)
    yield "rwkv6_extremes", folders.RWKV6, steep, rwkv6
    yield "lightning", folders.LIGHTNING, folders.lightning_tensors(folders.LIGHTNING), lightning
    yield "qwen3_5_text", folders.QWEN, folders.qwen_tensors(folders.QWEN), qwen
    yield "qwen3_5", folders.WHOLE_QWEN, folders.in_bf16(folders.qwen_tensors(folders.WHOLE_QWEN)), qwen
    for name, config in (
        ("mamba2", folders.MAMBA2),
        ("mamba2_biases", folders.MAMBA2 | {"use_bias": True, "use_conv_bias": False, "tie_word_embeddings": True, "conv_kernel": 3}),
        ("mamba2_fla", folders.FLA_MAMBA2 | {"n_groups": 2}),
        ("mamba2_gate_last", folders.FLA_MAMBA2 | {"n_groups": 2, "norm_before_gate": True, "conv_kernel": 2}),
        ("mamba2_without_norm", folders.FLA_MAMBA2 | {"rmsnorm": False, "head_dim": 16, "num_heads": 2}),
    ):
        yield name, config, folders.mamba2_tensors(config), mamba2
    steep = folders.in_bf16(folders.mamba2_tensors(folders.MAMBA2))
    for name in steep:  # decays next to 0 and 1, softplus on both sides of its cut
        if name.endswith("A_log"):
            steep[name] = folders.tensor([4], 0, 9)
        elif name.endswith("dt_bias"):
            steep[name] = folders.tensor([4], 8, 30)
    yield "mamba2_extremes", folders.MAMBA2, steep, mamba2


# What is refused of a case's config, and what is said then.
REFUSED = {
    "gated_deltanet": [
        ({"model_type": "gated_deltanet2"}, "model_type gated_deltanet2 is not supported: those that are"),
        ({"conv_size": 5}, "conv_size must be a whole number from 2 to 4"),
        ({"conv_bias": True}, "conv_bias must be false"),
        ({"num_v_heads": 3}, "num_v_heads must be a multiple of num_heads"),
        ({"expand_v": 1.3}, "expand_v does not give a whole number of columns"),
        ({"hidden_act": "powlu"}, 'hidden_act must be "swish"'),
        ({"attn": [1]}, "attn must be an object or null"),
        ({"attn": {"layers": [1]}}, "attn.num_heads must divide hidden_size into heads of"),
        ({"attn": {"layers": [2], "num_heads": 2}}, "attn.layers must be a list of layers, counted from 0"),
        ({"attn": {"layers": [1], "num_heads": 4, "num_kv_heads": 3}}, "attn.num_kv_heads must divide num_heads"),
        ({"attn": {"layers": [1], "num_heads": 2, "rope_theta": 0.5}}, "attn.rope_theta must be a number from 2"),
        ({"attn": {"layers": [1], "num_heads": 2, "qk_norm": True}}, "attn.qk_norm is not a known key"),
        ({"attn": {"layers": [1], "num_heads": 2}}, "layers.1.attn.q_proj.weight has shape [12, 16], the config asks for [16, 16]"),
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
    "gla": [
        ({"feature_map": "relu"}, "feature_map must be null"),
        ({"clamp_min": -5.0}, "clamp_min must be null"),
        ({"elementwise_affine": False}, "elementwise_affine must be true"),
        ({"num_kv_heads": 3}, "num_kv_heads must divide num_heads"),
        ({"expand_k": 0.3}, "expand_k does not give a whole number of columns"),
        ({"num_heads": 3}, "num_heads must divide the columns"),
        ({"fuse_norm": False}, "attn.g_norm.weight is missing"),
        ({"hidden_act": "gelu"}, 'hidden_act must be "swish"'),
    ],
    "retnet": [
        ({"feature_map": "relu"}, "feature_map must be null"),
        ({"num_kv_heads": 3}, "num_kv_heads must divide num_heads"),
        ({"num_heads": 16}, "num_heads gives heads of an odd number of keys"),
        ({"hidden_ratio": None, "intermediate_size": None}, "mlp.gate_proj.weight has shape [24, 16], the config asks for [256, 16]"),
        ({"use_output_gate": False}, "attn.g_norm.weight is missing"),
        ({"clamp_min": None}, "clamp_min is not a known key"),
    ],
    "hgrn2": [
        ({"expand_ratio": 5}, "expand_ratio must divide hidden_size"),
        ({"expand_ratio": None, "num_heads": None}, "expand_ratio must divide hidden_size"),
        ({"use_lower_bound": False}, "model.lower_bounds is not one that the config asks for"),
        ({"num_hidden_layers": 2}, "model.lower_bounds has shape [3, 16], the config asks for [2, 16]"),
        ({"conv_bias": True}, "conv_bias is not a known key"),
        ({"elementwise_affine": False}, "elementwise_affine must be true"),
    ],
    "rwkv6": [
        ({"hidden_act": "relu"}, 'hidden_act must be "sqrelu"'),
        ({"norm_bias": False}, "norm_bias must be true"),
        ({"num_heads": 3}, "num_heads must divide the columns"),
        ({"proj_low_rank_dim": 4}, "attn.x_proj.0.linear.weight has shape [15, 16], the config asks for [20, 16]"),
        ({"gate_low_rank_dim": None}, "attn.w_proj.linear.lora.0.weight has shape [5, 16], the config asks for [64, 16]"),
        ({"intermediate_size": None}, "ffn.key.linear.weight has shape [24, 16], the config asks for [64, 16]"),
        ({"norm_first": False}, "model.layers.0.pre_norm.weight is not one that the config asks for"),
    ],
    "kda": [
        ({"safe_gate": True}, "safe_gate must be false"),
        ({"lower_bound": -5.0}, "lower_bound must be null"),
        ({"use_gate": True}, "use_gate is not a known key"),
        ({"expand_v": 1.0}, "v_proj.weight has shape [36, 16]"),
    ],
    "qwen3_5_text": [
        ({"layer_types": None}, "linear_attn.in_proj_qkv.weight is missing"),
        ({"layer_types": ["linear_attention"]}, 'layer_types must say "linear_attention" or "full_attention" of every layer'),
        ({"layer_types": ["linear_attention", "full_attention", "sliding_attention"]}, "layer_types must say"),
        ({"linear_num_value_heads": 3}, "linear_num_value_heads must be a multiple of linear_num_key_heads"),
        ({"linear_conv_kernel_dim": 5}, "linear_conv_kernel_dim must be a whole number from 2 to 4"),
        ({"num_key_value_heads": 3}, "num_key_value_heads must divide num_attention_heads"),
        ({"attention_bias": True}, "attention_bias must be false"),
        ({"attn_output_gate": False}, "attn_output_gate must be true"),
        ({"hidden_act": "gelu"}, 'hidden_act must be "silu"'),
        ({"rope_parameters": {"rope_type": "yarn"}}, 'rope_parameters.rope_type must be "default"'),
        ({"rope_parameters": {"partial_rotary_factor": 0.4}}, "rope_parameters.partial_rotary_factor times head_dim must be"),
        ({"rope_parameters": [0.25]}, "rope_parameters must be an object or null"),
        ({"rope_parameters": {"factor": 4.0}}, "rope_parameters.factor is not a known key"),
        ({"rope_parameters": None, "rope_scaling": {"type": "linear"}}, "rope_scaling must be null"),
        ({"num_experts": 8}, "num_experts is not a known key"),
        ({"tie_word_embeddings": True}, "lm_head.weight is not one that the config asks for"),
        ({"head_dim": 4}, "self_attn.q_proj.weight has shape [64, 16], the config asks for [32, 16]"),
    ],
    "qwen3_5": [
        ({"text_config": None}, "text_config must be an object"),
        ({"text_config": {"model_type": "qwen3_5_moe_text"}}, 'text_config.model_type must be "qwen3_5_text"'),
        ({"eos_token_id": 3}, "eos_token_id"),
    ],
    "mamba2": [
        ({"time_step_limit": [0.0, 0.1]}, "time_step_limit must be [0, Infinity]"),
        ({"time_step_limit": [0.001, 1e30]}, "time_step_limit must be [0, Infinity]"),
        ({"time_step_limit": {"__float__": "Infinity"}}, "time_step_limit must be [0, Infinity]"),
        ({"rms_norm": False}, "rms_norm must be true"),
        ({"num_heads": 5}, "num_heads times head_dim must be expand times hidden_size"),
        ({"n_groups": 3}, "n_groups must divide num_heads"),
        ({"conv_kernel": 5}, "conv_kernel must be a whole number from 2 to 4"),
        ({"hidden_act": "gelu"}, 'hidden_act must be "silu"'),
        ({"layer_types": ["mamba", "attention"]}, 'layer_types must be "mamba" for every layer'),
        ({"rmsnorm": True}, "rmsnorm is not a known key"),
        ({"use_bias": True}, "in_proj.bias is missing"),
        ({"use_conv_bias": False}, "conv1d.bias is not one that the config asks for"),
        ({"time_step_limit": [0, {"__float__": "Infinity"}], "state_size": 9}, "in_proj.weight has shape [88, 16]"),
    ],
    "mamba2_fla": [
        ({"D_has_hdim": True}, "D_has_hdim must be false"),
        ({"dt_limit": [0.0, 1.0]}, "dt_limit must be [0, Infinity]"),
        ({"layer_norm_epsilon": 1e-5}, "layer_norm_epsilon is not a known key"),
    ],
}


def write(name, config, tensors, logits):
    seed = 1 + sum(name.encode())
    ids = [int(u * 128 + 128) % IDS for u in uniform(seed + 1000, TOKENS)[0]]
    rows = logits(make_tensors(tensors, seed), config, ids)
    config = json.dumps(config).replace("Infinity", '{"__float__": "Infinity"}')  # JSON has no word; transformers 5's
    lines = [f'"config": {config}', f'"seed": {seed}', f'"ids": {json.dumps(ids)}',
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
