/*
 * Gated linear attention and retention as flash-linear-attention writes them (its GLAConfig and
 * GatedLinearAttention, RetNetConfig and MultiScaleRetention): the mixers gla and retnet with
 * gated_mlp. Their own names for the parts:
 *
 *     attn_norm, mlp_norm      norm1, norm2        {q,k,v,g,o}_proj         attn.q, .. g, out
 *     gk_proj.0, gk_proj.1     attn.f1, attn.f2    {q,k,v}_conv1d           attn.q_conv, ..
 *     g_norm_swish_gate        attn.norm; without a gate or fuse_norm it is g_norm
 *
 * The pair of the decays has rank 16, its sixteenth root is taken: neither is in the config, nor is
 * the base of retention's rotation.
 */
#include "model/formats/hugging_face/reader.h"

enum { MAX_HEADS = 1024, MAX_HEAD_SIZE = 4096, RANK = 16, BASE = 10000 };

static const char *const gla_types[] = {"gla", NULL};
static const char *const retnet_types[] = {"retnet", NULL};

#define LAYER_NAMES(norm)                                                                          \
    {"norm1", "attn_norm"}, {"norm2", "mlp_norm"}, {"attn.q", "attn.q_proj"},                      \
        {"attn.k", "attn.k_proj"}, {"attn.v", "attn.v_proj"}, {"attn.g", "attn.g_proj"},           \
        {"attn.out", "attn.o_proj"}, {"attn.f1", "attn.gk_proj.0"}, {"attn.f2", "attn.gk_proj.1"}, \
        {"attn.q_conv", "attn.q_conv1d"}, {"attn.k_conv", "attn.k_conv1d"},                        \
        {"attn.v_conv", "attn.v_conv1d"}, {"attn.norm", norm}, LX_HF_GATED_MLP_NAMES,              \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }

static const lx_tensor_name fused_names[] = {LAYER_NAMES("attn.g_norm_swish_gate")};
static const lx_tensor_name apart_names[] = {LAYER_NAMES("attn.g_norm")};

static const struct lx_tensor_names names[2][2] = {
    /* apart or fused; tied or not */
    {{.layer = apart_names, .layers = "model.layers.", .model = lx_hf_model_names},
     {.layer = apart_names, .layers = "model.layers.", .model = lx_hf_tied_model_names}},
    {{.layer = fused_names, .layers = "model.layers.", .model = lx_hf_model_names},
     {.layer = fused_names, .layers = "model.layers.", .model = lx_hf_tied_model_names}}};

/* Heads, with what is usual. */
static void read_sizes(lx_hf_reader *r, lx_config *c, lx_mixer_config *m, int32_t n_heads,
                       double expand_k, double expand_v)
{
    n_heads = lx_hf_int(r, "num_heads", 1, MAX_HEADS, n_heads);
    int32_t key_heads = lx_hf_int(r, "num_kv_heads", 1, MAX_HEADS, n_heads);
    int32_t keys = lx_hf_columns(r, "expand_k", c->d_model, expand_k);
    int32_t values = lx_hf_columns(r, "expand_v", c->d_model, expand_v);
    if (keys % n_heads != 0 || values % n_heads != 0)
        lx_hf_wrong(r, "num_heads", "must divide the columns of keys and of values");
    if (n_heads % key_heads != 0)
        lx_hf_wrong(r, "num_kv_heads", "must divide num_heads");
    if (keys / n_heads > MAX_HEAD_SIZE || values / n_heads > MAX_HEAD_SIZE)
        lx_hf_wrong(r, "num_heads", "gives heads larger than 4096");
    m->n_layers = c->n_layers;
    m->d_model = c->d_model;
    m->d_ff = c->d_ff;
    c->n_heads = m->n_heads = n_heads;
    c->d_key = m->d_key = keys / n_heads;
    c->d_value = m->d_value = values / n_heads;
    lx_mixer_value(m, "key_heads")->i = key_heads;
}

/* Gate, convolutions and what else both kinds have; the mixer is then complete. */
static void read_common(lx_hf_reader *r, lx_config *c, lx_mixer_config *m, bool gated)
{
    bool conv = lx_hf_flag(r, "use_short_conv", false);
    int32_t taps = lx_hf_int(r, "conv_size", 2, LX_CONV_MOST_TAPS, 4);
    lx_mixer_value(m, "conv")->i = conv ? taps : 0;
    lx_mixer_value(m, "gate")->i = gated;
    lx_mixer_value(m, "eps")->f = c->norm_eps;
    lx_hf_only_null(r, "feature_map");
    lx_hf_only_flag(r, "elementwise_affine", true);
    lx_hf_ignore(r, (const char *const[]){"attn_mode", NULL});
    lx_hf_set_mixers(r, c, m);
    lx_hf_read_text(r, c, 32000, 2048);
}

/* The names, by what decides about that of the norm. */
static const struct lx_tensor_names *read_names(lx_hf_reader *r, bool *gated)
{
    bool fused = lx_hf_flag(r, "fuse_norm", true);
    *gated = lx_hf_flag(r, "use_output_gate", true);
    return names[*gated && fused ? 1 : 0];
}

static void read_gla(lx_hf_reader *r, lx_config *c)
{
    lx_mixer_config m = {.mixer = lx_mixer_find("gla")};
    bool gated = false;
    const struct lx_tensor_names *own = read_names(r, &gated);
    lx_hf_read_blocks(r, c, &own[0], &own[1], 24, 4);
    read_sizes(r, c, &m, 4, 0.5, 1);
    lx_mixer_value(&m, "rank")->i = RANK;
    lx_hf_only_null(r, "clamp_min");
    lx_hf_ignore(r, (const char *const[]){"use_gk", "use_gv", NULL}); /* no layer looks at them */
    read_common(r, c, &m, gated);
}

static void read_retnet(lx_hf_reader *r, lx_config *c)
{
    lx_mixer_config m = {.mixer = lx_mixer_find("retnet")};
    bool gated = false;
    const struct lx_tensor_names *own = read_names(r, &gated);
    lx_hf_read_blocks(r, c, &own[0], &own[1], 24, 2);
    read_sizes(r, c, &m, 8, 1, 2);
    if (m.d_key % 2 != 0)
        lx_hf_wrong(r, "num_heads", "gives heads of an odd number of keys");
    lx_mixer_value(&m, "base")->i = BASE;
    read_common(r, c, &m, gated);
}

const lx_hf_kind lx_hf_gla = {.model_types = gla_types, .read = read_gla};
const lx_hf_kind lx_hf_retnet = {.model_types = retnet_types, .read = read_retnet};
