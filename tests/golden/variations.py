"""Random values of the keys of every family's config.json, with tensors to fit and the logits of the equations, for
tests/http/test_hf_variations.py. A key that no table below names gets values of a wrong type."""

import folders
import hybrids
from kinds import delta, fla_model, gla, hgrn2, mamba1, mamba2, qwen, retnet, rwkv6, rwkv7

FLA = {"tie_word_embeddings": [True, False], "norm_eps": [1e-6, 1e-3], "intermediate_size": [8, 40], "hidden_act": ["silu", "swish"],
       "num_hidden_layers": [1, 3], "attn": [None, folders.ATTN, folders.ATTN | {"window_size": 5, "qkv_bias": True, "rope_theta": 300.0}]}
CONV = {"use_short_conv": [True, False], "conv_size": [2, 3, 4]}
DELTA = FLA | CONV | {"allow_neg_eigval": [True, False]}
HEADS = {"head_dim": [4, 6, 10], "num_heads": [1, 2], "num_v_heads": [None, 2, 4, 3], "expand_v": [1.0, 1.5, 2.0]}
GLA = FLA | CONV | {"num_heads": [2, 4], "num_kv_heads": [None, 2, 1, 3], "expand_k": [0.5, 1.0], "expand_v": [1.0, 2.0],
                    "use_output_gate": [True, False], "fuse_norm": [True, False]}
HYBRID = {"tie_word_embeddings": [True, False], "intermediate_size": [8, 40], "num_attention_heads": [2, 4],
          "num_key_value_heads": [1, 2, 4, 3], "max_position_embeddings": [64, 999999]}
RMS = HYBRID | {"rms_norm_eps": [1e-6, 1e-3], "hidden_act": ["silu", "gelu"], "attention_bias": [False, True]}
LINEAR = {"linear_num_key_heads": [1, 2], "linear_num_value_heads": [2, 4, 3], "linear_key_head_dim": [3, 6],
          "linear_value_head_dim": [5, 12], "linear_conv_kernel_dim": [2, 3, 8, 9],
          "layer_types": [["full_attention"] * 3, ["linear_attention"] * 3, ["full_attention", "linear_attention", "linear_attention"]]}
MAMBA = {"mamba_conv_bias": [True, False], "mamba_proj_bias": [False, True], "mamba_n_groups": [1, 2, 4, 3],
         "mamba_d_conv": [2, 3, 4, 9], "mamba_d_state": [5, 16], "mamba_n_heads,mamba_d_head": [(8, 4), (2, 16), (4, 9), (2, "auto")]}
MAMBA1 = {
    "tie_word_embeddings": [True, False], "layer_norm_epsilon": [1e-5, 1e-3], "intermediate_size": [8, 40], "state_size": [4, 16],
    "time_step_rank": [1, 6, "auto"], "conv_kernel": [2, 3, 9], "use_bias": [True, False], "use_conv_bias": [True, False],
    "num_hidden_layers": [1, 3], "hidden_act": ["silu", "gelu"],
    "d_model": [folders.MAMBA1["hidden_size"], 99], "rms_norm": [True, False], "ssm_cfg": [{}], "pad_vocab_size_multiple": [8],
    "fused_add_norm": [True, False]}
LFM = HYBRID | {
    "norm_eps": [1e-5, 1e-3], "conv_bias": [True, False], "conv_L_cache": [2, 3, 5, 8, 9]}
EXPERTS = {"num_experts,num_experts_per_tok": [(5, 1), (5, 5), (7, 3), (40, 4), (1, 1), (4, 5)], "moe_intermediate_size": [1, 32, 33],
           "shared_expert_intermediate_size": [1, 40], "hidden_size": [8, 24]}


def rope(**changes):
    return {"rope_theta": 10000.0, "rope_type": "default"} | changes


