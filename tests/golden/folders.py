"""Small models of recurrent kinds as flash-linear-attention and transformers write them: config.json, and its tensors.
For float64 readings (kinds.py) and for tests over HTTP, which fill them with any numbers."""

def tensor(shape, mean=0.0, scale=None, dtype="F32"):
    """The default spread keeps the size of a product that of its input."""
    return {"shape": shape, "mean": mean, "scale": scale if scale is not None else (3 / shape[-1]) ** 0.5, "dtype": dtype}


def norm(n):
    return tensor([n], 1.0, 0.3)


def softmax_tensors(c):
    own, d = c["attn"], c["hidden_size"]
    keys = d // own["num_heads"] * (own.get("num_kv_heads") or own["num_heads"])
    out = {"q_proj.weight": tensor([d, d]), "k_proj.weight": tensor([keys, d]), "v_proj.weight": tensor([keys, d]),
           "o_proj.weight": tensor([d, d])}
    if own.get("qkv_bias"):
        out |= {f"{part}_proj.bias": tensor([d if part == "q" else keys], 0, 0.3) for part in "qkv"}
    return out


ATTN = {"layers": [1], "num_heads": 4, "num_kv_heads": 2, "qkv_bias": False, "window_size": None, "rope_theta": 10000.0}


def fla_tensors(c, mixer):
    """mixer: a layer's tensors after attn."""
    d, hidden = c["hidden_size"], c["intermediate_size"]
    out = {"model.embeddings.weight": tensor([c["vocab_size"], d], 0, 0.5)}
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        out |= {f"{p}attn_norm.weight": norm(d), f"{p}mlp_norm.weight": norm(d)}
        own = softmax_tensors(c) if c.get("attn") and i in c["attn"]["layers"] else mixer
        out |= {f"{p}attn.{name}": t for name, t in own.items()}
        out |= {f"{p}mlp.gate_proj.weight": tensor([hidden, d]), f"{p}mlp.up_proj.weight": tensor([hidden, d]),
                f"{p}mlp.down_proj.weight": tensor([d, hidden])}
    out["model.norm.weight"] = norm(d)
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = tensor([c["vocab_size"], d])
    return out


def delta_tensors(c, **other):
    d, gated, kda = c["hidden_size"], c["model_type"] == "gated_deltanet", c["model_type"] == "kda"
    if gated or kda:
        heads = c.get("num_v_heads") or c["num_heads"]
        keys, size = c["num_heads"] * c["head_dim"], int(c["head_dim"] * c["expand_v"])
    else:
        heads = c["num_heads"]
        keys, size = int(d * c["expand_k"]), int(d * c["expand_v"]) // heads
    out = {"q_proj.weight": tensor([keys, d]), "k_proj.weight": tensor([keys, d]), "v_proj.weight": tensor([heads * size, d]),
           "b_proj.weight": tensor([heads, d]), "o_norm.weight": norm(size), "o_proj.weight": tensor([d, heads * size])}
    if gated:
        out |= {"a_proj.weight": tensor([heads, d]), "A_log": tensor([heads], 0, 1.5), "dt_bias": tensor([heads], -1, 1.5)}
    if c["use_short_conv"]:
        out |= {f"{part}_conv1d.weight": tensor([heads * size if part == "v" else keys, 1, c["conv_size"]], 0.2, 0.5)
                for part in "qkv"}
    if kda:
        out |= {"f_proj.0.weight": tensor([size, d]), "f_proj.1.weight": tensor([heads * c["head_dim"], size]),
                "A_log": tensor([heads], 0, 1.5), "dt_bias": tensor([heads * c["head_dim"]], -1, 1.5),
                "g_proj.0.weight": tensor([size, d]), "g_proj.1.weight": tensor([heads * size, size]),
                "g_proj.1.bias": tensor([heads * size], 0, 0.3)}
    if c.get("use_gate"):
        out["g_proj.weight"] = tensor([heads * size, d])
    return fla_tensors(c, out | other)


FLA = {"attn": None, "attn_mode": "chunk", "bos_token_id": 1, "eos_token_id": 2, "fuse_cross_entropy": True, "fuse_norm": True,
       "fuse_swiglu": True, "hidden_act": "swish", "hidden_ratio": 4, "hidden_size": 16, "initializer_range": 0.02,
       "intermediate_size": 24, "max_position_embeddings": 2048, "norm_eps": 1e-6, "num_hidden_layers": 2,
       "tie_word_embeddings": False, "torch_dtype": "float32", "transformers_version": "4.57.0", "use_cache": True,
       "use_l2warp": False, "vocab_size": 256}
