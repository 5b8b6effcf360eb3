/*
 * Ling 3 as its authors publish it, or as transformers saves it again (BailingHybridConfig), with
 * RMSNorm. Layers have the mixer kda, without pairs and with a bound of the decay; the last layer
 * of each group has mla, with rotation and a gate per head. The first layers have gated_mlp, then
 * come experts with one net for all tokens. Their own names for the parts:
 *
 *     word_embeddings                                  embed.token
 *     input_layernorm, post_attention_layernorm        norm1, norm2
 *     attention.{q,k,v,b,f,g,o}_proj                   attn.q, attn.k, .., attn.out
 *     attention.{q,k,v}_conv1d, o_norm                 attn.q_conv, .., attn.norm
 *     attention.{q_a_proj,q_a_layernorm,q_b_proj}      attn.q_a, attn.q_norm, attn.q
 *     attention.{kv_a_proj_with_mqa,kv_a_layernorm}    attn.kv_a, attn.kv_norm
 *     attention.{kv_b_proj,g_proj,dense}               attn.kv_b, attn.g, attn.out
 *     mlp.gate, mlp.gate.expert_bias                   ff.router, ff.router.bias
 *     mlp.experts.I.{gate,up,down}_proj                ff.experts.I.gate, .up, .down
 *     mlp.shared_experts.{gate,up,down}_proj           ff.shared.gate, .up, .down
 *
 * transformers 5.24 saves o_proj of kda as dense. Its config has other names of some keys, and its
 * head_dim is qk_rope_head_dim. Layers after the last one guess tokens and are not used. Ling 2.5
 * and 2.6 have the same model_type and other layers; their architectures are refused.
 */
#include <string.h>

#include "model/formats/hugging_face/reader.h"

static const lx_tensor_name block_names[] = {
    {"norm1", "input_layernorm"},
    {"norm2", "post_attention_layernorm"},
    LX_HF_GATED_MLP_NAMES,
    {"ff.router.bias", "mlp.gate.expert_bias"},
    {"ff.router", "mlp.gate"},
    {"ff.shared.gate", "mlp.shared_experts.gate_proj"},
    {"ff.shared.up", "mlp.shared_experts.up_proj"},
    {"ff.shared.down", "mlp.shared_experts.down_proj"},
    LX_HF_EXPERT_NAMES("mlp.experts", "gate_proj", "up_proj", "down_proj"),
    {NULL, NULL},
};
#define KDA_NAMES(OUT)                                                                             \
    {"attn.q", "attention.q_proj"}, {"attn.k", "attention.k_proj"},                                \
        {"attn.v", "attention.v_proj"}, {"attn.b", "attention.b_proj"},                            \
        {"attn.f", "attention.f_proj"}, {"attn.g", "attention.g_proj"},                            \
        {"attn.q_conv", "attention.q_conv1d"}, {"attn.k_conv", "attention.k_conv1d"},              \
        {"attn.v_conv", "attention.v_conv1d"}, {"attn.norm", "attention.o_norm"},                  \
        {"attn.out", "attention." OUT}, {"attn", "attention"},                                     \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }
static const lx_tensor_name kda_names[] = {KDA_NAMES("o_proj")};
static const lx_tensor_name saved_kda_names[] = {KDA_NAMES("dense")};
#define MLA_NAMES(QUERIES)                                                                         \
    {"attn.q", "attention." QUERIES}, {"attn.q_a", "attention.q_a_proj"},                          \
        {"attn.q_norm", "attention.q_a_layernorm"}, {"attn.kv_a", "attention.kv_a_proj_with_mqa"}, \
        {"attn.kv_norm", "attention.kv_a_layernorm"}, {"attn.kv_b", "attention.kv_b_proj"},        \
        {"attn.g", "attention.g_proj"}, {"attn.out", "attention.dense"},                           \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }
static const lx_tensor_name mla_names[] = {MLA_NAMES("q_proj")};
static const lx_tensor_name low_rank_names[] = {MLA_NAMES("q_b_proj")};

#define NAMES(KDA, MLA, OTHER)                                                                     \
    {                                                                                              \
        .layers = "model.layers.", .embed = "model.word_embeddings", .final_norm = "model.norm",   \
        .other = (OTHER), .tables = {                                                              \
            {NULL, block_names},                                                                   \
            {"kda", (KDA)},                                                                        \
            {"mla", (MLA)}                                                                         \
        }                                                                                          \
    }