# Name: config, tensors of a config, logits, and values of keys. Joined names have values that belong together.
FAMILIES = {
    "gated_deltanet": (folders.GATED | {"num_hidden_layers": 2}, folders.delta_tensors, fla_model(delta),
                       DELTA | HEADS | {"use_gate": [True, False]}),
    "delta_net": (folders.PLAIN, folders.delta_tensors, fla_model(delta), DELTA | {
        "num_heads": [2, 4, 3], "expand_k": [0.5, 1.0, 0.3], "expand_v": [1.0, 0.5], "use_gate": [True, False]}),
    "kda": (folders.KDA, folders.delta_tensors, fla_model(delta), DELTA | HEADS | {"safe_gate": [True], "lower_bound": [None, -5.0]}),
    "gla": (folders.GLA, folders.gla_tensors, fla_model(gla), GLA),
    "retnet": (folders.RETNET, folders.gla_tensors, fla_model(retnet), GLA),
    "hgrn2": (folders.HGRN2, folders.hgrn2_tensors, fla_model(hgrn2), FLA | CONV | {
        "num_heads,expand_ratio": [(2, 8), (4, 4), (2, 5)], "use_lower_bound": [True, False]}),
    "rwkv6": (folders.RWKV6, folders.rwkv6_tensors, rwkv6, {
        "tie_word_embeddings": [True, False], "norm_eps": [1e-5, 1e-3], "norm_first": [True, False], "num_heads": [2, 4, 3],
        "proj_low_rank_dim": [2, 7], "gate_low_rank_dim": [2, 7], "expand_k": [0.5, 1.0], "intermediate_size": [8, 40]}),
    "rwkv7": (folders.RWKV7, folders.rwkv7_tensors, rwkv7, {
        "tie_word_embeddings": [True, False], "norm_eps": [1e-5, 1e-3], "norm_first": [True, False], "head_dim": [4, 8, 5],
        "a_low_rank_dim": [2, 7], "v_low_rank_dim": [2, 7], "gate_low_rank_dim": [2, 7], "decay_low_rank_dim": [2, 7],
        "intermediate_size": [8, 40]}),
    "mamba": (folders.MAMBA1, folders.mamba1_tensors, mamba1, MAMBA1),
    "falcon_mamba": (folders.FALCON_MAMBA, folders.mamba1_tensors, mamba1, MAMBA1 | {"mixer_rms_eps": [1e-6, 1e-3]}),
    "mamba2": (folders.MAMBA2, folders.mamba2_tensors, mamba2, {
        "tie_word_embeddings": [True, False], "layer_norm_epsilon": [1e-5, 1e-3], "num_heads,head_dim": [(8, 4), (2, 16), (3, 8)],
        "n_groups": [1, 3], "state_size": [4, 16], "conv_kernel": [2, 3, 9], "use_bias": [True, False], "use_conv_bias": [True, False],
        "num_hidden_layers": [1, 3], "hidden_act": ["silu", "gelu"]}),
    "qwen": (folders.QWEN, folders.qwen_tensors, qwen, RMS | LINEAR | {
        "head_dim": [4, 8, 12], "hidden_size": [8, 24], "rope_parameters": [rope(partial_rotary_factor=part) for part in (0.25, 0.5, 1.0, 0.3)] + [
            rope(rope_theta=500.0, partial_rotary_factor=0.5), rope(rope_type="linear", factor=2.0)]}),
    "lfm2": (folders.LFM2, folders.lfm2_tensors, hybrids.lfm2, LFM | {
        "layer_types": [["full_attention"] * 3, ["conv"] * 3, ["full_attention", "conv", "conv"]],
        "block_auto_adjust_ff_dim": [True, False], "block_ffn_dim_multiplier": [1.0, 1.3], "block_multiple_of": [1, 16],
        "block_ff_dim": [20, 50], "rope_parameters": [rope(), rope(rope_theta=77.0), rope(rope_type="yarn")]}),
    "lfm2_moe": (folders.LFM2_MOE, folders.lfm2_tensors, hybrids.lfm2, LFM | {
        "layer_types": [["full_attention"] * 3, ["conv"] * 3, ["full_attention", "conv", "conv"]], "num_dense_layers": [0, 2, 7],
        "num_experts,num_experts_per_tok": [(5, 1), (5, 5), (7, 3), (40, 4), (1, 1), (4, 5)], "moe_intermediate_size": [1, 32, 33],
        "norm_topk_prob": [True, False], "use_expert_bias": [True, False], "routed_scaling_factor": [0.5, 2.0, 0.0],
        "rope_parameters": [rope(), rope(rope_theta=77.0), rope(rope_type="yarn")]}),
    "qwen_moe": (folders.QWEN_MOE, folders.qwen_tensors, qwen, EXPERTS | {
        "tie_word_embeddings": [True, False], "layer_types": LINEAR["layer_types"], "linear_num_key_heads": [1, 2, 4], "rms_norm_eps": [1e-3]}),
    "qwen_next": (folders.QWEN_NEXT, folders.qwen_tensors, qwen, EXPERTS | LINEAR | {
        "linear_num_key_heads": [1, 2, 4], "tie_word_embeddings": [True, False], "decoder_sparse_step": [1, 2, 3, 9],
        "mlp_only_layers": [[], [0, 2], [0, 1, 2], None], "norm_topk_prob": [True, False], "intermediate_size": [8, 40]}),
    "nemotron": (folders.NEMOTRON, folders.nemotron_tensors, hybrids.nemotron, {
        "tie_word_embeddings": [True, False], "layers_block_type": [
            ["mlp", "moe"], ["mamba", "attention", "moe"], ["full_attention"] * 3, ["moe"], ["mamba2"]],
        "n_routed_experts,num_experts_per_tok,n_group,topk_group": [(6, 1, 1, 1), (6, 6, 1, 1), (12, 3, 4, 2), (12, 6, 6, 3), (40, 4, 2, 1),
                                                                    (6, 5, 3, 2), (6, 2, 6, 2)],
        "norm_topk_prob": [True, False], "routed_scaling_factor": [0.3, 1, 5], "moe_intermediate_size": [1, 32, 33],
        "moe_shared_expert_intermediate_size": [1, 40], "n_groups": [1, 2, 4, 3], "use_bias": [True, False], "use_conv_bias": [True, False],
        "conv_kernel": [2, 3, 9], "ssm_state_size": [5, 16], "mamba_num_heads,mamba_head_dim": [(8, 4), (2, 16), (4, 9)],
        "head_dim": [4, 8], "num_key_value_heads": [1, 2, 4, 3], "layer_norm_epsilon": [1e-5, 1e-3], "mlp_hidden_act": ["relu2", "silu"],
        "intermediate_size": [8, 40], "hidden_size": [8, 24], "time_step_max": [0.5]}),
    "granite_experts": (folders.GRANITE_EXPERTS, folders.granite_tensors, hybrids.granite, MAMBA | {
        "tie_word_embeddings": [True, False], "num_local_experts,num_experts_per_tok": [(5, 1), (5, 5), (7, 3), (40, 4), (1, 1), (4, 5)],
        "intermediate_size": [1, 32, 33], "shared_intermediate_size": [8, 40], "hidden_size,mamba_d_head": [(8, 4), (24, 12)],
        "residual_multiplier": [1.0, 0.5], "layer_types": [["attention", "mamba", "mamba"], ["full_attention"] * 3]}),
    "granite": (folders.GRANITE, folders.granite_tensors, hybrids.granite, RMS | MAMBA | {
        "layer_types": [["attention", "mamba", "mamba"], ["full_attention"] * 3, ["mamba", "conv", "mamba"]],
        "attention_multiplier": [0.05, 1.0, -1], "embedding_multiplier": [1, 5.5], "residual_multiplier": [1.0, 0.5, 0],
        "logits_scaling": [1, 8.0], "position_embedding_type": ["nope", "rope", None, "alibi"], "rope_theta": [500, 10000],
        "shared_intermediate_size": [8, 40], "num_local_experts,num_experts_per_tok": [(0, 0), (4, 2), (4, 5)], "normalization_function": ["rmsnorm", "layernorm"]}),
    "kimi": (folders.KIMI, folders.kimi_tensors, hybrids.kimi, {
        "tie_word_embeddings": [True, False], "layer_types": [["full_attention"] * 4, ["linear_attention"] * 4, ["full_attention"]],
        "linear_attn_config": [
            {"head_dim": 4, "num_heads": 3, "short_conv_kernel_size": 3, "kda_layers": [2, 3], "full_attn_layers": [1, 4]},
            {"head_dim": 8, "num_heads": 1, "short_conv_kernel_size": 9, "kda_layers": [2, 3], "full_attn_layers": [1, 4]},
            {"head_dim": 8, "num_heads": 1, "short_conv_kernel_size": 4, "kda_layers": [2, 3], "full_attn_layers": [1, 3]},
            {"head_dim": 6, "num_heads": 2, "short_conv_kernel_size": 2}],
        "mlp_layer_types": [["sparse", "dense", "sparse", "dense"], ["dense"] * 4, ["sparse", "moe", "dense", "dense"]],
        "first_k_dense_replace": [0, 2, 9], "q_lora_rank": [1, 7], "kv_lora_rank": [1, 32], "qk_nope_head_dim": [1, 16],
        "qk_rope_head_dim": [2, 16], "v_head_dim": [1, 8], "num_attention_heads,num_key_value_heads": [(1, 1), (6, 6), (4, 2)],
        "num_experts,num_experts_per_token,num_expert_group,topk_group": [(6, 1, 1, 1), (6, 6, 1, 1), (12, 3, 4, 2), (40, 4, 2, 1), (6, 5, 3, 2)],
        "moe_renormalize": [True, False], "routed_scaling_factor": [0.3, 1.0, 5.0], "moe_intermediate_size": [1, 32, 33],
        "num_shared_experts": [1, 3], "rms_norm_eps": [1e-6, 1e-3], "intermediate_size": [8, 40], "hidden_size": [8, 24],
        "mla_use_nope": [False], "hidden_act": ["silu", "gelu"]}),
    # With an eps of 1e-6 transformers itself is 1e-4 off the equations now and then.
    "ling": (folders.LING | {"rms_norm_eps": 1e-4}, folders.ling_tensors, hybrids.ling, {
        "num_hidden_layers,layer_group_size": [(6, 3), (3, 1), (4, 4), (5, 2)], "layer_group_size,layer_types": [
            (3, ["linear_attention", "linear_attention", "full_attention", "full_attention"]), (2, ["linear_attention"] * 4)],
        "first_k_dense_replace": [0, 2, 9], "mlp_layer_types": [["sparse", "dense", "sparse", "dense"], ["dense"] * 4],
        "q_lora_rank": [None, 1, 16], "kv_lora_rank": [1, 32], "qk_nope_head_dim,qk_head_dim": [(1, 5), (16, 20)],
        "qk_rope_head_dim,rotary_dim,qk_head_dim": [(2, 2, 8), (16, 16, 22), (3, 3, 9)], "v_head_dim": [1, 8],
        "num_attention_heads,num_key_value_heads": [(1, 1), (6, 6), (4, 2)], "head_dim": [4, 10, 33],
        "kda_lower_bound": [-0.1, -1.0, -50.0], "kda_safe_gate": [False], "short_conv_kernel_size": [2, 3, 9],
        "rope_theta": [10000, 300.0, 10000000], "num_experts,num_experts_per_tok,n_group,topk_group": [
            (6, 1, 1, 1), (6, 6, 1, 1), (12, 3, 4, 2), (40, 4, 2, 1), (6, 5, 3, 2)],
        "norm_topk_prob": [False], "routed_scaling_factor": [0.3, 5.0], "num_shared_experts": [3],
        "moe_intermediate_size,moe_shared_expert_intermediate_size": [(1, 1), (33, 33), (10, 20)],
        "expert_swiglu_limit_list": [[0, 0, 0, 0], [0, 0, 4, 4]], "rms_norm_eps": [1e-6, 1e-3], "hidden_size": [8, 24],
        "num_nextn_predict_layers": [0, 2]}),
    "ling_saved": (folders.LING_SAVED, folders.ling_tensors, hybrids.ling, {
        "linear_num_heads": [1, 4], "linear_head_dim": [6, 16], "qk_rope_head_dim,qk_head_dim,head_dim": [(2, 7, 2), (16, 21, 16)],
        "num_attention_heads,num_key_value_heads": [(1, 1), (4, 4)], "num_experts,num_experts_per_token,num_expert_group,topk_group": [
            (12, 3, 4, 2), (6, 5, 3, 2)], "moe_renormalize": [True], "q_lora_rank": [6], "v_head_dim": [1, 9],
        "short_conv_kernel_size,linear_conv_kernel_dim": [(2, 2), (4, 4)]}),
    "jamba": (folders.JAMBA, folders.jamba_tensors, hybrids.jamba, {
        key: values for key, values in RMS.items() if key != "attention_bias"} | {
            "attn_layer_period,attn_layer_offset": [(3, 0), (8, 4), (1, 0), (2, 2)], "mamba_d_state": [4, 16], "mamba_d_conv": [2, 3, 9],
            "mamba_dt_rank": [1, 6, "auto"], "mamba_expand": [1, 3], "mamba_conv_bias": [True, False], "mamba_proj_bias": [True, False],
            "num_experts": [1, 4]}),
    "jamba_experts": (folders.JAMBA_EXPERTS, folders.jamba_tensors, hybrids.jamba, {
        "num_experts,num_experts_per_tok": [(4, 1), (4, 4), (7, 3), (33, 2), (1, 1), (4, 5), (4, 0)], "hidden_size": [8, 24, 32],
        "expert_layer_period,expert_layer_offset": [(1, 0), (2, 0), (3, 2), (4, 1), (2, 2)], "intermediate_size": [8, 33, 64],
        "attn_layer_period,attn_layer_offset": [(3, 0), (8, 4), (1, 0)], "num_hidden_layers": [1, 2, 5], "tie_word_embeddings": [True, False]}),
    "falcon_h1": (folders.FALCON_H1, folders.falcon_h1_tensors, hybrids.falcon_h1, {
        key: values for key, values in (RMS | MAMBA).items() if key != "mamba_proj_bias"} | {
            "mamba_proj_bias": [False, True], "head_dim": [4, 8, 6], "mamba_rms_norm": [True, False], "mamba_norm_before_gate": [True, False],
            "attention_in_multiplier": [1.0, 0.5], "attention_out_multiplier": [1.0, 2.0], "key_multiplier": [1.0, 0.1],
            "embedding_multiplier": [1.0, 3], "lm_head_multiplier": [1.0, 0.2], "ssm_in_multiplier": [1.0, 2], "ssm_out_multiplier": [1.0, 0.3],
            "mlp_multipliers": [[1.0, 1.0], [2, 0.3], [1.0]], "ssm_multipliers": [[1.0] * 5, [2, 1, 0.5, 1, 3], [1.0] * 4],
            "rope_theta": [1e11, 10000.0, 12345678901.0], "projectors_bias": [False, True], "mlp_bias": [False, True]}),
    "olmo_hybrid": (folders.OLMO_HYBRID, folders.olmo_hybrid_tensors, hybrids.olmo_hybrid, RMS | LINEAR | {
        "linear_allow_neg_eigval": [True, False], "hidden_size": [8, 24], "rope_parameters": [rope(rope_theta=None), rope(), rope(rope_theta=700.0)]}),
    # With norms around branches a small eps makes much of the rounding of outputs near zero.
    "lfm3": (folders.LFM3 | {"norm_eps": 1e-3}, folders.lfm3_tensors, hybrids.lfm3, LFM | {
        "norm_eps": [1e-3, 1e-2], "layer_types": [["full_attention"] * 3, ["sliding_attention", "conv", "full_attention"], ["conv"]],
        "sliding_window": [3, 30], "head_dim": [4, 8], "use_attention_gate": [True, False], "use_sandwich_norm": [True, False],
        "attention_bias": [False, True], "rope_parameters": [
            {"full_attention": rope(rope_theta=300.0), "sliding_attention": rope(rope_type="proportional", partial_rotary_factor=0.25)},
            {"full_attention": rope(rope_type="linear"), "sliding_attention": rope()}]}),
}
WRONG = ["odd", [1, "odd"], {"odd": 1}, -5, 1.5e300]


def meant(config):
    """The config with the number that "auto" stands for."""
    for key in ("time_step_rank", "mamba_dt_rank"):
        if config.get(key) == "auto":
            config = config | {key: -(-config["hidden_size"] // 16)}
    if config.get("mamba_d_head") != "auto":
        return config
    return config | {"mamba_d_head": config.get("mamba_d_ssm", 2 * config["hidden_size"]) // config["mamba_n_heads"]}


def draw(family, rng):
    """A config with new values of up to three keys, the config as the equations need it, and these keys."""
    config, _, _, values = FAMILIES[family]
    change = {}
    for names in rng.sample(sorted(values), rng.randint(1, 3)):
        value = rng.choice(values[names])
        change |= dict(zip(names.split(","), value)) if "," in names else {names: value}
    return config | change, meant(config | change), list(change)


def wrong(family, rng, share):
    """Of a share of all keys, each alone: the config with a value of a wrong type, and the key."""
    config = FAMILIES[family][0]
    for key in sorted(config):
        if key != "model_type" and rng.random() < share:
            yield config | {key: rng.choice(WRONG)}, key
