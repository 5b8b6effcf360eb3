/*
 * Mamba-1 as transformers and flash-linear-attention write it (the MambaConfig of either), and
 * Falcon-Mamba: the mixer mamba in whole layers with RMSNorm. Jamba: mamba and, in some layers,
 * grouped_query without positions; after both gated_mlp or, in some layers, experts. Their own
 * names for the parts:
 *
 *     Mamba   norm                                         norm1
 *             mixer.{in,x,dt,out}_proj, mixer.conv1d       attn.{in,x,dt,out}, attn.conv
 *             mixer.{A_log,D}                              attn.A_log, attn.D
 *     Jamba   input_layernorm, pre_ff_layernorm            norm1, norm2
 *             mamba instead of mixer; {dt,b,c}_layernorm   attn.{dt,b,c}_norm
 *             self_attn.{q,k,v,o}_proj                     attn.q, attn.k, attn.v, attn.out
 *             feed_forward.{gate,up,down}_proj             ff.gate, ff.up, ff.down
 *             feed_forward.router                          ff.router
 *             feed_forward.experts.I.{gate,up,down}_proj   ff.experts.I.{gate,up,down}
 *
 * Falcon-Mamba norms dt, B and C without weights. fla's configs are known by norm_eps; fla never
 * looks at use_conv_bias.
 */
#include <string.h>

#include "model/formats/hugging_face/reader.h"

#define MOST_INNER 131072
#define PROJECTIONS(THEIRS)                                                                        \
    {"attn.in", THEIRS ".in_proj"}, {"attn.x", THEIRS ".x_proj"}, {"attn.dt", THEIRS ".dt_proj"},  \
        {"attn.out", THEIRS ".out_proj"}, {"attn.conv", THEIRS ".conv1d"},                         \
    {                                                                                              \
        "attn", THEIRS                                                                             \
    }

static const lx_tensor_name layer_names[] = {{"norm1", "norm"}, PROJECTIONS("mixer"), {NULL, NULL}};
static const struct lx_tensor_names names = {.layers = "backbone.layers.",
                                             .embed = "backbone.embeddings",
                                             .final_norm = "backbone.norm_f",
                                             .tables = {{.names = layer_names}}};

static const lx_tensor_name block_names[] = {
    {"norm1", "input_layernorm"},
    {"norm2", "pre_ff_layernorm"},
    {"ff.gate", "feed_forward.gate_proj"},
    {"ff.up", "feed_forward.up_proj"},
    {"ff.down", "feed_forward.down_proj"},
    {"ff.router", "feed_forward.router"},
    LX_HF_EXPERT_NAMES("feed_forward.experts", "gate_proj", "up_proj", "down_proj"),
    {NULL, NULL},
};
static const lx_tensor_name mamba_names[] = {
    {"attn.dt_norm", "mamba.dt_layernorm"},
    {"attn.b_norm", "mamba.b_layernorm"},
    {"attn.c_norm", "mamba.c_layernorm"},
    PROJECTIONS("mamba"),
    {NULL, NULL},
};
static const lx_tensor_name softmax_names[] = {LX_HF_SOFTMAX_NAMES, {NULL, NULL}};
static const struct lx_tensor_names jamba_names = {
    .layers = "model.layers.",
    .embed = "model.embed_tokens",
    .final_norm = "model.final_layernorm",
    .tables = {{NULL, block_names}, {"mamba", mamba_names}, {"grouped_query", softmax_names}}};

/* --- the mixer --- */

enum { STATE, RANK, TAPS, PRODUCT_BIAS, KEYS };

/* The rank of the steps; "auto" is a sixteenth of the model's width. */
static int32_t read_rank(lx_hf_reader *r, const char *key, int32_t d_model)
{
    const char *text = r->st == LX_OK ? json_string_value(json_object_get(r->root, key)) : NULL;
    if (text != NULL && strcmp(text, "auto") == 0)
        lx_hf_ignore(r, key);
    return lx_hf_int(r, key, 1, LX_MAX_WIDTH, (d_model + 15) / 16);
}

