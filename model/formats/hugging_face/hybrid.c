/*
 * Softmax layers between others as flash-linear-attention writes them (the key `attn` of its
 * configs and its Attention): the mixer grouped_query in the layers that are named there.
 */
#include "model/formats/hugging_face/reader.h"

enum { MAX_HEADS = 1024, MAX_HEAD_SIZE = 1024, MAX_WINDOW = 1 << 20, MAX_BASE = 1 << 30 };

int32_t lx_hf_base(lx_hf_reader *r, const char *key, double fallback)
{
    double base = lx_hf_number(r, key, 2, MAX_BASE, fallback);
    if (base != (double)(int32_t)base)
        lx_hf_wrong(r, key, "must be a whole number: nothing else is supported");
    return (int32_t)base;
}

/* The heads of the layer, with what is usual for the rest. */
static void read_layer(lx_hf_reader *r, const lx_config *c, lx_mixer_config *m)
{
    int32_t n_heads = lx_hf_int(r, "num_heads", 1, MAX_HEADS, 0);
    int32_t key_heads = lx_hf_int(r, "num_kv_heads", 1, MAX_HEADS, n_heads);
    if (n_heads < 1 || c->d_model % n_heads != 0 || c->d_model / n_heads % 2 != 0 ||
        c->d_model / n_heads > MAX_HEAD_SIZE) {
        lx_hf_wrong(r, "num_heads", "must divide hidden_size into heads of 2, 4, .. 1024");
        n_heads = key_heads = 1;
    }
    if (n_heads % key_heads != 0)
        lx_hf_wrong(r, "num_kv_heads", "must divide num_heads");
    m->n_heads = n_heads;
    m->d_key = m->d_value = c->d_model / n_heads;
    lx_mixer_value(m, "key_heads")->i = key_heads;
    lx_mixer_value(m, "window")->i = lx_hf_int(r, "window_size", 1, MAX_WINDOW, 0);
    lx_mixer_value(m, "base")->i = lx_hf_base(r, "rope_theta", 10000);
    lx_mixer_value(m, "bias")->i = lx_hf_flag(r, "qkv_bias", false);
}

/* Puts it where `layers` says. */
static void place_layers(lx_hf_reader *r, lx_config *c, const lx_mixer_config *m)
{
    const json_t *layers = json_object_get(r->root, "layers");
    size_t n = json_array_size(layers); /* 0 for what is no array */
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
    lx_hf_ignore(r, (const char *const[]){"layers", NULL});
}

void lx_hf_set_mixers(lx_hf_reader *r, lx_config *c, const lx_mixer_config *m)
{
    json_t *attn = r->st == LX_OK ? json_object_get(r->root, "attn") : NULL;
    c->mixers[0] = *m;
    c->n_mixers = 1;
    if (json_is_object(attn)) {
        lx_hf_reader inner = *r;
        lx_mixer_config own = {.mixer = lx_mixer_find("grouped_query"),
                               .n_layers = c->n_layers,
                               .d_model = c->d_model,
                               .d_ff = c->d_ff};
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
    lx_hf_ignore(r, (const char *const[]){"attn", NULL});
}
