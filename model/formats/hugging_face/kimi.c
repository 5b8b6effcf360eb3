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
 * The norms of latents have an eps of their own, which no key says. transformers 5.24 also saves
 * mlp of the first layers as block_sparse_moe, a name that this reader does not know.
 */
#include <string.h>

#include "model/formats/hugging_face/reader.h"

#define LATENT_EPS 1e-6f
enum { FULL_EVERY = 4 }; /* of the usual layers, after layer 0 */

static const lx_tensor_name block_names[] = {
    {"norm1", "input_layernorm"},
    {"norm2", "post_attention_layernorm"},
    LX_HF_GATED_MLP_NAMES,
    {"ff.router.bias", "block_sparse_moe.gate.e_score_correction_bias"},
    {"ff.router", "block_sparse_moe.gate"},
    {"ff.shared.gate", "block_sparse_moe.shared_experts.gate_proj"},
    {"ff.shared.up", "block_sparse_moe.shared_experts.up_proj"},
    {"ff.shared.down", "block_sparse_moe.shared_experts.down_proj"},
    LX_HF_EXPERT_NAMES("block_sparse_moe.experts", "w1", "w3", "w2"),
    {NULL, NULL},
};
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

#define NAMES(MLA)                                                                                 \
    {                                                                                              \
        .layers = "model.layers.", .embed = "model.embed_tokens", .final_norm = "model.norm",      \
        .tables = {                                                                                \
            {NULL, block_names},                                                                   \
            {"kda", kda_names},                                                                    \
            {"mla", (MLA)}                                                                         \
        }                                                                                          \
    }
/* Without and with a latent of queries. */
static const struct lx_tensor_names names[2] = {NAMES(mla_names), NAMES(low_rank_names)};

/* --- the mixers --- */

/* The keys of the linear layers: of the object linear_attn_config, or of the root. */
static lx_mixer_config read_kda(lx_hf_reader *r, const lx_config *c)
{
    lx_mixer_config m = lx_hf_mixer(c, "kda");
    json_t *own = r->st == LX_OK ? json_object_get(r->root, "linear_attn_config") : NULL;
    m.n_heads = lx_hf_int(r, "linear_num_heads", 1, LX_MAX_HEADS, 32);
    m.d_key = lx_hf_int(r, "linear_head_dim", 1, LX_MAX_HEAD_SIZE, 128);
    int32_t taps = lx_hf_int(r, "linear_conv_kernel_dim", 2, LX_CONV_MOST_TAPS, 4);
    if (own != NULL && !json_is_null(own) && !json_is_object(own))
        lx_hf_wrong(r, "linear_attn_config", "must be an object or null");
    if (json_is_object(own)) {
        lx_hf_reader inner = *r;
        inner.root = own;
        inner.prefix = "linear_attn_config.";
        m.n_heads = lx_hf_int(&inner, "num_heads", 1, LX_MAX_HEADS, m.n_heads);
        m.d_key = lx_hf_int(&inner, "head_dim", 1, LX_MAX_HEAD_SIZE, m.d_key);
        taps = lx_hf_int(&inner, "short_conv_kernel_size", 2, LX_CONV_MOST_TAPS, taps);
        r->st = inner.st;
    }
    m.d_value = m.d_key;
    if ((int64_t)3 * m.n_heads * m.d_key > LX_MAX_D_FF)
        lx_hf_wrong(r, "linear_num_heads", "times the sizes of heads is more than 262144 columns");
    lx_mixer_value(&m, "conv")->i = taps;
    lx_mixer_value(&m, "rank")->i = m.d_key;
    lx_mixer_value(&m, "unbiased")->i = true;
    lx_mixer_value(&m, "eps")->f = c->norm_eps;
    return m;
}

