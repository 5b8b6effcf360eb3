/*
 * Nemotron-H and Nemotron 3 as transformers writes them (its NemotronHConfig): layers of one
 * branch, which is mamba2, grouped_query without positions, relu2_mlp, or experts of its form with
 * one such net for all tokens; RMSNorm. Their own names for the parts:
 *
 *     norm                                             norm1, norm2
 *     mixer.{in_proj,out_proj,conv1d,...}              attn.in, attn.out, attn.conv, ...
 *     mixer.{q,k,v,o}_proj                             attn.q, attn.k, attn.v, attn.out
 *     mixer.{up,down}_proj                             ff.up, ff.down
 *     mixer.gate, mixer.gate.e_score_correction_bias   ff.router, ff.router.bias
 *     mixer.experts.I.{up,down}_proj                   ff.experts.I.up, ff.experts.I.down
 *     mixer.shared_experts.{up,down}_proj              ff.shared.up, ff.shared.down
 *
 * The library of 5.24 also keeps time steps at time_step_min or more, which the authors' own
 * program does at time_step_limit, and this one not at all. The layers that guess tokens (mtp) are
 * not used.
 */
#include <string.h>

#include "model/formats/hugging_face/reader.h"

static const lx_tensor_name block_names[] = {
    {"norm1", "norm"},
    {"norm2", "norm"},
    {"ff.up", "mixer.up_proj"},
    {"ff.down", "mixer.down_proj"},
    {"ff.router.bias", "mixer.gate.e_score_correction_bias"},
    {"ff.router", "mixer.gate"},
    {"ff.shared.up", "mixer.shared_experts.up_proj"},
    {"ff.shared.down", "mixer.shared_experts.down_proj"},
    {"ff.experts.up", "mixer.experts.up_proj"},
    {"ff.experts.*.up", "mixer.experts.*.up_proj"},
    {"ff.experts.*.down", "mixer.experts.*.down_proj"},
    {"ff.experts.down", "mixer.experts.down_proj"},
    {NULL, NULL},
};
static const lx_tensor_name mamba_names[] = {
    {"attn.in", "mixer.in_proj"},
    {"attn.out", "mixer.out_proj"},
    {"attn.conv", "mixer.conv1d"},
    {"attn", "mixer"},
    {NULL, NULL},
};
static const lx_tensor_name softmax_names[] = {
    {"attn.q", "mixer.q_proj"},
    {"attn.k", "mixer.k_proj"},
    {"attn.v", "mixer.v_proj"},
    {"attn.out", "mixer.o_proj"},
    {NULL, NULL},
};
static const char *const unused[] = {"mtp.", NULL};

static const struct lx_tensor_names names = {
    .layers = "backbone.layers.",
    .embed = "backbone.embeddings",
    .final_norm = "backbone.norm_f",
    .tables = {{NULL, block_names}, {"mamba2", mamba_names}, {"grouped_query", softmax_names}},
    .unused = unused};

/* --- the list of layers --- */

typedef enum layer_type { MAMBA, SOFTMAX, MLP, EXPERTS, TYPES } layer_type;

static const char types_of_pattern[TYPES] = {'M', '*', '-', 'E'};
static const char *const types_of_words[TYPES][2] = {
    {"linear_attention", "mamba"}, {"full_attention", "attention"}, {"mlp"}, {"moe"}};

static int32_t type_of_word(const char *word)
{
    int32_t type = 0;
    while (word != NULL && type < TYPES && strcmp(word, types_of_words[type][0]) != 0 &&
           (types_of_words[type][1] == NULL || strcmp(word, types_of_words[type][1]) != 0))
        type++;
    return word != NULL ? type : TYPES;
}

static int32_t type_of_letter(char letter)
{
    int32_t type = 0;
    while (type < TYPES && letter != types_of_pattern[type])
        type++;
    return type;
}

/* Fills types [LX_MAX_LAYERS] and returns how many layers there are. The list of words goes before
   the pattern of letters of older files; without both there are four layers. */
static int32_t read_types(lx_hf_reader *r, uint8_t *types)
{
    static const char *const keys[] = {"layers_block_type", "layer_types"};
    static const char usual[] = "ME*-";
    const json_t *root = r->st == LX_OK ? r->root : NULL, *list = NULL;
    const char *key = "hybrid_override_pattern";
    const json_t *pattern = json_object_get(root, key);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(root, keys[i]);
        if (list == NULL && value != NULL && !json_is_null(value)) {
            list = value;
            key = keys[i];
        }
    }
    bool none = list == NULL && (pattern == NULL || json_is_null(pattern));
    const char *text = none ? usual : json_string_value(pattern);
    size_t n = list != NULL ? json_array_size(list) : text != NULL ? strlen(text) : 0;
    bool ok = n >= 1 && n <= LX_MAX_LAYERS;
    for (size_t i = 0; ok && i < n; i++) {
        types[i] = (uint8_t)(list != NULL ? type_of_word(json_string_value(json_array_get(list, i)))
                                          : type_of_letter(text[i]));
        ok = types[i] < TYPES;
    }
    if (!ok)
        lx_hf_wrong(r, key,
                    list != NULL ? "must say \"linear_attention\", \"full_attention\", \"mlp\" or "
                                   "\"moe\" of each of 1 to 256 layers"
                                 : "must be 1 to 256 letters M, *, - and E");
    lx_hf_ignore(r, "layers_block_type layer_types hybrid_override_pattern num_hidden_layers");
    return ok ? (int32_t)n : 1;
}