static lx_mixer_config read_mixer(lx_hf_reader *r, const lx_config *c, const char *const keys[KEYS],
                                  int32_t inner, bool conv_bias)
{
    lx_mixer_config m = lx_hf_mixer(c, "mamba");
    m.n_heads = m.d_key = m.d_value = 1;
    lx_mixer_value(&m, "inner")->i = inner;
    lx_mixer_value(&m, "state")->i = lx_hf_int(r, keys[STATE], 1, LX_MAX_HEAD_SIZE, 16);
    lx_mixer_value(&m, "rank")->i = read_rank(r, keys[RANK], c->d_model);
    lx_mixer_value(&m, "conv")->i = lx_hf_int(r, keys[TAPS], 2, LX_CONV_MOST_TAPS, 4);
    bool products = lx_hf_flag(r, keys[PRODUCT_BIAS], false);
    lx_mixer_set_word(&m, "bias",
                      conv_bias ? (products ? "both" : "conv") : (products ? "products" : "none"));
    lx_mixer_set_word(&m, "norm", "none");
    lx_mixer_value(&m, "eps")->f = c->norm_eps;
    return m;
}

/* --- Mamba and Falcon-Mamba --- */

/* Channels: intermediate_size, as in transformers also where it is not expand times hidden_size. */
static int32_t read_inner(lx_hf_reader *r, const lx_config *c)
{
    double usual = c->d_model * lx_hf_number(r, "expand", 1e-3, 64, 2);
    bool fits = usual >= 1 && usual <= MOST_INNER;
    int32_t inner = lx_hf_int(r, "intermediate_size", 1, MOST_INNER, fits ? (int32_t)usual : 0);
    if (inner < 1)
        lx_hf_wrong(r, "expand", "times hidden_size must be 1 to 131072");
    return inner < 1 ? 1 : inner;
}

static void read_blocks(lx_hf_reader *r, lx_config *c, bool falcon)
{
    static const char *const keys[] = {"state_size", "time_step_rank", "conv_kernel", "use_bias"};
    bool fla = !falcon && json_object_get(r->root, "norm_eps") != NULL;
    c->wiring = LX_WIRING_PRE;
    c->rms_norm = true;
    c->names = &names;
    c->tied_head = lx_hf_flag(r, "tie_word_embeddings", !fla);
    lx_hf_only_word(r, "hidden_act", "silu");
    lx_hf_only_mamba_layers(r);
    c->norm_eps = (float)lx_hf_number(r, fla ? "norm_eps" : "layer_norm_epsilon", 1e-30, 1, 1e-5);
    c->d_model = lx_hf_int(r, "hidden_size", 1, LX_MAX_WIDTH, fla ? 2048 : 768);
    c->n_layers = lx_hf_int(r, "num_hidden_layers", 1, LX_MAX_LAYERS, fla ? 48 : 32);
    bool conv_bias = lx_hf_flag(r, "use_conv_bias", true);
    lx_mixer_config m = read_mixer(r, c, keys, read_inner(r, c), fla || conv_bias);
    if (falcon) {
        lx_mixer_set_word(&m, "norm", "plain");
        lx_mixer_value(&m, "eps")->f = (float)lx_hf_number(r, "mixer_rms_eps", 1e-30, 1, 1e-6);
    }
    lx_hf_set_mixer(c, &m);
    /* Keys of the authors' own library, which the first converted folders keep. */
    lx_hf_only_number(r, "d_model", c->d_model, "hidden_size");
    lx_hf_only_number(r, "n_layer", c->n_layers, "num_hidden_layers");
    lx_hf_only_number(r, "d_inner", lx_mixer_value(&m, "inner")->i, "intermediate_size");
    lx_hf_only_flag(r, "rms_norm", true);
    /* Of training, and of ways to compute the same result. */
    lx_hf_ignore(r, "fused_add_norm pad_vocab_size_multiple rescale_prenorm_residual "
                    "residual_in_fp32 ssm_cfg time_step_floor time_step_init_scheme time_step_max "
                    "time_step_min time_step_scale use_associative_scan use_falcon_mambapy "
                    "use_mambapy");
    lx_hf_read_text(r, c, fla ? 32000 : 50280, LX_MAX_CONTEXT);
}

static void read_mamba(lx_hf_reader *r, lx_config *c)
{
    read_blocks(r, c, false);
}

static void read_falcon(lx_hf_reader *r, lx_config *c)
{
    read_blocks(r, c, true);
}

