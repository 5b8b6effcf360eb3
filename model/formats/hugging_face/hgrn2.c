/*
 * HGRN2 as flash-linear-attention writes it (its HGRN2Config and HGRN2Attention): the mixer hgrn2
 * with gated_mlp. Their own names for the parts:
 *
 *     attn_norm, mlp_norm      norm1, norm2        {q,f,i,o}_proj           attn.q, f, i, out
 *     g_norm                   attn.norm           {q,f,i}_conv1d           attn.q_conv, ..
 *     model.lower_bounds       attn.lower_bounds of every layer
 *
 * Its layer hands no eps to the norm of what heads read, which then has 1e-5, whatever norm_eps is.
 */
#include "model/formats/hugging_face/reader.h"

enum { USUAL_RATIO = 128 };

static const lx_tensor_name own_names[] = {
    {"attn.norm", "attn.g_norm"},
    {"attn.lower_bounds", "/model.lower_bounds"},
    {NULL, NULL},
};
static const struct lx_tensor_names names = LX_HF_FLA_NAMES(own_names);

/* expand_ratio columns a head; where it is null num_heads decides, else no layer looks at that. */
static void read_heads(lx_hf_reader *r, const lx_config *c, lx_mixer_config *m)
{
    const json_t *ratio = json_object_get(r->root, "expand_ratio");
    int32_t n_heads = lx_hf_int(r, "num_heads", 1, LX_MAX_HEADS, 0);
    bool by_heads = ratio != NULL && json_is_null(ratio) && n_heads > 0;
    int32_t usual = by_heads ? c->d_model / n_heads : USUAL_RATIO;
    m->d_key = lx_hf_int(r, "expand_ratio", 1, LX_MAX_HEAD_SIZE, usual);
    if (m->d_key < 1 || m->d_key > LX_MAX_HEAD_SIZE || c->d_model % m->d_key != 0 ||
        c->d_model / m->d_key > LX_MAX_HEADS) {
        lx_hf_wrong(r, "expand_ratio", "must divide hidden_size, into at most 1024 heads");
        m->d_key = c->d_model;
    }
    m->d_value = m->d_key;
    m->n_heads = c->d_model / m->d_key;
}

static void read_config(lx_hf_reader *r, lx_config *c)
{
    lx_hf_read_blocks(r, c, &names, 24, 4);
    lx_mixer_config m = lx_hf_mixer(c, "hgrn2");
    read_heads(r, c, &m);
    lx_hf_conv(r, &m, false);
    lx_mixer_value(&m, "bounds")->i = lx_hf_flag(r, "use_lower_bound", true);
    lx_mixer_value(&m, "eps")->f = 1e-5f;
    lx_hf_only_flag(r, "elementwise_affine", true);
    lx_hf_set_mixers(r, c, &m);
    lx_hf_read_text(r, c, 32000, 2048);
}

const lx_hf_kind lx_hf_hgrn2 = {.model_types = {"hgrn2"}, .read = read_config};
