"""Small models of recurrent kinds as flash-linear-attention and transformers write them: config.json, and what tensors
it asks for. For float64 readings (kinds.py) and for tests over HTTP, which fill them with any numbers."""

def tensor(shape, mean=0.0, scale=None, dtype="F32"):
    """By default spread so that a product keeps the size of what it is given."""
    return {"shape": shape, "mean": mean, "scale": scale if scale is not None else (3 / shape[-1]) ** 0.5, "dtype": dtype}


def norm(n):
    return tensor([n], 1.0, 0.3)


def fla_tensors(c, mixer):
    """mixer: a layer's tensors behind attn."""
    d, hidden = c["hidden_size"], c["intermediate_size"]
    out = {"model.embeddings.weight": tensor([c["vocab_size"], d], 0, 0.5)}
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        out |= {f"{p}attn_norm.weight": norm(d), f"{p}mlp_norm.weight": norm(d)}
        out |= {f"{p}attn.{name}": t for name, t in mixer.items()}
        out |= {f"{p}mlp.gate_proj.weight": tensor([hidden, d]), f"{p}mlp.up_proj.weight": tensor([hidden, d]),
                f"{p}mlp.down_proj.weight": tensor([d, hidden])}
    out["model.norm.weight"] = norm(d)
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = tensor([c["vocab_size"], d])
    return out


def delta_tensors(c, **other):
    d, gated = c["hidden_size"], c["model_type"] == "gated_deltanet"
    if gated:
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
    if c["use_gate"]:
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
PLAIN = DELTA | {"model_type": "delta_net", "architectures": ["DeltaNetForCausalLM"], "num_heads": 2, "expand_k": 0.5,
                 "expand_v": 1.0, "use_beta": True, "use_output_norm": True, "qk_norm": "l2", "qk_activation": "silu"}


def in_bf16(tensors):
    """But for what trainers keep in f32."""
    return {name: t if name.endswith(("A_log", "dt_bias")) else t | {"dtype": "BF16"} for name, t in tensors.items()}