/* Without and with a latent of queries. */
static const struct lx_tensor_names saved_names[2] = {NAMES(saved_kda_names, mla_names, NULL),
                                                      NAMES(saved_kda_names, low_rank_names, NULL)};
static const struct lx_tensor_names names[2] = {NAMES(kda_names, mla_names, &saved_names[0]),
                                                NAMES(kda_names, low_rank_names, &saved_names[1])};

/* --- the mixers --- */

static lx_mixer_config read_mla(lx_hf_reader *r, lx_config *c)
{
    lx_mixer_config m = lx_hf_read_mla(r, c);
    int32_t common = lx_mixer_value(&m, "common")->i;
    lx_hf_read_rotation(r, &m, 6e6, 0);
    lx_mixer_set_word(&m, "gate", "head");
    if (common % 2 != 0)
        lx_hf_wrong(r, "qk_rope_head_dim", "must be even");
    lx_hf_only_number(r, "rotary_dim", common, "qk_rope_head_dim");
    lx_hf_only_flag(r, "rope_interleave", true);
    lx_hf_only_flag(r, "use_mla_nope", false);
    lx_hf_only_word(r, "gated_attention_proj_granularity_type", "head_wise");
    c->names = &names[lx_mixer_value(&m, "q_rank")->i > 0 ? 1 : 0];
    return m;
}

/* Heads of the size head_dim, or in files of transformers linear_head_dim next to a head_dim that
   is the rotated part of a key. */
static lx_mixer_config read_kda(lx_hf_reader *r, const lx_config *c, const lx_mixer_config *mla)
{
    lx_mixer_config all = *mla;
    int32_t common = lx_mixer_value(&all, "common")->i;
    int32_t heads = lx_hf_int(r, "linear_num_heads", 1, LX_MAX_HEADS, mla->n_heads);
    int32_t usual = lx_hf_int(r, "head_dim", 1, LX_MAX_HEAD_SIZE, 128);
    int32_t size = lx_hf_int(r, "linear_head_dim", 1, LX_MAX_HEAD_SIZE, usual);
    int32_t taps = lx_hf_int(r, lx_hf_either(r, "short_conv_kernel_size", "linear_conv_kernel_dim"),
                             2, LX_CONV_MOST_TAPS, 4);
    if (usual != size && usual != common)
        lx_hf_wrong(r, "head_dim", "must be equal to linear_head_dim or qk_rope_head_dim");
    lx_mixer_config m = lx_hf_unbiased_kda(r, c, heads, size, taps, 0);
    double bound = -lx_hf_number(r, "kda_lower_bound", -1e6, -1e-6, -5);
    if (lx_hf_flag(r, "kda_safe_gate", true))
        lx_mixer_value(&m, "bound")->f = (float)bound;
    int32_t key_heads = lx_hf_int(r, "num_kv_heads_for_linear_attn", 0, LX_MAX_HEADS, 0);
    if (key_heads != 0 && key_heads != heads)
        lx_hf_wrong(r, "num_kv_heads_for_linear_attn", "must be 0 or equal to num_attention_heads");
    lx_hf_only_flag(r, "no_kda_lora", true);
    lx_hf_only_flag(r, "use_kda_lora", false);
    lx_hf_only_flag(r, "linear_silu", true);
    lx_hf_only_flag(r, "use_qk_norm", true);
    lx_hf_only_number(r, "group_norm_size", 1, "1");
    return m;
}

/* The last layer of each group has mla. layer_types may say it for each layer, and must not
   differ. */
static void place_layers(lx_hf_reader *r, lx_config *c, const lx_mixer_config *kda,
                         const lx_mixer_config *mla)
{
    const lx_hf_layer_type types[] = {{{"linear_attention"}, kda}, {{"full_attention"}, mla}};
    const json_t *given = r->st == LX_OK ? json_object_get(r->root, "layer_group_size") : NULL;
    bool has_size = given != NULL && !json_is_null(given), same = true;
    int32_t size = lx_hf_int(r, "layer_group_size", 1, LX_MAX_LAYERS, 6);
    bool placed = lx_hf_place_layers(r, c, types, 2, size);
    for (int32_t i = 0; i < c->n_layers / size * size; i++)
        same = same && (c->mixers[i].mixer == mla->mixer) == (i % size == size - 1);
    if (placed && has_size && !same)
        lx_hf_wrong(r, "layer_group_size", "gives other layers than layer_types");
    if (!placed &&
        c->n_layers % size != 0) /* the authors' program has mla there, the library not */
        lx_hf_wrong(
            r, "layer_group_size",
            "must divide num_hidden_layers, or layer_types must say the type of every layer");
}

