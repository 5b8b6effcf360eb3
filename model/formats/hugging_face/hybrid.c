/*
 * Parts that hybrids of transformers share (see reader.h): keys around the layers, softmax layers,
 * and the place of each type of layers. Other files of this folder read the mixers: mamba2.c,
 * delta.c and, for turned queries and keys, rotation.c.
 */
#include <stdio.h>
#include <string.h>

#include "model/formats/hugging_face/reader.h"

void lx_hf_read_hybrid(lx_hf_reader *r, lx_config *c, const lx_hf_hybrid *usual)
{
    const char *eps = usual->eps_key != NULL ? usual->eps_key : "rms_norm_eps";
    const char *d_ff = usual->d_ff_key != NULL ? usual->d_ff_key : "intermediate_size";
    c->wiring = LX_WIRING_PRE;
    c->rms_norm = true;
    c->names = usual->names;
    c->tied_head = lx_hf_flag(r, "tie_word_embeddings", usual->tied);
    lx_hf_only_word(r, "hidden_act", "silu");
    c->norm_eps = (float)lx_hf_number(r, eps, 1e-30, 1, usual->eps);
    c->d_model = lx_hf_int(r, "hidden_size", 1, LX_MAX_WIDTH, usual->d_model);
    c->n_layers = lx_hf_int(r, "num_hidden_layers", 1, LX_MAX_LAYERS, usual->n_layers);
    c->d_ff = lx_hf_int(r, d_ff, 1, LX_MAX_D_FF, usual->d_ff);
    c->feed_forwards[0] = lx_hf_mixer(c, "gated_mlp");
    lx_hf_ignore(r, "attention_dropout"); /* of training */
    lx_hf_read_text(r, c, usual->vocab_size, usual->context);
}

lx_mixer_config lx_hf_read_heads(lx_hf_reader *r, const lx_config *c, const lx_hf_heads *usual)
{
    lx_mixer_config m = lx_hf_mixer(c, "grouped_query");
    m.n_heads = lx_hf_int(r, "num_attention_heads", 1, LX_MAX_HEADS, usual->heads);
    m.d_key = lx_hf_int(r, "head_dim", 2, LX_HF_MAX_SOFTMAX_HEAD,
                        usual->size > 0 ? usual->size : c->d_model / m.n_heads);
    int32_t key_heads = lx_hf_int(r, "num_key_value_heads", 1, LX_MAX_HEADS,
                                  usual->key_heads > 0 ? usual->key_heads : m.n_heads);
    if (m.n_heads % key_heads != 0)
        lx_hf_wrong(r, "num_key_value_heads", "must divide num_attention_heads");
    if (m.d_key < 2 || m.d_key > LX_HF_MAX_SOFTMAX_HEAD || 3 * m.n_heads * m.d_key > LX_MAX_D_FF) {
        lx_hf_wrong(r, "num_attention_heads", "gives heads that are too large or too small");
        m.d_key = 2;
    }
    m.d_value = m.d_key;
    lx_mixer_value(&m, "key_heads")->i = key_heads;
    lx_hf_only_flag(r, "attention_bias", false);
    if (usual->norm != NULL) {
        lx_mixer_set_word(&m, "norm", usual->norm);
        lx_mixer_value(&m, "eps")->f = c->norm_eps;
    }
    return m;
}

lx_mixer_config lx_hf_read_experts(lx_hf_reader *r, const lx_config *c, const lx_hf_experts *usual)
{
    const char *width = usual->width_key != NULL ? usual->width_key : "intermediate_size";
    const char *active_key = usual->active_key != NULL ? usual->active_key : "num_experts_per_tok";
    lx_mixer_config m = lx_hf_mixer(c, "experts");
    char what[96];
    if (usual->width_key != NULL)
        m.d_ff = lx_hf_int(r, width, 1, LX_MAX_D_FF, usual->width);
    int32_t n = lx_hf_int(r, usual->count_key, 1, LX_MOST_EXPERTS, usual->n);
    lx_mixer_value(&m, "experts")->i = n;
    int32_t active = lx_hf_int(r, active_key, 1, n, usual->active);
    lx_mixer_value(&m, "active")->i = active;
    if (active > n) /* the file does not say the number of active ones */
        (void)snprintf(what, sizeof what, "must be there: the usual %d are more than %s", active,
                       usual->count_key);
    else
        (void)snprintf(what, sizeof what, "times %s must be at most 262144", width);
    if (m.mixer->check(&m) != NULL)
        lx_hf_wrong(r, active_key, what);
    return m;
}

