/*
 * Parts that several kinds share (see reader.h): flash-linear-attention's blocks, x +=
 * A(RMSNorm(x)), then x += MLP(RMSNorm(x)), and RWKV's, x += A(LayerNorm(x)), then x +=
 * B(LayerNorm(x)), where B has a state, too; heads; and softmax layers between others, which the
 * key `attn` of its configs names.
 */
#include <math.h>

#include "model/formats/hugging_face/reader.h"

enum { MAX_WINDOW = 1 << 20 };

const lx_tensor_name lx_hf_layer_names[] = {
    {"norm1", "attn_norm"},
    {"norm2", "mlp_norm"},
    {"attn.q", "attn.q_proj"},
    {"attn.k", "attn.k_proj"},
    {"attn.v", "attn.v_proj"},
    {"attn.a", "attn.a_proj"},
    {"attn.b", "attn.b_proj"},
    {"attn.f", "attn.f_proj"},
    {"attn.g", "attn.g_proj"},
    {"attn.i", "attn.i_proj"},
    {"attn.out", "attn.o_proj"},
    {"attn.q_conv", "attn.q_conv1d"},
    {"attn.k_conv", "attn.k_conv1d"},
    {"attn.v_conv", "attn.v_conv1d"},
    {"attn.f_conv", "attn.f_conv1d"},
    {"attn.i_conv", "attn.i_conv1d"},
    LX_HF_GATED_MLP_NAMES,
    {NULL, NULL},
};

/* --- sizes and heads --- */

lx_mixer_config lx_hf_mixer(const lx_config *c, const char *kind)
{
    return (lx_mixer_config){.mixer = lx_mixer_find(kind),
                             .n_layers = c->n_layers,
                             .d_model = c->d_model,
                             .d_ff = c->d_ff};
}

void lx_hf_set_mixer(lx_config *c, const lx_mixer_config *m)
{
    c->n_heads = m->n_heads;
    c->d_key = m->d_key;
    c->d_value = m->d_value;
    c->mixers[0] = *m;
    c->n_mixers = 1;
}

int32_t lx_hf_columns(lx_hf_reader *r, const char *key, int32_t size, double fallback)
{
    double n = size * lx_hf_number(r, key, 1e-3, 1024, fallback);
    if (r->st == LX_OK && (fabs(n - nearbyint(n)) > 1e-5 * n || n < 1 || n > LX_MAX_WIDTH)) {
        lx_hf_wrong(r, key, "does not give a whole number of columns");
        n = 1;
    }
    return r->st == LX_OK ? (int32_t)nearbyint(n) : 1;
}

void lx_hf_expand(lx_hf_reader *r, const lx_config *c, lx_mixer_config *m, double expand_k,
                  double expand_v)
{
    int32_t keys = lx_hf_columns(r, "expand_k", c->d_model, expand_k);
    int32_t values = lx_hf_columns(r, "expand_v", c->d_model, expand_v);
    m->d_key = keys / m->n_heads;
    m->d_value = values / m->n_heads;
    if (keys % m->n_heads != 0 || values % m->n_heads != 0)
        lx_hf_wrong(r, "num_heads", "must divide the columns of keys and of values");
    if (m->d_key > LX_MAX_HEAD_SIZE || m->d_value > LX_MAX_HEAD_SIZE)
        lx_hf_wrong(r, "num_heads", "gives heads larger than 4096");
}

void lx_hf_conv(lx_hf_reader *r, lx_mixer_config *m, bool fallback)
{
    bool conv = lx_hf_flag(r, "use_short_conv", fallback);
    int32_t taps = lx_hf_int(r, "conv_size", 2, LX_CONV_MOST_TAPS, 4);
    lx_mixer_value(m, "conv")->i = conv ? taps : 0;
}

/* --- blocks --- */

/* The usual width of a feed-forward net: times / over of hidden_ratio times the model's, up to a
   multiple of `step`. */
static void read_d_ff(lx_hf_reader *r, lx_config *c, double ratio, int times, int over, int step)
{
    ratio = lx_hf_number(r, "hidden_ratio", 1e-3, 1024, ratio);
    int64_t usual = ((int64_t)(c->d_model * ratio * times / over) + step - 1) / step * step;
    c->d_ff = lx_hf_int(r, "intermediate_size", 1, LX_MAX_D_FF,
                        usual <= LX_MAX_D_FF ? (int32_t)usual : LX_MAX_D_FF);
}