/* --- the branches --- */

static lx_mixer_config read_mamba(lx_hf_reader *r, const lx_config *c)
{
    static const char *const keys[] = {"mamba_num_heads", "n_groups", "conv_kernel",
                                       "use_conv_bias", "use_bias"};
    lx_mixer_config m = lx_hf_mixer(c, "mamba2");
    m.n_heads = lx_hf_int(r, keys[0], 1, LX_MAX_HEADS, 128);
    m.d_value = lx_hf_int(r, "mamba_head_dim", 1, LX_MAX_HEAD_SIZE, 64);
    m.d_key = lx_hf_int(r, "ssm_state_size", 1, LX_MAX_HEAD_SIZE, 128);
    lx_hf_read_mamba_parts(r, &m, keys, 8);
    lx_hf_only_word(r, "mamba_hidden_act", "silu");
    lx_mixer_value(&m, "eps")->f = c->norm_eps;
    lx_mixer_set_word(&m, "norm", "gate_first");
    lx_hf_only_unbounded(r, "time_step_limit");
    lx_hf_only_flag(r, "mamba_proj_bias", false);
    lx_hf_ignore(r, "chunk_size expand mamba_ssm_cache_dtype time_step_floor time_step_max "
                    "time_step_min use_mamba_kernels");
    return m;
}

static lx_mixer_config read_experts(lx_hf_reader *r, const lx_config *c)
{
    static const lx_hf_experts usual = {
        "n_routed_experts", "moe_intermediate_size", 8, 2, 7688, NULL};
    static const lx_hf_router router = {.count_key = "n_routed_experts",
                                        .active_key = "num_experts_per_tok",
                                        .normalise = "norm_topk_prob",
                                        .groups = "n_group",
                                        .scale = 1};
    lx_mixer_config m = lx_hf_read_experts(r, c, &usual);
    lx_mixer_set_word(&m, "form", "relu2");
    lx_hf_read_router(r, &m, &router);
    lx_mixer_value(&m, "shared")->i =
        lx_hf_int(r, "moe_shared_expert_intermediate_size", 1, LX_MAX_D_FF, 7688);
    lx_hf_only_number(r, "n_shared_experts", 1, "1");
    lx_hf_only_null(r, "moe_latent_size");
    return m;
}

static void read_layers(lx_hf_reader *r, lx_config *c, const uint8_t *types)
{
    static const lx_hf_heads heads = {.heads = 32, .key_heads = 8, .size = 128};
    lx_mixer_config softmax = lx_hf_read_heads(r, c, &heads), mamba = read_mamba(r, c);
    lx_mixer_config mlp = lx_hf_mixer(c, "relu2_mlp"), experts = mlp;
    if (memchr(types, EXPERTS, (size_t)c->n_layers) != NULL)
        experts = read_experts(r, c);
    lx_hf_set_mixer(c, &mamba);
    c->n_mixers = c->n_feed_forwards = c->n_layers;
    for (int32_t i = 0; i < c->n_layers; i++) {
        c->branches[i] = types[i] == MAMBA || types[i] == SOFTMAX ? LX_LAYER_MIXER : LX_LAYER_NET;
        c->mixers[i] = types[i] == SOFTMAX ? softmax : mamba;
        c->feed_forwards[i] = types[i] == EXPERTS ? experts : mlp;
    }
}

static void read_config(lx_hf_reader *r, lx_config *c)
{
    uint8_t types[LX_MAX_LAYERS] = {0};
    const lx_hf_hybrid usual = {.names = &names,
                                .eps_key = "layer_norm_epsilon",
                                .eps = 1e-5,
                                .d_model = 4096,
                                .n_layers = read_types(r, types),
                                .d_ff = 21504,
                                .vocab_size = 131072,
                                .context = 4096};
    lx_hf_read_hybrid(r, c, &usual);
    lx_hf_only_word(r, "mlp_hidden_act", "relu2");
    lx_hf_only_flag(r, "mlp_bias", false);
    lx_hf_only_null(r, "sliding_window");
    read_layers(r, c, types);
    /* Of training, of guesses, of experts where no layer has any, and of ways to compute the same
       result. No softmax layer has positions. */
    lx_hf_ignore(r, "hidden_dropout moe_intermediate_size moe_latent_size "
                    "moe_shared_expert_intermediate_size moe_shared_expert_overlap "
                    "mtp_hybrid_override_pattern mtp_layers_block_type n_group n_routed_experts "
                    "n_shared_experts norm_eps norm_topk_prob num_experts_per_tok "
                    "num_logits_to_keep num_nextn_predict_layers output_router_logits "
                    "partial_rotary_factor rescale_prenorm_residual residual_in_fp32 rope_theta "
                    "routed_scaling_factor topk_group");
}

const lx_hf_kind lx_hf_nemotron_h = {.model_types = {"nemotron_h"}, .read = read_config};