DELTA = FLA | {"use_gate": True, "use_short_conv": True, "conv_size": 4, "allow_neg_eigval": False}
GATED = DELTA | {"model_type": "gated_deltanet", "architectures": ["GatedDeltaNetForCausalLM"], "head_dim": 6, "num_heads": 2,
                 "num_v_heads": None, "expand_v": 1.5}
KDA = {key: value for key, value in DELTA.items() if key != "use_gate"} | {
    "model_type": "kda", "architectures": ["KDAForCausalLM"], "head_dim": 6, "num_heads": 2, "num_v_heads": None, "expand_v": 1.0,
    "safe_gate": False, "lower_bound": None}
PLAIN = DELTA | {"model_type": "delta_net", "architectures": ["DeltaNetForCausalLM"], "num_heads": 2, "expand_k": 0.5,
                 "expand_v": 1.0, "use_beta": True, "use_output_norm": True, "qk_norm": "l2", "qk_activation": "silu"}


GLA = FLA | {"model_type": "gla", "architectures": ["GLAForCausalLM"], "num_heads": 4, "num_kv_heads": None, "expand_k": 0.5,
             "expand_v": 1.0, "feature_map": None, "use_short_conv": False, "conv_size": 4, "use_output_gate": True,
             "clamp_min": None, "elementwise_affine": True, "use_gk": True, "use_gv": False}


RETNET = {key: value for key, value in GLA.items() if key not in ("clamp_min", "use_gk", "use_gv")} | {
    "model_type": "retnet", "architectures": ["RetNetForCausalLM"], "num_heads": 2, "expand_k": 1.0, "expand_v": 2.0,
    "hidden_ratio": 2}
HGRN2 = FLA | {"model_type": "hgrn2", "architectures": ["HGRN2ForCausalLM"], "num_heads": 2, "expand_ratio": 8,
               "use_short_conv": False, "conv_size": 4, "use_lower_bound": True, "elementwise_affine": True}
RWKV6 = {key: value for key, value in FLA.items() if key != "fuse_swiglu"} | {
    "model_type": "rwkv6", "architectures": ["RWKV6ForCausalLM"], "num_heads": 2, "expand_k": 0.5, "expand_v": 1.0,
    "hidden_act": "sqrelu", "hidden_ratio": 3.5, "proj_low_rank_dim": 3, "gate_low_rank_dim": 5, "norm_bias": True,
    "norm_eps": 1e-5, "norm_first": True}


def hgrn2_tensors(c, **other):
    d, size = c["hidden_size"], c["expand_ratio"]
    keys = d // size * size
    out = {"q_proj.weight": tensor([keys, d]), "f_proj.weight": tensor([keys, d]), "i_proj.weight": tensor([d, d]),
           "g_norm.weight": norm(d), "o_proj.weight": tensor([d, d])}
    if c["use_short_conv"]:
        out |= {f"{part}_conv1d.weight": tensor([keys, 1, c["conv_size"]], 0.2, 0.5) for part in "qfi"}
    out = fla_tensors(c, out | other)
    if c["use_lower_bound"]:
        out["model.lower_bounds"] = tensor([c["num_hidden_layers"], d], 0, 1.5)
    return out


def both(prefix, n):
    """Weight and bias of a norm."""
    return {f"{prefix}.weight": norm(n), f"{prefix}.bias": tensor([n], 0, 0.3)}


