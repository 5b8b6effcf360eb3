"""Cases for kinds.py: small models, and configs that must be refused.

`python3 tests/golden/kind_cases.py` writes tests/golden/kinds/NAME.json: a config.json, tensors by shape and spread,
tokens, and some of the logits. Both sides take the tensors' values from one generator. test_golden_kinds compares the C
program with these files.
"""

import json
import pathlib

import folders
import hybrids
from kinds import delta, fla_model, gla, hgrn2, lightning, make_tensors, mamba1, mamba2, qwen, retnet, rwkv6, rwkv7, uniform

HERE = pathlib.Path(__file__).parent
IDS, TOKENS = 256, 40
ROWS, COLUMNS = [0, 1, 2, 3, 4, 9, 20, 39], range(0, IDS, 4)


def delta_cases():
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


def decaying_cases():
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


def rwkv7_cases():
    tied = folders.RWKV7 | {"norm_first": False, "tie_word_embeddings": True, "norm_eps": 1e-3}
    for name, config in (("rwkv7", folders.RWKV7), ("rwkv7_tied", tied)):
        yield name, config, folders.rwkv7_tensors(config), rwkv7
    steep = folders.in_bf16(folders.rwkv7_tensors(folders.RWKV7))
    for name in steep:  # decays next to e^(-e^(-1/2)) and 1, rates of learning next to 0 and 1
        if name.endswith(("w_lora.lora.2.bias", "a_lora.lora.2.bias")):
            steep[name] = folders.tensor([16], 0, 30)
    yield "rwkv7_extremes", folders.RWKV7, steep, rwkv7


def other_cases():
    yield "lightning", folders.LIGHTNING, folders.lightning_tensors(folders.LIGHTNING), lightning
    yield "qwen3_5_text", folders.QWEN, folders.qwen_tensors(folders.QWEN), qwen
    yield "qwen3_5", folders.WHOLE_QWEN, folders.in_bf16(folders.qwen_tensors(folders.WHOLE_QWEN)), qwen
    even = folders.QWEN_MOE | {"rms_norm_eps": 1e-3}  # a small eps makes much of the rounding of rows near zero
    yield "qwen3_5_moe_text", even, folders.qwen_tensors(even), qwen
    yield "qwen3_5_moe", folders.WHOLE_QWEN_MOE, folders.in_bf16(folders.qwen_tensors(folders.WHOLE_QWEN_MOE)), qwen
    yield "qwen3_next", folders.QWEN_NEXT, folders.qwen_tensors(folders.QWEN_NEXT), qwen
    sparse = folders.QWEN_NEXT | {"decoder_sparse_step": 2, "mlp_only_layers": None, "norm_topk_prob": False, "num_experts": 33,
                                  "num_experts_per_tok": 7, "tie_word_embeddings": True, "linear_num_key_heads": 4}
    yield "qwen3_next_sparse", sparse, folders.in_bf16(folders.qwen_tensors(sparse)), qwen
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


def mamba1_cases():
    many = {"hidden_size": 40, "intermediate_size": 80, "state_size": 16, "time_step_rank": 5}
    for name, config in (
        ("mamba", folders.MAMBA1 | many),
        ("mamba_biases", folders.MAMBA1 | {"use_bias": True, "use_conv_bias": False, "tie_word_embeddings": False, "conv_kernel": 3}),
        ("mamba_fla", folders.FLA_MAMBA1 | {"use_conv_bias": False, "conv_kernel": 2}),
        ("falcon_mamba", folders.FALCON_MAMBA),
    ):
        yield name, config, folders.mamba1_tensors(config), mamba1
    steep = folders.in_bf16(folders.mamba1_tensors(folders.MAMBA1))
    for name in steep:  # decays next to 0 and 1, softplus on both sides of its cut
        if name.endswith("A_log"):
            steep[name] = folders.tensor([32, 10], 0, 9)
        elif name.endswith("dt_proj.bias"):
            steep[name] = folders.tensor([32], 8, 30)
    yield "mamba_extremes", folders.MAMBA1, steep, mamba1


