/*
 * LFM3 as transformers writes it (its Lfm3Config): the mixers gated_conv and grouped_query;
 * gated_mlp; RMSNorm before and after every branch. Attention has norms of queries and keys, a gate
 * per head, and a window in layers of the type sliding_attention. Their own names for the parts:
 *
 *     operator_norm, ffn_norm                          norm1, norm2
 *     post_operator_norm, post_ffn_norm                post_norm1, post_norm2
 *     conv.{in_proj,out_proj,conv}                     attn.in, attn.out, attn.conv
 *     self_attn.{q,k,v,o,gate}_proj, {q,k}_norm        attn.q, ..., attn.g, attn.q_norm,
 * attn.k_norm feed_forward.{w1,w3,w2}                          ff.gate, ff.up, ff.down
 */
#include <string.h>

#include "model/formats/hugging_face/reader.h"

static const lx_tensor_name block_names[] = {
    {"norm1", "operator_norm"},           {"norm2", "ffn_norm"},
    {"post_norm1", "post_operator_norm"}, {"post_norm2", "post_ffn_norm"},
    {"ff.gate", "feed_forward.w1"},       {"ff.up", "feed_forward.w3"},
    {"ff.down", "feed_forward.w2"},       {NULL, NULL},
};
static const lx_tensor_name conv_names[] = {
    {"attn.in", "conv.in_proj"},
    {"attn.out", "conv.out_proj"},
    {"attn.conv", "conv.conv"},
    {NULL, NULL},
};
static const lx_tensor_name softmax_names[] = {
    {"attn.q", "self_attn.q_proj"},      {"attn.k", "self_attn.k_proj"},
    {"attn.v", "self_attn.v_proj"},      {"attn.g", "self_attn.gate_proj"},
    {"attn.out", "self_attn.o_proj"},    {"attn.q_norm", "self_attn.q_norm"},
    {"attn.k_norm", "self_attn.k_norm"}, {NULL, NULL},
};

static const struct lx_tensor_names names = {
    .layers = "model.layers.",
    .embed = "model.embed_tokens",
    .final_norm = "model.embedding_norm",
    .tables = {{NULL, block_names}, {"gated_conv", conv_names}, {"grouped_query", softmax_names}}};

/* How a type of layers turns queries and keys, where the config does not say it. */
typedef struct rotation {
    const char *type, *prefix;
    double base, share;
} rotation;

/* "default" turns all columns of a head, "proportional" the share of its pairs that
   partial_rotary_factor names. */
static void read_rotation(lx_hf_reader *r, json_t *all, const rotation *usual, lx_mixer_config *m)
{
    json_t *own = json_object_get(all, usual->type);
    lx_hf_reader inner = *r;
    inner.root = own;
    inner.prefix = usual->prefix;
    if (all != NULL && !json_is_object(own)) {
        lx_hf_wrong(r, "rope_parameters", "must have an object for every type of attention");
        return;
    }
    const char *word = json_string_value(json_object_get(own, "rope_type"));
    bool part = word != NULL ? strcmp(word, "proportional") == 0 : own == NULL && usual->share < 1;
    if (part)
        lx_hf_ignore(&inner, "rope_type");
    lx_hf_only_word(&inner, "rope_type", "default");
    lx_hf_read_base(&inner, m, "rope_theta", own != NULL ? 1000000 : usual->base);
    double share = lx_hf_number(&inner, "partial_rotary_factor", 1e-3, 1,
                                part && own == NULL ? usual->share : 1);
    if (!part && share != 1)
        lx_hf_wrong(&inner, "partial_rotary_factor", "must be 1: nothing else is supported");
    int32_t pairs = (int32_t)(share * m->d_key / 2);
    if (m->d_key % 2 != 0 || pairs < 1)
        lx_hf_wrong(&inner, "partial_rotary_factor", "times head_dim must be at least 2");
    else if (pairs < m->d_key / 2)
        lx_mixer_value(m, "turning")->i = pairs;
    lx_hf_refuse_rest(&inner);
    r->st = inner.st;
}

