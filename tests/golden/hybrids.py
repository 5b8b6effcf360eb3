"""Hybrid models of transformers in float64, as kinds.py has other kinds: only their equations, token by token, in numpy."""

import folders
import numpy
from kinds import Rows, convolved, delta, mamba1_mixer, mamba2_mixer, rms_norm, rotated, sigmoid, silu


def attention(w, memory, x, heads, size, base=0, scale=None, eps=None, row_eps=None, out="o_proj"):
    """Softmax over all rows up to this one, with rotation unless base is 0.

    eps is that of norms of single heads of queries and keys, and row_eps that of norms over all heads."""
    q, k, v = (w[f"{part}_proj.weight"] @ x for part in "qkv")
    if row_eps is not None:
        q, k = rms_norm(q, w["q_norm.weight"], row_eps), rms_norm(k, w["k_norm.weight"], row_eps)
    q, k, v = (rows.reshape(-1, size) for rows in (q, k, v))
    if eps is not None:
        q, k = (rms_norm(rows, w[f"{part}_layernorm.weight"], eps) for part, rows in (("q", q), ("k", k)))
    if base:
        q, k = rotated(q, memory.position, base), rotated(k, memory.position, base)
    keys, values, found = memory.append("k", k), memory.append("v", v), []
    for h in range(heads):
        logits = keys[:, h * len(k) // heads] @ q[h] * (scale or size**-0.5)
        weights = numpy.exp(logits - logits.max())
        found.append(weights @ values[:, h * len(k) // heads] / weights.sum())
    return w[f"{out}.weight"] @ numpy.concatenate(found)


def below(w, prefix):
    return {name[len(prefix):]: t for name, t in w.items() if name.startswith(prefix)}


def model(w, c, ids, layer, final_norm, eps):
    """Logits. layer(tensors of the layer, its number, its memory, x) gives the next x."""
    memories, out = [Rows() for _ in range(c["num_hidden_layers"])], []
    layers = [below(w, f"model.layers.{i}.") for i in range(len(memories))]
    embedding, head = w["model.embed_tokens.weight"], w.get("lm_head.weight")
    for token in ids:
        x = embedding[token] * c.get("embedding_multiplier", 1)
        for i, memory in enumerate(memories):
            x = layer(layers[i], i, memory, x)
            memory.position += 1
        out.append((embedding if head is None else head) @ rms_norm(x, w[f"model.{final_norm}.weight"], eps))
    return numpy.array(out) / c.get("logits_scaling", 1) * c.get("lm_head_multiplier", 1)


def short_conv(own, memory, x):
    b, gate, u = numpy.split(own["in_proj.weight"] @ x + own.get("in_proj.bias", 0), 3)
    y = convolved(memory.append("u", b * u), own["conv.weight"]) + own.get("conv.bias", 0)
    return own["out_proj.weight"] @ (gate * y) + own.get("out_proj.bias", 0)


def lfm2(w, c, ids):
    heads, eps = c["num_attention_heads"], c["norm_eps"]

    def layer(own, i, memory, x):
        y = rms_norm(x, own["operator_norm.weight"], eps)
        if c["layer_types"][i] == "conv":
            x = x + short_conv(below(own, "conv."), memory, y)
        else:
            x = x + attention(below(own, "self_attn."), memory, y, heads, len(x) // heads,
                              c["rope_parameters"]["rope_theta"], eps=eps, out="out_proj")
        y, net = rms_norm(x, own["ffn_norm.weight"], eps), below(own, "feed_forward.")
        if "gate.weight" in net:
            return x + sigmoid_mixture(net, c, y, net.get("expert_bias", 0), 1e-6, lambda own, y: gated_net(own, y, "w1", "w3", "w2"))
        return x + gated_net(net, y, "w1", "w3", "w2")

    return model(w, c, ids, layer, "embedding_norm", eps)


def mamba_config(c, norm=True, gate_last=False):
    """As mamba2_mixer of kinds.py takes it."""
    return {"num_heads": c["mamba_n_heads"], "head_dim": c["mamba_d_head"], "n_groups": c["mamba_n_groups"],
            "state_size": c["mamba_d_state"], "norm_eps": c["rms_norm_eps"], "rmsnorm": norm, "norm_before_gate": gate_last}


def joined_net(gate_up, down, y):
    gate, up = numpy.split(gate_up @ y, 2)
    return down @ (silu(gate) * up)


def granite(w, c, ids):
    heads, eps, scale = c["num_attention_heads"], c["rms_norm_eps"], c["residual_multiplier"]

    def layer(own, i, memory, x):
        y = rms_norm(x, own["input_layernorm.weight"], eps)
        if c["layer_types"][i] in ("mamba", "linear_attention"):
            x = x + scale * mamba2_mixer(below(own, "mamba."), mamba_config(c), memory, y)
        else:
            base = c["rope_theta"] if c["position_embedding_type"] == "rope" else 0
            x = x + scale * attention(below(own, "self_attn."), memory, y, heads, len(x) // heads, base, c["attention_multiplier"])
        y, moe = rms_norm(x, own["post_attention_layernorm.weight"], eps), below(own, "block_sparse_moe.")
        x = x + scale * joined_net(own["shared_mlp.input_linear.weight"], own["shared_mlp.output_linear.weight"], y)
        if not moe:
            return x
        logits = moe["router.layer.weight"] @ y
        chosen = numpy.argsort(-logits)[:c["num_experts_per_tok"]]
        shares = numpy.exp(logits[chosen] - logits.max())
        return x + scale * sum(share * joined_net(moe["input_linear.weight"][expert], moe["output_linear.weight"][expert], y)
                               for share, expert in zip(shares / shares.sum(), chosen))

    return model(w, c, ids, layer, "norm", eps)


def gated_net(own, y, gate="gate_proj", up="up_proj", down="down_proj"):
    return own[f"{down}.weight"] @ (silu(own[f"{gate}.weight"] @ y) * (own[f"{up}.weight"] @ y))


def mixture(own, n_active, y):
    """The experts of the greatest probabilities, which keep these as their weights."""
    p = numpy.exp(own["router.weight"] @ y)
    p = p / p.sum()
    return sum(p[expert] * gated_net(below(own, f"experts.{expert}."), y) for expert in numpy.argsort(-p)[:n_active])


def sigmoid_mixture(own, c, y, bias, eps, net, keys=lambda keys: keys):
    """The bias decides about the choice alone, which is of the greatest keys(p + bias). net(tensors of an expert, y) is its output."""
    p = sigmoid(own["gate.weight"] @ y)
    chosen = numpy.argsort(-keys(p + bias))[:c["num_experts_per_tok"]]
    shares = c["routed_scaling_factor"] * p / (p[chosen].sum() + eps if c["norm_topk_prob"] else 1)
    return sum(shares[expert] * net(below(own, f"experts.{expert}."), y) for expert in chosen)


def relu2_net(own, y):
    return own["down_proj.weight"] @ numpy.maximum(own["up_proj.weight"] @ y, 0) ** 2


def among_groups(c, keys):
    """Keys of experts outside the best groups, which are known by their two best experts, are -inf."""
    groups = keys.reshape(c["n_group"], -1)
    if len(groups) == 1:
        return keys
    best = numpy.argsort(-numpy.sort(groups)[:, -2:].sum(1))[:c["topk_group"]]
    return numpy.where(numpy.isin(numpy.arange(len(groups)), best)[:, None], groups, -numpy.inf).reshape(-1)


def nemotron(w, c, ids):
    types, eps = folders.nemotron_types(c), c["layer_norm_epsilon"]
    mamba = {"num_heads": c["mamba_num_heads"], "head_dim": c["mamba_head_dim"], "n_groups": c["n_groups"],
             "state_size": c["ssm_state_size"], "norm_eps": eps}

    def layer(own, i, memory, x):
        y, mixer = rms_norm(x, own["norm.weight"], eps), below(own, "mixer.")
        if types[i] == "linear_attention":
            return x + mamba2_mixer(mixer, mamba, memory, y)
        if types[i] == "full_attention":
            return x + attention(mixer, memory, y, c["num_attention_heads"], c["head_dim"])
        if types[i] == "mlp":
            return x + relu2_net(mixer, y)
        routed = sigmoid_mixture(mixer, c, y, mixer["gate.e_score_correction_bias"], 1e-20, relu2_net, lambda keys: among_groups(c, keys))
        return x + routed + relu2_net(below(mixer, "shared_experts."), y)

    own = {name.replace("backbone.", "model.").replace("model.embeddings", "model.embed_tokens"): t for name, t in w.items()}
    return model(own, c | {"num_hidden_layers": len(types)}, ids, layer, "norm_f", eps)


def kimi_delta(w, heads, eps, memory, x):
    """KDA, whose gates have other names and no bias here."""
    own = w | {f"f_proj.{i}.weight": w[f"f_{part}_proj.weight"] for i, part in enumerate("ab")} | {
        f"g_proj.{i}.weight": w[f"g_{part}_proj.weight"] for i, part in enumerate("ab")} | {"A_log": w["A_log"].reshape(-1)}
    own["g_proj.1.bias"] = numpy.zeros(len(own["g_proj.1.weight"]))
    return delta(own, {"model_type": "kda", "num_heads": heads, "norm_eps": eps}, memory, x)


def turned_pairs(x, position, base):
    """Pairs of neighbours of each row, as complex numbers."""
    pairs = x.reshape(len(x), -1, 2)
    turns = numpy.exp(1j * position * base ** (-numpy.arange(pairs.shape[1]) / pairs.shape[1]))
    return ((pairs[..., 0] + 1j * pairs[..., 1]) * turns).view(float)


def latent_attention(w, c, memory, x, base=0):
    """MLA: keys and values of all heads from one latent; a part of each key, which turns unless base is 0, is common to all heads."""
    heads, nope, rope, rank = (c[key] for key in ("num_attention_heads", "qk_nope_head_dim", "qk_rope_head_dim", "kv_lora_rank"))
    if c["q_lora_rank"]:
        q = w["q_b_proj.weight"] @ rms_norm(w["q_a_proj.weight"] @ x, w["q_a_layernorm.weight"], 1e-6)
    else:
        q = w["q_proj.weight"] @ x
    latent, common = numpy.split(w["kv_a_proj_with_mqa.weight"] @ x, [rank])
    both = (w["kv_b_proj.weight"] @ rms_norm(latent, w["kv_a_layernorm.weight"], 1e-6)).reshape(heads, -1)
    q, common = q.reshape(heads, -1), common[None]
    if base:
        q = numpy.concatenate([q[:, :nope], turned_pairs(q[:, nope:], memory.position, base)], 1)
        common = turned_pairs(common, memory.position, base)
    k = numpy.concatenate([both[:, :nope], numpy.tile(common, (heads, 1))], 1)
    keys, values = memory.append("k", k), memory.append("v", both[:, nope:])
    logits = numpy.einsum("thd,hd->ht", keys, q) * (nope + rope) ** -0.5
    weights = numpy.exp(logits - logits.max(1, keepdims=True))
    found = numpy.einsum("ht,thd->hd", weights / weights.sum(1, keepdims=True), values)
    if "g_proj.weight" in w:
        found = found * sigmoid(w["g_proj.weight"] @ x)[:, None]
    return w["dense.weight" if "dense.weight" in w else "o_proj.weight"] @ found.reshape(-1)


def kimi(w, c, ids):
    eps, layers = c["rms_norm_eps"], folders.kimi_layers(c)
    router = {"num_experts_per_tok": c["num_experts_per_token"], "norm_topk_prob": c["moe_renormalize"], "n_group": c["num_expert_group"],
              "topk_group": c["topk_group"], "routed_scaling_factor": c["routed_scaling_factor"]}

    def layer(own, i, memory, x):
        y, mixer = rms_norm(x, own["input_layernorm.weight"], eps), below(own, "self_attn.")
        full, sparse = layers[i]
        x = x + (latent_attention(mixer, c, memory, y) if full else kimi_delta(mixer, folders.kimi_heads(c)[0], eps, memory, y))
        y, moe = rms_norm(x, own["post_attention_layernorm.weight"], eps), below(own, "block_sparse_moe.")
        if not sparse:
            return x + gated_net(below(own, "mlp.") or moe, y)
        routed = sigmoid_mixture(moe, router, y, moe["gate.e_score_correction_bias"], 1e-20,
                                 lambda own, y: gated_net(own, y, "w1", "w3", "w2"), lambda keys: among_groups(router, keys))
        return x + routed + gated_net(below(moe, "shared_experts."), y)

    return model(w, c, ids, layer, "norm", eps)


def ling_delta(w, c, memory, x):
    """KDA without pairs, and without a bias of the gate."""
    one = numpy.eye(len(x))
    own = {f"{part}_proj.{i}.weight": w[f"{part}_proj.weight"] if i else one for part in "fg" for i in range(2)}
    own |= w | {"g_proj.1.bias": 0, "o_proj.weight": w["dense.weight" if "dense.weight" in w else "o_proj.weight"]}
    bound = -c["kda_lower_bound"] if c["kda_safe_gate"] else None
    return delta(own, {"model_type": "kda", "num_heads": folders.ling_heads(c)[0], "norm_eps": c["rms_norm_eps"], "bound": bound}, memory, x)


def ling(w, c, ids):
    eps, layers = c["rms_norm_eps"], folders.ling_layers(c)
    names = {"num_experts_per_tok": "num_experts_per_token", "norm_topk_prob": "moe_renormalize", "n_group": "num_expert_group"}
    router = {key: c.get(key, c.get(other)) for key, other in names.items()} | c

    def layer(own, i, memory, x):
        y, mixer = rms_norm(x, own["input_layernorm.weight"], eps), below(own, "attention.")
        full, sparse = layers[i]
        x = x + (latent_attention(mixer, c, memory, y, c["rope_theta"]) if full else ling_delta(mixer, c, memory, y))
        y, net = rms_norm(x, own["post_attention_layernorm.weight"], eps), below(own, "mlp.")
        if not sparse:
            return x + gated_net(net, y)
        routed = sigmoid_mixture(net, router, y, net["gate.expert_bias"], 1e-20, gated_net, lambda keys: among_groups(router, keys))
        return x + routed + gated_net(below(net, "shared_experts."), y)

    return model({name.replace("word_embeddings", "embed_tokens"): t for name, t in w.items()}, c, ids, layer, "norm", eps)


def jamba(w, c, ids):
    heads, eps = c["num_attention_heads"], c["rms_norm_eps"]

    def layer(own, i, memory, x):
        y = rms_norm(x, own["input_layernorm.weight"], eps)
        if i % c["attn_layer_period"] == c["attn_layer_offset"]:
            x = x + attention(below(own, "self_attn."), memory, y, heads, len(x) // heads)
        else:
            x = x + mamba1_mixer(below(own, "mamba."), eps, memory, y)
        y, net = rms_norm(x, own["pre_ff_layernorm.weight"], eps), below(own, "feed_forward.")
        return x + (mixture(net, c["num_experts_per_tok"], y) if "router.weight" in net else gated_net(net, y))

    return model(w, c, ids, layer, "final_layernorm", eps)


def falcon_h1(w, c, ids):
    heads, eps = c["num_attention_heads"], c["rms_norm_eps"]
    inner, shared = c["mamba_d_ssm"], c["mamba_n_groups"] * c["mamba_d_state"]
    columns = numpy.repeat(c["ssm_multipliers"], [inner, inner, shared, shared, c["mamba_n_heads"]])
    gate_scale, down_scale = c["mlp_multipliers"]

    def mamba(own, memory, y):
        own = own | {"in_proj.weight": columns[:, None] * own["in_proj.weight"]}
        config = mamba_config(c, c["mamba_rms_norm"], c["mamba_norm_before_gate"])
        return c["ssm_out_multiplier"] * mamba2_mixer(own, config, memory, c["ssm_in_multiplier"] * y)

    def softmax(own, memory, y):
        found = attention(own, memory, c["attention_in_multiplier"] * y, heads, c["head_dim"], c["rope_theta"],
                          c["key_multiplier"] * c["head_dim"] ** -0.5)
        return c["attention_out_multiplier"] * found

    def layer(own, i, memory, x):
        y = rms_norm(x, own["input_layernorm.weight"], eps)
        x = x + mamba(below(own, "mamba."), memory, y) + softmax(below(own, "self_attn."), memory, y)
        y = rms_norm(x, own["pre_ff_layernorm.weight"], eps)
        hidden = silu(gate_scale * (own["feed_forward.gate_proj.weight"] @ y)) * (own["feed_forward.up_proj.weight"] @ y)
        return x + down_scale * (own["feed_forward.down_proj.weight"] @ hidden)

    return model(w, c, ids, layer, "final_layernorm", eps)


def olmo_hybrid(w, c, ids):
    heads, eps = c["num_attention_heads"], c["rms_norm_eps"]
    base = (c["rope_parameters"] or {}).get("rope_theta") or 0
    linear = {"model_type": "gated_deltanet", "num_heads": c["linear_num_key_heads"], "num_v_heads": c["linear_num_value_heads"],
              "use_short_conv": True, "allow_neg_eigval": c["linear_allow_neg_eigval"], "use_gate": True, "norm_eps": 1e-5}

    def mlp(own, y):
        return own["mlp.down_proj.weight"] @ (silu(own["mlp.gate_proj.weight"] @ y) * (own["mlp.up_proj.weight"] @ y))

    def layer(own, i, memory, x):
        if c["layer_types"][i] == "linear_attention":
            x = x + delta(below(own, "linear_attn."), linear, memory, rms_norm(x, own["attention_layer_norm.weight"], eps))
            return x + mlp(own, rms_norm(x, own["feedforward_layer_norm.weight"], eps))
        y = attention(below(own, "self_attn."), memory, x, heads, len(x) // heads, base, row_eps=eps)
        x = x + rms_norm(y, own["post_attention_layernorm.weight"], eps)
        return x + rms_norm(mlp(own, x), own["post_feedforward_layernorm.weight"], eps)

    return model(w, c, ids, layer, "norm", eps)


def turned(x, position, base, share):
    """Pairs (i, i + d / 2) of every head, of which the first share turns."""
    half = x.shape[1] // 2
    angles = position * base ** (-numpy.arange(half) / half) * (numpy.arange(half) < int(share * 2 * half) // 2)
    low, high = x[:, :half], x[:, half:]
    return numpy.concatenate([low * numpy.cos(angles) - high * numpy.sin(angles), high * numpy.cos(angles) + low * numpy.sin(angles)], 1)


def gated_window(w, c, kind, memory, x):
    """LFM3's attention, of a layer of this type."""
    heads, size, eps = c["num_attention_heads"], c["head_dim"], c["norm_eps"]
    rope, first = c["rope_parameters"][kind], max(0, memory.position + 1 - c["sliding_window"]) if kind[0] == "s" else 0
    q, k, v = ((w[f"{part}_proj.weight"] @ x).reshape(-1, size) for part in "qkv")
    q, k = (turned(rms_norm(rows, w[f"{part}_norm.weight"], eps), memory.position, rope["rope_theta"],
                   rope.get("partial_rotary_factor", 1)) for part, rows in (("q", q), ("k", k)))
    keys, values, found = memory.append("k", k), memory.append("v", v), []
    gates = sigmoid(w["gate_proj.weight"] @ x) if c["use_attention_gate"] else numpy.ones(heads)
    for h in range(heads):
        logits = keys[first:, h * len(k) // heads] @ q[h] * size**-0.5
        weights = numpy.exp(logits - logits.max())
        found.append(gates[h] * (weights @ values[first:, h * len(k) // heads]) / weights.sum())
    return w["o_proj.weight"] @ numpy.concatenate(found)


def lfm3(w, c, ids):
    eps = c["norm_eps"]

    def after(own, name, y):
        return rms_norm(y, own[f"{name}.weight"], eps) if c["use_sandwich_norm"] else y

    def layer(own, i, memory, x):
        kind, y = c["layer_types"][i], rms_norm(x, own["operator_norm.weight"], eps)
        y = short_conv(below(own, "conv."), memory, y) if kind == "conv" else gated_window(below(own, "self_attn."), c, kind, memory, y)
        x = x + after(own, "post_operator_norm", y)
        y = rms_norm(x, own["ffn_norm.weight"], eps)
        hidden = silu(own["feed_forward.w1.weight"] @ y) * (own["feed_forward.w3.weight"] @ y)
        return x + after(own, "post_ffn_norm", own["feed_forward.w2.weight"] @ hidden)

    return model(w, c, ids, layer, "embedding_norm", eps)
