/*
 * Kimi-Linear as its authors publish it (KimiLinearConfig of transformers), with RMSNorm. Layers
 * have the mixer kda, or mla where layer_types or linear_attn_config names them. The first layers
 * have gated_mlp, then come experts with one net for all tokens. Their own names for the parts:
 *
 *     input_layernorm, post_attention_layernorm        norm1, norm2
 *     self_attn.{q,k,v,b,o}_proj                       attn.q, attn.k, attn.v, attn.b, attn.out
 *     self_attn.{q,k,v}_conv1d, o_norm                 attn.q_conv, .., attn.norm
 *     self_attn.{f_a,f_b,g_a,g_b}_proj                 attn.f1, attn.f2, attn.g1, attn.g2
 *     self_attn.{q_a_proj,q_a_layernorm,q_b_proj}      attn.q_a, attn.q_norm, attn.q
 *     self_attn.{kv_a_proj_with_mqa,kv_a_layernorm}    attn.kv_a, attn.kv_norm
 *     self_attn.kv_b_proj                              attn.kv_b
 *     block_sparse_moe.gate                            ff.router
 *     block_sparse_moe.gate.e_score_correction_bias    ff.router.bias
 *     block_sparse_moe.experts.I.{w1,w3,w2}            ff.experts.I.gate, .up, .down
 *     block_sparse_moe.shared_experts.{gate,..}_proj   ff.shared.gate, .up, .down
 *
 * transformers 5.24 saves mlp of the first layers as block_sparse_moe.
 */
#include <string.h>

#include "model/formats/hugging_face/reader.h"

enum { FULL_EVERY = 4 }; /* of the usual layers, after layer 0 */

#define BLOCK_NAMES                                                                                \
    {"norm1", "input_layernorm"}, {"norm2", "post_attention_layernorm"},                           \
        {"ff.router.bias", "block_sparse_moe.gate.e_score_correction_bias"},                       \
        {"ff.router", "block_sparse_moe.gate"},                                                    \
        {"ff.shared.gate", "block_sparse_moe.shared_experts.gate_proj"},                           \
        {"ff.shared.up", "block_sparse_moe.shared_experts.up_proj"},                               \
        {"ff.shared.down", "block_sparse_moe.shared_experts.down_proj"},                           \
        LX_HF_EXPERT_NAMES("block_sparse_moe.experts", "w1", "w3", "w2")
static const lx_tensor_name block_names[] = {BLOCK_NAMES, LX_HF_GATED_MLP_NAMES, {NULL, NULL}};
static const lx_tensor_name saved_block_names[] = {BLOCK_NAMES,
                                                   {"ff.gate", "block_sparse_moe.gate_proj"},
                                                   {"ff.up", "block_sparse_moe.up_proj"},
                                                   {"ff.down", "block_sparse_moe.down_proj"},
                                                   {NULL, NULL}};
static const lx_tensor_name kda_names[] = {
    {"attn.b", "self_attn.b_proj"},
    {"attn.q_conv", "self_attn.q_conv1d"},
    {"attn.k_conv", "self_attn.k_conv1d"},
    {"attn.v_conv", "self_attn.v_conv1d"},
    {"attn.f1", "self_attn.f_a_proj"},
    {"attn.f2", "self_attn.f_b_proj"},
    {"attn.g1", "self_attn.g_a_proj"},
    {"attn.g2", "self_attn.g_b_proj"},
    {"attn.norm", "self_attn.o_norm"},
    LX_HF_SOFTMAX_NAMES,
    {NULL, NULL},
};
#define MLA_NAMES(QUERIES)                                                                         \
    {"attn.q", "self_attn." QUERIES}, {"attn.q_a", "self_attn.q_a_proj"},                          \
        {"attn.q_norm", "self_attn.q_a_layernorm"}, {"attn.kv_a", "self_attn.kv_a_proj_with_mqa"}, \
        {"attn.kv_norm", "self_attn.kv_a_layernorm"}, {"attn.kv_b", "self_attn.kv_b_proj"},        \
        {"attn.out", "self_attn.o_proj"},                                                          \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }
static const lx_tensor_name mla_names[] = {MLA_NAMES("q_proj")};
static const lx_tensor_name low_rank_names[] = {MLA_NAMES("q_b_proj")};

#define NAMES(BLOCK, MLA, OTHER)                                                                   \
    {                                                                                              \
        .layers = "model.layers.", .embed = "model.embed_tokens", .final_norm = "model.norm",      \
        .other = (OTHER), .tables = {                                                              \
            {NULL, (BLOCK)},                                                                       \
            {"kda", kda_names},                                                                    \
            {"mla", (MLA)}                                                                         \
        }                                                                                          \
    }
/* Without and with a latent of queries. */
static const struct lx_tensor_names saved_names[2] = {
    NAMES(saved_block_names, mla_names, NULL), NAMES(saved_block_names, low_rank_names, NULL)};
static const struct lx_tensor_names names[2] = {
    NAMES(block_names, mla_names, &saved_names[0]),
    NAMES(block_names, low_rank_names, &saved_names[1])};

/* --- the mixers --- */

/* A reader of the object linear_attn_config, which finds no key where there is none. The caller
   takes over its status. */
static lx_hf_reader own_reader(lx_hf_reader *r)
{
    lx_hf_reader own = *r;
    json_t *object = r->st == LX_OK ? json_object_get(r->root, "linear_attn_config") : NULL;
    own.root = json_is_object(object) ? object : NULL;
    own.prefix = "linear_attn_config.";
    return own;
}