static void read_rotations(lx_hf_reader *r, lx_mixer_config *full, lx_mixer_config *sliding)
{
    static const rotation usual_full = {"full_attention", "rope_parameters.full_attention.",
                                        1000000, 0.5};
    static const rotation usual_sliding = {"sliding_attention",
                                           "rope_parameters.sliding_attention.", 10000, 1};
    json_t *all = r->st == LX_OK ? json_object_get(r->root, "rope_parameters") : NULL;
    all = json_is_null(all) ? NULL : all;
    lx_hf_only_null(r, "rope_scaling");
    read_rotation(r, all, &usual_full, full);
    read_rotation(r, all, &usual_sliding, sliding);
    lx_hf_ignore(r, "rope_parameters");
}

static void read_softmax(lx_hf_reader *r, const lx_config *c, lx_mixer_config *m)
{
    lx_hf_read_heads(r, c, m, 16, 4);
    lx_mixer_set_word(m, "norm", "rms");
    lx_mixer_value(m, "eps")->f = c->norm_eps;
    lx_hf_only_flag(r, "attention_bias", false);
    lx_mixer_set_word(m, "gate", lx_hf_flag(r, "use_attention_gate", true) ? "head" : "none");
}

/* The types of layers in the order of the usual ones. */
enum { CONV, FULL, SLIDING, TYPES };

static int usual_type(int32_t layer)
{
    return layer % 4 == 2 ? FULL : layer % 4 == 0 && layer > 0 ? SLIDING : CONV;
}

static void read_layers(lx_hf_reader *r, lx_config *c)
{
    lx_mixer_config conv = lx_hf_mixer(c, "gated_conv"), full = lx_hf_mixer(c, "grouped_query");
    bool around = lx_hf_flag(r, "use_sandwich_norm", true);
    conv.norms = full.norms = around ? LX_NORM_AROUND : LX_NORM_BEFORE;
    read_softmax(r, c, &full);
    lx_mixer_config sliding = full;
    lx_mixer_value(&sliding, "window")->i = lx_hf_int(r, "sliding_window", 1, 1 << 20, 256);
    read_rotations(r, &full, &sliding);
    conv.n_heads = full.n_heads;
    conv.d_key = conv.d_value = full.d_key;
    lx_mixer_value(&conv, "conv")->i = lx_hf_int(r, "conv_L_cache", 2, LX_CONV_MOST_TAPS, 7);
    lx_mixer_value(&conv, "bias")->i = lx_hf_flag(r, "conv_bias", false);
    const lx_hf_layer_type types[TYPES] = {
        {{"conv"}, &conv}, {{"full_attention"}, &full}, {{"sliding_attention"}, &sliding}};
    bool listed = lx_hf_place_layers(r, c, types, TYPES);
    for (int32_t i = 0; i < c->n_layers && !listed; i++)
        c->mixers[i] = *types[usual_type(i)].mixer;
}

static void read_config(lx_hf_reader *r, lx_config *c)
{
    c->wiring = LX_WIRING_PRE;
    c->rms_norm = true;
    c->names = &names;
    c->tied_head = lx_hf_flag(r, "tie_word_embeddings", true);
    c->norm_eps = (float)lx_hf_number(r, "norm_eps", 1e-30, 1, 1e-5);
    c->d_model = lx_hf_int(r, "hidden_size", 1, LX_MAX_WIDTH, 2048);
    c->n_layers = lx_hf_int(r, "num_hidden_layers", 1, LX_MAX_LAYERS, 24);
    c->d_ff = lx_hf_int(r, "intermediate_size", 1, LX_MAX_D_FF, 7680);
    c->feed_forward = lx_hf_mixer(c, "gated_mlp");
    read_layers(r, c);
    lx_hf_ignore(r, "attention_dropout");
    lx_hf_read_text(r, c, 128000, 128000);
}

const lx_hf_kind lx_hf_lfm3 = {.model_types = {"lfm3"}, .read = read_config};
