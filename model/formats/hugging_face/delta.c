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

static const lx_tensor_name own_names[] = {
    {"attn.f1", "attn.f_proj.0"}, {"attn.f2", "attn.f_proj.1"}, {"attn.g1", "attn.g_proj.0"},
    {"attn.g2", "attn.g_proj.1"}, {"attn.norm", "attn.o_norm"}, {NULL, NULL},
};
static const struct lx_tensor_names names = LX_HF_FLA_NAMES(own_names);

/* Keys of all three kinds. */
static void read_common(lx_hf_reader *r, lx_config *c, lx_mixer_config *m)
{
    lx_hf_conv(r, m, true);
    lx_hf_only_flag(r, "conv_bias", false);
    lx_mixer_set_word(m, "beta",
                      lx_hf_flag(r, "allow_neg_eigval", false) ? "twice_sigmoid" : "sigmoid");
    lx_mixer_value(m, "eps")->f = c->norm_eps;
    if ((int64_t)m->n_heads * (2 * m->d_key + m->d_value) > LX_MAX_D_FF)
        lx_hf_wrong(r, "num_heads", "times the sizes of heads is more than 262144 columns");
    lx_hf_set_mixers(r, c, m);
    lx_hf_read_text(r, c, 32000, 2048);
}

/* Heads as gated_deltanet and kda count them, with the usual numbers. */
static void read_heads(lx_hf_reader *r, lx_mixer_config *m, int32_t n_heads, int32_t head_dim,
                       double expand_v)
{
    int32_t keys = lx_hf_int(r, "num_heads", 1, LX_MAX_HEADS, n_heads);
    m->n_heads = lx_hf_int(r, "num_v_heads", 1, LX_MAX_HEADS, keys);
    if (m->n_heads % keys != 0)
        lx_hf_wrong(r, "num_v_heads", "must be a multiple of num_heads");
    m->d_key = lx_hf_int(r, "head_dim", 1, LX_MAX_HEAD_SIZE, head_dim);
    m->d_value = lx_hf_columns(r, "expand_v", m->d_key, expand_v);
    if (m->d_value > LX_MAX_HEAD_SIZE)
        lx_hf_wrong(r, "num_heads", "gives heads larger than 4096");
    lx_mixer_value(m, "key_heads")->i = keys;
}

lx_mixer_config lx_hf_read_delta(lx_hf_reader *r, const lx_config *c, int32_t key_heads,
                                 int32_t value_heads, int32_t size)
{
    lx_mixer_config m = lx_hf_mixer(c, "gated_deltanet");
    int32_t keys = lx_hf_int(r, "linear_num_key_heads", 1, LX_MAX_HEADS, key_heads);
    m.n_heads = lx_hf_int(r, "linear_num_value_heads", 1, LX_MAX_HEADS, value_heads);
    m.d_key = lx_hf_int(r, "linear_key_head_dim", 1, LX_MAX_HEAD_SIZE,
                        size > 0 ? size : 3 * c->d_model / (4 * keys));
    m.d_value =
        lx_hf_int(r, "linear_value_head_dim", 1, LX_MAX_HEAD_SIZE, size > 0 ? size : 2 * m.d_key);
    bool fits = m.d_key >= 1 && m.d_key <= LX_MAX_HEAD_SIZE && m.d_value <= LX_MAX_HEAD_SIZE;
    if (m.n_heads % keys != 0)
        lx_hf_wrong(r, "linear_num_value_heads", "must be a multiple of linear_num_key_heads");
    if (!fits || (int64_t)2 * keys * m.d_key + (int64_t)m.n_heads * m.d_value > LX_MAX_D_FF) {
        lx_hf_wrong(r, "linear_num_value_heads", "gives heads that are too large or too small");
        m.d_key = m.d_value = 1;
    }
    lx_mixer_value(&m, "key_heads")->i = keys;
    lx_mixer_value(&m, "conv")->i = lx_hf_int(r, "linear_conv_kernel_dim", 2, LX_CONV_MOST_TAPS, 4);
    lx_mixer_set_word(&m, "gate", "silu");
    return m;
}

/* The pairs are as wide as a head of values. */
static void read_kda(lx_hf_reader *r, lx_config *c)
{
    lx_hf_read_blocks(r, c, &names, 24, 4);
    lx_mixer_config m = lx_hf_mixer(c, "kda");
    read_heads(r, &m, 16, 128, 1);
    lx_mixer_value(&m, "rank")->i = m.d_value;
    lx_hf_only_flag(r, "safe_gate", false);
    lx_hf_only_null(r, "lower_bound");
    read_common(r, c, &m);
}

static void read_gated(lx_hf_reader *r, lx_config *c)
{
    lx_hf_read_blocks(r, c, &names, 21, 4);
    lx_mixer_config m = lx_hf_mixer(c, "gated_deltanet");
    read_heads(r, &m, 6, 256, 2);
    lx_mixer_set_word(&m, "gate", lx_hf_flag(r, "use_gate", true) ? "silu" : "none");
    lx_hf_only_word(r, "output_gate_activation", "swish");
    read_common(r, c, &m);
}

static void read_plain(lx_hf_reader *r, lx_config *c)
{
    lx_hf_read_blocks(r, c, &names, 24, 4);
    lx_mixer_config m = lx_hf_mixer(c, "delta_net");
    m.n_heads = lx_hf_int(r, "num_heads", 1, LX_MAX_HEADS, 16);
    lx_hf_expand(r, c, &m, 1, 1);
    lx_mixer_set_word(&m, "gate", lx_hf_flag(r, "use_gate", false) ? "silu" : "none");
    lx_hf_only_flag(r, "use_beta", true);
    lx_hf_only_word(r, "qk_norm", "l2");
    lx_hf_only_word(r, "qk_activation", "silu");
    lx_hf_ignore(r, "use_output_norm"); /* no layer looks at it */
    read_common(r, c, &m);
}

const lx_hf_kind lx_hf_gated_deltanet = {.model_types = {"gated_deltanet"}, .read = read_gated};
const lx_hf_kind lx_hf_kda = {.model_types = {"kda"}, .read = read_kda};
const lx_hf_kind lx_hf_delta_net = {.model_types = {"delta_net"}, .read = read_plain};
