"""Models of recurrent kinds in float64, read from Hugging Face folders independently of the C program: only their
equations, token by token, in numpy. The cases of kind_cases.py compare the C program with them.
"""

import numpy


# --- numbers


def uniform(state, n):
    """n numbers from -1 to 1 of splitmix64, and its next state."""
    step = 0x9E3779B97F4A7C15
    z = numpy.uint64(state) + numpy.arange(1, n + 1, dtype=numpy.uint64) * numpy.uint64(step)  # modulo 2^64
    z = (z ^ z >> numpy.uint64(30)) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> numpy.uint64(27)) * numpy.uint64(0x94D049BB133111EB)
    return ((z ^ z >> numpy.uint64(31)) >> numpy.uint64(40)) * 2.0**-23 - 1, (state + n * step) % 2**64


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
    """rows: all inputs up to now, [t, channels]; weight [channels, 1, taps]. Returns the last output."""
    taps = weight.shape[-1]
    padded = numpy.concatenate([numpy.zeros((taps, rows.shape[1])), rows])[-taps:]
    return (padded * weight[:, 0].T).sum(0)


class Rows:
    """A layer's memory: every row that it was given, by name. `layer` and `model` hold all tensors, `position` is the
    number of earlier tokens."""

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
        if c.get("use_short_conv", True):
            row = convolved(memory.append(part, row), w[f"{part}_conv1d.weight"])
        parts[part] = silu(row)
    q, k = (numpy.repeat(l2(parts[part].reshape(key_heads, -1)), heads // key_heads, 0) for part in "qk")
    v = parts["v"].reshape(heads, -1)
    beta = sigmoid(w["b_proj.weight"] @ x) * (2 if c.get("allow_neg_eigval") else 1)
    alpha = numpy.ones((heads, 1))
    if gated:
        alpha = numpy.exp(-numpy.exp(w["A_log"]) * softplus(w["a_proj.weight"] @ x + w["dt_bias"]))[:, None]
    if kda:
        f = (w["f_proj.1.weight"] @ (w["f_proj.0.weight"] @ x) + w["dt_bias"]).reshape(heads, -1)
        rate = numpy.exp(w["A_log"])[:, None]
        alpha = numpy.exp(-c["bound"] * sigmoid(rate * f) if c.get("bound") else -rate * softplus(f))
    out = []
    for h in range(heads):
        state = memory.states.get(h, numpy.zeros((k.shape[1], v.shape[1]))) * alpha[h][:, None]
        state = state + beta[h] * numpy.outer(k[h], v[h] - k[h] @ state)
        memory.states[h] = state
        out.append(rms_norm(q[h] @ state / numpy.sqrt(k.shape[1]), w["o_norm.weight"], c["norm_eps"]))
    out = numpy.concatenate(out)
    if kda:
        out = out * sigmoid(w["g_proj.1.weight"] @ (w["g_proj.0.weight"] @ x) + w["g_proj.1.bias"])
    elif c.get("use_gate", gated):
        out = out * silu(w["g_proj.weight"] @ x)
    return w["o_proj.weight"] @ out


def gla(w, c, memory, x):
    heads = c["num_heads"]
    shared = heads // (c.get("num_kv_heads") or heads)
    parts = {}
    for part in "qkv":
        parts[part] = w[f"{part}_proj.weight"] @ x
        if c.get("use_short_conv"):
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
    return w["o_proj.weight"] @ (out * silu(w["g_proj.weight"] @ x) if c.get("use_output_gate", True) else out)


def rotated(x, position, base=10000.0):
    """x [heads, d]; pairs are halves."""
    half = x.shape[1] // 2
    angles = position * base ** (-numpy.arange(half) / half)
    left, right = x[:, :half], x[:, half:]
    return numpy.concatenate([left * numpy.cos(angles) - right * numpy.sin(angles),
                              right * numpy.cos(angles) + left * numpy.sin(angles)], 1)


def retnet(w, c, memory, x):
    heads = c["num_heads"]
    shared = heads // (c.get("num_kv_heads") or heads)
    parts = {part: w[f"{part}_proj.weight"] @ x for part in "qkv"}  # use_short_conv builds nothing
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
    return w["o_proj.weight"] @ (out * silu(w["g_proj.weight"] @ x) if c.get("use_output_gate", True) else out)


def hgrn2(w, c, memory, x):
    parts = {}
    for part in "qfi":
        parts[part] = w[f"{part}_proj.weight"] @ x
        if c.get("use_short_conv"):
            parts[part] = convolved(memory.append(part, parts[part]), w[f"{part}_conv1d.weight"])
    kept = sigmoid(parts["f"])
    if c.get("use_lower_bound", True):
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
    """Returns the row before x, and keeps x."""
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


def rwkv_layer(w, c, i, x):
    """Layer i's own weights, its mixer's, x as the layer takes it and as the mixer does."""
    p = f"model.layers.{i}."
    own = {name[len(p):]: t for name, t in w.items() if name.startswith(p)}
    if "pre_norm.weight" in own:
        x = layer_norm(x, own["pre_norm.weight"], own["pre_norm.bias"], c["norm_eps"])
    mixer = {name[5:]: t for name, t in own.items() if name.startswith("attn.")}
    return own, mixer, x, layer_norm(x, own["attn_norm.weight"], own["attn_norm.bias"], c["norm_eps"])


def rwkv6(w, c, ids):
    """Logits."""
    memories, out = [Rows() for _ in range(c["num_hidden_layers"])], []
    for token in ids:
        x = w["model.embeddings.weight"][token]
        for i, memory in enumerate(memories):
            own, mixer, x, y = rwkv_layer(w, c, i, x)
            x = x + rwkv6_mixer(mixer, c, memory, y)
            y = layer_norm(x, own["ffn_norm.weight"], own["ffn_norm.bias"], c["norm_eps"])
            shift = before(memory, "ffn", y) - y
            key = own["ffn.key.linear.weight"] @ (y + shift * own["ffn.key.mu"])
            value = own["ffn.value.weight"] @ numpy.maximum(key, 0) ** 2
            x = x + sigmoid(own["ffn.receptance.linear.weight"] @ (y + shift * own["ffn.receptance.mu"])) * value
        head = w["model.embeddings.weight" if c.get("tie_word_embeddings") else "lm_head.weight"]
        out.append(head @ layer_norm(x, w["model.norm.weight"], w["model.norm.bias"], c["norm_eps"]))
    return numpy.array(out)


def low_rank(w, name, x, middle=lambda x: x):
    return w[f"{name}_lora.lora.2.weight"] @ middle(w[f"{name}_lora.lora.0.weight"] @ x) + w.get(f"{name}_lora.lora.2.bias", 0)


def rwkv7_mixer(w, c, memory, x, first):
    """first: v of layer 0, None there. The output, and v."""
    size, delta = c["head_dim"], before(memory, "x", x) - x
    mixed = {name: x + delta * w[f"x_{name}"].reshape(-1) for name in "rwkvag"}
    r, k, v = (w[f"{name}_proj.weight"] @ mixed[name] for name in "rkv")
    decay = numpy.exp(-numpy.exp(-0.5) * sigmoid(low_rank(w, "w", mixed["w"], numpy.tanh)))
    rate = sigmoid(low_rank(w, "a", mixed["a"]))
    if first is not None:
        v = v + (first - v) * sigmoid(low_rank(w, "v", mixed["v"]))
    taken = (k * w["k_k"]).reshape(-1, size)
    taken = taken / numpy.maximum(numpy.sqrt((taken * taken).sum(-1, keepdims=True)), 1e-12)
    k = k * (1 + (rate - 1) * w["k_a"])
    rows = {name: row.reshape(-1, size) for name, row in (("r", r), ("k", k), ("v", v), ("decay", decay), ("rate", rate))}
    out, begin = [], w.get("time_state", numpy.zeros(len(x) * size)).reshape(-1, size, size)
    for h in range(len(taken)):
        state = memory.states.get(h, begin[h].T)  # [value, key], as the authors have it
        state = (state * rows["decay"][h] - numpy.outer(state @ taken[h], rows["rate"][h] * taken[h])
                 + numpy.outer(rows["v"][h], rows["k"][h]))
        memory.states[h] = state
        out.append(state @ rows["r"][h])
    weight, bias = (w[f"g_norm.{part}"].reshape(-1, size) for part in ("weight", "bias"))
    out = layer_norm(numpy.array(out), weight, bias, size * c["norm_eps"])
    out = out + (rows["r"] * rows["k"] * w["r_k"]).sum(-1, keepdims=True) * rows["v"]
    return w["o_proj.weight"] @ (out.reshape(-1) * low_rank(w, "g", mixed["g"], sigmoid)), v


def rwkv7(w, c, ids):
    """Logits."""
    memories, out = [Rows() for _ in range(c["num_hidden_layers"])], []
    for token in ids:
        x, first = w["model.embeddings.weight"][token], None
        for i, memory in enumerate(memories):
            own, mixer, x, y = rwkv_layer(w, c, i, x)
            y, v = rwkv7_mixer(mixer, c, memory, y, first)
            first, x = v if first is None else first, x + y
            y = layer_norm(x, own["ffn_norm.weight"], own["ffn_norm.bias"], c["norm_eps"])
            key = own["ffn.key.weight"] @ (y + (before(memory, "ffn", y) - y) * own["ffn.x_k"].reshape(-1))
            x = x + own["ffn.value.weight"] @ numpy.maximum(key, 0) ** 2
        head = w["model.embeddings.weight" if c.get("tie_word_embeddings") else "lm_head.weight"]
        out.append(head @ layer_norm(x, w["model.norm.weight"], w["model.norm.bias"], c["norm_eps"]))
    return numpy.array(out)


def softmax_layer(w, c, memory, x):
    """The mixer that `attn` names for a layer."""
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
        c = {"norm_eps": 1e-6} | c

        def below(prefix):
            return {name[len(prefix):]: t for name, t in w.items() if name.startswith(prefix)}

        layers = [below(f"model.layers.{i}.") for i in range(c["num_hidden_layers"])]
        attention = [below(f"model.layers.{i}.attn.") for i in range(c["num_hidden_layers"])]
        memories, out = [Rows(i, w) for i in range(len(layers))], []
        for token in ids:
            x = w["model.embeddings.weight"][token]
            for layer, own, memory in zip(layers, attention, memories):
                kind = softmax_layer if c.get("attn") and memory.layer in c["attn"]["layers"] else mixer
                x = x + kind(own, c, memory, rms_norm(x, layer["attn_norm.weight"], c["norm_eps"]))
                memory.position += 1
                y = rms_norm(x, layer["mlp_norm.weight"], c["norm_eps"])
                hidden = silu(layer["mlp.gate_proj.weight"] @ y) * (layer["mlp.up_proj.weight"] @ y)
                x = x + layer["mlp.down_proj.weight"] @ hidden
            head = w["model.embeddings.weight" if c.get("tie_word_embeddings") else "lm_head.weight"]
            out.append(head @ rms_norm(x, w["model.norm.weight"], c["norm_eps"]))
        return numpy.array(out)

    return logits


def lightning_mixer(w, c, layer, state, x):
    """x: all rows. The state of a layer's heads, [K, V] each, which changes."""
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


def parted(w, c):
    """Qwen3-Next's rows, which stand head of keys by head of keys, as Qwen3.5 has them."""
    heads, size = c["linear_num_key_heads"], c["linear_key_head_dim"]
    values = c["linear_num_value_heads"] * c["linear_value_head_dim"] // heads
    rows = w["in_proj_qkvz.weight"].reshape(heads, 2 * size + 2 * values, -1)
    q, k, v, z = (part.reshape(-1, rows.shape[2]) for part in numpy.split(rows, [size, 2 * size, 2 * size + values], 1))
    b, a = (part.reshape(-1, rows.shape[2]) for part in numpy.split(w["in_proj_ba.weight"].reshape(heads, -1, rows.shape[2]), 2, 1))
    return {"in_proj_qkv.weight": numpy.concatenate([q, k, v]), "in_proj_z.weight": z, "in_proj_b.weight": b, "in_proj_a.weight": a}


def swiglu(own, prefix, y):
    return own[f"{prefix}down_proj.weight"] @ (silu(own[f"{prefix}gate_proj.weight"] @ y) * (own[f"{prefix}up_proj.weight"] @ y))


def qwen_experts(own, c, y):
    """Experts with a shared net, whose share is a number of its own; one tensor may hold the products of all experts."""
    p = numpy.exp(own["mlp.gate.weight"] @ y)
    chosen = numpy.argsort(-p)[:c["num_experts_per_tok"]]
    p, out = p / p[chosen if c.get("norm_topk_prob", True) else slice(None)].sum(), 0
    for expert in chosen:
        if "mlp.experts.gate_up_proj" in own:
            gate, up = numpy.split(own["mlp.experts.gate_up_proj"][expert] @ y, 2)
            out = out + p[expert] * (own["mlp.experts.down_proj"][expert] @ (silu(gate) * up))
        else:
            out = out + p[expert] * swiglu(own, f"mlp.experts.{expert}.", y)
    return out + sigmoid(own["mlp.shared_expert_gate.weight"] @ y) * swiglu(own, "mlp.shared_expert.", y)


def qwen_delta(w, c, memory, x):
    """Gated DeltaNet under Qwen3.5's names."""
    keys = c["linear_num_key_heads"] * c["linear_key_head_dim"]
    w = w | (parted(w, c) if "in_proj_qkvz.weight" in w else {})
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
    whole, c = c["model_type"] in ("qwen3_5", "qwen3_5_moe"), c.get("text_config", c)
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
            x = x + (qwen_experts(layer, c, y) if "mlp.gate.weight" in layer else swiglu(layer, "mlp.", y))
        head = w[f"{begin}embed_tokens.weight" if c.get("tie_word_embeddings") else "lm_head.weight"]
        out.append(head @ rms_norm(x, 1 + w[f"{begin}norm.weight"], eps))
    return numpy.array(out)


def mamba1_mixer(w, eps, memory, x):
    """eps: of norms of dt, B and C, which have weights in Jamba and none in Falcon-Mamba; None without norms."""
    inner, state_size, rank = w["D"].size, w["A_log"].shape[1], w["dt_proj.weight"].shape[1]
    row, z = numpy.split(w["in_proj.weight"] @ x + w.get("in_proj.bias", 0), 2)
    row = silu(convolved(memory.append("row", row), w["conv1d.weight"]) + w.get("conv1d.bias", 0))
    parts = numpy.split(w["x_proj.weight"] @ row, [rank, rank + state_size])
    if eps is not None:
        parts = [rms_norm(part, w.get(f"{name}_layernorm.weight", 1), eps) for name, part in zip(("dt", "b", "c"), parts)]
    step = softplus(w["dt_proj.weight"] @ parts[0] + w["dt_proj.bias"])
    state = memory.states.get(0, numpy.zeros((inner, state_size)))
    state = numpy.exp(-numpy.exp(w["A_log"]) * step[:, None]) * state + numpy.outer(step * row, parts[1])
    memory.states[0] = state
    return w["out_proj.weight"] @ ((state @ parts[2] + w["D"] * row) * silu(z)) + w.get("out_proj.bias", 0)


def mamba1(w, c, ids):
    return backbone(w, c, ids, lambda own, memory, x: mamba1_mixer(own, c.get("mixer_rms_eps"), memory, x))


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


def backbone(w, c, ids, mixer):
    """Logits. mixer(tensors of the layer's mixer, its memory, x)"""
    eps = c.get("norm_eps", c.get("layer_norm_epsilon"))
    memories, out = [Rows() for _ in range(c["num_hidden_layers"])], []
    for token in ids:
        x = w["backbone.embeddings.weight"][token]
        for i, memory in enumerate(memories):
            p = f"backbone.layers.{i}.mixer."
            own = {name[len(p):]: t for name, t in w.items() if name.startswith(p)}
            x = x + mixer(own, memory, rms_norm(x, w[f"backbone.layers.{i}.norm.weight"], eps))
        head = w["backbone.embeddings.weight" if c.get("tie_word_embeddings") else "lm_head.weight"]
        out.append(head @ rms_norm(x, w["backbone.norm_f.weight"], eps))
    return numpy.array(out)


def mamba2(w, c, ids):
    return backbone(w, c, ids, lambda own, memory, x: mamba2_mixer(own, c, memory, x))