static void read_groups(lx_hf_reader *r, lx_mixer_config *m, const lx_hf_router *usual)
{
    char what[128];
    int32_t n =
        lx_hf_int(r, usual->groups, 1, LX_MOST_EXPERTS, usual->n_groups > 0 ? usual->n_groups : 1);
    int32_t active =
        lx_hf_int(r, "topk_group", 1, n, usual->active_groups > 0 ? usual->active_groups : 1);
    if (n == 1) /* then the best group is all */
        return;
    lx_mixer_value(m, "groups")->i = n;
    lx_mixer_value(m, "active_groups")->i = active;
    (void)snprintf(what, sizeof what,
                   "must divide %s into groups of 2 and more, of which topk_group have %s experts",
                   usual->count_key, usual->active_key);
    if (m->mixer->check(m) != NULL)
        lx_hf_wrong(r, usual->groups, what);
}

void lx_hf_read_router(lx_hf_reader *r, lx_mixer_config *m, const lx_hf_router *usual)
{
    lx_mixer_set_word(m, "router", "sigmoid");
    lx_mixer_value(m, "bias")->i = true;
    lx_mixer_value(m, "normalise")->i = lx_hf_flag(r, usual->normalise, true);
    if (lx_mixer_value(m, "normalise")->i)
        lx_mixer_value(m, "eps")->f = 1e-20f;
    lx_mixer_value(m, "scale")->f =
        (float)lx_hf_number(r, "routed_scaling_factor", 1e-6, 1e6, usual->scale);
    read_groups(r, m, usual);
}

/* --- the place of each type of layers --- */

static bool has_word(const lx_hf_layer_type *type, const char *word)
{
    for (size_t i = 0; i < sizeof type->words / sizeof *type->words; i++) {
        if (word != NULL && type->words[i] != NULL && strcmp(word, type->words[i]) == 0)
            return true;
    }
    return false;
}

/* "must say "A", "B" or "C" of every layer" */
static void refuse_types(lx_hf_reader *r, const lx_hf_layer_type *types, size_t n)
{
    char what[160] = "must say ";
    for (size_t i = 0; i < n; i++) {
        const char *before = i == 0 ? "" : i + 1 < n ? ", " : " or ";
        size_t used = strlen(what);
        (void)snprintf(what + used, sizeof what - used, "%s\"%s\"", before, types[i].words[0]);
    }
    size_t used = strlen(what);
    (void)snprintf(what + used, sizeof what - used, " of every layer");
    lx_hf_wrong(r, "layer_types", what);
}

bool lx_hf_place_layers(lx_hf_reader *r, lx_config *c, const lx_hf_layer_type *types, size_t n,
                        int32_t every)
{
    const json_t *listed = r->st == LX_OK ? json_object_get(r->root, "layer_types") : NULL;
    bool ok = json_array_size(listed) == (size_t)c->n_layers;
    lx_hf_set_mixer(c, types[0].mixer);
    for (int32_t i = 0; i < c->n_layers; i++)
        c->mixers[i] = *types[every > 0 && i % every == every - 1 ? 1 : 0].mixer;
    c->n_mixers = c->n_layers;
    if (listed == NULL || json_is_null(listed))
        return false;
    for (int32_t i = 0; ok && i < c->n_layers; i++) {
        const char *word = json_string_value(json_array_get(listed, (size_t)i));
        size_t k = 0;
        while (k < n && !has_word(&types[k], word))
            k++;
        ok = k < n;
        if (ok)
            c->mixers[i] = *types[k].mixer;
    }
    if (!ok)
        refuse_types(r, types, n);
    lx_hf_ignore(r, "layer_types");
    return true;
}