static lx_mixer_config read_mla(lx_hf_reader *r, lx_config *c)
{
    lx_mixer_config m = lx_hf_mixer(c, "mla");
    m.n_heads = lx_hf_int(r, "num_attention_heads", 1, LX_MAX_HEADS, 32);
    int32_t own = lx_hf_int(r, "qk_nope_head_dim", 1, LX_HF_MAX_SOFTMAX_HEAD, 128);
    int32_t common = lx_hf_int(r, "qk_rope_head_dim", 1, LX_HF_MAX_SOFTMAX_HEAD, 64);
    m.d_key = own + common;
    m.d_value = lx_hf_int(r, "v_head_dim", 1, LX_HF_MAX_SOFTMAX_HEAD, 128);
    lx_mixer_value(&m, "common")->i = common;
    lx_mixer_value(&m, "rank")->i = lx_hf_int(r, "kv_lora_rank", 1, LX_MAX_WIDTH, 512);
    lx_mixer_value(&m, "q_rank")->i = lx_hf_int(r, "q_lora_rank", 1, LX_MAX_WIDTH, 0);
    lx_mixer_value(&m, "eps")->f = LATENT_EPS;
    if (m.d_key > LX_HF_MAX_SOFTMAX_HEAD ||
        (int64_t)m.n_heads * (2 * m.d_key + m.d_value) > LX_MAX_D_FF)
        lx_hf_wrong(r, "num_attention_heads", "gives heads that are too large");
    lx_hf_only_number(r, "num_key_value_heads", m.n_heads, "num_attention_heads");
    lx_hf_only_flag(r, "attention_bias", false);
    lx_hf_only_flag(r, "mla_use_nope", true); /* so no key of a rotation changes a result */
    lx_hf_ignore(r, "head_dim qk_head_dim rope_parameters rope_scaling rope_theta");
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
    json_t *own = r->st == LX_OK ? json_object_get(r->root, "linear_attn_config") : NULL;
    bool has_lists = json_object_get(own, listed[0].words[0]) != NULL ||
                     json_object_get(own, listed[1].words[0]) != NULL;
    bool placed = lx_hf_place_layers(r, c, types, 2, 0);
    if (!placed && has_lists)
        place_listed(r, c, own, listed);
    for (int32_t i = FULL_EVERY; i < c->n_layers && !placed && !has_lists; i += FULL_EVERY)
        c->mixers[i] = *mla;
    if (json_is_object(own)) {
        lx_hf_reader inner = *r;
        inner.root = own;
        inner.prefix = "linear_attn_config.";
        lx_hf_ignore(&inner, "full_attn_layers kda_layers");
        lx_hf_refuse_rest(&inner);
        r->st = inner.st;
    }
    lx_hf_ignore(r, "linear_attn_config");
}

/* --- feed-forward nets --- */

static lx_mixer_config read_experts(lx_hf_reader *r, const lx_config *c)
{
    static const lx_hf_experts usual = {"num_experts", "moe_intermediate_size", 256, 8,
                                        1024,          "num_experts_per_token"};
    static const lx_hf_router router = {"num_experts", "num_experts_per_token", "moe_renormalize",
                                        "num_expert_group", 2.446};
    lx_mixer_config m = lx_hf_read_experts(r, c, &usual);
    lx_hf_read_router(r, &m, &router);
    int64_t shared = (int64_t)m.d_ff * lx_hf_int(r, "num_shared_experts", 1, LX_MOST_EXPERTS, 1);
    if (shared > LX_MAX_D_FF)
        lx_hf_wrong(r, "num_shared_experts", "times moe_intermediate_size must be at most 262144");
    lx_mixer_value(&m, "shared")->i = shared <= LX_MAX_D_FF ? (int32_t)shared : m.d_ff;
    lx_hf_only_word(r, "moe_router_activation_func", "sigmoid");
    lx_hf_only_number(r, "moe_layer_freq", 1, "1");
    lx_hf_only_flag(r, "use_grouped_topk", true);
    return m;
}

/* The list says it of every layer, or only the first layers have none. */
static void place_experts(lx_hf_reader *r, lx_config *c, const lx_mixer_config *experts)
{
    const char *key = "mlp_layer_types";
    const lx_mixer_config dense = c->feed_forwards[0];
    const json_t *list = r->st == LX_OK ? json_object_get(r->root, key) : NULL;
    int32_t first = lx_hf_int(r, "first_k_dense_replace", 0, INT32_MAX, 1);
    bool ok = list == NULL || json_is_null(list) || json_array_size(list) == (size_t)c->n_layers;
    c->n_feed_forwards = c->n_layers;
    for (int32_t i = 0; i < c->n_layers && ok; i++) {
        const char *word = json_string_value(json_array_get(list, (size_t)i));
        bool is_dense =
            json_is_array(list) ? word != NULL && strcmp(word, "dense") == 0 : i < first;
        ok = !json_is_array(list) || is_dense || (word != NULL && strcmp(word, "sparse") == 0);
        c->feed_forwards[i] = is_dense ? dense : *experts;
    }
    if (!ok)
        lx_hf_wrong(r, key, "must say \"dense\" or \"sparse\" of every layer");
    lx_hf_ignore(r, key);
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
    place_experts(r, c, &experts);
    /* Of training, and of layers that guess tokens, which the library does not have. */
    lx_hf_ignore(r, "num_nextn_predict_layers output_router_logits pretraining_tp");
}

const lx_hf_kind lx_hf_kimi_linear = {.model_types = {"kimi_linear"}, .read = read_config};
