/*
 * LFM2 and LFM2.5 as transformers writes them (its Lfm2Config): the mixers gated_conv and
 * grouped_query with norms of queries and keys; gated_mlp; RMSNorm. The key layer_types, or the
 * older full_attn_idxs, names the layers of grouped_query. Their own names for the parts:
 *
 *     operator_norm, ffn_norm                  norm1, norm2
 *     conv.{in_proj,out_proj,conv}             attn.in, attn.out, attn.conv
 *     self_attn.{q,k,v,out}_proj               attn.q, attn.k, attn.v, attn.out
 *     self_attn.{q,k}_layernorm                attn.q_norm, attn.k_norm
 *     feed_forward.{w1,w3,w2}                  ff.gate, ff.up, ff.down
 */
#include <stdio.h>

#include "model/formats/hugging_face/reader.h"

static const lx_tensor_name block_names[] = {
    {"norm1", "operator_norm"},   {"norm2", "ffn_norm"},          {"ff.gate", "feed_forward.w1"},
    {"ff.up", "feed_forward.w3"}, {"ff.down", "feed_forward.w2"}, {NULL, NULL},
};
static const lx_tensor_name conv_names[] = {
    {"attn.in", "conv.in_proj"},
    {"attn.out", "conv.out_proj"},
    {"attn.conv", "conv.conv"},
    {NULL, NULL},
};
static const lx_tensor_name softmax_names[] = {
    {"attn.q", "self_attn.q_proj"},
    {"attn.k", "self_attn.k_proj"},
    {"attn.v", "self_attn.v_proj"},
    {"attn.out", "self_attn.out_proj"},
    {"attn.q_norm", "self_attn.q_layernorm"},
    {"attn.k_norm", "self_attn.k_layernorm"},
    {NULL, NULL},
};

static const struct lx_tensor_names names = {
    .layers = "model.layers.",
    .embed = "model.embed_tokens",
    .final_norm = "model.embedding_norm",
    .tables = {{NULL, block_names}, {"gated_conv", conv_names}, {"grouped_query", softmax_names}}};

/* A key that repeats another key's number in the authors' own files. */
static void only_number(lx_hf_reader *r, const char *key, double value, const char *other)
{
    char what[64];
    if (lx_hf_number(r, key, 0, 1e30, value) == value)
        return;
    (void)snprintf(what, sizeof what, "must be equal to %s", other);
    lx_hf_wrong(r, key, what);
}

/* intermediate_size, of which block_auto_adjust_ff_dim takes 2/3 times a factor, up to a multiple.
 */
static void read_d_ff(lx_hf_reader *r, lx_config *c)
{
    int32_t size = lx_hf_int(r, "intermediate_size", 1, LX_MAX_D_FF, 12288);
    size = lx_hf_int(r, "block_ff_dim", 1, LX_MAX_D_FF, size);
    bool adjusts = lx_hf_flag(r, "block_auto_adjust_ff_dim", true);
    double factor = lx_hf_number(r, "block_ffn_dim_multiplier", 1e-3, 64, 1);
    int32_t multiple = lx_hf_int(r, "block_multiple_of", 1, LX_MAX_D_FF, 256);
    int64_t part = 2 * (int64_t)size / 3, all = (int64_t)(factor * (double)part);
    c->d_ff = size;
    if (adjusts)
        c->d_ff = (int32_t)((all + multiple - 1) / multiple * multiple);
    if (c->d_ff < 1 || all > LX_MAX_D_FF || c->d_ff > LX_MAX_D_FF) {
        lx_hf_wrong(r, "block_ffn_dim_multiplier",
                    "gives no feed-forward net of 1 to 262144 columns");
        c->d_ff = 1;
    }
}

static void read_softmax(lx_hf_reader *r, const lx_config *c, lx_mixer_config *m)
{
    lx_hf_read_heads(r, c, m, 32, 8);
    only_number(r, "num_heads", m->n_heads, "num_attention_heads");
    lx_mixer_set_word(m, "norm", "rms");
    lx_mixer_value(m, "eps")->f = c->norm_eps;
    lx_hf_read_rotation(r, m, 1000000, 1);
}

/* The older list of the softmax layers; without any list all layers are such layers. */
static void place_by_index(lx_hf_reader *r, lx_config *c, const lx_mixer_config *softmax)
{
    const json_t *listed = r->st == LX_OK ? json_object_get(r->root, "full_attn_idxs") : NULL;
    bool all = listed == NULL || json_is_null(listed), ok = all || json_is_array(listed);
    size_t n = all ? (size_t)c->n_layers : json_array_size(listed);
    for (size_t i = 0; ok && i < n; i++) {
        const json_t *layer = json_array_get(listed, i);
        json_int_t at = all ? (json_int_t)i : json_integer_value(layer);
        ok = (all || json_is_integer(layer)) && at >= 0 && at < c->n_layers;
        if (ok)
            c->mixers[at] = *softmax;
    }
    if (!ok)
        lx_hf_wrong(r, "full_attn_idxs", "must be a list of layers, counted from 0");
}

static void read_layers(lx_hf_reader *r, lx_config *c)
{
    lx_mixer_config conv = lx_hf_mixer(c, "gated_conv"), softmax = lx_hf_mixer(c, "grouped_query");
    read_softmax(r, c, &softmax);
    conv.n_heads = softmax.n_heads;
    conv.d_key = conv.d_value = softmax.d_key;
    lx_mixer_value(&conv, "conv")->i = lx_hf_int(r, "conv_L_cache", 2, LX_CONV_MOST_TAPS, 3);
    lx_mixer_value(&conv, "bias")->i = lx_hf_flag(r, "conv_bias", false);
    const lx_hf_layer_type types[] = {{{"conv"}, &conv}, {{"full_attention"}, &softmax}};
    if (!lx_hf_place_layers(r, c, types, 2))
        place_by_index(r, c, &softmax);
    lx_hf_ignore(r, "full_attn_idxs");
}

static void read_config(lx_hf_reader *r, lx_config *c)
{
    c->wiring = LX_WIRING_PRE;
    c->rms_norm = true;
    c->names = &names;
    c->tied_head = lx_hf_flag(r, "tie_word_embeddings", true);
    c->tied_head = lx_hf_flag(r, "tie_embedding", c->tied_head);
    c->norm_eps = (float)lx_hf_number(r, "norm_eps", 1e-30, 1, 1e-5);
    c->d_model = lx_hf_int(r, "hidden_size", 1, LX_MAX_WIDTH, 2560);
    c->n_layers = lx_hf_int(r, "num_hidden_layers", 1, LX_MAX_LAYERS, 32);
    read_d_ff(r, c);
    c->feed_forward = lx_hf_mixer(c, "gated_mlp");
    read_layers(r, c);
    only_number(r, "block_dim", c->d_model, "hidden_size");
    only_number(r, "conv_dim", c->d_model, "hidden_size");
    only_number(r, "conv_dim_out", c->d_model, "hidden_size");
    lx_hf_only_flag(r, "block_use_swiglu", true);
    lx_hf_only_flag(r, "use_pos_enc", true);
    /* Of training; block_norm_eps is a second name of norm_eps, which transformers reads. */
    lx_hf_ignore(r, "block_mlp_init_scale block_norm_eps block_out_init_scale "
                    "block_use_xavier_init conv_use_xavier_init");
    lx_hf_read_text(r, c, 65536, 128000);
}

const lx_hf_kind lx_hf_lfm2 = {.model_types = {"lfm2"}, .read = read_config};
