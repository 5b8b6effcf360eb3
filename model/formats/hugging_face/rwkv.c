/* RWKV-6 and RWKV-7 as flash-linear-attention writes them. */
#include <math.h>

#include "model/formats/hugging_face/reader.h"

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

enum { MAX_RANK = 1 << 14 };

static const lx_tensor_name rwkv6_names[] = {
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

static const struct lx_tensor_names rwkv6_tensors = LX_HF_FLA_NAMES(rwkv6_names);

static void read_rwkv6(lx_hf_reader *r, lx_config *c)
{
    lx_hf_read_rwkv(r, c, &rwkv6_tensors, 3.5);
    lx_mixer_config m = lx_hf_mixer(c, "rwkv6");
    m.n_heads = lx_hf_int(r, "num_heads", 1, LX_MAX_HEADS, 4);
    lx_hf_expand(r, c, &m, 0.5, 1);
    c->feed_forwards[0] = m;
    c->feed_forwards[0].mixer = lx_mixer_find("channel_mix");
    lx_mixer_value(&c->feed_forwards[0], "receptance")->i = 1;
    lx_mixer_value(&m, "x_rank")->i = lx_hf_int(r, "proj_low_rank_dim", 1, MAX_RANK, 32);
    lx_mixer_value(&m, "w_rank")->i = lx_hf_int(r, "gate_low_rank_dim", 1, MAX_RANK, 64);
    lx_mixer_value(&m, "group_eps")->f = c->norm_eps;
    lx_hf_only_null(r, "attn"); /* its names for a softmax layer are others */
    lx_hf_set_mixer(c, &m);
    lx_hf_read_text(r, c, 32000, 2048);
}

const lx_hf_kind lx_hf_rwkv6 = {.model_types = {"rwkv6"}, .read = read_rwkv6};

/*
 * RWKV-7 as flash-linear-attention writes it (its RWKV7Config, RWKV7Attention, RWKV7FeedForward):
 * the mixers rwkv7 and channel_mix. Its own names for the parts:
 *
 *     pre_norm, of layer 0     input_norm          {r,k,v,o}_proj     attn.r, k, v, out
 *     attn_norm, ffn_norm      norm1, norm2        C_lora.lora.0, 2   attn.C1, C2, C: w, a, v, g
 *     g_norm                   attn.norm, whose eps is head_dim times norm_eps
 *
 * A key of ours is `time_state`: tensors attn.time_state, which weights/convert/rwkv.py makes of
 * tuned states. As in RWKV-LM, a vector is divided by the larger of its length and 1e-12. (A fused
 * path of fla divides by sqrt(sum of squares + 1e-12).)
 */

static const lx_tensor_name rwkv7_names[] = {
    {"norm2", "ffn_norm"},
    {"attn.r", "attn.r_proj"},
    {"attn.w1", "attn.w_lora.lora.0"},
    {"attn.w2", "attn.w_lora.lora.2"},
    {"attn.a1", "attn.a_lora.lora.0"},
    {"attn.a2", "attn.a_lora.lora.2"},
    {"attn.v1", "attn.v_lora.lora.0"},
    {"attn.v2", "attn.v_lora.lora.2"},
    {"attn.g1", "attn.g_lora.lora.0"},
    {"attn.g2", "attn.g_lora.lora.2"},
    {"attn.norm", "attn.g_norm"},
    {"ff", "ffn"},
    {NULL, NULL},
};
static const struct lx_tensor_names rwkv7_tensors = LX_HF_FLA_NAMES(rwkv7_names);

static void read_sizes(lx_hf_reader *r, lx_config *c)
{
    int32_t n_heads = lx_hf_int(r, "num_heads", 1, LX_MAX_WIDTH, 0);
    bool has_size = !json_is_null(json_object_get(r->root, "head_dim"));
    c->d_key = lx_hf_int(r, "head_dim", 1, LX_MAX_HEAD_SIZE, 64);
    if (!has_size) /* null: num_heads says it */
        c->d_key = n_heads > 0 ? c->d_model / n_heads : 0;
    c->d_value = c->d_key;
    c->n_heads = c->d_key > 0 ? c->d_model / c->d_key : 0;
    if (c->n_heads * c->d_key != c->d_model || c->d_key < 1)
        lx_hf_wrong(r, "hidden_size", "must be a multiple of head_dim");
    if (c->d_key > LX_MAX_HEAD_SIZE)
        lx_hf_wrong(r, "num_heads", "gives heads larger than 4096");
}

/* As wide as the model in every layer. */
static void check_value_dim(lx_hf_reader *r, const lx_config *c)
{
    json_t *value = r->st == LX_OK ? json_object_get(r->root, "value_dim") : NULL;
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (json_integer_value(json_array_get(value, i)) != c->d_model)
            lx_hf_wrong(r, "value_dim", "must be hidden_size: nothing else is supported");
    }
    if (json_is_array(value))
        (void)json_object_del(r->root, "value_dim");
    else if (lx_hf_int(r, "value_dim", 1, LX_MAX_WIDTH, c->d_model) != c->d_model)
        lx_hf_wrong(r, "value_dim", "must be hidden_size: nothing else is supported");
}

/* A rank; null is max(32, x), x being the multiple of 32 that is next to scale sqrt(hidden_size),
   a half to the even one. */
static void read_rank(lx_hf_reader *r, const char *key, double scale, lx_mixer_config *m,
                      const char *param)
{
    double usual = 32 * nearbyint(scale * sqrt(m->d_model) / 32);
    lx_mixer_value(m, param)->i = lx_hf_int(r, key, 1, LX_MAX_WIDTH, (int32_t)fmax(32, usual));
}

static void read_mixers(lx_hf_reader *r, lx_config *c)
{
    double wide = c->d_key / 64.0;
    lx_mixer_config m = lx_hf_mixer(c, "rwkv7");
    m.n_heads = c->n_heads;
    m.d_key = m.d_value = c->d_key;
    c->feed_forwards[0] = m;
    c->feed_forwards[0].mixer = lx_mixer_find("channel_mix");
    read_rank(r, "decay_low_rank_dim", 2.5 * wide, &m, "w_rank");
    read_rank(r, "a_low_rank_dim", 2.5 * wide, &m, "a_rank");
    read_rank(r, "v_low_rank_dim", 1.7 * wide, &m, "v_rank");
    read_rank(r, "gate_low_rank_dim", 5, &m, "g_rank");
    lx_mixer_value(&m, "group_eps")->f = (float)c->d_key * c->norm_eps;
    lx_mixer_value(&m, "time_state")->i = lx_hf_flag(r, "time_state", false);
    lx_hf_set_mixers(r, c, &m);
}

static void read_rwkv7(lx_hf_reader *r, lx_config *c)
{
    lx_hf_read_rwkv(r, c, &rwkv7_tensors, 4);
    read_sizes(r, c);
    check_value_dim(r, c);
    read_mixers(r, c);
    lx_hf_read_text(r, c, 32000, 2048);
}

const lx_hf_kind lx_hf_rwkv7 = {.model_types = {"rwkv7", "rwkv7_fla"}, .read = read_rwkv7};
