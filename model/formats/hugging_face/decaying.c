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

enum { RANK = 16, BASE = 10000 };

#define OWN_NAMES(norm)                                                                            \
    {                                                                                              \
        {"attn.f1", "attn.gk_proj.0"}, {"attn.f2", "attn.gk_proj.1"}, {"attn.norm", norm},         \
        {                                                                                          \
            NULL, NULL                                                                             \
        }                                                                                          \
    }
static const lx_tensor_name own_names[2][4] = {OWN_NAMES("attn.g_norm"),
                                               OWN_NAMES("attn.g_norm_swish_gate")};
/* For a separate norm, and for a norm that is fused with the gate. */
static const struct lx_tensor_names names[2] = {LX_HF_FLA_NAMES(own_names[0]),
                                                LX_HF_FLA_NAMES(own_names[1])};

/* Blocks and the gate, which decides the norm's name. */
static lx_mixer_config read_blocks(lx_hf_reader *r, lx_config *c, const char *kind, double ratio)
{
    bool fused = lx_hf_flag(r, "fuse_norm", true), gated = lx_hf_flag(r, "use_output_gate", true);
    lx_hf_read_blocks(r, c, &names[gated && fused ? 1 : 0], 24, ratio);
    lx_mixer_config m = lx_hf_mixer(c, kind);
    lx_mixer_set_word(&m, "gate", gated ? "silu" : "none");
    return m;
}

/* Heads, with the usual numbers. */
static void read_sizes(lx_hf_reader *r, const lx_config *c, lx_mixer_config *m, int32_t n_heads,
                       double expand_k, double expand_v)
{
    m->n_heads = lx_hf_int(r, "num_heads", 1, LX_MAX_HEADS, n_heads);
    int32_t key_heads = lx_hf_int(r, "num_kv_heads", 1, LX_MAX_HEADS, m->n_heads);
    lx_hf_expand(r, c, m, expand_k, expand_v);
    if (m->n_heads % key_heads != 0)
        lx_hf_wrong(r, "num_kv_heads", "must divide num_heads");
    lx_mixer_value(m, "key_heads")->i = key_heads;
}

/* The other keys of both kinds; the mixer is then complete. */
static void read_common(lx_hf_reader *r, lx_config *c, lx_mixer_config *m)
{
    lx_hf_conv(r, m, false);
    lx_mixer_value(m, "eps")->f = c->norm_eps;
    lx_hf_only_null(r, "feature_map");
    lx_hf_only_flag(r, "elementwise_affine", true);
    lx_hf_set_mixers(r, c, m);
    lx_hf_read_text(r, c, 32000, 2048);
}

static void read_gla(lx_hf_reader *r, lx_config *c)
{
    lx_mixer_config m = read_blocks(r, c, "gla", 4);
    read_sizes(r, c, &m, 4, 0.5, 1);
    lx_mixer_value(&m, "rank")->i = RANK;
    lx_hf_only_null(r, "clamp_min");
    lx_hf_ignore(r, "use_gk use_gv"); /* no layer looks at them */
    read_common(r, c, &m);
}

static void read_retnet(lx_hf_reader *r, lx_config *c)
{
    lx_mixer_config m = read_blocks(r, c, "retnet", 2);
    read_sizes(r, c, &m, 8, 1, 2);
    if (m.d_key % 2 != 0)
        lx_hf_wrong(r, "num_heads", "gives heads of an odd number of keys");
    lx_mixer_value(&m, "base")->i = BASE;
    lx_hf_ignore(r, "use_short_conv conv_size"); /* fla's model builds no convolution */
    read_common(r, c, &m);
}

const lx_hf_kind lx_hf_gla = {.model_types = {"gla"}, .read = read_gla};
const lx_hf_kind lx_hf_retnet = {.model_types = {"retnet"}, .read = read_retnet};