static void read_common(lx_hf_reader *r, lx_config *c, const struct lx_tensor_names *names,
                        int32_t n_layers, double eps)
{
    c->wiring = LX_WIRING_PRE;
    c->names = names;
    c->norm_eps = (float)lx_hf_number(r, "norm_eps", 1e-30, 1, eps);
    c->tied_head = lx_hf_flag(r, "tie_word_embeddings", false);
    c->d_model = lx_hf_int(r, "hidden_size", 1, LX_MAX_WIDTH, 2048);
    c->n_layers = lx_hf_int(r, "num_hidden_layers", 1, LX_MAX_LAYERS, n_layers);
    lx_hf_ignore(r, "attn_mode");
}

void lx_hf_read_blocks(lx_hf_reader *r, lx_config *c, const struct lx_tensor_names *names,
                       int32_t n_layers, double ratio)
{
    c->rms_norm = true;
    lx_hf_only_word(r, "hidden_act", "swish");
    lx_hf_only_null(r, "attnres_block_size");
    read_common(r, c, names, n_layers, 1e-6);
    read_d_ff(r, c, ratio, 2, 3, 256);
    c->feed_forwards[0] = lx_hf_mixer(c, "gated_mlp");
}

void lx_hf_read_rwkv(lx_hf_reader *r, lx_config *c, const struct lx_tensor_names *names,
                     double ratio)
{
    c->activation = LX_ACT_RELU;
    lx_hf_only_word(r, "hidden_act", "sqrelu");
    lx_hf_only_flag(r, "norm_bias", true);
    c->input_norm = lx_hf_flag(r, "norm_first", true);
    read_common(r, c, names, 24, 1e-5);
    read_d_ff(r, c, ratio, 1, 1, 32);
}

/* --- softmax layers between others --- */

/* The heads of the layer, with usual values for the rest. */
static void read_layer(lx_hf_reader *r, const lx_config *c, lx_mixer_config *m)
{
    int32_t n_heads = lx_hf_int(r, "num_heads", 1, LX_MAX_HEADS, 0);
    int32_t key_heads = lx_hf_int(r, "num_kv_heads", 1, LX_MAX_HEADS, n_heads);
    if (n_heads < 1 || c->d_model % n_heads != 0 || c->d_model / n_heads % 2 != 0 ||
        c->d_model / n_heads > LX_HF_MAX_SOFTMAX_HEAD) {
        lx_hf_wrong(r, "num_heads", "must divide hidden_size into heads of 2, 4, .. 1024");
        n_heads = key_heads = 1;
    }
    if (n_heads % key_heads != 0)
        lx_hf_wrong(r, "num_kv_heads", "must divide num_heads");
    m->n_heads = n_heads;
    m->d_key = m->d_value = c->d_model / n_heads;
    lx_mixer_value(m, "key_heads")->i = key_heads;
    lx_mixer_value(m, "window")->i = lx_hf_int(r, "window_size", 1, MAX_WINDOW, 0);
    lx_hf_read_base(r, m, "rope_theta", 10000);
    lx_mixer_value(m, "bias")->i = lx_hf_flag(r, "qkv_bias", false);
}

/* Puts it where `layers` says. */
static void place_layers(lx_hf_reader *r, lx_config *c, const lx_mixer_config *m)
{
    const json_t *layers = json_object_get(r->root, "layers");
    size_t n = json_array_size(layers); /* 0 for another type */
    bool ok = n > 0;
    for (size_t i = 0; ok && i < n; i++) {
        const json_t *layer = json_array_get(layers, i);
        ok = json_is_integer(layer) && json_integer_value(layer) >= 0 &&
             json_integer_value(layer) < c->n_layers;
        if (ok)
            c->mixers[json_integer_value(layer)] = *m;
    }
    if (!ok)
        lx_hf_wrong(r, "layers", "must be a list of layers, counted from 0");
    lx_hf_ignore(r, "layers");
}

void lx_hf_set_mixers(lx_hf_reader *r, lx_config *c, const lx_mixer_config *m)
{
    json_t *attn = r->st == LX_OK ? json_object_get(r->root, "attn") : NULL;
    lx_hf_set_mixer(c, m);
    if (json_is_object(attn)) {
        lx_hf_reader inner = *r;
        lx_mixer_config own = lx_hf_mixer(c, "grouped_query");
        inner.root = attn;
        inner.prefix = "attn.";
        for (int32_t i = 1; i < c->n_layers; i++)
            c->mixers[i] = *m;
        c->n_mixers = c->n_layers;
        read_layer(&inner, c, &own);
        place_layers(&inner, c, &own);
        lx_hf_refuse_rest(&inner);
        r->st = inner.st;
    } else if (attn != NULL && !json_is_null(attn)) {
        lx_hf_wrong(r, "attn", "must be an object or null");
    }
    lx_hf_ignore(r, "attn");
}