/* --- Jamba --- */

static lx_mixer_config read_jamba_mixer(lx_hf_reader *r, const lx_config *c)
{
    static const char *const keys[] = {"mamba_d_state", "mamba_dt_rank", "mamba_d_conv",
                                       "mamba_proj_bias"};
    int32_t inner = c->d_model * lx_hf_int(r, "mamba_expand", 1, 64, 2);
    if (inner > MOST_INNER) {
        lx_hf_wrong(r, "mamba_expand", "times hidden_size must be at most 131072");
        inner = MOST_INNER;
    }
    lx_mixer_config m = read_mixer(r, c, keys, inner, lx_hf_flag(r, "mamba_conv_bias", true));
    lx_hf_only_flag(r, "mamba_inner_layernorms", true);
    lx_mixer_set_word(&m, "norm", "weights");
    lx_mixer_value(&m, "feed_forward")->i = true;
    return m;
}

/* Layer i has softmax attention where i % attn_layer_period is attn_layer_offset. */
static void place_by_period(lx_hf_reader *r, lx_config *c, const lx_mixer_config *softmax,
                            bool listed)
{
    int32_t period = lx_hf_int(r, "attn_layer_period", 1, INT32_MAX, 8);
    int32_t offset = lx_hf_int(r, "attn_layer_offset", 0, INT32_MAX, 4);
    if (offset >= period)
        lx_hf_wrong(r, "attn_layer_offset", "must be less than attn_layer_period");
    for (int32_t i = 0; i < c->n_layers && !listed; i++) {
        if (i % period == offset)
            c->mixers[i] = *softmax;
    }
}

/* Layer i has experts where i % expert_layer_period is expert_layer_offset. transformers makes no
   router for one expert. */
static void read_experts(lx_hf_reader *r, lx_config *c)
{
    static const lx_hf_experts usual = {.count_key = "num_experts", .n = 16, .active = 2};
    lx_mixer_config dense = c->feed_forwards[0];
    if (json_integer_value(json_object_get(r->root, "num_experts")) == 1) {
        lx_hf_ignore(r, "expert_layer_offset expert_layer_period num_experts num_experts_per_tok");
        return;
    }
    int32_t period = lx_hf_int(r, "expert_layer_period", 1, INT32_MAX, 2);
    int32_t offset = lx_hf_int(r, "expert_layer_offset", 0, INT32_MAX, 1);
    if (offset >= period)
        lx_hf_wrong(r, "expert_layer_offset", "must be less than expert_layer_period");
    lx_mixer_config experts = lx_hf_read_experts(r, c, &usual);
    c->n_feed_forwards = c->n_layers;
    for (int32_t i = 0; i < c->n_layers; i++)
        c->feed_forwards[i] = i % period == offset ? experts : dense;
}

static void read_jamba(lx_hf_reader *r, lx_config *c)
{
    static const lx_hf_hybrid usual = {.names = &jamba_names,
                                       .eps = 1e-6,
                                       .d_model = 4096,
                                       .n_layers = 32,
                                       .d_ff = 14336,
                                       .vocab_size = 65536,
                                       .context = 262144};
    static const lx_hf_heads heads = {.heads = 32, .key_heads = 8};
    lx_hf_read_hybrid(r, c, &usual);
    read_experts(r, c);
    lx_mixer_config softmax = lx_hf_read_heads(r, c, &heads), mamba = read_jamba_mixer(r, c);
    const lx_hf_layer_type types[] = {{{"linear_attention", "mamba"}, &mamba},
                                      {{"full_attention", "attention"}, &softmax}};
    place_by_period(r, c, &softmax, lx_hf_place_layers(r, c, types, 2, 0));
    /* Of training, and of ways to compute the same result. */
    lx_hf_ignore(r, "calc_logits_for_entire_prompt num_logits_to_keep output_router_logits "
                    "router_aux_loss_coef use_associative_scan use_mamba_kernels use_mambapy");
}

const lx_hf_kind lx_hf_mamba = {.model_types = {"mamba"}, .read = read_mamba};
const lx_hf_kind lx_hf_falcon_mamba = {.model_types = {"falcon_mamba"}, .read = read_falcon};
const lx_hf_kind lx_hf_jamba = {.model_types = {"jamba"}, .read = read_jamba};
