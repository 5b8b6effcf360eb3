/*
 * RWKV-6 as flash-linear-attention writes it (its RWKV6Config, RWKV6Attention, RWKV6FeedForward):
 * the mixers rwkv6 and channel_mix with receptance. Its own names for the parts:
 *
 *     pre_norm, of layer 0     input_norm          {r,k,v,g}_proj.linear    attn.r, k, v, g
 *     attn_norm, ffn_norm      norm1, norm2        w_proj.linear.lora.0, 2  attn.w1, w2
 *     x_proj.0.mu, linear      attn.x_x, x1        x_proj.2, x_bias         attn.x2, x_bias
 *     g_norm                   attn.norm, whose eps is norm_eps
 *
 * The authors' own code has 64e-5 for the eps of g_norm where heads are of 64, fla norm_eps for
 * all.
 */
#include "model/formats/hugging_face/reader.h"

enum { MAX_RANK = 1 << 14 };

static const lx_tensor_name own_names[] = {
    {"norm2", "ffn_norm"},
    {"attn.x_x", "attn.x_proj.0.mu"},
    {"attn.x1", "attn.x_proj.0.linear"},
    {"attn.x2", "attn.x_proj.2"},
    {"attn.r", "attn.r_proj.linear"},
    {"attn.k", "attn.k_proj.linear"},
    {"attn.v", "attn.v_proj.linear"},
    {"attn.g", "attn.g_proj.linear"},
    {"attn.w1", "attn.w_proj.linear.lora.0"},
    {"attn.w2", "attn.w_proj.linear.lora.2"},
    {"attn.norm", "attn.g_norm"},
    {"ff.x_k", "ffn.key.mu"},
    {"ff.key", "ffn.key.linear"},
    {"ff.x_r", "ffn.receptance.mu"},
    {"ff.receptance", "ffn.receptance.linear"},
    {"ff.value", "ffn.value"},
    {NULL, NULL},
};

static const struct lx_tensor_names names = LX_HF_FLA_NAMES(own_names);

static void read_config(lx_hf_reader *r, lx_config *c)
{
    lx_hf_read_rwkv(r, c, &names, 3.5);
    lx_mixer_config m = lx_hf_mixer(c, "rwkv6");
    m.n_heads = lx_hf_int(r, "num_heads", 1, LX_MAX_HEADS, 4);
    lx_hf_expand(r, c, &m, 0.5, 1);
    c->feed_forward = m;
    c->feed_forward.mixer = lx_mixer_find("channel_mix");
    lx_mixer_value(&c->feed_forward, "receptance")->i = 1;
    lx_mixer_value(&m, "x_rank")->i = lx_hf_int(r, "proj_low_rank_dim", 1, MAX_RANK, 32);
    lx_mixer_value(&m, "w_rank")->i = lx_hf_int(r, "gate_low_rank_dim", 1, MAX_RANK, 64);
    lx_mixer_value(&m, "group_eps")->f = c->norm_eps;
    lx_hf_only_null(r, "attn"); /* its names for a softmax layer are others */
    lx_hf_set_mixer(c, &m);
    lx_hf_read_text(r, c, 32000, 2048);
}

const lx_hf_kind lx_hf_rwkv6 = {.model_types = {"rwkv6"}, .read = read_config};
