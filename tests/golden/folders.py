"""Small models of recurrent kinds as flash-linear-attention and transformers write them: config.json, and its tensors.
For float64 readings (kinds.py) and for tests over HTTP, which fill them with any numbers."""

def tensor(shape, mean=0.0, scale=None, dtype="F32"):
    """The default spread keeps the size of a product that of its input."""
    return {"shape": shape, "mean": mean, "scale": scale if scale is not None else (3 / shape[-1]) ** 0.5, "dtype": dtype}


def norm(n):
    return tensor([n], 1.0, 0.3)


def norms(prefix, n, *names):
    return {f"{prefix}{name}.weight": norm(n) for name in names}


def both(prefix, n):
    """Weight and bias of a norm."""
    return {f"{prefix}.weight": norm(n), f"{prefix}.bias": tensor([n], 0, 0.3)}


def products(prefix, **shapes):
    """shapes: (rows, columns) by name."""
    return {f"{prefix}{name}.weight": tensor(list(shape)) for name, shape in shapes.items()}


def biases(prefix, mean=0, scale=0.3, **sizes):
    return {f"{prefix}{name}": tensor([n], mean, scale) for name, n in sizes.items()}


def convs(prefix, taps, **channels):
    return {f"{prefix}{name}.weight": tensor([n, 1, taps], 0.2, 0.5) for name, n in channels.items()}


def gated_mlp(prefix, d, hidden, gate="gate_proj", up="up_proj", down="down_proj"):
    return products(prefix, **{gate: (hidden, d), up: (hidden, d), down: (d, hidden)})


def decays(prefix, heads, a="A_log", dt="dt_bias"):
    return biases(prefix, 0, 1.5, **{a: heads}) | biases(prefix, -1, 1.5, **{dt: heads})


def model_tensors(c, layer, begin="model.", embed="embed_tokens", final="norm", last=norms):
    """Tensors around the layers, and those of layer(number), whose names begin after the layer's."""
    d = c["hidden_size"]
    out = {f"{begin}{embed}.weight": tensor([c["vocab_size"], d], 0, 0.5)}
    for i in range(c["num_hidden_layers"]):
        out |= {f"{begin}layers.{i}.{name}": t for name, t in layer(i).items()}
    out |= last(begin, d, final)
    return out | ({} if c["tie_word_embeddings"] else {"lm_head.weight": tensor([c["vocab_size"], d])})


def softmax_tensors(c):
    own, d = c["attn"], c["hidden_size"]
    keys = d // own["num_heads"] * (own.get("num_kv_heads") or own["num_heads"])
    out = products("", q_proj=(d, d), k_proj=(keys, d), v_proj=(keys, d), o_proj=(d, d))
    return out | (biases("", **{"q_proj.bias": d, "k_proj.bias": keys, "v_proj.bias": keys}) if own.get("qkv_bias") else {})


ATTN = {"layers": [1], "num_heads": 4, "num_kv_heads": 2, "qkv_bias": False, "window_size": None, "rope_theta": 10000.0}


def fla_tensors(c, mixer):
    """mixer: a layer's tensors after attn."""
    d = c["hidden_size"]

    def layer(i):
        own = softmax_tensors(c) if c.get("attn") and i in c["attn"]["layers"] else mixer
        return norms("", d, "attn_norm", "mlp_norm") | {f"attn.{name}": t for name, t in own.items()} | gated_mlp(
            "mlp.", d, c["intermediate_size"])

    return model_tensors(c, layer, embed="embeddings")


def delta_tensors(c, **other):
    d, gated, kda = c["hidden_size"], c["model_type"] == "gated_deltanet", c["model_type"] == "kda"
    if gated or kda:
        heads = c.get("num_v_heads") or c["num_heads"]
        keys, size = c["num_heads"] * c["head_dim"], int(c["head_dim"] * c["expand_v"])
    else:
        heads = c["num_heads"]
        keys, size = int(d * c["expand_k"]), int(d * c["expand_v"]) // heads
    out = products("", q_proj=(keys, d), k_proj=(keys, d), v_proj=(heads * size, d), b_proj=(heads, d)) | norms("", size, "o_norm")
    out |= products("", o_proj=(d, heads * size))
    if gated:
        out |= products("", a_proj=(heads, d)) | decays("", heads)
    if c["use_short_conv"]:
        out |= convs("", c["conv_size"], q_conv1d=keys, k_conv1d=keys, v_conv1d=heads * size)
    if kda:
        out |= products("", **{"f_proj.0": (size, d), "f_proj.1": (heads * c["head_dim"], size)})
        out |= biases("", 0, 1.5, A_log=heads) | biases("", -1, 1.5, dt_bias=heads * c["head_dim"])
        out |= products("", **{"g_proj.0": (size, d), "g_proj.1": (heads * size, size)}) | biases("", **{"g_proj.1.bias": heads * size})
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
    out = products("", q_proj=(keys, d), f_proj=(keys, d), i_proj=(d, d)) | norms("", d, "g_norm") | products("", o_proj=(d, d))
    if c["use_short_conv"]:
        out |= convs("", c["conv_size"], q_conv1d=keys, f_conv1d=keys, i_conv1d=keys)
    out = fla_tensors(c, out | other)
    if c["use_lower_bound"]:
        out["model.lower_bounds"] = tensor([c["num_hidden_layers"], d], 0, 1.5)
    return out