/* --- feed-forward nets --- */

/* No net has a limit: the list says null or 0 of every layer. */
static void only_unlimited(lx_hf_reader *r, const char *key)
{
    const json_t *list = r->st == LX_OK ? json_object_get(r->root, key) : NULL;
    bool ok = list == NULL || json_is_null(list) || json_is_array(list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *limit = json_array_get(list, i);
        ok =
            ok && (json_is_null(limit) || (json_is_number(limit) && json_number_value(limit) == 0));
    }
    if (!ok)
        lx_hf_wrong(r, key, "must be null, or 0 for every layer: a limit is not supported");
    lx_hf_ignore(r, key);
}

static lx_mixer_config read_experts(lx_hf_reader *r, const lx_config *c)
{
    const char *active = lx_hf_either(r, "num_experts_per_tok", "num_experts_per_token");
    const lx_hf_experts usual = {"num_experts", "moe_intermediate_size", 512, 8, 768, active};
    const lx_hf_router router = {.count_key = "num_experts",
                                 .active_key = active,
                                 .normalise = lx_hf_either(r, "norm_topk_prob", "moe_renormalize"),
                                 .groups = lx_hf_either(r, "n_group", "num_expert_group"),
                                 .scale = 2.5,
                                 .n_groups = 8,
                                 .active_groups = 4};
    lx_mixer_config m = lx_hf_read_experts(r, c, &usual);
    lx_hf_read_router(r, &m, &router);
    lx_hf_read_shared_net(r, &m);
    lx_hf_only_number(r, "moe_shared_expert_intermediate_size", m.d_ff, "moe_intermediate_size");
    lx_hf_only_flag(r, "moe_router_enable_expert_bias", true);
    lx_hf_only_flag(r, "scale_router_input", false);
    lx_hf_only_word(r, "score_function", "sigmoid");
    lx_hf_only_word(r, "scoring_func", "sigmoid");
    lx_hf_only_word(r, "topk_method", "noaux_tc");
    lx_hf_only_word(r, "router_dtype", "fp32");
    only_unlimited(r, "expert_swiglu_limit_list");
    only_unlimited(r, "share_expert_swiglu_limit_list");
    return m;
}

/* Older models of this model_type say their architecture. */
static void check_architectures(lx_hf_reader *r)
{
    static const char *const known[] = {"BailingMoeV3ForCausalLM", "BailingHybridForCausalLM"};
    const json_t *given = r->st == LX_OK ? json_object_get(r->root, "architectures") : NULL;
    const char *word = json_string_value(json_array_get(given, 0));
    if (given != NULL && !json_is_null(given) &&
        (word == NULL || (strcmp(word, known[0]) != 0 && strcmp(word, known[1]) != 0)))
        lx_hf_wrong(r, "architectures",
                    "must be \"BailingMoeV3ForCausalLM\" or \"BailingHybridForCausalLM\": older "
                    "models with this model_type are not supported");
}

static void read_config(lx_hf_reader *r, lx_config *c)
{
    check_architectures(r);
    const lx_hf_hybrid usual = {.names = &names[0],
                                .eps = 1e-6,
                                .d_model = 2560,
                                .n_layers = 42,
                                .d_ff = 6144,
                                .vocab_size = 157184,
                                .context = lx_hf_int(r, "model_max_length", 2, INT32_MAX, 1 << 18)};
    lx_hf_read_hybrid(r, c, &usual);
    lx_mixer_config mla = read_mla(r, c), kda = read_kda(r, c, &mla), experts = read_experts(r, c);
    place_layers(r, c, &kda, &mla);
    lx_hf_place_experts(r, c, &experts, 2);
    c->n_further_layers = lx_hf_int(r, "num_nextn_predict_layers", 0, LX_MAX_LAYERS, 1);
    lx_hf_only_flag(r, "use_bias", false);
    lx_hf_only_flag(r, "use_qkv_bias", false);
    lx_hf_only_flag(r, "up_proj_norm", false);
    lx_hf_only_flag(r, "value_norm", false);
    lx_hf_only_flag(r, "use_nGPT", false);
    /* Of training, of the layers that guess tokens, and of windows, which no layer has. */
    lx_hf_ignore(r, "embedding_dropout max_window_layers mtp_loss_scaling_factor mtp_use_kda "
                    "output_dropout output_router_logits pretraining_tp seq_aux");
}

const lx_hf_kind lx_hf_ling = {.model_types = {"bailing_hybrid"}, .read = read_config};
