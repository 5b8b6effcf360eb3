/*
 * OLMo-Hybrid as its authors publish it for transformers' OlmoHybridConfig: the mixer
 * gated_deltanet in layers with norms before their branches, and grouped_query in layers with norms
 * after them; gated_mlp; RMSNorm. Queries and keys have norms over all heads at once. Their own
 * names for the parts:
 *
 *     attention_layer_norm, feedforward_layer_norm           norm1, norm2
 *     post_attention_layernorm, post_feedforward_layernorm   post_norm1, post_norm2
 *     linear_attn.{q,k,v,a,b,g,o}_proj, o_norm               attn.q, ..., attn.out, attn.norm
 *     linear_attn.{q,k,v}_conv1d                             attn.q_conv, attn.k_conv, attn.v_conv
 *     self_attn.{q,k,v,o}_proj, {q,k}_norm                   attn.q, ..., attn.out, attn.q_norm, ..
 *
 * Folders that transformers 5 saves again have other names of norms, and the convolutions in three
 * equal parts. They are refused by the names or shapes of these tensors.
 */
#include "model/formats/hugging_face/reader.h"

enum { EVERY = 4 };

static const lx_tensor_name linear_names[] = {
    {"norm1", "attention_layer_norm"},
    {"norm2", "feedforward_layer_norm"},
    {"attn.q", "linear_attn.q_proj"},
    {"attn.k", "linear_attn.k_proj"},
    {"attn.v", "linear_attn.v_proj"},
    {"attn.a", "linear_attn.a_proj"},
    {"attn.b", "linear_attn.b_proj"},
    {"attn.g", "linear_attn.g_proj"},
    {"attn.out", "linear_attn.o_proj"},
    {"attn.norm", "linear_attn.o_norm"},
    {"attn.q_conv", "linear_attn.q_conv1d"},
    {"attn.k_conv", "linear_attn.k_conv1d"},
    {"attn.v_conv", "linear_attn.v_conv1d"},
    {"attn", "linear_attn"},
    LX_HF_GATED_MLP_NAMES,
    {NULL, NULL},
};
static const lx_tensor_name softmax_names[] = {
    {"post_norm1", "post_attention_layernorm"},
    {"post_norm2", "post_feedforward_layernorm"},
    LX_HF_SOFTMAX_NAMES,
    LX_HF_GATED_MLP_NAMES,
    {NULL, NULL},
};

static const struct lx_tensor_names names = {
    .layers = "model.layers.",
    .embed = "model.embed_tokens",
    .final_norm = "model.norm",
    .tables = {{"gated_deltanet", linear_names}, {"grouped_query", softmax_names}}};

/* A rope_theta of null in rope_parameters turns nothing. */
static void read_positions(lx_hf_reader *r, lx_mixer_config *m)
{
    json_t *own = r->st == LX_OK ? json_object_get(r->root, "rope_parameters") : NULL;
    const json_t *theta = json_object_get(own, "rope_theta");
    const json_t *outer = r->st == LX_OK ? json_object_get(r->root, "rope_theta") : NULL;
    bool none = json_is_object(own) ? json_is_null(theta) : json_is_null(outer);
    if (!none) {
        lx_hf_read_rotation(r, m, 10000, 1);
        return;
    }
    lx_hf_only_null(r, "rope_scaling");
    lx_hf_ignore(r, "rope_parameters rope_theta");
}

static void read_config(lx_hf_reader *r, lx_config *c)
{
    static const lx_hf_hybrid usual = {.names = &names,
                                       .eps = 1e-6,
                                       .d_model = 3840,
                                       .n_layers = 32,
                                       .d_ff = 11008,
                                       .vocab_size = 100352,
                                       .context = 65536};
    static const lx_hf_heads heads = {.heads = 30, .norm = "row"};
    lx_hf_read_hybrid(r, c, &usual);
    lx_mixer_config softmax = lx_hf_read_heads(r, c, &heads);
    softmax.norms = LX_NORM_AFTER;
    read_positions(r, &softmax);
    lx_mixer_config linear = lx_hf_read_delta(r, c, softmax.n_heads, softmax.n_heads, 0);
    bool twice = lx_hf_flag(r, "linear_allow_neg_eigval", true);
    lx_mixer_set_word(&linear, "beta", twice ? "twice_sigmoid" : "sigmoid");
    lx_mixer_value(&linear, "eps")->f = 1e-5f;
    const lx_hf_layer_type types[] = {{{"linear_attention"}, &linear},
                                      {{"full_attention"}, &softmax}};
    /* At least the last layer is a softmax layer. */
    (void)lx_hf_place_layers(r, c, types, 2, c->n_layers < EVERY ? c->n_layers : EVERY);
    /* Of training. */
    lx_hf_ignore(r, "linear_a_log_max linear_a_log_min linear_dt_init_floor linear_dt_max "
                    "linear_dt_min");
}

const lx_hf_kind lx_hf_olmo_hybrid = {.model_types = {"olmo_hybrid"}, .read = read_config};
