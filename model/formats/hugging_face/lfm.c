/*
 * LFM2, LFM2.5, LFM2-MoE and LFM3 as transformers writes them (its Lfm2Config, Lfm2MoeConfig,
 * Lfm3Config): the mixers gated_conv and grouped_query with norms of queries and keys; gated_mlp;
 * RMSNorm. The key layer_types, in LFM2 also the older full_attn_idxs, names the layers of
 * grouped_query. LFM2-MoE has experts in all layers but the first num_dense_layers. LFM3 has norms
 * before and after every branch, a gate per head, and a window in layers of the type
 * sliding_attention. Their own names for the parts:
 *
 *     operator_norm, ffn_norm                          norm1, norm2
 *     post_operator_norm, post_ffn_norm                post_norm1, post_norm2
 *     conv.{in_proj,out_proj,conv}                     attn.in, attn.out, attn.conv
 *     self_attn.{q,k,v}_proj, {out,o}_proj, gate_proj  attn.q, attn.k, attn.v, attn.out, attn.g
 *     self_attn.{q,k}_{layernorm,norm}                 attn.q_norm, attn.k_norm
 *     feed_forward.{w1,w3,w2}                          ff.gate, ff.up, ff.down
 *     feed_forward.{gate,expert_bias}                  ff.router, ff.router.bias
 *     feed_forward.experts.I.{w1,w3,w2}                ff.experts.I.{gate,up,down}
 */
#include <stdio.h>
#include <string.h>

#include "model/formats/hugging_face/reader.h"

static const lx_tensor_name block_names[] = {
    {"norm1", "operator_norm"},
    {"norm2", "ffn_norm"},
    {"post_norm1", "post_operator_norm"},
    {"post_norm2", "post_ffn_norm"},
    {"ff.gate", "feed_forward.w1"},
    {"ff.up", "feed_forward.w3"},
    {"ff.down", "feed_forward.w2"},
    {"ff.router.bias", "feed_forward.expert_bias"},
    {"ff.router", "feed_forward.gate"},
    LX_HF_EXPERT_NAMES("feed_forward.experts", "w1", "w3", "w2"),
    {NULL, NULL},
};
static const lx_tensor_name conv_names[] = {
    {"attn.in", "conv.in_proj"},
    {"attn.out", "conv.out_proj"},
    {"attn.conv", "conv.conv"},
    {NULL, NULL},
};
static const lx_tensor_name lfm2_softmax[] = {
    {"attn.q_norm", "self_attn.q_layernorm"},
    {"attn.k_norm", "self_attn.k_layernorm"},
    {"attn.out", "self_attn.out_proj"},
    LX_HF_SOFTMAX_NAMES,
    {NULL, NULL},
};
static const lx_tensor_name lfm3_softmax[] = {
    {"attn.g", "self_attn.gate_proj"}, LX_HF_SOFTMAX_NAMES, {NULL, NULL}};

#define NAMES(SOFTMAX)                                                                             \
    {                                                                                              \
        .layers = "model.layers.", .embed = "model.embed_tokens",                                  \
        .final_norm = "model.embedding_norm", .tables = {                                          \
            {NULL, block_names},                                                                   \
            {"gated_conv", conv_names},                                                            \
            {"grouped_query", SOFTMAX}                                                             \
        }                                                                                          \
    }
static const struct lx_tensor_names lfm2_names = NAMES(lfm2_softmax),
                                    lfm3_names = NAMES(lfm3_softmax);

static lx_mixer_config read_conv(lx_hf_reader *r, const lx_config *c,
                                 const lx_mixer_config *softmax, int32_t taps)
{
    lx_mixer_config m = lx_hf_mixer(c, "gated_conv");
    m.norms = softmax->norms;
    m.n_heads = softmax->n_heads;
    m.d_key = m.d_value = softmax->d_key;
    lx_mixer_value(&m, "conv")->i = lx_hf_int(r, "conv_L_cache", 2, LX_CONV_MOST_TAPS, taps);
    lx_mixer_value(&m, "bias")->i = lx_hf_flag(r, "conv_bias", false);
    return m;
}

/* --- LFM2 --- */

/* intermediate_size, of which block_auto_adjust_ff_dim takes 2/3 times a factor, up to a multiple.
 */