/* The keys of the linear layers: of the object linear_attn_config, or of the root. */
static lx_mixer_config read_kda(lx_hf_reader *r, const lx_config *c)
{
    const json_t *object = r->st == LX_OK ? json_object_get(r->root, "linear_attn_config") : NULL;
    int32_t heads = lx_hf_int(r, "linear_num_heads", 1, LX_MAX_HEADS, 32);
    int32_t size = lx_hf_int(r, "linear_head_dim", 1, LX_MAX_HEAD_SIZE, 128);
    int32_t taps = lx_hf_int(r, "linear_conv_kernel_dim", 2, LX_CONV_MOST_TAPS, 4);
    if (object != NULL && !json_is_null(object) && !json_is_object(object))
        lx_hf_wrong(r, "linear_attn_config", "must be an object or null");
    lx_hf_reader own = own_reader(r);
    heads = lx_hf_int(&own, "num_heads", 1, LX_MAX_HEADS, heads);
    size = lx_hf_int(&own, "head_dim", 1, LX_MAX_HEAD_SIZE, size);
    taps = lx_hf_int(&own, "short_conv_kernel_size", 2, LX_CONV_MOST_TAPS, taps);
    r->st = own.st;
    return lx_hf_unbiased_kda(r, c, heads, size, taps, size);
}

static lx_mixer_config read_mla(lx_hf_reader *r, lx_config *c)
{
    lx_mixer_config m = lx_hf_read_mla(r, c);
    lx_hf_only_flag(r, "mla_use_nope", true); /* so no key of a rotation changes a result */
    lx_hf_ignore(r, "head_dim rope_parameters rope_scaling rope_theta");
    c->names = &names[lx_mixer_value(&m, "q_rank")->i > 0 ? 1 : 0];
    return m;
}

/* --- the place of each type of layers --- */

/* Layers of linear_attn_config count from 1. Each must be in one of both lists. */
static void place_listed(lx_hf_reader *r, lx_config *c, const json_t *lists,
                         const lx_hf_layer_type *types)
{
    uint8_t places[LX_MAX_LAYERS] = {0};
    bool ok = true;
    for (int32_t k = 0; k < 2; k++) {
        const json_t *list = json_object_get(lists, types[k].words[0]);
        for (size_t i = 0; ok && i < json_array_size(list); i++) {
            json_int_t layer = json_integer_value(json_array_get(list, i));
            ok = layer >= 1 && layer <= c->n_layers && places[layer - 1]++ == 0;
            if (ok)
                c->mixers[layer - 1] = *types[k].mixer;
        }
    }
    if (!ok || memchr(places, 0, (size_t)c->n_layers) != NULL)
        lx_hf_wrong(r, "linear_attn_config",
                    "must have each layer, counted from 1, in kda_layers or full_attn_layers");
}

static void place_layers(lx_hf_reader *r, lx_config *c, const lx_mixer_config *kda,
                         const lx_mixer_config *mla)
{
    const lx_hf_layer_type types[] = {{{"linear_attention"}, kda}, {{"full_attention"}, mla}};
    const lx_hf_layer_type listed[] = {{{"kda_layers"}, kda}, {{"full_attn_layers"}, mla}};
    bool placed = lx_hf_place_layers(r, c, types, 2, 0);
    const json_t *lists = own_reader(r).root;
    bool has_lists = json_object_get(lists, listed[0].words[0]) != NULL ||
                     json_object_get(lists, listed[1].words[0]) != NULL;
    if (!placed && has_lists)
        place_listed(r, c, lists, listed);
    for (int32_t i = FULL_EVERY; i < c->n_layers && !placed && !has_lists; i += FULL_EVERY)
        c->mixers[i] = *mla;
    lx_hf_reader own = own_reader(r);
    lx_hf_ignore(&own, "full_attn_layers kda_layers");
    lx_hf_refuse_rest(&own);
    r->st = own.st;
    lx_hf_ignore(r, "linear_attn_config");
}

/* --- feed-forward nets --- */

static lx_mixer_config read_experts(lx_hf_reader *r, const lx_config *c)
{
    static const lx_hf_experts usual = {"num_experts", "moe_intermediate_size", 256, 8,
                                        1024,          "num_experts_per_token"};
    static const lx_hf_router router = {.count_key = "num_experts",
                                        .active_key = "num_experts_per_token",
                                        .normalise = "moe_renormalize",
                                        .groups = "num_expert_group",
                                        .scale = 2.446};
    lx_mixer_config m = lx_hf_read_experts(r, c, &usual);
    lx_hf_read_router(r, &m, &router);
    lx_hf_read_shared_net(r, &m);
    lx_hf_only_word(r, "moe_router_activation_func", "sigmoid");
    lx_hf_only_number(r, "moe_layer_freq", 1, "1");
    lx_hf_only_flag(r, "use_grouped_topk", true);
    return m;
}

static void read_config(lx_hf_reader *r, lx_config *c)
{
    const lx_hf_hybrid usual = {.names = &names[0],
                                .eps = 1e-5,
                                .d_model = 2304,
                                .n_layers = 27,
                                .d_ff = 9216,
                                .vocab_size = 163840,
                                .context = lx_hf_int(r, "model_max_length", 2, INT32_MAX, 1 << 20)};
    lx_hf_read_hybrid(r, c, &usual);
    lx_mixer_config kda = read_kda(r, c), mla = read_mla(r, c), experts = read_experts(r, c);
    place_layers(r, c, &kda, &mla);
    lx_hf_place_experts(r, c, &experts, 1);
    c->n_further_layers = lx_hf_int(r, "num_nextn_predict_layers", 0, LX_MAX_LAYERS, 0);
    lx_hf_ignore(r, "output_router_logits pretraining_tp"); /* of training */
}

const lx_hf_kind lx_hf_kimi_linear = {.model_types = {"kimi_linear"}, .read = read_config};