def hybrid_cases():
    yield "jamba", folders.JAMBA, folders.jamba_tensors(folders.JAMBA), hybrids.jamba
    biases = folders.JAMBA | {"mamba_proj_bias": True, "mamba_conv_bias": False, "tie_word_embeddings": True, "attn_layer_offset": 0}
    yield "jamba_biases", biases, folders.in_bf16(folders.jamba_tensors(biases)), hybrids.jamba
    yield "jamba_experts", folders.JAMBA_EXPERTS, folders.jamba_tensors(folders.JAMBA_EXPERTS), hybrids.jamba
    every = folders.JAMBA_EXPERTS | {"num_experts": 5, "num_experts_per_tok": 3, "expert_layer_period": 1, "expert_layer_offset": 0,
                                     "tie_word_embeddings": True}
    yield "jamba_experts_everywhere", every, folders.in_bf16(folders.jamba_tensors(every)), hybrids.jamba
    yield "lfm2", folders.LFM2, folders.lfm2_tensors(folders.LFM2), hybrids.lfm2
    biases = folders.LFM2 | {"conv_bias": True, "conv_L_cache": 4, "tie_word_embeddings": False}
    yield "lfm2_biases", biases, folders.in_bf16(folders.lfm2_tensors(biases)), hybrids.lfm2
    yield "lfm2_moe", folders.LFM2_MOE, folders.lfm2_tensors(folders.LFM2_MOE), hybrids.lfm2
    plain = folders.LFM2_MOE | {"use_expert_bias": False, "norm_topk_prob": False, "num_dense_layers": 0, "num_experts": 3,
                                "tie_word_embeddings": False, "conv_bias": True}
    yield "lfm2_moe_plain", plain, folders.in_bf16(folders.lfm2_tensors(plain)), hybrids.lfm2
    yield "granite", folders.GRANITE, folders.granite_tensors(folders.GRANITE), hybrids.granite
    biases = folders.GRANITE | {"mamba_proj_bias": True, "mamba_n_groups": 2, "tie_word_embeddings": False,
                                "layer_types": ["full_attention", "linear_attention", "linear_attention"]}
    yield "granite_biases", biases, folders.in_bf16(folders.granite_tensors(biases)), hybrids.granite
    yield "granite_experts", folders.GRANITE_EXPERTS, folders.granite_tensors(folders.GRANITE_EXPERTS), hybrids.granite
    one = folders.GRANITE_EXPERTS | {"num_local_experts": 1, "num_experts_per_tok": 1, "intermediate_size": 32,
                                     "tie_word_embeddings": False, "position_embedding_type": "rope"}
    yield "granite_one_expert", one, folders.in_bf16(folders.granite_tensors(one)), hybrids.granite
    yield "nemotron_h", folders.NEMOTRON, folders.nemotron_tensors(folders.NEMOTRON), hybrids.nemotron
    grouped = {key: value for key, value in folders.NEMOTRON.items() if key != "layers_block_type"} | {
        "hybrid_override_pattern": "-EM*EE", "n_group": 3, "topk_group": 2, "n_routed_experts": 9, "num_experts_per_tok": 4,
        "tie_word_embeddings": True, "use_bias": True, "use_conv_bias": False, "norm_topk_prob": False, "routed_scaling_factor": 1}
    yield "nemotron_h_groups", grouped, folders.in_bf16(folders.nemotron_tensors(grouped)), hybrids.nemotron
    yield "kimi_linear", folders.KIMI, folders.kimi_tensors(folders.KIMI), hybrids.kimi
    grouped = {key: value for key, value in folders.KIMI.items() if key != "linear_attn_config"} | {
        "linear_attn_config": None, "linear_num_heads": 3, "linear_head_dim": 5, "linear_conv_kernel_dim": 3, "q_lora_rank": 7,
        "layer_types": ["full_attention", "linear_attention", "full_attention"], "num_hidden_layers": 3,
        "mlp_layer_types": ["sparse", "dense", "sparse"], "num_experts": 9, "num_experts_per_token": 4, "num_expert_group": 3,
        "topk_group": 2, "moe_renormalize": False, "routed_scaling_factor": 1.0, "num_shared_experts": 2, "tie_word_embeddings": True,
        "rms_norm_eps": 1e-3}
    yield "kimi_linear_groups", grouped, folders.in_bf16(folders.kimi_saved_tensors(grouped)), hybrids.kimi
    # With a small eps and small heads the equations themselves make rounding too large.
    ling = folders.LING | {"rms_norm_eps": 1e-3, "head_dim": 16, "partial_rotary_factor": 0.25}
    yield "ling", ling, folders.ling_tensors(ling), hybrids.ling
    yield "ling_saved", folders.LING_SAVED, folders.in_bf16(folders.ling_tensors(folders.LING_SAVED)), hybrids.ling
    yield "falcon_h1", folders.FALCON_H1, folders.falcon_h1_tensors(folders.FALCON_H1), hybrids.falcon_h1
    normed = folders.FALCON_H1 | {"mamba_rms_norm": True, "mamba_norm_before_gate": True, "tie_word_embeddings": True,
                                  "mamba_conv_bias": False}
    yield "falcon_h1_normed", normed, folders.in_bf16(folders.falcon_h1_tensors(normed)), hybrids.falcon_h1
    # With norms around branches a small eps makes much of the rounding of outputs near zero.
    around = folders.LFM3 | {"norm_eps": 1e-3}
    yield "lfm3", around, folders.lfm3_tensors(around), hybrids.lfm3
    olmo = folders.OLMO_HYBRID
    yield "olmo_hybrid", olmo, folders.olmo_hybrid_tensors(olmo), hybrids.olmo_hybrid
    rotated = olmo | {"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}, "tie_word_embeddings": True,
                      "linear_num_value_heads": 4, "linear_allow_neg_eigval": False,
                      "layer_types": ["full_attention", "linear_attention", "full_attention"]}
    yield "olmo_hybrid_rotated", rotated, folders.in_bf16(folders.olmo_hybrid_tensors(rotated)), hybrids.olmo_hybrid