def rwkv_tensors(c, mixer, feed_forward):
    """mixer and feed_forward: a layer's tensors after attn and ffn, by its number."""
    d = c["hidden_size"]

    def layer(i):
        return (both("pre_norm", d) if i == 0 and c["norm_first"] else {}) | both("attn_norm", d) | both("ffn_norm", d) | {
            f"attn.{name}": t for name, t in mixer(i).items()} | {f"ffn.{name}": t for name, t in feed_forward.items()}

    return model_tensors(c, layer, embed="embeddings", last=lambda begin, n, name: both(begin + name, n))


def rwkv6_tensors(c):
    d, heads, hidden = c["hidden_size"], c["num_heads"], c["intermediate_size"]
    keys, values = int(d * c["expand_k"]), int(d * c["expand_v"])
    rank, w_rank, half = c["proj_low_rank_dim"], c["gate_low_rank_dim"], (0.5, 0.5)
    mixer = both("g_norm", values) | {"x_proj.0.mu": tensor([d], *half)} | products(
        "", **{"x_proj.0.linear": (5 * rank, d), "x_proj.2": (d, 5 * rank)}) | {"x_bias": tensor([5, d], *half)} | products("", **{
            "r_proj.linear": (keys, d), "k_proj.linear": (keys, d), "v_proj.linear": (values, d), "g_proj.linear": (values, d),
            "w_proj.linear.lora.0": (w_rank, d), "w_proj.linear.lora.2": (keys, w_rank)}) | {
                "w_proj.linear.lora.2.bias": tensor([keys], -1, 2), "bonus": tensor([heads, keys // heads], 0, 0.5)} | products(
                    "", o_proj=(d, values))
    feed_forward = {"key.mu": tensor([d], *half)} | products("", **{"key.linear": (hidden, d), "value": (d, hidden)}) | {
        "receptance.mu": tensor([d], *half)} | products("", **{"receptance.linear": (d, d)})
    return rwkv_tensors(c, lambda i: mixer, feed_forward)


RWKV7 = {"model_type": "rwkv7", "architectures": ["RWKV7ForCausalLM"], "a_low_rank_dim": 3, "attn": None, "attn_mode": "chunk",
         "decay_low_rank_dim": 5, "eos_token_id": 2, "fuse_norm": True, "gate_low_rank_dim": 6, "head_dim": 8, "hidden_act": "sqrelu",
         "hidden_ratio": 4.0, "hidden_size": 16, "intermediate_size": 24, "norm_bias": True, "norm_eps": 1e-5, "norm_first": True,
         "num_heads": None, "num_hidden_layers": 3, "tie_word_embeddings": False, "v_low_rank_dim": 4, "value_dim": [16, 16, 16],
         "vocab_size": 256}


def rwkv7_tensors(c):
    d, hidden = c["hidden_size"], c["intermediate_size"]
    ranks = {"w": "decay_low_rank_dim", "a": "a_low_rank_dim", "v": "v_low_rank_dim", "g": "gate_low_rank_dim"}

    def mixer(i):
        out = both("g_norm", d) | {f"x_{name}": tensor([1, 1, d], 0.5, 0.5) for name in "rwkvag"}
        out |= products("", **{f"{name}_proj": (d, d) for name in "rkvo"})
        for name, key in ranks.items():
            if name == "v" and i == 0:
                continue
            out |= products(f"{name}_lora.lora.", **{"0": (c[key], d), "2": (d, c[key])})
            if name != "g":
                out[f"{name}_lora.lora.2.bias"] = tensor([d], -1 if name == "w" else 0, 1.5)
        return out | {"k_k": tensor([d], 0.8, 0.4), "k_a": tensor([d], 1, 0.4), "r_k": tensor([d // c["head_dim"], c["head_dim"]], 0, 0.5)}

    return rwkv_tensors(c, mixer, {"x_k": tensor([d], 0.5, 0.5)} | products("", key=(hidden, d), value=(d, hidden)))


def gla_tensors(c, **other):
    """Of gla, and of retnet, which has no tensors for its decays."""
    d, heads = c["hidden_size"], c["num_heads"]
    shared = heads // (c["num_kv_heads"] or heads)
    keys, values = int(d * c["expand_k"]), int(d * c["expand_v"])
    norm_name = "g_norm_swish_gate" if c["use_output_gate"] and c["fuse_norm"] else "g_norm"
    out = products("", q_proj=(keys, d), k_proj=(keys // shared, d), v_proj=(values // shared, d))
    if c["model_type"] == "gla":
        out |= products("", **{"gk_proj.0": (16, d), "gk_proj.1": (keys // shared, 16)}) | biases(
            "", -2, 2, **{"gk_proj.1.bias": keys // shared})
    out |= norms("", values // heads, norm_name) | products("", o_proj=(d, values))
    if c["use_output_gate"]:
        out["g_proj.weight"] = tensor([values, d])
    if c["use_short_conv"] and c["model_type"] != "retnet":  # whose model builds none
        out |= convs("", c["conv_size"], q_conv1d=keys, k_conv1d=keys // shared, v_conv1d=values // shared)
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
    mixer = products("mixer.", in_proj=(inner + channels + heads, d), out_proj=(d, inner))
    mixer |= convs("mixer.", c["conv_kernel"], conv1d=channels)
    mixer |= biases("mixer.", 0, 1.5, A_log=heads) | biases("mixer.", 0.5, 1, D=heads) | biases("mixer.", -1, 1.5, dt_bias=heads)
    if c["use_bias"]:
        mixer |= biases("mixer.", **{"in_proj.bias": inner + channels + heads, "out_proj.bias": d})
    if c["use_conv_bias"]:
        mixer |= biases("mixer.", **{"conv1d.bias": channels})
    if c.get("rmsnorm", True):
        mixer |= norms("mixer.", inner, "norm")
    return model_tensors(c, lambda i: norms("", d, "norm") | mixer, "backbone.", "embeddings", "norm_f")


MAMBA1 = {"model_type": "mamba", "architectures": ["MambaForCausalLM"], "bos_token_id": 0, "conv_kernel": 4, "eos_token_id": 2,
          "expand": 2, "hidden_act": "silu", "hidden_size": 16, "initializer_range": 0.1, "intermediate_size": 32,
          "layer_norm_epsilon": 1e-5, "num_hidden_layers": 2, "pad_token_id": 0, "rescale_prenorm_residual": False,
          "residual_in_fp32": True, "state_size": 10, "tie_word_embeddings": True, "time_step_floor": 0.0001,
          "time_step_init_scheme": "random", "time_step_max": 0.1, "time_step_min": 0.001, "time_step_rank": 3,
          "time_step_scale": 1.0, "torch_dtype": "float32", "transformers_version": "4.57.0", "use_bias": False,
          "use_cache": True, "use_conv_bias": True, "use_mambapy": False, "vocab_size": 256}
# intermediate_size counts where expand says another size.
FALCON_MAMBA = MAMBA1 | {"model_type": "falcon_mamba", "architectures": ["FalconMambaForCausalLM"], "expand": 16,
                         "mixer_rms_eps": 1e-6, "tie_word_embeddings": False}
FLA_MAMBA1 = {key: value for key, value in MAMBA1.items() if key != "layer_norm_epsilon"} | {
    "fuse_cross_entropy": True, "fuse_linear_cross_entropy": False, "fuse_norm": True, "norm_eps": 1e-5, "tie_word_embeddings": False,
    "use_l2warp": False}


def scan_part(prefix, d, inner, state, rank, taps, conv_bias, bias):
    """The tensors of a Mamba-1 mixer."""
    out = products(prefix, in_proj=(2 * inner, d), x_proj=(rank + 2 * state, inner), dt_proj=(inner, rank), out_proj=(d, inner))
    out |= convs(prefix, taps, conv1d=inner) | biases(prefix, -1, 1.5, **{"dt_proj.bias": inner}) | biases(prefix, 0.5, 1, D=inner)
    out |= {f"{prefix}A_log": tensor([inner, state], 0, 1.5)}
    if conv_bias:
        out |= biases(prefix, **{"conv1d.bias": inner})
    if bias:
        out |= biases(prefix, **{"in_proj.bias": 2 * inner, "out_proj.bias": d})
    return out


def mamba1_tensors(c):
    """Of mamba and falcon_mamba. fla never looks at use_conv_bias."""
    d = c["hidden_size"]
    mixer = scan_part("mixer.", d, c["intermediate_size"], c["state_size"], c["time_step_rank"], c["conv_kernel"],
                      "norm_eps" in c or c["use_conv_bias"], c["use_bias"])
    return model_tensors(c, lambda i: norms("", d, "norm") | mixer, "backbone.", "embeddings", "norm_f")


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
        out |= norms(p, d, "norm1", "norm2") | products(f"{p}attn.", qkv=(3 * values, d), g=(values, d), out=(d, values))
        out |= norms(f"{p}attn.", values, "norm") | gated_mlp(f"{p}ff.", d, c["d_ff"], "gate", "up", "down")
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


QWEN_MOE = {key: value for key, value in QWEN.items() if key != "intermediate_size"} | {
    "model_type": "qwen3_5_moe_text", "architectures": ["Qwen3_5MoeForCausalLM"], "moe_intermediate_size": 10, "num_experts": 5,
    "num_experts_per_tok": 2, "output_router_logits": False, "router_aux_loss_coef": 0.001, "shared_expert_intermediate_size": 12}
WHOLE_QWEN_MOE = WHOLE_QWEN | {
    "model_type": "qwen3_5_moe", "architectures": ["Qwen3_5MoeForConditionalGeneration"], "tie_word_embeddings": False,
    "text_config": {key: value for key, value in (WHOLE_QWEN["text_config"] | QWEN_MOE).items() if key != "intermediate_size"}}
# A net in a layer without experts, too.
QWEN_NEXT = QWEN_MOE | {
    "model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"], "decoder_sparse_step": 1, "intermediate_size": 24,
    "mlp_only_layers": [1], "norm_topk_prob": True, "rope_scaling": None, "rope_theta": 10000.0, "partial_rotary_factor": 0.5,
    "full_attention_interval": 4, "use_sliding_window": False}


def qwen_nets(c, i):
    """The feed-forward net of a layer: dense, or experts, which whole models have in one tensor for all."""
    d, n, hidden = c["hidden_size"], c.get("num_experts", 0), c.get("moe_intermediate_size", 0)
    if not n or i in (c.get("mlp_only_layers") or []) or (i + 1) % c.get("decoder_sparse_step", 1):
        return gated_mlp("mlp.", d, c["intermediate_size"])
    out = gated_mlp("mlp.shared_expert.", d, c["shared_expert_intermediate_size"]) | products("mlp.", gate=(n, d), shared_expert_gate=(1, d))
    if c.get("mtp_num_hidden_layers") is None:
        return out | experts("mlp.experts.", n, d, hidden)
    return out | {"mlp.experts.gate_up_proj": tensor([n, 2 * hidden, d]), "mlp.experts.down_proj": tensor([n, d, hidden])}


def qwen_tensors(c):
    """Of a whole model with one tensor for pictures and one for guesses, which nothing reads."""
    whole, c = c["model_type"] in ("qwen3_5", "qwen3_5_moe"), c.get("text_config", c)
    begin, d, size = "model.language_model." if whole else "model.", c["hidden_size"], c["head_dim"]
    queries, shared = c["num_attention_heads"] * size, c["num_key_value_heads"] * size
    heads, values = c["linear_num_value_heads"], c["linear_num_value_heads"] * c["linear_value_head_dim"]
    all_of = 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"] + values

    def less_one(prefix, n, *names):
        return {f"{prefix}{name}.weight": tensor([n], 0.0, 0.3) for name in names}

    def layer(i):
        out, p = less_one("", d, "input_layernorm", "post_attention_layernorm"), "linear_attn."
        if c["layer_types"][i] == "full_attention":
            out |= products("self_attn.", q_proj=(2 * queries, d), k_proj=(shared, d), v_proj=(shared, d), o_proj=(d, queries))
            out |= less_one("self_attn.", size, "q_norm", "k_norm")
        else:
            if c["model_type"] == "qwen3_next":
                out |= products(p, in_proj_qkvz=(all_of + values, d), in_proj_ba=(2 * heads, d))
            else:
                out |= products(p, in_proj_qkv=(all_of, d), in_proj_z=(values, d), in_proj_b=(heads, d), in_proj_a=(heads, d))
            out |= convs(p, c["linear_conv_kernel_dim"], conv1d=all_of) | decays(p, heads)
            out |= norms(p, c["linear_value_head_dim"], "norm") | products(p, out_proj=(d, values))
        return out | qwen_nets(c, i)

    out = model_tensors(c, layer, begin, last=less_one)
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


def lfm2_hidden(c):
    """Columns of the feed-forward net."""
    size = c.get("block_ff_dim") or c["intermediate_size"]
    if not c["block_auto_adjust_ff_dim"]:
        return size
    return -(-int(c["block_ffn_dim_multiplier"] * (2 * size // 3)) // c["block_multiple_of"]) * c["block_multiple_of"]


LFM2_MOE = {key: value for key, value in LFM2.items() if not key.startswith("block_")} | {
    "model_type": "lfm2_moe", "architectures": ["Lfm2MoeForCausalLM"], "intermediate_size": 24, "moe_intermediate_size": 10,
    "norm_topk_prob": True, "num_dense_layers": 1, "num_experts": 5, "num_experts_per_tok": 2, "routed_scaling_factor": 1.5,
    "use_expert_bias": True}


def conv_part(c):
    """A gated short convolution of LFM2 and LFM3."""
    d = c["hidden_size"]
    out = products("conv.", in_proj=(3 * d, d), out_proj=(d, d)) | convs("conv.", c["conv_L_cache"], conv=d)
    return out | (biases("conv.", **{"in_proj.bias": 3 * d, "out_proj.bias": d, "conv.bias": d}) if c["conv_bias"] else {})


def experts(prefix, n, d, hidden, *names):
    """A gated net for each expert."""
    out = {}
    for expert in range(n):
        out |= gated_mlp(f"{prefix}{expert}.", d, hidden, *names)
    return out


def lfm2_tensors(c):
    d, size = c["hidden_size"], c["hidden_size"] // c["num_attention_heads"]

    def layer(i):
        own = conv_part(c) if c["layer_types"][i] == "conv" else softmax_part(c, "self_attn.", size, "out_proj") | norms(
            "self_attn.", size, "q_layernorm", "k_layernorm")
        own = norms("", d, "operator_norm", "ffn_norm") | own
        if i >= c.get("num_dense_layers", c["num_hidden_layers"]):
            own |= products("feed_forward.", gate=(c["num_experts"], d))
            own |= biases("feed_forward.", **{"expert_bias": c["num_experts"]} if c["use_expert_bias"] else {})
            return own | experts("feed_forward.experts.", c["num_experts"], d, c["moe_intermediate_size"], "w1", "w3", "w2")
        hidden = c["intermediate_size"] if "num_experts" in c else lfm2_hidden(c)
        return own | gated_mlp("feed_forward.", d, hidden, "w1", "w3", "w2")

    return model_tensors(c, layer, final="embedding_norm")


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


# With larger branches, so that a prompt's last token decides less.
GRANITE_EXPERTS = GRANITE | {"embedding_multiplier": 3, "residual_multiplier": 0.7, "logits_scaling": 1, "intermediate_size": 10,
                             "num_experts_per_tok": 2, "num_local_experts": 5, "mamba_n_groups": 2}


def mamba_part(c, p, inner, norm_too):
    """The tensors of a Mamba-2 mixer of a hybrid."""
    d, heads, channels = c["hidden_size"], c["mamba_n_heads"], inner + 2 * c["mamba_n_groups"] * c["mamba_d_state"]
    out = products(p, in_proj=(inner + channels + heads, d), out_proj=(d, inner)) | convs(p, c["mamba_d_conv"], conv1d=channels)
    out |= biases(p, 0, 1.5, A_log=heads) | biases(p, 0.5, 1, D=heads) | biases(p, -1, 1.5, dt_bias=heads)
    if c["mamba_proj_bias"]:
        out |= biases(p, **{"in_proj.bias": inner + channels + heads, "out_proj.bias": d})
    if c["mamba_conv_bias"]:
        out |= biases(p, **{"conv1d.bias": channels})
    return out | (norms(p, inner, "norm") if norm_too else {})


def softmax_part(c, p, size, out="o_proj"):
    d, queries, keys = c["hidden_size"], c["num_attention_heads"] * size, c["num_key_value_heads"] * size
    return products(p, **{"q_proj": (queries, d), "k_proj": (keys, d), "v_proj": (keys, d), out: (d, queries)})


def granite_tensors(c):
    d, hidden = c["hidden_size"], c["shared_intermediate_size"]

    def layer(i):
        linear = c["layer_types"][i] in ("mamba", "linear_attention")
        own = mamba_part(c, "mamba.", 2 * d, True) if linear else softmax_part(c, "self_attn.", d // c["num_attention_heads"])
        own = norms("", d, "input_layernorm", "post_attention_layernorm") | own
        own |= products("shared_mlp.", input_linear=(2 * hidden, d), output_linear=(d, hidden))
        n = c["num_local_experts"]
        return own | (products("block_sparse_moe.", **{
            "router.layer": (n, d), "input_linear": (n, 2 * c["intermediate_size"], d), "output_linear": (n, d, c["intermediate_size"])})
            if n else {})

    return model_tensors(c, layer)


def falcon_h1_tensors(c):
    d = c["hidden_size"]

    def layer(i):
        return norms("", d, "input_layernorm", "pre_ff_layernorm") | mamba_part(
            c, "mamba.", c["mamba_d_ssm"], c["mamba_rms_norm"]) | softmax_part(c, "self_attn.", c["head_dim"]) | gated_mlp(
                "feed_forward.", d, c["intermediate_size"])

    return model_tensors(c, layer, final="final_layernorm")


NEMOTRON = {
    "model_type": "nemotron_h", "architectures": ["NemotronHForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 1, "chunk_size": 128, "conv_kernel": 4, "eos_token_id": 2, "expand": 2, "head_dim": 8, "hidden_dropout": 0.0,
    "hidden_size": 16, "initializer_range": 0.02, "intermediate_size": 24, "layer_norm_epsilon": 1e-5,
    "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp", "linear_attention"], "mamba_head_dim": 6,
    "mamba_hidden_act": "silu", "mamba_num_heads": 4, "mamba_proj_bias": False, "mamba_ssm_cache_dtype": "float32",
    "max_position_embeddings": 4096, "mlp_bias": False, "mlp_hidden_act": "relu2", "moe_intermediate_size": 10,
    "moe_latent_size": None, "moe_shared_expert_intermediate_size": 12, "moe_shared_expert_overlap": True,
    "mtp_layers_block_type": ["full_attention", "moe"], "n_group": 1, "n_groups": 2, "n_routed_experts": 6, "n_shared_experts": 1,
    "norm_topk_prob": True, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_key_value_heads": 2, "num_logits_to_keep": 1,
    "num_nextn_predict_layers": 0, "output_router_logits": False, "pad_token_id": 0, "rescale_prenorm_residual": True,
    "residual_in_fp32": False, "routed_scaling_factor": 2.5, "sliding_window": None, "ssm_state_size": 10,
    "tie_word_embeddings": False, "time_step_floor": 0.0001, "time_step_limit": [0.0, float("inf")], "time_step_max": 0.1,
    "time_step_min": 1e-9, "topk_group": 1, "transformers_version": "5.24.0", "use_bias": False, "use_cache": True,
    "use_conv_bias": True, "use_mamba_kernels": True, "vocab_size": 256}


def relu2_mlp(prefix, d, hidden):
    return products(prefix, up_proj=(hidden, d), down_proj=(d, hidden))


def nemotron_types(c):
    """The word of each layer, from the list or the older pattern."""
    letters = {"M": "linear_attention", "E": "moe", "*": "full_attention", "-": "mlp"}
    older = {"mamba": "linear_attention", "attention": "full_attention"}
    return [older.get(word, word) for word in c.get("layers_block_type") or [letters[x] for x in c["hybrid_override_pattern"]]]


def nemotron_tensors(c):
    d, n, types = c["hidden_size"], c["n_routed_experts"], nemotron_types(c)
    mamba = {"mamba_n_heads": c["mamba_num_heads"], "mamba_n_groups": c["n_groups"], "mamba_d_state": c["ssm_state_size"],
             "mamba_d_conv": c["conv_kernel"], "mamba_conv_bias": c["use_conv_bias"], "mamba_proj_bias": c["use_bias"]}

    def layer(i):
        p, own = "mixer.", norms("", d, "norm")
        if types[i] == "linear_attention":
            return own | mamba_part(c | mamba, p, c["mamba_num_heads"] * c["mamba_head_dim"], True)
        if types[i] == "full_attention":
            return own | softmax_part(c, p, c["head_dim"])
        if types[i] == "mlp":
            return own | relu2_mlp(p, d, c["intermediate_size"])
        own |= products(p, gate=(n, d)) | biases(p, **{"gate.e_score_correction_bias": n})
        for expert in range(n):
            own |= relu2_mlp(f"{p}experts.{expert}.", d, c["moe_intermediate_size"])
        return own | relu2_mlp(f"{p}shared_experts.", d, c["moe_shared_expert_intermediate_size"])

    return model_tensors(c | {"num_hidden_layers": len(types)}, layer, "backbone.", "embeddings", "norm_f")


JAMBA = {
    "model_type": "jamba", "architectures": ["JambaForCausalLM"], "attention_dropout": 0.0, "attn_layer_offset": 1,
    "attn_layer_period": 2, "bos_token_id": 1, "eos_token_id": 2, "expert_layer_offset": 1, "expert_layer_period": 2,
    "hidden_act": "silu", "hidden_size": 16, "initializer_range": 0.02, "intermediate_size": 24, "mamba_conv_bias": True,
    "mamba_d_conv": 4, "mamba_d_state": 10, "mamba_dt_rank": 3, "mamba_expand": 2, "mamba_proj_bias": False,
    "max_position_embeddings": 2048, "num_attention_heads": 4, "num_experts": 1, "num_experts_per_tok": 1,
    "num_hidden_layers": 3, "num_key_value_heads": 2, "num_logits_to_keep": 1, "output_router_logits": False, "pad_token_id": 0,
    "rms_norm_eps": 1e-6, "router_aux_loss_coef": 0.001, "sliding_window": None, "tie_word_embeddings": False,
    "transformers_version": "4.57.0", "use_cache": True, "use_mamba_kernels": True, "vocab_size": 256}


def jamba_tensors(c):
    d, state, rank = c["hidden_size"], c["mamba_d_state"], c["mamba_dt_rank"]

    def layer(i):
        if i % c["attn_layer_period"] == c["attn_layer_offset"]:
            own = softmax_part(c, "self_attn.", d // c["num_attention_heads"])
        else:
            own = scan_part("mamba.", d, c["mamba_expand"] * d, state, rank, c["mamba_d_conv"], c["mamba_conv_bias"], c["mamba_proj_bias"])
            own |= norms("mamba.", rank, "dt_layernorm") | norms("mamba.", state, "b_layernorm", "c_layernorm")
        own = norms("", d, "input_layernorm", "pre_ff_layernorm") | own
        if c["num_experts"] == 1 or i % c["expert_layer_period"] != c["expert_layer_offset"]:
            return own | gated_mlp("feed_forward.", d, c["intermediate_size"])
        own |= experts("feed_forward.experts.", c["num_experts"], d, c["intermediate_size"])
        return own | products("feed_forward.", router=(c["num_experts"], d))

    return model_tensors(c, layer, final="final_layernorm")


# Experts in a layer of softmax and in one of mamba.
JAMBA_EXPERTS = JAMBA | {"attn_layer_period": 3, "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4}
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
    d, heads, p = c["hidden_size"], c["linear_num_value_heads"], "linear_attn."
    keys, values = c["linear_num_key_heads"] * c["linear_key_head_dim"], heads * c["linear_value_head_dim"]
    head, taps = d // c["num_attention_heads"], c["linear_conv_kernel_dim"]

    def layer(i):
        if c["layer_types"][i] == "linear_attention":
            out = norms("", d, "attention_layer_norm", "feedforward_layer_norm") | decays(p, heads)
            out |= products(p, a_proj=(heads, d), b_proj=(heads, d), g_proj=(values, d), o_proj=(d, values))
            out |= norms(p, c["linear_value_head_dim"], "o_norm")
            for part, n in (("q", keys), ("v", values), ("k", keys)):
                out |= products(p, **{f"{part}_proj": (n, d)}) | convs(p, taps, **{f"{part}_conv1d": n})
        else:
            out = softmax_part(c, "self_attn.", head) | norms("", d, "post_attention_layernorm", "post_feedforward_layernorm")
            out |= norms("self_attn.", d, "q_norm") | norms("self_attn.", c["num_key_value_heads"] * head, "k_norm")
        return out | gated_mlp("mlp.", d, c["intermediate_size"])

    return model_tensors(c, layer)


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
    d = c["hidden_size"]

    def layer(i):
        names = ["operator_norm", "ffn_norm"] + ["post_operator_norm", "post_ffn_norm"] * c["use_sandwich_norm"]
        own = conv_part(c) if c["layer_types"][i] == "conv" else softmax_part(c, "self_attn.", c["head_dim"]) | (products(
            "self_attn.", gate_proj=(c["num_attention_heads"], d)) if c["use_attention_gate"] else {}) | norms(
                "self_attn.", c["head_dim"], "q_norm", "k_norm")
        return norms("", d, *names) | own | gated_mlp("feed_forward.", d, c["intermediate_size"], "w1", "w3", "w2")

    return model_tensors(c, layer, final="embedding_norm")


# As its authors publish it.
KIMI = {
    "model_type": "kimi_linear", "architectures": ["KimiLinearForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 1, "eos_token_id": 2, "first_k_dense_replace": 1, "head_dim": 4, "hidden_act": "silu", "hidden_size": 16,
    "initializer_range": 0.02, "intermediate_size": 24, "kv_lora_rank": 10, "layer_types": None,
    "linear_attn_config": {"full_attn_layers": [2, 4], "head_dim": 6, "kda_layers": [1, 3], "num_heads": 2, "short_conv_kernel_size": 4},
    "mla_use_nope": True, "mlp_layer_types": None, "model_max_length": 4096, "moe_intermediate_size": 10, "moe_layer_freq": 1,
    "moe_renormalize": True, "moe_router_activation_func": "sigmoid", "num_attention_heads": 4, "num_expert_group": 1,
    "num_experts": 6, "num_experts_per_token": 2, "num_hidden_layers": 4, "num_key_value_heads": 4, "num_nextn_predict_layers": 0,
    "num_shared_experts": 1, "output_router_logits": False, "pad_token_id": 0, "pretraining_tp": 1, "q_lora_rank": None,
    "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "rms_norm_eps": 1e-5, "rope_scaling": None, "rope_theta": 10000.0,
    "routed_scaling_factor": 2.446, "tie_word_embeddings": False, "topk_group": 1, "transformers_version": "5.24.0",
    "use_cache": True, "use_grouped_topk": True, "v_head_dim": 5, "vocab_size": 256}


def kimi_layers(c):
    """Of each layer whether its mixer is MLA, and whether it has experts."""
    own, n = c["linear_attn_config"] or {}, range(c["num_hidden_layers"])
    if c["layer_types"]:
        full = [word == "full_attention" for word in c["layer_types"]]
    else:
        full = [i + 1 in own["full_attn_layers"] if "full_attn_layers" in own else i > 0 and i % 4 == 0 for i in n]
    sparse = c["mlp_layer_types"] and [word == "sparse" for word in c["mlp_layer_types"]]
    return list(zip(full, sparse or [i >= c["first_k_dense_replace"] for i in n]))


def kimi_heads(c):
    """Heads of the linear layers, their size, and the taps."""
    own, keys = c["linear_attn_config"] or {}, ("num_heads", "head_dim", "conv_kernel_dim")
    return [own.get(key.replace("conv_kernel_dim", "short_conv_kernel_size"), c.get(f"linear_{key}")) for key in keys]


def latent_tensors(c, p, out):
    """Of MLA, whose last product has the name `out`."""
    d, low = c["hidden_size"], c["q_lora_rank"]
    heads, nope, rope, value, rank = (c[key] for key in (
        "num_attention_heads", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank"))
    if low:
        q = products(p, q_a_proj=(low, d), q_b_proj=(heads * (nope + rope), low)) | norms(p, low, "q_a_layernorm")
    else:
        q = products(p, q_proj=(heads * (nope + rope), d))
    return q | products(p, kv_a_proj_with_mqa=(rank + rope, d), kv_b_proj=(heads * (nope + value), rank), **{
        out: (d, heads * value)}) | norms(p, rank, "kv_a_layernorm")


def kimi_tensors(c):
    d, p, q = c["hidden_size"], "self_attn.", "block_sparse_moe."

    def kda():
        n, size, taps = kimi_heads(c)
        out = products(p, **{f"{part}_proj": (n * size, d) for part in "qkv"}) | convs(p, taps, **{
            f"{part}_conv1d": n * size for part in "qkv"})
        out |= products(p, b_proj=(n, d), f_a_proj=(size, d), f_b_proj=(n * size, size), g_a_proj=(size, d), g_b_proj=(n * size, size))
        out |= {f"{p}A_log": tensor([1, 1, n, 1], 0, 1.5)} | biases(p, -1, 1.5, dt_bias=n * size)
        return out | norms(p, size, "o_norm") | products(p, o_proj=(d, n * size))

    def layer(i):
        full, sparse = kimi_layers(c)[i]
        out = norms("", d, "input_layernorm", "post_attention_layernorm") | (latent_tensors(c, p, "o_proj") if full else kda())
        if not sparse:
            return out | gated_mlp("mlp.", d, c["intermediate_size"])
        out |= products(q, gate=(c["num_experts"], d)) | biases(q, **{"gate.e_score_correction_bias": c["num_experts"]})
        out |= experts(f"{q}experts.", c["num_experts"], d, c["moe_intermediate_size"], "w1", "w3", "w2")
        return out | gated_mlp(f"{q}shared_experts.", d, c["num_shared_experts"] * c["moe_intermediate_size"])

    return model_tensors(c, layer)


def kimi_saved_tensors(c):
    """As transformers 5.24 saves them: nets without experts have another name."""
    return {name.replace(".mlp.", ".block_sparse_moe."): t for name, t in kimi_tensors(c).items()}


# As its authors publish it, with a layer after the last one.
LING = {
    "model_type": "bailing_hybrid", "architectures": ["BailingMoeV3ForCausalLM"], "attention_dropout": 0.0, "embedding_dropout": 0.0,
    "eos_token_id": 2, "expert_swiglu_limit_list": None, "first_k_dense_replace": 1, "gated_attention_proj_granularity_type": "head_wise",
    "group_norm_size": 1, "head_dim": 8, "hidden_act": "silu", "hidden_size": 16, "initializer_range": 0.02, "intermediate_size": 24,
    "kda_lower_bound": -5.0, "kda_safe_gate": True, "kv_lora_rank": 10, "layer_group_size": 2, "linear_silu": True,
    "max_position_embeddings": 4096, "max_window_layers": 20, "moe_intermediate_size": 10, "moe_router_enable_expert_bias": True,
    "moe_shared_expert_intermediate_size": 10, "mtp_loss_scaling_factor": 0, "mtp_use_kda": False, "n_group": 3, "no_kda_lora": True,
    "norm_topk_prob": True, "num_attention_heads": 2, "num_experts": 6, "num_experts_per_tok": 3, "num_hidden_layers": 4,
    "num_key_value_heads": 2, "num_kv_heads_for_linear_attn": 0, "num_nextn_predict_layers": 1, "num_shared_experts": 1,
    "output_dropout": 0.0, "output_router_logits": False, "pad_token_id": 0, "partial_rotary_factor": 0.5, "q_lora_rank": 7,
    "qk_head_dim": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "rms_norm_eps": 1e-6, "rope_interleave": True, "rope_scaling": None,
    "rope_theta": 6000000, "rotary_dim": 4, "routed_scaling_factor": 2.5, "router_dtype": "fp32", "scale_router_input": False,
    "score_function": "sigmoid", "scoring_func": "sigmoid", "seq_aux": True, "share_expert_swiglu_limit_list": None,
    "short_conv_kernel_size": 4, "tie_word_embeddings": False, "topk_group": 2, "topk_method": "noaux_tc", "up_proj_norm": False,
    "use_bias": False, "use_cache": True, "use_kda_lora": False, "use_mla_nope": False, "use_nGPT": False, "use_qk_norm": True,
    "use_qkv_bias": False, "v_head_dim": 5, "value_norm": False, "vocab_size": 256}
# As transformers 5.24 saves it.
LING_SAVED = {
    "model_type": "bailing_hybrid", "architectures": ["BailingHybridForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 1, "dtype": "float32", "eos_token_id": 2, "first_k_dense_replace": 2, "head_dim": 6, "hidden_act": "silu",
    "hidden_size": 16, "initializer_range": 0.02, "intermediate_size": 24, "kda_lower_bound": -0.5, "kda_safe_gate": True,
    "kv_lora_rank": 9, "layer_group_size": 2, "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "linear_conv_kernel_dim": 3, "linear_head_dim": 5, "linear_num_heads": 3, "mlp_layer_types": ["sparse", "dense", "sparse"],
    "model_max_length": 4096, "moe_intermediate_size": 10, "moe_renormalize": False, "mtp_loss_scaling_factor": 0.0,
    "num_attention_heads": 3, "num_expert_group": 1, "num_experts": 5, "num_experts_per_token": 2, "num_hidden_layers": 3,
    "num_key_value_heads": 3, "num_nextn_predict_layers": 0, "num_shared_experts": 2, "output_router_logits": False, "pad_token_id": 0,
    "pretraining_tp": 1, "q_lora_rank": None, "qk_head_dim": 11, "qk_nope_head_dim": 5, "qk_rope_head_dim": 6, "rms_norm_eps": 1e-3,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "rope_theta": 10000.0, "routed_scaling_factor": 1.0,
    "short_conv_kernel_size": 3, "tie_word_embeddings": False, "topk_group": 1, "transformers_version": "5.24.0", "use_cache": True,
    "v_head_dim": 4, "vocab_size": 256}


def ling_layers(c):
    """Of each layer whether its mixer is MLA, and whether it has experts."""
    n, words, nets = range(c["num_hidden_layers"]), c.get("layer_types"), c.get("mlp_layer_types")
    full = [word == "full_attention" for word in words] if words else [i % c["layer_group_size"] == c["layer_group_size"] - 1 for i in n]
    return list(zip(full, [word == "sparse" for word in nets] if nets else [i >= c["first_k_dense_replace"] for i in n]))


def ling_heads(c):
    """Heads of the linear layers, their size, and the taps."""
    return c.get("linear_num_heads", c["num_attention_heads"]), c.get("linear_head_dim", c["head_dim"]), c["short_conv_kernel_size"]


def ling_tensors(c):
    d, p, q, (n, size, taps) = c["hidden_size"], "attention.", "mlp.", ling_heads(c)
    out = "dense" if "model_max_length" in c else "o_proj"

    def kda():
        of_heads = products(p, **{f"{part}_proj": (n * size, d) for part in "qkvfg"}, b_proj=(n, d), **{out: (d, n * size)})
        return of_heads | convs(p, taps, **{f"{part}_conv1d": n * size for part in "qkv"}) | biases(p, 0, 1.5, A_log=n) | biases(
            p, -1, 1.5, dt_bias=n * size) | norms(p, size, "o_norm")

    def mla():
        return latent_tensors(c, p, "dense") | products(p, g_proj=(c["num_attention_heads"], d))

    def layer(i):
        full, sparse = ling_layers(c)[i]
        own = norms("", d, "input_layernorm", "post_attention_layernorm") | (mla() if full else kda())
        if not sparse:
            return own | gated_mlp(q, d, c["intermediate_size"])
        own |= products(q, gate=(c["num_experts"], d)) | biases(q, **{"gate.expert_bias": c["num_experts"]})
        own |= experts(f"{q}experts.", c["num_experts"], d, c["moe_intermediate_size"])
        return own | gated_mlp(f"{q}shared_experts.", d, c["num_shared_experts"] * c["moe_intermediate_size"])

    further = {f"model.layers.{c['num_hidden_layers'] + i}.eh_proj.weight": tensor([d, 2 * d]) for i in range(c["num_nextn_predict_layers"])}
    return model_tensors(c, layer, embed="word_embeddings") | further


def in_bf16(tensors):
    """Except the tensors that trainers keep in f32."""
    return {name: t if name.endswith(("A_log", "dt_bias")) else t | {"dtype": "BF16"} for name, t in tensors.items()}
