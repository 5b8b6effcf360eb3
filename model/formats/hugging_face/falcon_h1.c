/*
 * Falcon-H1 as transformers writes it (its FalconH1Config): every layer has the mixer mamba2 and,
 * next to it, grouped_query, which see the same input; then gated_mlp; RMSNorm. Their own names for
 * the parts:
 *
 *     input_layernorm, pre_ff_layernorm            norm1, norm2
 *     mamba.{in_proj,out_proj,conv1d,...}          attn.in, attn.out, attn.conv, ...
 *     self_attn.{q,k,v,o}_proj                     beside.attn.q, ..., beside.attn.out
 *     feed_forward.{gate,up,down}_proj             ff.gate, ff.up, ff.down
 *
 * Its multipliers become the factors of the mixers, of the embeddings and of the final norm.
 */
#include <math.h>
#include <stdio.h>

#include "model/formats/hugging_face/reader.h"

static const lx_tensor_name layer_names[] = {
    {"norm1", "input_layernorm"},
    {"norm2", "pre_ff_layernorm"},
    LX_HF_MAMBA_NAMES,
    {"beside.attn.q", "self_attn.q_proj"},
    {"beside.attn.k", "self_attn.k_proj"},
    {"beside.attn.v", "self_attn.v_proj"},
    {"beside.attn.out", "self_attn.o_proj"},
    {"ff.gate", "feed_forward.gate_proj"},
    {"ff.up", "feed_forward.up_proj"},
    {"ff.down", "feed_forward.down_proj"},
    {NULL, NULL},
};

static const struct lx_tensor_names names = {.layers = "model.layers.",
                                             .embed = "model.embed_tokens",
                                             .final_norm = "model.final_layernorm",
                                             .tables = {{.names = layer_names}}};

static double factor(lx_hf_reader *r, const char *key)
{
    return lx_hf_number(r, key, 1e-6, 1e6, 1);
}

/* A list of n factors into out; without the key all are 1. */
static void read_factors(lx_hf_reader *r, const char *key, size_t n, double *out)
{
    const json_t *listed = r->st == LX_OK ? json_object_get(r->root, key) : NULL;
    bool none = listed == NULL || json_is_null(listed), ok = none || json_array_size(listed) == n;
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(listed, i);
        out[i] = none ? 1 : json_number_value(value);
        ok = ok && out[i] >= 1e-6 && out[i] <= 1e6;
    }
    if (!ok) {
        char what[64];
        (void)snprintf(what, sizeof what, "must be a list of %zu numbers from 1e-06 to 1e+06", n);
        lx_hf_wrong(r, key, what);
    }
    lx_hf_ignore(r, key);
}

static void set_factor(lx_mixer_config *m, const char *name, double value)
{
    lx_mixer_value(m, name)->f = (float)value;
}

static lx_mixer_config read_mamba(lx_hf_reader *r, const lx_config *c)
{
    static const char *const parts[] = {"z_scale", "v_scale", "b_scale", "c_scale", "d_scale"};
    double factors[5], in = factor(r, "ssm_in_multiplier");
    int32_t expand = lx_hf_int(r, "mamba_expand", 1, 64, 2);
    bool is_null = json_is_null(json_object_get(r->root, "mamba_d_ssm"));
    int32_t inner =
        lx_hf_int(r, "mamba_d_ssm", 1, LX_MAX_D_FF, is_null ? expand * c->d_model : 1024);
    lx_mixer_config m = lx_hf_read_mamba(r, c, inner, c->norm_eps);
    bool norm = lx_hf_flag(r, "mamba_rms_norm", false);
    bool gate_last = lx_hf_flag(r, "mamba_norm_before_gate", true);
    lx_mixer_set_word(&m, "norm", !norm ? "none" : gate_last ? "gate_last" : "gate_first");
    read_factors(r, "ssm_multipliers", 5, factors);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        set_factor(&m, parts[i], in * factors[i]);
    set_factor(&m, "out_scale", factor(r, "ssm_out_multiplier"));
    if (lx_mixer_value(&m, "bias")->i >= 2) /* a bias of products */
        lx_hf_wrong(r, "mamba_proj_bias", "must be false: true is not supported");
    return m;
}

/* Queries, keys and values are made of a x, so scores have a twice. */
static lx_mixer_config read_softmax(lx_hf_reader *r, const lx_config *c)
{
    static const lx_hf_heads heads = {.heads = 32, .key_heads = 8};
    lx_mixer_config m = lx_hf_read_heads(r, c, &heads);
    lx_hf_read_rotation(r, &m, 10000, 1);
    double in = factor(r, "attention_in_multiplier");
    set_factor(&m, "scale", in * in * factor(r, "key_multiplier") / sqrt(m.d_key));
    set_factor(&m, "out_scale", in * factor(r, "attention_out_multiplier"));
    return m;
}

static void read_feed_forward(lx_hf_reader *r, lx_config *c)
{
    double factors[2];
    read_factors(r, "mlp_multipliers", 2, factors);
    set_factor(&c->feed_forwards[0], "gate_scale", factors[0]);
    set_factor(&c->feed_forwards[0], "out_scale", factors[1]);
    lx_hf_only_flag(r, "mlp_bias", false);
    lx_hf_only_flag(r, "mamba_use_mlp", true);
}

static void read_config(lx_hf_reader *r, lx_config *c)
{
    static const lx_hf_hybrid usual = {.names = &names,
                                       .eps = 1e-5,
                                       .d_model = 4096,
                                       .n_layers = 32,
                                       .d_ff = 14336,
                                       .vocab_size = 128000,
                                       .context = 8192};
    lx_hf_read_hybrid(r, c, &usual);
    lx_hf_only_flag(r, "projectors_bias", false);
    c->embedding_scale = (float)factor(r, "embedding_multiplier");
    c->head_scale = (float)factor(r, "lm_head_multiplier");
    read_feed_forward(r, c);
    lx_mixer_config mamba = read_mamba(r, c);
    c->beside = read_softmax(r, c);
    lx_hf_set_mixer(c, &mamba);
    /* Of training, and of ways to compute the same result. */
    lx_hf_ignore(r, "mlp_expansion_factor num_logits_to_keep time_step_floor time_step_max "
                    "time_step_min time_step_rank");
}

const lx_hf_kind lx_hf_falcon_h1 = {.model_types = {"falcon_h1"}, .read = read_config};