def cases():
    """NAME, config, tensors, logits by the equations."""
    yield from delta_cases()
    yield from decaying_cases()
    yield from rwkv7_cases()
    yield from other_cases()
    yield from mamba1_cases()
    yield from hybrid_cases()


# Changes to a case's config that must be refused, and the error of each.
REFUSED = {
    "gated_deltanet": [
        ({"model_type": "gated_deltanet2"}, "model_type gated_deltanet2 is not supported; supported types"),
        ({"conv_size": 9}, "conv_size must be a whole number from 2 to 8"),
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
        ({"tie_word_embeddings": True}, "tensor lm_head.weight is not model.embed"),
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
        ({"clamp_min": 1}, "clamp_min is not a known key"),
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
    "rwkv7": [
        ({"num_heads": 2, "head_dim": None, "value_dim": None, "hidden_size": 15}, "hidden_size must be a multiple of head_dim"),
        ({"attn": {"layers": [0], "num_heads": 2}}, "needs what layer 0 leaves for it"),
        ({"hidden_act": "relu"}, 'hidden_act must be "sqrelu"'),
        ({"a_low_rank_dim": 4}, "attn.a_lora.lora.0.weight has shape [3, 16], the config asks for [4, 16]"),
        ({"time_state": True}, "attn.time_state is missing"),
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
        ({"linear_conv_kernel_dim": 9}, "linear_conv_kernel_dim must be a whole number from 2 to 8"),
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
        ({"tie_word_embeddings": True}, "tensor lm_head.weight is not model.embed"),
        ({"head_dim": 4}, "self_attn.q_proj.weight has shape [64, 16], the config asks for [32, 16]"),
    ],
    "qwen3_5": [
        ({"text_config": None}, "text_config must be an object"),
        ({"text_config": {"model_type": "qwen3_5_moe_text"}}, 'text_config.model_type must be "qwen3_5_text"'),
        ({"eos_token_id": -3}, "eos_token_id must be a token"),
    ],
    "lfm2": [
        ({"layer_types": ["conv", "full_attention"]}, 'layer_types must say "conv" or "full_attention" of every layer'),
        ({"layer_types": None}, "self_attn.q_proj.weight is missing"),
        ({"layer_types": None, "full_attn_idxs": [3]}, "full_attn_idxs must be a list of layers, counted from 0"),
        ({"conv_L_cache": 9}, "conv_L_cache must be a whole number from 2 to 8"),
        ({"conv_bias": True}, "conv.in_proj.bias is missing"),
        ({"num_key_value_heads": 3}, "num_key_value_heads must divide num_attention_heads"),
        ({"num_heads": 8}, "num_heads must be equal to num_attention_heads"),
        ({"conv_dim": 8}, "conv_dim must be equal to hidden_size"),
        ({"block_use_swiglu": False}, "block_use_swiglu must be true"),
        ({"block_ffn_dim_multiplier": 2.0}, "feed_forward.w1.weight has shape [24, 16], the config asks for [40, 16]"),
        ({"rope_theta": 500.0}, "rope_parameters.rope_theta differs from rope_theta"),
        ({"rope_parameters": {"rope_theta": 12345678901.0}}, "rope_theta has more than 9 digits before its zeros"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "rope_parameters.partial_rotary_factor must be 1"),
        ({"tie_embedding": False}, "lm_head.weight is missing"),
        ({"num_experts": 8}, "num_experts is not a known key"),
    ],
    "lfm2_moe": [
        ({"layer_types": None}, "layer_types must be there"),
        ({"num_experts": 6}, "feed_forward.gate.weight has shape [5, 16], the config asks for [6, 16]"),
        ({"num_experts_per_tok": 6}, "num_experts_per_tok must be a whole number from 1 to 5"),
        ({"num_experts": 3, "num_experts_per_tok": None}, "num_experts_per_tok must be there: the usual 4 are more than num_experts"),
        ({"num_experts": 0}, "num_experts must be a whole number from 1 to 4096"),
        ({"num_dense_layers": 2}, "layers.1.feed_forward.w1.weight is missing"),
        ({"num_dense_layers": 0}, "layers.0.feed_forward.gate.weight is missing"),
        ({"num_dense_layers": -1}, "num_dense_layers must be a whole number from 0"),
        ({"use_expert_bias": False}, "feed_forward.expert_bias is not one that the config asks for"),
        ({"use_expert_bias": 1}, "use_expert_bias must be true or false"),
        ({"norm_topk_prob": "yes"}, "norm_topk_prob must be true or false"),
        ({"routed_scaling_factor": 0}, "routed_scaling_factor must be a number from 1e-06 to 1e+06"),
        ({"moe_intermediate_size": 12}, "feed_forward.experts.0.w1.weight has shape [10, 16], the config asks for [12, 16]"),
        ({"moe_intermediate_size": 200000}, "num_experts_per_tok times moe_intermediate_size must be at most 262144"),
        ({"conv_L_cache": 9}, "conv_L_cache must be a whole number from 2 to 8"),
        ({"block_ff_dim": 24}, "block_ff_dim is not a known key"),
        ({"n_group": 2}, "n_group is not a known key"),
    ],
    "qwen3_5_moe_text": [
        ({"num_experts": 6}, "mlp.gate.weight has shape [5, 16], the config asks for [6, 16]"),
        ({"num_experts": 4}, "mlp.gate.weight has shape [5, 16], the config asks for [4, 16]"),
        ({"num_experts_per_tok": 6}, "num_experts_per_tok must be a whole number from 1 to 5"),
        ({"moe_intermediate_size": 9}, "has shape [10, 16], the config asks for [9, 16]"),
        ({"shared_expert_intermediate_size": 0}, "shared_expert_intermediate_size must be a whole number from 1"),
        ({"shared_expert_intermediate_size": None}, "has shape [12, 16], the config asks for [512, 16]"),
        ({"norm_topk_prob": True}, "norm_topk_prob is not a known key"),
        ({"decoder_sparse_step": 2}, "decoder_sparse_step is not a known key"),
    ],
    "qwen3_5_moe": [
        ({"text_config": {"model_type": "qwen3_5_text"}}, 'text_config.model_type must be "qwen3_5_moe_text"'),
    ],
    "qwen3_next": [
        ({"mlp_only_layers": [0]}, "layers.0.mlp.gate_proj.weight is missing"),
        ({"mlp_only_layers": [-1]}, "mlp_only_layers must be a list of layers, counted from 0"),
        ({"mlp_only_layers": "all"}, "mlp_only_layers must be a list of layers, counted from 0"),
        ({"decoder_sparse_step": 0}, "decoder_sparse_step must be a whole number from 1"),
        ({"decoder_sparse_step": 2}, "layers.0.mlp.gate_proj.weight is missing"),
        ({"norm_topk_prob": 1}, "norm_topk_prob must be true or false"),
        ({"num_experts": 0}, "num_experts must be a whole number from 1 to 4096"),
        ({"use_sliding_window": True}, "use_sliding_window must be false"),
        ({"linear_num_value_heads": 6}, "linear_attn.in_proj_qkvz.weight has shape [64, 16], the config asks for [84, 16]"),
        ({"model_type": "qwen3_5_moe_text", "mlp_only_layers": None}, "decoder_sparse_step is not a known key"),
    ],
    "nemotron_h": [
        ({"layers_block_type": ["linear_attention"]}, "backbone.layers.1.norm.weight is not one that the config asks for"),
        ({"layers_block_type": []}, "layers_block_type must say"),
        ({"layers_block_type": "M"}, "layers_block_type must say"),
        ({"layers_block_type": ["moe", "linear"]}, "layers_block_type must say"),
        ({"layers_block_type": None, "hybrid_override_pattern": "MEX"}, "hybrid_override_pattern must be 1 to 256 letters M, *, - and E"),
        ({"layers_block_type": None}, "backbone.layers.4.norm.weight is not one that the config asks for"),
        ({"n_group": 4}, "n_group must divide n_routed_experts into groups of 2 and more"),
        ({"n_group": 3, "topk_group": 4}, "topk_group must be a whole number from 1 to 3"),
        ({"n_group": 3, "topk_group": 1, "num_experts_per_tok": 3}, "of which topk_group have num_experts_per_tok experts"),
        ({"num_experts_per_tok": 7}, "num_experts_per_tok must be a whole number from 1 to 6"),
        ({"n_shared_experts": 2}, "n_shared_experts must be equal to 1"),
        ({"moe_latent_size": 8}, "moe_latent_size must be null"),
        ({"mlp_hidden_act": "silu"}, 'mlp_hidden_act must be "relu2"'),
        ({"mamba_hidden_act": "gelu"}, 'mamba_hidden_act must be "silu"'),
        ({"mlp_bias": True}, "mlp_bias must be false"),
        ({"mamba_proj_bias": True}, "mamba_proj_bias must be false"),
        ({"use_bias": True}, "mixer.in_proj.bias is missing"),
        ({"attention_bias": True}, "attention_bias must be false"),
        ({"sliding_window": 8}, "sliding_window must be null"),
        ({"time_step_limit": [0.001, 1.0]}, "time_step_limit must be [0, Infinity]"),
        ({"mamba_num_heads": 5}, "n_groups must divide mamba_num_heads"),
        ({"moe_shared_expert_intermediate_size": 10}, "shared_experts.up_proj.weight has shape [12, 16], the config asks for [10, 16]"),
    ],
    "granite_experts": [
        ({"num_local_experts": 0}, "block_sparse_moe.router.layer.weight is not one that the config asks for"),
        ({"num_local_experts": 4}, "block_sparse_moe.router.layer.weight has shape [5, 16], the config asks for [4, 16]"),
        ({"num_local_experts": -1}, "num_local_experts must be a whole number from 1 to 4096"),
        ({"num_experts_per_tok": 6}, "num_experts_per_tok must be a whole number from 1 to 5"),
        ({"num_experts_per_tok": 0}, "num_experts_per_tok must be a whole number from 1 to 5"),
        ({"intermediate_size": 12}, "block_sparse_moe.input_linear.weight has shape [100, 16], the config asks for [120, 16]"),
        ({"shared_intermediate_size": 20}, "shared_mlp.input_linear.weight has shape [48, 16], the config asks for [40, 16]"),
    ],
    "granite": [
        ({"num_local_experts": 4, "num_experts_per_tok": 2}, "block_sparse_moe.router.layer.weight is missing"),
        ({"num_local_experts": None, "num_experts_per_tok": 2}, "block_sparse_moe.router.layer.weight is missing"),
        ({"attention_bias": True}, "attention_bias must be false"),
        ({"position_embedding_type": "alibi"}, 'position_embedding_type must be "rope", "nope" or null'),
        ({"position_embedding_type": "rope", "rope_scaling": {"type": "linear"}}, "rope_scaling must be null"),
        ({"normalization_function": "layernorm"}, 'normalization_function must be "rmsnorm"'),
        ({"residual_multiplier": 0}, "residual_multiplier must be a number from 0.001 to 1000"),
        ({"logits_scaling": -3}, "logits_scaling must be a number from 0.001 to 1000"),
        ({"mamba_d_head": 9}, "mamba_n_heads times mamba_d_head must be the columns of the mixer"),
        ({"mamba_d_head": "large"}, "mamba_d_head must be a whole number from 1"),
        ({"mamba_n_groups": 3}, "mamba_n_groups must divide mamba_n_heads"),
        ({"mamba_d_conv": 9}, "mamba_d_conv must be a whole number from 2 to 8"),
        ({"time_step_limit": [0.0, 0.1]}, "time_step_limit must be [0, Infinity]"),
        ({"layer_types": ["mamba", "sliding_attention", "mamba"]}, "layer_types must say"),
        ({"shared_intermediate_size": 20}, "input_linear.weight has shape [48, 16], the config asks for [40, 16]"),
    ],
    "olmo_hybrid": [
        ({"attention_bias": True}, "attention_bias must be false"),
        ({"linear_num_value_heads": 3}, "linear_num_value_heads must be a multiple of linear_num_key_heads"),
        ({"linear_conv_kernel_dim": 9}, "linear_conv_kernel_dim must be a whole number from 2 to 8"),
        ({"linear_key_head_dim": 8}, "q_proj.weight has shape [12, 16], the config asks for [16, 16]"),
        ({"num_key_value_heads": None}, "k_proj.weight has shape [8, 16], the config asks for [16, 16]"),
        ({"rope_parameters": {"rope_type": "yarn"}}, 'rope_parameters.rope_type must be "default"'),
        ({"layer_types": ["linear_attention", "linear_attention", "full_attention"]}, "attention_layer_norm.weight is missing"),
        ({"mlp_bias": True}, "mlp_bias is not a known key"),
    ],
    "lfm3": [
        ({"layer_types": ["conv"]}, 'layer_types must say "conv", "full_attention" or "sliding_attention" of every layer'),
        ({"attention_bias": True}, "attention_bias must be false"),
        ({"conv_L_cache": 9}, "conv_L_cache must be a whole number from 2 to 8"),
        ({"use_attention_gate": False}, "self_attn.gate_proj.weight is not one that the config asks for"),
        ({"use_sandwich_norm": False}, "norm.weight is not one that the config asks for"),
        ({"rope_parameters": {"rope_theta": 100.0}}, "rope_parameters must have an object for every type of attention"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}, "sliding_attention": {}}},
         'rope_parameters.full_attention.rope_type must be "default"'),
        ({"rope_parameters": {"full_attention": {"partial_rotary_factor": 0.5}, "sliding_attention": {}}},
         "rope_parameters.full_attention.partial_rotary_factor must be 1"),
        ({"block_ff_dim": 24}, "block_ff_dim is not a known key"),
    ],
    "falcon_h1": [
        ({"projectors_bias": True}, "projectors_bias must be false"),
        ({"mamba_proj_bias": True}, "mamba_proj_bias must be false"),
        ({"mlp_bias": True}, "mlp_bias must be false"),
        ({"attention_bias": True}, "attention_bias must be false"),
        ({"mamba_use_mlp": False}, "mamba_use_mlp must be true"),
        ({"ssm_multipliers": [1, 1, 1, 1]}, "ssm_multipliers must be a list of 5 numbers"),
        ({"mlp_multipliers": [0.5, -0.5]}, "mlp_multipliers must be a list of 2 numbers"),
        ({"key_multiplier": 0}, "key_multiplier must be a number"),
        ({"mamba_rms_norm": True}, "mamba.norm.weight is missing"),
        ({"mamba_d_ssm": 24, "mamba_d_head": 6}, "in_proj.weight has shape [108, 16], the config asks for [92, 16]"),
        ({"rope_theta": 0.5}, "rope_theta must be a number from 2"),
        ({"time_step_limit": [0.1, 1.0]}, "time_step_limit must be [0, Infinity]"),
    ],
    "jamba": [
        ({"num_experts": 16}, "feed_forward.router.weight is missing"),
        ({"num_experts": None}, "feed_forward.router.weight is missing"),
        ({"attn_layer_offset": 2}, "attn_layer_offset must be less than attn_layer_period"),
        ({"attn_layer_offset": 0}, "self_attn.q_proj.weight is missing"),
        ({"mamba_inner_layernorms": False}, "mamba_inner_layernorms must be true"),
        ({"mamba_d_conv": 9}, "mamba_d_conv must be a whole number from 2 to 8"),
        ({"mamba_proj_bias": True}, "in_proj.bias is missing"),
        ({"mamba_dt_rank": "large"}, "mamba_dt_rank must be a whole number from 1"),
        ({"mamba_dt_rank": "auto"}, "x_proj.weight has shape [23, 32], the config asks for [21, 32]"),
        ({"sliding_window": 8}, "sliding_window is not a known key"),
    ],
    "jamba_experts": [
        ({"num_experts_per_tok": 0}, "num_experts_per_tok must be a whole number from 1 to 4"),
        ({"num_experts_per_tok": 5}, "num_experts_per_tok must be a whole number from 1 to 4"),
        ({"num_experts": 0}, "num_experts must be a whole number from 1 to 4096"),
        ({"num_experts": 4097}, "num_experts must be a whole number from 1 to 4096"),
        ({"num_experts": 1}, "model.layers.1.feed_forward.gate_proj.weight is missing"),
        ({"num_experts": 3}, "model.layers.1.feed_forward.router.weight has shape [4, 16], the config asks for [3, 16]"),
        ({"num_experts": None}, "model.layers.1.feed_forward.router.weight has shape [4, 16], the config asks for [16, 16]"),
        ({"expert_layer_offset": 2}, "expert_layer_offset must be less than expert_layer_period"),
        ({"expert_layer_offset": 0}, "model.layers.0.feed_forward.router.weight is missing"),
        ({"expert_layer_period": 0}, "expert_layer_period must be a whole number from 1"),
        ({"expert_layer_period": 3}, "model.layers.3.feed_forward.gate_proj.weight is missing"),
        ({"num_experts": 16, "num_experts_per_tok": 16, "intermediate_size": 16385},
         "num_experts_per_tok times intermediate_size must be at most 262144"),
    ],
    "mamba": [
        ({"hidden_act": "gelu"}, 'hidden_act must be "silu"'),
        ({"conv_kernel": 9}, "conv_kernel must be a whole number from 2 to 8"),
        ({"time_step_rank": "auto"}, "x_proj.weight has shape [37, 80], the config asks for [35, 80]"),
        ({"time_step_rank": 0}, "time_step_rank must be a whole number from 1 to 65536"),
        ({"state_size": 9}, "x_proj.weight has shape [37, 80], the config asks for [23, 80]"),
        ({"intermediate_size": None, "expand": 0.01}, "expand times hidden_size must be 1 to 131072"),
        ({"intermediate_size": 64}, "in_proj.weight has shape [160, 40], the config asks for [128, 40]"),
        ({"layer_types": ["mamba", "attention"]}, 'layer_types must be "mamba" or "linear_attention" for every layer'),
        ({"use_bias": True}, "in_proj.bias is missing"),
        ({"use_conv_bias": False}, "conv1d.bias is not one that the config asks for"),
        ({"mixer_rms_eps": 1e-6}, "mixer_rms_eps is not a known key"),
    ],
    "falcon_mamba": [
        ({"mixer_rms_eps": 0}, "mixer_rms_eps must be a number from 1e-30 to 1"),
        ({"norm_eps": 1e-6}, "norm_eps is not a known key"),
    ],
    "mamba2": [
        ({"time_step_limit": [0.0, 0.1]}, "time_step_limit must be [0, Infinity]"),
        ({"time_step_limit": [0.001, 1e30]}, "time_step_limit must be [0, Infinity]"),
        ({"time_step_limit": {"__float__": "Infinity"}}, "time_step_limit must be [0, Infinity]"),
        ({"rms_norm": False}, "rms_norm must be true"),
        ({"num_heads": 5}, "num_heads times head_dim must be expand times hidden_size"),
        ({"n_groups": 3}, "n_groups must divide num_heads"),
        ({"conv_kernel": 9}, "conv_kernel must be a whole number from 2 to 8"),
        ({"hidden_act": "gelu"}, 'hidden_act must be "silu"'),
        ({"layer_types": ["mamba", "attention"]}, 'layer_types must be "mamba" or "linear_attention" for every layer'),
        ({"rmsnorm": True}, "rmsnorm is not a known key"),
        ({"use_bias": True}, "in_proj.bias is missing"),
        ({"use_conv_bias": False}, "conv1d.bias is not one that the config asks for"),
        ({"time_step_limit": [0, {"__float__": "Infinity"}], "state_size": 9}, "in_proj.weight has shape [88, 16]"),
    ],
    "kimi_linear": [
        ({"linear_attn_config": [1]}, "linear_attn_config must be an object or null"),
        ({"linear_attn_config": {"head_dim": 6, "num_heads": 2, "kda_layers": [1, 3], "full_attn_layers": [2]}},
         "linear_attn_config must have each layer, counted from 1, in kda_layers or full_attn_layers"),
        ({"linear_attn_config": {"head_dim": 6, "num_heads": 2, "full_attn_layers": [2]}},
         "linear_attn_config must have each layer, counted from 1, in kda_layers or full_attn_layers"),
        ({"linear_attn_config": {"head_dim": 6, "num_heads": 2, "kda_layers": [1, 2, 3], "full_attn_layers": [2, 4]}},
         "linear_attn_config must have each layer, counted from 1, in kda_layers or full_attn_layers"),
        ({"linear_attn_config": {"head_dim": 6, "num_heads": 2, "kda_layers": [1, 3, 5], "full_attn_layers": [2, 4]}},
         "linear_attn_config must have each layer, counted from 1, in kda_layers or full_attn_layers"),
        ({"linear_attn_config": {"head_dim": 6, "num_heads": 2, "kda_layers": 1, "full_attn_layers": [2, 4]}},
         "linear_attn_config must have each layer, counted from 1, in kda_layers or full_attn_layers"),
        ({"linear_attn_config": {"head_dim": 6, "num_heads": 2, "lower_bound": -5.0}}, "linear_attn_config.lower_bound is not a known key"),
        ({"linear_attn_config": {"short_conv_kernel_size": 9}},
         "linear_attn_config.short_conv_kernel_size must be a whole number from 2 to 8"),
        ({"linear_attn_config": {"head_dim": 6, "num_heads": 2}},
         "layers.1.self_attn.q_proj.weight has shape [40, 16], the config asks for [12, 16]"),
        ({"linear_num_heads": 0}, "linear_num_heads must be a whole number from 1 to 1024"),
        ({"layer_types": ["linear_attention"] * 3 + ["sliding_attention"]},
         'layer_types must say "linear_attention" or "full_attention" of every layer'),
        ({"mlp_layer_types": ["dense", "sparse", "sparse"]}, 'mlp_layer_types must say "dense" or "sparse" of every layer'),
        ({"mlp_layer_types": ["dense", "sparse", "sparse", "moe"]}, 'mlp_layer_types must say "dense" or "sparse" of every layer'),
        ({"mlp_layer_types": "dense"}, 'mlp_layer_types must say "dense" or "sparse" of every layer'),
        ({"first_k_dense_replace": 2}, "layers.1.mlp.gate_proj.weight is missing"),
        ({"q_lora_rank": 7}, "self_attn.q_b_proj.weight is missing"),
        ({"kv_lora_rank": 9}, "self_attn.kv_a_proj_with_mqa.weight has shape [14, 16], the config asks for [13, 16]"),
        ({"v_head_dim": 6}, "self_attn.kv_b_proj.weight has shape [44, 10], the config asks for [48, 10]"),
        ({"qk_rope_head_dim": 0}, "qk_rope_head_dim must be a whole number from 1 to 1024"),
        ({"qk_nope_head_dim": 1024}, "num_attention_heads gives heads that are too large"),
        ({"num_key_value_heads": 2}, "num_key_value_heads must be equal to num_attention_heads"),
        ({"attention_bias": True}, "attention_bias must be false"),
        ({"mla_use_nope": False}, "mla_use_nope must be true"),
        ({"moe_layer_freq": 2}, "moe_layer_freq must be equal to 1"),
        ({"moe_router_activation_func": "softmax"}, 'moe_router_activation_func must be "sigmoid"'),
        ({"use_grouped_topk": False}, "use_grouped_topk must be true"),
        ({"num_expert_group": 4}, "num_expert_group must divide num_experts into groups of 2 and more"),
        ({"num_experts_per_token": 7}, "num_experts_per_token must be a whole number from 1 to 6"),
        ({"num_shared_experts": 2}, "shared_experts.gate_proj.weight has shape [10, 16], the config asks for [20, 16]"),
        ({"hidden_act": "gelu"}, 'hidden_act must be "silu"'),
        ({"moe_latent_size": 8}, "moe_latent_size is not a known key"),
    ],
    "ling": [
        ({"architectures": ["BailingMoeV2_5ForCausalLM"]},
         'architectures must be "BailingMoeV3ForCausalLM" or "BailingHybridForCausalLM": older models'),
        ({"layer_group_size": 3}, "layer_group_size must divide num_hidden_layers, or layer_types"),
        ({"layer_group_size": 4}, "tensor model.layers.1.attention.q_proj.weight is missing"),
        ({"layer_types": ["full_attention"] * 4}, "layer_group_size gives other layers than layer_types"),
        ({"layer_types": ["attention"] * 4}, 'layer_types must say "linear_attention" or "full_attention" of every layer'),
        ({"num_nextn_predict_layers": 0}, "tensor model.layers.4.eh_proj.weight is not one that the config asks for"),
        ({"head_dim": 6, "linear_head_dim": 8}, "head_dim must be equal to linear_head_dim or qk_rope_head_dim"),
        ({"kda_lower_bound": 5}, "kda_lower_bound must be a number from -1e+06 to -1e-06"),
        ({"no_kda_lora": False}, "no_kda_lora must be true"),
        ({"use_kda_lora": True}, "use_kda_lora must be false"),
        ({"linear_silu": False}, "linear_silu must be true"),
        ({"use_qk_norm": False}, "use_qk_norm must be true"),
        ({"group_norm_size": 4}, "group_norm_size must be equal to 1"),
        ({"num_kv_heads_for_linear_attn": 1}, "num_kv_heads_for_linear_attn must be 0 or equal to num_attention_heads"),
        ({"linear_conv_kernel_dim": 3}, "linear_conv_kernel_dim differs from short_conv_kernel_size"),
        ({"num_expert_group": 2}, "num_expert_group differs from n_group"),
        ({"n_group": 4}, "n_group must divide num_experts into groups of 2 and more"),
        ({"gated_attention_proj_granularity_type": "element_wise"}, 'gated_attention_proj_granularity_type must be "head_wise"'),
        ({"use_mla_nope": True}, "use_mla_nope must be false"),
        ({"rope_interleave": False}, "rope_interleave must be true"),
        ({"rotary_dim": 8}, "rotary_dim must be equal to qk_rope_head_dim"),
        ({"qk_head_dim": 11}, "qk_head_dim must be equal to qk_nope_head_dim + qk_rope_head_dim"),
        ({"qk_rope_head_dim": 3, "qk_head_dim": 9, "rotary_dim": 3}, "qk_rope_head_dim must be even"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_scaling must be null"),
        ({"rope_parameters": {"rope_theta": 10000, "rope_type": "default"}}, "rope_parameters.rope_theta differs from rope_theta"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, 'rope_parameters.rope_type must be "default"'),
        ({"expert_swiglu_limit_list": [0, 0, 4, 4]}, "expert_swiglu_limit_list must be null, or 0 for every layer"),
        ({"share_expert_swiglu_limit_list": 5}, "share_expert_swiglu_limit_list must be null, or 0 for every layer"),
        ({"moe_shared_expert_intermediate_size": 20}, "moe_shared_expert_intermediate_size must be equal to moe_intermediate_size"),
        ({"moe_router_enable_expert_bias": False}, "moe_router_enable_expert_bias must be true"),
        ({"score_function": "softmax"}, 'score_function must be "sigmoid"'),
        ({"topk_method": "greedy"}, 'topk_method must be "noaux_tc"'),
        ({"use_nGPT": True}, "use_nGPT must be false"),
        ({"pregate_enabled": True}, "pregate_enabled is not a known key"),
    ],
    "ling_saved": [
        ({"norm_topk_prob": True}, "moe_renormalize differs from norm_topk_prob"),
        ({"q_lora_rank": 7}, "attention.q_b_proj.weight is missing"),
        ({"linear_num_heads": 2}, "attention.q_proj.weight has shape [15, 16], the config asks for [10, 16]"),
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
