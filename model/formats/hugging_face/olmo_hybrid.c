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
    {"attn.A_log", "linear_attn.A_log"},
    {"attn.dt_bias", "linear_attn.dt_bias"},
    LX_HF_GATED_MLP_NAMES,
    {NULL, NULL},
};
static const lx_tensor_name softmax_names[] = {
    {"post_norm1", "post_attention_layernorm"},
    {"post_norm2", "post_feedforward_layernorm"},
    {"attn.q", "self_attn.q_proj"},
    {"attn.k", "self_attn.k_proj"},
    {"attn.v", "self_attn.v_proj"},
    {"attn.out", "self_attn.o_proj"},
    {"attn.q_norm", "self_attn.q_norm"},
    {"attn.k_norm", "self_attn.k_norm"},
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

static void read_linear(lx_hf_reader *r, const lx_config *c, int32_t heads, lx_mixer_config *m)
{
    int32_t keys = lx_hf_int(r, "linear_num_key_heads", 1, LX_MAX_HEADS, heads);
    m->n_heads = lx_hf_int(r, "linear_num_value_heads", 1, LX_MAX_HEADS, heads);
    int32_t size = 3 * c->d_model / (4 * keys);
    m->d_key = lx_hf_int(r, "linear_key_head_dim", 1, LX_MAX_HEAD_SIZE, size);
    m->d_value = lx_hf_int(r, "linear_value_head_dim", 1, LX_MAX_HEAD_SIZE, 2 * m->d_key);
    bool fits = m->d_key >= 1 && m->d_key <= LX_MAX_HEAD_SIZE && m->d_value <= LX_MAX_HEAD_SIZE;
    if (m->n_heads % keys != 0)
        lx_hf_wrong(r, "linear_num_value_heads", "must be a multiple of linear_num_key_heads");
    if (!fits || (int64_t)2 * keys * m->d_key + (int64_t)m->n_heads * m->d_value > LX_MAX_D_FF) {
        lx_hf_wrong(r, "linear_num_value_heads", "gives heads that are too large or too small");
        m->d_key = m->d_value = 1;
    }
    lx_mixer_value(m, "key_heads")->i = keys;
    lx_mixer_value(m, "conv")->i = lx_hf_int(r, "linear_conv_kernel_dim", 2, LX_CONV_MOST_TAPS, 4);
    lx_mixer_set_word(m, "beta",
                      lx_hf_flag(r, "linear_allow_neg_eigval", true) ? "twice_sigmoid" : "sigmoid");
    lx_mixer_set_word(m, "gate", "silu");
    lx_mixer_value(m, "eps")->f = 1e-5f;
}

/* Without a list every fourth layer is a softmax layer, or at least the last one. */
static void place_layers(lx_hf_reader *r, lx_config *c, const lx_mixer_config *linear,
                         const lx_mixer_config *softmax)
{
    const lx_hf_layer_type types[] = {{{"linear_attention"}, linear},
                                      {{"full_attention"}, softmax}};
    if (lx_hf_place_layers(r, c, types, 2))
        return;
    for (int32_t i = EVERY - 1; i < c->n_layers; i += EVERY)
        c->mixers[i] = *softmax;
    if (c->n_layers < EVERY)
        c->mixers[c->n_layers - 1] = *softmax;
}

static void read_config(lx_hf_reader *r, lx_config *c)
{
    c->wiring = LX_WIRING_PRE;
    c->rms_norm = true;
    c->names = &names;
    c->tied_head = lx_hf_flag(r, "tie_word_embeddings", false);
    lx_hf_only_word(r, "hidden_act", "silu");
    lx_hf_only_flag(r, "attention_bias", false);
    c->norm_eps = (float)lx_hf_number(r, "rms_norm_eps", 1e-30, 1, 1e-6);
    c->d_model = lx_hf_int(r, "hidden_size", 1, LX_MAX_WIDTH, 3840);
    c->n_layers = lx_hf_int(r, "num_hidden_layers", 1, LX_MAX_LAYERS, 32);
    c->d_ff = lx_hf_int(r, "intermediate_size", 1, LX_MAX_D_FF, 11008);
    c->feed_forward = lx_hf_mixer(c, "gated_mlp");
    lx_mixer_config linear = lx_hf_mixer(c, "gated_deltanet");
    lx_mixer_config softmax = lx_hf_mixer(c, "grouped_query");
    softmax.norms = LX_NORM_AFTER;
    lx_hf_read_heads(r, c, &softmax, 30, 0);
    lx_mixer_set_word(&softmax, "norm", "row");
    lx_mixer_value(&softmax, "eps")->f = c->norm_eps;
    read_positions(r, &softmax);
    read_linear(r, c, softmax.n_heads, &linear);
    place_layers(r, c, &linear, &softmax);
    /* Of training. */
    lx_hf_ignore(r, "attention_dropout linear_a_log_max linear_a_log_min linear_dt_init_floor "
                    "linear_dt_max linear_dt_min");
    lx_hf_read_text(r, c, 100352, 65536);
}

const lx_hf_kind lx_hf_olmo_hybrid = {.model_types = {"olmo_hybrid"}, .read = read_config};