static void adjust_d_ff(lx_hf_reader *r, lx_config *c)
{
    int32_t size = lx_hf_int(r, "block_ff_dim", 1, LX_MAX_D_FF, c->d_ff);
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
    c->feed_forwards[0].d_ff = c->d_ff;
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

/* All parts of LFM2 and LFM2-MoE but their feed-forward nets. The result is whether layer_types
   places the layers; otherwise all of them are of gated_conv. */
static bool read_common(lx_hf_reader *r, lx_config *c, int32_t d_model, int32_t d_ff,
                        lx_mixer_config *softmax)
{
    static const lx_hf_heads heads = {.heads = 32, .key_heads = 8, .norm = "rms"};
    const lx_hf_hybrid usual = {.names = &lfm2_names,
                                .eps_key = "norm_eps",
                                .eps = 1e-5,
                                .d_model = d_model,
                                .n_layers = 32,
                                .d_ff = d_ff,
                                .vocab_size = 65536,
                                .context = 128000,
                                .tied = true};
    lx_hf_read_hybrid(r, c, &usual);
    c->tied_head = lx_hf_flag(r, "tie_embedding", c->tied_head);
    *softmax = lx_hf_read_heads(r, c, &heads);
    lx_hf_read_rotation(r, softmax, 1000000, 1);
    lx_mixer_config conv = read_conv(r, c, softmax, 3);
    const lx_hf_layer_type types[] = {{{"conv"}, &conv}, {{"full_attention"}, softmax}};
    return lx_hf_place_layers(r, c, types, 2, 0);
}

static void read_lfm2(lx_hf_reader *r, lx_config *c)
{
    lx_mixer_config softmax;
    if (!read_common(r, c, 2560, 12288, &softmax))
        place_by_index(r, c, &softmax);
    adjust_d_ff(r, c);
    lx_hf_only_number(r, "num_heads", softmax.n_heads, "num_attention_heads");
    lx_hf_only_number(r, "block_dim", c->d_model, "hidden_size");
    lx_hf_only_number(r, "conv_dim", c->d_model, "hidden_size");
    lx_hf_only_number(r, "conv_dim_out", c->d_model, "hidden_size");
    lx_hf_only_flag(r, "block_use_swiglu", true);
    lx_hf_only_flag(r, "use_pos_enc", true);
    /* Of training; block_norm_eps is a second name of norm_eps, which transformers reads. */
    lx_hf_ignore(r, "block_mlp_init_scale block_norm_eps block_out_init_scale "
                    "block_use_xavier_init conv_use_xavier_init full_attn_idxs");
}

/* --- LFM2-MoE --- */

/* Every layer but the first ones has experts. */
static void read_experts(lx_hf_reader *r, lx_config *c)
{
    static const lx_hf_experts usual = {"num_experts", "moe_intermediate_size", 32, 4, 1792, NULL};
    lx_mixer_config dense = c->feed_forwards[0], experts = lx_hf_read_experts(r, c, &usual);
    int32_t n_dense = lx_hf_int(r, "num_dense_layers", 0, INT32_MAX, 2);
    lx_mixer_set_word(&experts, "router", "sigmoid");
    lx_mixer_value(&experts, "bias")->i = lx_hf_flag(r, "use_expert_bias", true);
    lx_mixer_value(&experts, "normalise")->i = lx_hf_flag(r, "norm_topk_prob", true);
    if (lx_mixer_value(&experts, "normalise")->i)
        lx_mixer_value(&experts, "eps")->f = 1e-6f;
    lx_mixer_value(&experts, "scale")->f =
        (float)lx_hf_number(r, "routed_scaling_factor", 1e-6, 1e6, 1);
    c->n_feed_forwards = c->n_layers;
    for (int32_t i = 0; i < c->n_layers; i++)
        c->feed_forwards[i] = i < n_dense ? dense : experts;
}

static void read_lfm2_moe(lx_hf_reader *r, lx_config *c)
{
    lx_mixer_config softmax;
    if (!read_common(r, c, 2048, 7168, &softmax))
        lx_hf_wrong(r, "layer_types", "must be there");
    read_experts(r, c);
    lx_hf_ignore(r, "output_router_logits"); /* of training */
}

/* --- LFM3 --- */

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

/* The types of layers in the order of the usual ones. */
enum { CONV, FULL, SLIDING, TYPES };

static int usual_type(int32_t layer)
{
    return layer % 4 == 2 ? FULL : layer % 4 == 0 && layer > 0 ? SLIDING : CONV;
}

static void read_lfm3(lx_hf_reader *r, lx_config *c)
{
    static const lx_hf_hybrid usual = {.names = &lfm3_names,
                                       .eps_key = "norm_eps",
                                       .eps = 1e-5,
                                       .d_model = 2048,
                                       .n_layers = 24,
                                       .d_ff = 7680,
                                       .vocab_size = 128000,
                                       .context = 128000,
                                       .tied = true};
    static const lx_hf_heads heads = {.heads = 16, .key_heads = 4, .norm = "rms"};
    lx_hf_read_hybrid(r, c, &usual);
    lx_mixer_config full = lx_hf_read_heads(r, c, &heads);
    bool around = lx_hf_flag(r, "use_sandwich_norm", true);
    full.norms = around ? LX_NORM_AROUND : LX_NORM_BEFORE;
    lx_mixer_set_word(&full, "gate", lx_hf_flag(r, "use_attention_gate", true) ? "head" : "none");
    lx_mixer_config sliding = full, conv = read_conv(r, c, &full, 7);
    lx_mixer_value(&sliding, "window")->i = lx_hf_int(r, "sliding_window", 1, 1 << 20, 256);
    read_rotations(r, &full, &sliding);
    const lx_hf_layer_type types[TYPES] = {
        {{"conv"}, &conv}, {{"full_attention"}, &full}, {{"sliding_attention"}, &sliding}};
    bool listed = lx_hf_place_layers(r, c, types, TYPES, 0);
    for (int32_t i = 0; i < c->n_layers && !listed; i++)
        c->mixers[i] = *types[usual_type(i)].mixer;
}

const lx_hf_kind lx_hf_lfm2 = {.model_types = {"lfm2"}, .read = read_lfm2};
const lx_hf_kind lx_hf_lfm2_moe = {.model_types = {"lfm2_moe"}, .read = read_lfm2_moe};
const lx_hf_kind lx_hf_lfm3 = {.model_types = {"lfm3"}, .read = read_lfm3};