def rwkv6_tensors(c):
    d, heads, hidden = c["hidden_size"], c["num_heads"], c["intermediate_size"]
    keys, values = int(d * c["expand_k"]), int(d * c["expand_v"])
    rank, w_rank = c["proj_low_rank_dim"], c["gate_low_rank_dim"]
    out = {"model.embeddings.weight": tensor([c["vocab_size"], d], 0, 0.5)}
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        if i == 0 and c["norm_first"]:
            out |= both(f"{p}pre_norm", d)
        out |= both(f"{p}attn_norm", d) | both(f"{p}ffn_norm", d) | both(f"{p}attn.g_norm", values)
        out |= {f"{p}attn.x_proj.0.mu": tensor([d], 0.5, 0.5), f"{p}attn.x_proj.0.linear.weight": tensor([5 * rank, d]),
                f"{p}attn.x_proj.2.weight": tensor([d, 5 * rank]), f"{p}attn.x_bias": tensor([5, d], 0.5, 0.5),
                f"{p}attn.r_proj.linear.weight": tensor([keys, d]), f"{p}attn.k_proj.linear.weight": tensor([keys, d]),
                f"{p}attn.v_proj.linear.weight": tensor([values, d]), f"{p}attn.g_proj.linear.weight": tensor([values, d]),
                f"{p}attn.w_proj.linear.lora.0.weight": tensor([w_rank, d]),
                f"{p}attn.w_proj.linear.lora.2.weight": tensor([keys, w_rank]),
                f"{p}attn.w_proj.linear.lora.2.bias": tensor([keys], -1, 2), f"{p}attn.bonus": tensor([heads, keys // heads], 0, 0.5),
                f"{p}attn.o_proj.weight": tensor([d, values]), f"{p}ffn.key.mu": tensor([d], 0.5, 0.5),
                f"{p}ffn.key.linear.weight": tensor([hidden, d]), f"{p}ffn.value.weight": tensor([d, hidden]),
                f"{p}ffn.receptance.mu": tensor([d], 0.5, 0.5), f"{p}ffn.receptance.linear.weight": tensor([d, d])}
    out |= both("model.norm", d)
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = tensor([c["vocab_size"], d])
    return out


RWKV7 = {"model_type": "rwkv7", "architectures": ["RWKV7ForCausalLM"], "a_low_rank_dim": 3, "attn": None, "attn_mode": "chunk",
         "decay_low_rank_dim": 5, "eos_token_id": 2, "fuse_norm": True, "gate_low_rank_dim": 6, "head_dim": 8, "hidden_act": "sqrelu",
         "hidden_ratio": 4.0, "hidden_size": 16, "intermediate_size": 24, "norm_bias": True, "norm_eps": 1e-5, "norm_first": True,
         "num_heads": None, "num_hidden_layers": 3, "tie_word_embeddings": False, "v_low_rank_dim": 4, "value_dim": [16, 16, 16],
         "vocab_size": 256}


def rwkv7_tensors(c):
    d, hidden = c["hidden_size"], c["intermediate_size"]
    out = {"model.embeddings.weight": tensor([c["vocab_size"], d], 0, 0.5)}
    ranks = {"w": "decay_low_rank_dim", "a": "a_low_rank_dim", "v": "v_low_rank_dim", "g": "gate_low_rank_dim"}
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        if i == 0 and c["norm_first"]:
            out |= both(f"{p}pre_norm", d)
        out |= both(f"{p}attn_norm", d) | both(f"{p}ffn_norm", d) | both(f"{p}attn.g_norm", d)
        out |= {f"{p}attn.x_{name}": tensor([1, 1, d], 0.5, 0.5) for name in "rwkvag"}
        out |= {f"{p}attn.{name}_proj.weight": tensor([d, d]) for name in "rkvo"}
        for name, key in ranks.items():
            if name == "v" and i == 0:
                continue
            out |= {f"{p}attn.{name}_lora.lora.0.weight": tensor([c[key], d]), f"{p}attn.{name}_lora.lora.2.weight": tensor([d, c[key]])}
            if name != "g":
                out[f"{p}attn.{name}_lora.lora.2.bias"] = tensor([d], -1 if name == "w" else 0, 1.5)
        out |= {f"{p}attn.k_k": tensor([d], 0.8, 0.4), f"{p}attn.k_a": tensor([d], 1, 0.4),
                f"{p}attn.r_k": tensor([d // c["head_dim"], c["head_dim"]], 0, 0.5), f"{p}ffn.x_k": tensor([d], 0.5, 0.5),
                f"{p}ffn.key.weight": tensor([hidden, d]), f"{p}ffn.value.weight": tensor([d, hidden])}
    out |= both("model.norm", d)
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = tensor([c["vocab_size"], d])
    return out


def gla_tensors(c, **other):
    """Of gla, and of retnet, which has no tensors for its decays."""
    d, heads = c["hidden_size"], c["num_heads"]
    shared = heads // (c["num_kv_heads"] or heads)
    keys, values = int(d * c["expand_k"]), int(d * c["expand_v"])
    norm_name = "g_norm_swish_gate" if c["use_output_gate"] and c["fuse_norm"] else "g_norm"
    out = {"q_proj.weight": tensor([keys, d]), "k_proj.weight": tensor([keys // shared, d]),
           "v_proj.weight": tensor([values // shared, d])}
    if c["model_type"] == "gla":
        out |= {"gk_proj.0.weight": tensor([16, d]), "gk_proj.1.weight": tensor([keys // shared, 16]),
                "gk_proj.1.bias": tensor([keys // shared], -2, 2)}
    out |= {f"{norm_name}.weight": norm(values // heads), "o_proj.weight": tensor([d, values])}
    if c["use_output_gate"]:
        out["g_proj.weight"] = tensor([values, d])
    if c["use_short_conv"] and c["model_type"] != "retnet":  # whose model builds none
        out |= {f"{part}_conv1d.weight": tensor([n, 1, c["conv_size"]], 0.2, 0.5)
                for part, n in (("q", keys), ("k", keys // shared), ("v", values // shared))}
    return fla_tensors(c, out | other)


MAMBA2 = {"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "bos_token_id": 0, "chunk_size": 256, "conv_kernel": 4,
          "eos_token_id": 2, "expand": 2, "head_dim": 8, "hidden_act": "silu", "hidden_size": 16, "initializer_range": 0.1,
          "layer_norm_epsilon": 1e-5, "n_groups": 1, "num_heads": 4, "num_hidden_layers": 2, "pad_token_id": 1,
          "rescale_prenorm_residual": False, "residual_in_fp32": True, "rms_norm": True, "state_size": 10,
          "tie_word_embeddings": False, "time_step_floor": 0.0001, "time_step_limit": [0.0, float("inf")],
          "time_step_max": 0.1, "time_step_min": 0.001, "time_step_rank": 1, "torch_dtype": "float32",
          "transformers_version": "4.57.0", "use_bias": False, "use_cache": True, "use_conv_bias": True, "vocab_size": 256}
FLA_MAMBA2 = {key: value for key, value in MAMBA2.items() if not key.startswith(("layer_", "time_", "rms"))} | {
    "A_init_range": [1, 16], "D_has_hdim": False, "conv_init": None, "dt_init_floor": 0.0001, "dt_limit": [0.0, float("inf")],
    "dt_max": 0.1, "dt_min": 0.001, "fuse_cross_entropy": True, "fuse_linear_cross_entropy": False, "fuse_norm": True,
    "norm_before_gate": False, "norm_eps": 1e-5, "rmsnorm": True, "use_l2warp": False}


def mamba2_tensors(c):
    d, heads, inner = c["hidden_size"], c["num_heads"], c["num_heads"] * c["head_dim"]
    channels = inner + 2 * c["n_groups"] * c["state_size"]
    out = {"backbone.embeddings.weight": tensor([c["vocab_size"], d], 0, 0.5)}
    for i in range(c["num_hidden_layers"]):
        p = f"backbone.layers.{i}."
        out |= {f"{p}norm.weight": norm(d), f"{p}mixer.in_proj.weight": tensor([inner + channels + heads, d]),
                f"{p}mixer.out_proj.weight": tensor([d, inner]),
                f"{p}mixer.conv1d.weight": tensor([channels, 1, c["conv_kernel"]], 0.2, 0.5),
                f"{p}mixer.A_log": tensor([heads], 0, 1.5), f"{p}mixer.D": tensor([heads], 0.5, 1),
                f"{p}mixer.dt_bias": tensor([heads], -1, 1.5)}
        if c["use_bias"]:
            out |= {f"{p}mixer.in_proj.bias": tensor([inner + channels + heads], 0, 0.3), f"{p}mixer.out_proj.bias": tensor([d], 0, 0.3)}
        if c["use_conv_bias"]:
            out[f"{p}mixer.conv1d.bias"] = tensor([channels], 0, 0.3)
        if c.get("rmsnorm", True):
            out[f"{p}mixer.norm.weight"] = norm(inner)
    out["backbone.norm_f.weight"] = norm(d)
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = tensor([c["vocab_size"], d])
    return out


# A folder of our own: transformers has the kind in models of experts only, which are not served.
LIGHTNING = {"format": "linnet", "format_version": 1, "task": "text", "n_layers": 3, "n_heads": 3, "d_model": 16, "d_key": 6,
             "d_value": 6, "d_ff": 24, "norm": "pre", "norm_kind": "rms", "norm_eps": 1e-5, "activation": "gelu",
             "attention": {"kind": "lightning", "eps": 1e-5}, "feed_forward": {"kind": "gated_mlp"},
             "inputs": [{"name": "token", "size": 256}], "head": {"kind": "categorical", "size": 256, "bias": False},
             "text": {"tokenizer": "bytes", "context": 2048}}


def lightning_tensors(c):
    d, values, out = c["d_model"], c["n_heads"] * c["d_value"], {"embed.token.weight": tensor([256, c["d_model"]], 0, 0.5)}
    for i in range(c["n_layers"]):
        p = f"layers.{i}."
        out |= {f"{p}norm1.weight": norm(d), f"{p}norm2.weight": norm(d), f"{p}attn.qkv.weight": tensor([3 * values, d]),
                f"{p}attn.g.weight": tensor([values, d]), f"{p}attn.out.weight": tensor([d, values]),
                f"{p}attn.norm.weight": norm(values), f"{p}ff.gate.weight": tensor([c["d_ff"], d]),
                f"{p}ff.up.weight": tensor([c["d_ff"], d]), f"{p}ff.down.weight": tensor([d, c["d_ff"]])}
    return out | {"final_norm.weight": norm(d), "head.weight": tensor([256, d])}


QWEN = {"model_type": "qwen3_5_text", "architectures": ["Qwen3_5ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": None, "dtype": "float32", "eos_token_id": None, "head_dim": 8, "hidden_act": "silu", "hidden_size": 16,
        "initializer_range": 0.02, "intermediate_size": 24, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 6,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"], "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_value_head_dim": 5, "max_position_embeddings": 2048, "num_attention_heads": 4,
        "num_hidden_layers": 3, "num_key_value_heads": 2, "pad_token_id": None, "rms_norm_eps": 1e-6,
        "rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 10000.0, "rope_type": "default"},
        "tie_word_embeddings": False, "transformers_version": "5.23.0", "use_cache": True, "vocab_size": 256}
WHOLE_QWEN = {"model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"], "image_token_id": 248056,
              "video_token_id": 248057, "vision_start_token_id": 248053, "vision_end_token_id": 248054,
              "tie_word_embeddings": True, "vision_config": {"model_type": "qwen3_5_vision", "depth": 1}, "text_config": QWEN | {
                  "tie_word_embeddings": True, "attn_output_gate": True, "full_attention_interval": 4,
                  "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1, "linear_conv_kernel_dim": 2,
                  "rope_parameters": {"partial_rotary_factor": 0.25, "rope_theta": 1e7, "rope_type": "default",
                                      "mrope_interleaved": True, "mrope_section": [1, 0, 0]}}}


def qwen_tensors(c):
    """Of a whole model with one tensor for pictures and one for guesses, which nothing reads."""
    whole, c = c["model_type"] == "qwen3_5", c.get("text_config", c)
    begin, d, hidden, size = "model.language_model." if whole else "model.", c["hidden_size"], c["intermediate_size"], c["head_dim"]
    queries, shared = c["num_attention_heads"] * size, c["num_key_value_heads"] * size
    heads, values = c["linear_num_value_heads"], c["linear_num_value_heads"] * c["linear_value_head_dim"]
    all_of = 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"] + values
    out = {f"{begin}embed_tokens.weight": tensor([c["vocab_size"], d], 0, 0.5)}

    def norm_less_one(n):
        return tensor([n], 0.0, 0.3)

    for i, kind in enumerate(c["layer_types"]):
        p = f"{begin}layers.{i}."
        out |= {f"{p}input_layernorm.weight": norm_less_one(d), f"{p}post_attention_layernorm.weight": norm_less_one(d)}
        if kind == "full_attention":
            out |= {f"{p}self_attn.q_proj.weight": tensor([2 * queries, d]), f"{p}self_attn.k_proj.weight": tensor([shared, d]),
                    f"{p}self_attn.v_proj.weight": tensor([shared, d]), f"{p}self_attn.o_proj.weight": tensor([d, queries]),
                    f"{p}self_attn.q_norm.weight": norm_less_one(size), f"{p}self_attn.k_norm.weight": norm_less_one(size)}
        else:
            out |= {f"{p}linear_attn.in_proj_qkv.weight": tensor([all_of, d]), f"{p}linear_attn.in_proj_z.weight": tensor([values, d]),
                    f"{p}linear_attn.in_proj_b.weight": tensor([heads, d]), f"{p}linear_attn.in_proj_a.weight": tensor([heads, d]),
                    f"{p}linear_attn.conv1d.weight": tensor([all_of, 1, c["linear_conv_kernel_dim"]], 0.2, 0.5),
                    f"{p}linear_attn.A_log": tensor([heads], 0, 1.5), f"{p}linear_attn.dt_bias": tensor([heads], -1, 1.5),
                    f"{p}linear_attn.norm.weight": norm(c["linear_value_head_dim"]),
                    f"{p}linear_attn.out_proj.weight": tensor([d, values])}
        out |= {f"{p}mlp.gate_proj.weight": tensor([hidden, d]), f"{p}mlp.up_proj.weight": tensor([hidden, d]),
                f"{p}mlp.down_proj.weight": tensor([d, hidden])}
    out[f"{begin}norm.weight"] = norm_less_one(d)
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = tensor([c["vocab_size"], d])
    if whole:
        out |= {"model.visual.patch_embed.proj.weight": tensor([4, 3, 2, 2, 2]), "mtp.fc.weight": tensor([d, 2 * d])}
    return out


LFM2 = {"model_type": "lfm2", "architectures": ["Lfm2ForCausalLM"], "block_auto_adjust_ff_dim": True, "block_ff_dim": 30,
        "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 8, "bos_token_id": 1, "conv_L_cache": 3, "conv_bias": False,
        "eos_token_id": 2, "hidden_size": 16, "initializer_range": 0.02, "intermediate_size": 30,
        "layer_types": ["conv", "full_attention", "conv"], "max_position_embeddings": 2048, "norm_eps": 1e-5,
        "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2, "pad_token_id": 0,
        "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "tie_word_embeddings": True,
        "transformers_version": "5.24.0", "use_cache": True, "vocab_size": 256}


def lfm2_tensors(c):
    d, hidden, size = c["hidden_size"], 24, c["hidden_size"] // c["num_attention_heads"]
    out, shared = {"model.embed_tokens.weight": tensor([c["vocab_size"], d], 0, 0.5)}, c["num_key_value_heads"] * size
    for i, kind in enumerate(c["layer_types"]):
        p = f"model.layers.{i}."
        out |= {f"{p}operator_norm.weight": norm(d), f"{p}ffn_norm.weight": norm(d)}
        if kind == "conv":
            out |= {f"{p}conv.in_proj.weight": tensor([3 * d, d]), f"{p}conv.out_proj.weight": tensor([d, d]),
                    f"{p}conv.conv.weight": tensor([d, 1, c["conv_L_cache"]], 0.2, 0.5)}
            if c["conv_bias"]:
                out |= {f"{p}conv.{part}.bias": tensor([n], 0, 0.3) for part, n in (("in_proj", 3 * d), ("out_proj", d), ("conv", d))}
        else:
            out |= {f"{p}self_attn.q_proj.weight": tensor([d, d]), f"{p}self_attn.k_proj.weight": tensor([shared, d]),
                    f"{p}self_attn.v_proj.weight": tensor([shared, d]), f"{p}self_attn.out_proj.weight": tensor([d, d]),
                    f"{p}self_attn.q_layernorm.weight": norm(size), f"{p}self_attn.k_layernorm.weight": norm(size)}
        out |= {f"{p}feed_forward.w1.weight": tensor([hidden, d]), f"{p}feed_forward.w3.weight": tensor([hidden, d]),
                f"{p}feed_forward.w2.weight": tensor([d, hidden])}
    out["model.embedding_norm.weight"] = norm(d)
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = tensor([c["vocab_size"], d])
    return out


MAMBA = {"mamba_chunk_size": 256, "mamba_conv_bias": True, "mamba_d_conv": 4, "mamba_d_head": 8, "mamba_d_state": 10,
         "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 4, "mamba_proj_bias": False}
GRANITE = MAMBA | {
    "model_type": "granitemoehybrid", "architectures": ["GraniteMoeHybridForCausalLM"], "attention_bias": False,
    "attention_dropout": 0.0, "attention_multiplier": 0.3, "bos_token_id": 1, "embedding_multiplier": 12, "eos_token_id": 2,
    "hidden_act": "silu", "hidden_size": 16, "init_method": "mup", "initializer_range": 0.1, "intermediate_size": 24,
    "layer_types": ["mamba", "attention", "mamba"], "logits_scaling": 3, "max_position_embeddings": 2048,
    "normalization_function": "rmsnorm", "num_attention_heads": 4, "num_experts_per_tok": 0, "num_hidden_layers": 3,
    "num_key_value_heads": 2, "num_local_experts": 0, "output_router_logits": False, "pad_token_id": 0,
    "position_embedding_type": "nope", "residual_multiplier": 0.22, "rms_norm_eps": 1e-5, "rope_scaling": None,
    "rope_theta": 10000, "router_aux_loss_coef": 0.01, "shared_intermediate_size": 24, "tie_word_embeddings": True,
    "transformers_version": "4.57.0", "use_cache": True, "vocab_size": 256}
FALCON_H1 = MAMBA | {
    "model_type": "falcon_h1", "architectures": ["FalconH1ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "attention_in_multiplier": 0.9, "attention_out_multiplier": 0.9375, "bos_token_id": 1, "embedding_multiplier": 5.5,
    "eos_token_id": 2, "head_dim": 6, "hidden_act": "silu", "hidden_size": 16, "initializer_range": 0.02,
    "intermediate_size": 24, "key_multiplier": 0.39, "lm_head_multiplier": 0.6, "mamba_d_ssm": 32, "mamba_n_groups": 2,
    "mamba_norm_before_gate": False, "mamba_rms_norm": False, "mamba_use_mlp": True, "max_position_embeddings": 2048,
    "mlp_bias": False, "mlp_expansion_factor": 8, "mlp_multipliers": [0.88, 0.58], "num_attention_heads": 4,
    "num_hidden_layers": 2, "num_key_value_heads": 2, "num_logits_to_keep": 1, "pad_token_id": 0, "projectors_bias": False,
    "rms_norm_eps": 1e-5, "rope_scaling": None, "rope_theta": 100000000000.0, "ssm_in_multiplier": 1.25,
    "ssm_multipliers": [0.35, 0.25, 0.36, 0.5, 0.37], "ssm_out_multiplier": 0.8, "tie_word_embeddings": False,
    "time_step_floor": 0.0001, "time_step_max": 0.1, "time_step_min": 0.001, "transformers_version": "4.57.0",
    "use_cache": True, "vocab_size": 256}


def mamba_part(c, p, inner, norm_too):
    """The tensors of a Mamba-2 mixer of a hybrid."""
    d, heads, channels = c["hidden_size"], c["mamba_n_heads"], inner + 2 * c["mamba_n_groups"] * c["mamba_d_state"]
    out = {f"{p}in_proj.weight": tensor([inner + channels + heads, d]), f"{p}out_proj.weight": tensor([d, inner]),
           f"{p}conv1d.weight": tensor([channels, 1, c["mamba_d_conv"]], 0.2, 0.5), f"{p}A_log": tensor([heads], 0, 1.5),
           f"{p}D": tensor([heads], 0.5, 1), f"{p}dt_bias": tensor([heads], -1, 1.5)}
    if c["mamba_proj_bias"]:
        out |= {f"{p}in_proj.bias": tensor([inner + channels + heads], 0, 0.3), f"{p}out_proj.bias": tensor([d], 0, 0.3)}
    if c["mamba_conv_bias"]:
        out[f"{p}conv1d.bias"] = tensor([channels], 0, 0.3)
    return out | ({f"{p}norm.weight": norm(inner)} if norm_too else {})


def softmax_part(c, p, size):
    d, queries, keys = c["hidden_size"], c["num_attention_heads"] * size, c["num_key_value_heads"] * size
    return {f"{p}q_proj.weight": tensor([queries, d]), f"{p}k_proj.weight": tensor([keys, d]),
            f"{p}v_proj.weight": tensor([keys, d]), f"{p}o_proj.weight": tensor([d, queries])}


def granite_tensors(c):
    d, hidden = c["hidden_size"], c["shared_intermediate_size"]
    out = {"model.embed_tokens.weight": tensor([c["vocab_size"], d], 0, 0.5)}
    for i, kind in enumerate(c["layer_types"]):
        p = f"model.layers.{i}."
        out |= {f"{p}input_layernorm.weight": norm(d), f"{p}post_attention_layernorm.weight": norm(d)}
        out |= mamba_part(c, f"{p}mamba.", 2 * d, True) if kind in ("mamba", "linear_attention") else softmax_part(
            c, f"{p}self_attn.", d // c["num_attention_heads"])
        out |= {f"{p}shared_mlp.input_linear.weight": tensor([2 * hidden, d]), f"{p}shared_mlp.output_linear.weight": tensor([d, hidden])}
    out["model.norm.weight"] = norm(d)
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = tensor([c["vocab_size"], d])
    return out


def falcon_h1_tensors(c):
    d, hidden = c["hidden_size"], c["intermediate_size"]
    out = {"model.embed_tokens.weight": tensor([c["vocab_size"], d], 0, 0.5)}
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        out |= {f"{p}input_layernorm.weight": norm(d), f"{p}pre_ff_layernorm.weight": norm(d)}
        out |= mamba_part(c, f"{p}mamba.", c["mamba_d_ssm"], c["mamba_rms_norm"]) | softmax_part(c, f"{p}self_attn.", c["head_dim"])
        out |= {f"{p}feed_forward.gate_proj.weight": tensor([hidden, d]), f"{p}feed_forward.up_proj.weight": tensor([hidden, d]),
                f"{p}feed_forward.down_proj.weight": tensor([d, hidden])}
    out["model.final_layernorm.weight"] = norm(d)
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = tensor([c["vocab_size"], d])
    return out


OLMO_HYBRID = {
    "model_type": "olmo_hybrid", "architectures": ["OlmoHybridForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": None, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 16, "initializer_range": 0.02,
    "intermediate_size": 24, "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "linear_a_log_max": 16.0, "linear_a_log_min": 0.0, "linear_allow_neg_eigval": True, "linear_conv_kernel_dim": 4,
    "linear_dt_init_floor": 0.0001, "linear_dt_max": 0.1, "linear_dt_min": 0.001, "linear_key_head_dim": 6,
    "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_value_head_dim": 12, "max_position_embeddings": 2048,
    "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2, "pad_token_id": 0, "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_theta": None, "rope_type": "default"}, "tie_word_embeddings": False,
    "transformers_version": "5.24.0", "use_cache": True, "vocab_size": 256}


def olmo_hybrid_tensors(c):
    d, hidden, heads = c["hidden_size"], c["intermediate_size"], c["linear_num_value_heads"]
    sizes = {"q": c["linear_num_key_heads"] * c["linear_key_head_dim"], "v": heads * c["linear_value_head_dim"]}
    sizes["k"], head = sizes["q"], d // c["num_attention_heads"]
    out = {"model.embed_tokens.weight": tensor([c["vocab_size"], d], 0, 0.5)}
    for i, kind in enumerate(c["layer_types"]):
        p = f"model.layers.{i}."
        if kind == "linear_attention":
            out |= {f"{p}attention_layer_norm.weight": norm(d), f"{p}feedforward_layer_norm.weight": norm(d),
                    f"{p}linear_attn.A_log": tensor([heads], 0, 1.5), f"{p}linear_attn.dt_bias": tensor([heads], -1, 1.5),
                    f"{p}linear_attn.a_proj.weight": tensor([heads, d]), f"{p}linear_attn.b_proj.weight": tensor([heads, d]),
                    f"{p}linear_attn.g_proj.weight": tensor([sizes["v"], d]), f"{p}linear_attn.o_proj.weight": tensor([d, sizes["v"]]),
                    f"{p}linear_attn.o_norm.weight": norm(c["linear_value_head_dim"])}
            for part, n in sizes.items():
                out |= {f"{p}linear_attn.{part}_proj.weight": tensor([n, d]),
                        f"{p}linear_attn.{part}_conv1d.weight": tensor([n, 1, c["linear_conv_kernel_dim"]], 0.2, 0.5)}
        else:
            out |= softmax_part(c, f"{p}self_attn.", head) | {
                f"{p}post_attention_layernorm.weight": norm(d), f"{p}post_feedforward_layernorm.weight": norm(d),
                f"{p}self_attn.q_norm.weight": norm(d), f"{p}self_attn.k_norm.weight": norm(c["num_key_value_heads"] * head)}
        out |= {f"{p}mlp.gate_proj.weight": tensor([hidden, d]), f"{p}mlp.up_proj.weight": tensor([hidden, d]),
                f"{p}mlp.down_proj.weight": tensor([d, hidden])}
    out["model.norm.weight"] = norm(d)
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = tensor([c["vocab_size"], d])
    return out


LFM3 = {"model_type": "lfm3", "architectures": ["Lfm3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 1, "conv_L_cache": 7, "conv_bias": False, "eos_token_id": 2, "head_dim": 8, "hidden_size": 16,
        "initializer_range": 0.02, "intermediate_size": 24, "layer_types": ["conv", "sliding_attention", "full_attention"],
        "max_position_embeddings": 2048, "norm_eps": 1e-5, "num_attention_heads": 4, "num_hidden_layers": 3,
        "num_key_value_heads": 2, "pad_token_id": 0, "rope_parameters": {
            "full_attention": {"partial_rotary_factor": 0.5, "rope_theta": 1000000.0, "rope_type": "proportional"},
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}},
        "sliding_window": 11, "tie_word_embeddings": False, "transformers_version": "5.24.0", "use_attention_gate": True,
        "use_cache": True, "use_sandwich_norm": True, "vocab_size": 256}


def lfm3_tensors(c):
    d, hidden = c["hidden_size"], c["intermediate_size"]
    out = {"model.embed_tokens.weight": tensor([c["vocab_size"], d], 0, 0.5)}
    for i, kind in enumerate(c["layer_types"]):
        p = f"model.layers.{i}."
        out |= {f"{p}{part}norm.weight": norm(d) for part in ("operator_", "ffn_", "post_operator_", "post_ffn_")}
        if kind == "conv":
            out |= {f"{p}conv.in_proj.weight": tensor([3 * d, d]), f"{p}conv.out_proj.weight": tensor([d, d]),
                    f"{p}conv.conv.weight": tensor([d, 1, c["conv_L_cache"]], 0.2, 0.5)}
        else:
            out |= softmax_part(c, f"{p}self_attn.", c["head_dim"]) | {
                f"{p}self_attn.gate_proj.weight": tensor([c["num_attention_heads"], d]),
                f"{p}self_attn.q_norm.weight": norm(c["head_dim"]), f"{p}self_attn.k_norm.weight": norm(c["head_dim"])}
        out |= {f"{p}feed_forward.w1.weight": tensor([hidden, d]), f"{p}feed_forward.w3.weight": tensor([hidden, d]),
                f"{p}feed_forward.w2.weight": tensor([d, hidden])}
    out["model.embedding_norm.weight"] = norm(d)
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = tensor([c["vocab_size"], d])
    return out


def in_bf16(tensors):
    """Except the tensors that trainers keep in f32."""
    return {name: t if name.endswith(("A_log", "dt_bias")) else t | {"dtype": "BF16"} for name, t in tensors.items()}
