/*
 * Gated DeltaNet, DeltaNet and KDA as flash-linear-attention writes them (its GatedDeltaNetConfig,
 * DeltaNetConfig, KDAConfig and the layers of these): the mixers gated_deltanet, delta_net and kda
 * with gated_mlp.
 * Their own names for the parts:
 *
 *     attn_norm, mlp_norm      norm1, norm2        {q,k,v,a,b,g,o}_proj     attn.q, .. g, out
 *     o_norm                   attn.norm           {q,k,v}_conv1d           attn.q_conv, ..
 *     f_proj.0, f_proj.1       attn.f1, attn.f2    g_proj.0, g_proj.1       attn.g1, attn.g2
 *
 * num_heads counts heads of keys, num_v_heads those of values. Every norm has the same eps.
 */
#include "model/formats/hugging_face/reader.h"

enum { MAX_HEADS = 1024, MAX_HEAD_SIZE = 4096 };

static const char *const gated_types[] = {"gated_deltanet", NULL};
static const char *const kda_types[] = {"kda", NULL};
static const char *const plain_types[] = {"delta_net", NULL};

static const lx_tensor_name layer_names[] = {
    {"norm1", "attn_norm"},
    {"norm2", "mlp_norm"},
    {"attn.q", "attn.q_proj"},
    {"attn.k", "attn.k_proj"},
    {"attn.v", "attn.v_proj"},
    {"attn.a", "attn.a_proj"},
    {"attn.b", "attn.b_proj"},
    {"attn.g", "attn.g_proj"},
    {"attn.f1", "attn.f_proj.0"},
    {"attn.f2", "attn.f_proj.1"},
    {"attn.g1", "attn.g_proj.0"},
    {"attn.g2", "attn.g_proj.1"},
    {"attn.out", "attn.o_proj"},
    {"attn.norm", "attn.o_norm"},
    {"attn.q_conv", "attn.q_conv1d"},
    {"attn.k_conv", "attn.k_conv1d"},
    {"attn.v_conv", "attn.v_conv1d"},
    LX_HF_GATED_MLP_NAMES,
    {NULL, NULL},
};

static const struct lx_tensor_names names = {
    .layer = layer_names, .layers = "model.layers.", .model = lx_hf_model_names};
static const struct lx_tensor_names tied_names = {
    .layer = layer_names, .layers = "model.layers.", .model = lx_hf_tied_model_names};

/* What both kinds have; taps are 0 without convolutions. */
static void read_common(lx_hf_reader *r, lx_config *c, lx_mixer_config *m)
{
    bool conv = lx_hf_flag(r, "use_short_conv", true);
    int32_t taps = lx_hf_int(r, "conv_size", 2, LX_CONV_MOST_TAPS, 4);
    lx_hf_only_flag(r, "conv_bias", false);
    lx_mixer_value(m, "conv")->i = conv ? taps : 0;
    lx_mixer_value(m, "beta")->i = lx_hf_flag(r, "allow_neg_eigval", false);
    lx_mixer_value(m, "eps")->f = c->norm_eps;
    m->n_layers = c->n_layers;
    m->d_model = c->d_model;
    m->d_ff = c->d_ff;
    c->n_heads = m->n_heads;
    c->d_key = m->d_key;
    c->d_value = m->d_value;
    if (m->d_key > MAX_HEAD_SIZE || m->d_value > MAX_HEAD_SIZE)
        lx_hf_wrong(r, "num_heads", "gives heads larger than 4096");
    if ((int64_t)m->n_heads * (2 * m->d_key + m->d_value) > LX_HF_MAX_D_FF)
        lx_hf_wrong(r, "num_heads", "times the sizes of heads is more than 262144 columns");
    lx_hf_set_mixers(r, c, m);
    lx_hf_ignore(r, (const char *const[]){"attn_mode", NULL});
    lx_hf_read_text(r, c, 32000, 2048);
}

/* Heads as gated_deltanet and kda count them, with what is usual. */
static void read_heads(lx_hf_reader *r, lx_mixer_config *m, int32_t n_heads, int32_t head_dim,
                       double expand_v)
{
    int32_t keys = lx_hf_int(r, "num_heads", 1, MAX_HEADS, n_heads);
    m->n_heads = lx_hf_int(r, "num_v_heads", 1, MAX_HEADS, keys);
    if (m->n_heads % keys != 0)
        lx_hf_wrong(r, "num_v_heads", "must be a multiple of num_heads");
    m->d_key = lx_hf_int(r, "head_dim", 1, MAX_HEAD_SIZE, head_dim);
    m->d_value = lx_hf_columns(r, "expand_v", m->d_key, expand_v);
    lx_mixer_value(m, "key_heads")->i = keys;
}

/* The pairs are as wide as a head of values. */
static void read_kda(lx_hf_reader *r, lx_config *c)
{
    lx_mixer_config m = {.mixer = lx_mixer_find("kda")};
    lx_hf_read_blocks(r, c, &names, &tied_names, 24, 4);
    read_heads(r, &m, 16, 128, 1);
    lx_mixer_value(&m, "rank")->i = m.d_value;
    lx_hf_only_flag(r, "safe_gate", false);
    lx_hf_only_null(r, "lower_bound");
    read_common(r, c, &m);
}

static void read_gated(lx_hf_reader *r, lx_config *c)
{
    lx_mixer_config m = {.mixer = lx_mixer_find("gated_deltanet")};
    lx_hf_read_blocks(r, c, &names, &tied_names, 21, 4);
    read_heads(r, &m, 6, 256, 2);
    lx_mixer_value(&m, "gate")->i = lx_hf_flag(r, "use_gate", true);
    read_common(r, c, &m);
}

static void read_plain(lx_hf_reader *r, lx_config *c)
{
    lx_mixer_config m = {.mixer = lx_mixer_find("delta_net")};
    lx_hf_read_blocks(r, c, &names, &tied_names, 24, 4);
    m.n_heads = lx_hf_int(r, "num_heads", 1, MAX_HEADS, 16);
    int32_t keys = lx_hf_columns(r, "expand_k", c->d_model, 1);
    int32_t values = lx_hf_columns(r, "expand_v", c->d_model, 1);
    if (keys % m.n_heads != 0 || values % m.n_heads != 0)
        lx_hf_wrong(r, "num_heads", "must divide the columns of keys and of values");
    m.d_key = keys / m.n_heads;
    m.d_value = values / m.n_heads;
    lx_mixer_value(&m, "gate")->i = lx_hf_flag(r, "use_gate", false);
    lx_hf_only_flag(r, "use_beta", true);
    lx_hf_only_word(r, "qk_norm", "l2");
    lx_hf_only_word(r, "qk_activation", "silu");
    lx_hf_ignore(r, (const char *const[]){"use_output_norm", NULL}); /* no layer looks at it */
    read_common(r, c, &m);
}

const lx_hf_kind lx_hf_gated_deltanet = {.model_types = gated_types, .read = read_gated};
const lx_hf_kind lx_hf_kda = {.model_types = kda_types, .read = read_kda};
const lx_hf_kind lx_hf_delta_net = {.model_types = plain_types, .read = read_plain};
