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

enum { MAX_HEADS = 1024, MAX_HEAD_SIZE = 4096, USUAL_RATIO = 128 };

static const char *const model_types[] = {"hgrn2", NULL};

static const lx_tensor_name layer_names[] = {
    {"norm1", "attn_norm"},
    {"norm2", "mlp_norm"},
    {"attn.q", "attn.q_proj"},
    {"attn.f", "attn.f_proj"},
    {"attn.i", "attn.i_proj"},
    {"attn.k", "attn.k_proj"}, /* of a softmax layer, as the next */
    {"attn.v", "attn.v_proj"},
    {"attn.out", "attn.o_proj"},
    {"attn.norm", "attn.g_norm"},
    {"attn.q_conv", "attn.q_conv1d"},
    {"attn.f_conv", "attn.f_conv1d"},
    {"attn.i_conv", "attn.i_conv1d"},
    {"attn.lower_bounds", "/model.lower_bounds"},
    LX_HF_GATED_MLP_NAMES,
    {NULL, NULL},
};

static const struct lx_tensor_names names = {
    .layer = layer_names, .layers = "model.layers.", .model = lx_hf_model_names};
static const struct lx_tensor_names tied_names = {
    .layer = layer_names, .layers = "model.layers.", .model = lx_hf_tied_model_names};

/* expand_ratio columns a head; where it is null num_heads decides, else no layer looks at that. */
static void read_heads(lx_hf_reader *r, lx_config *c, lx_mixer_config *m)
{
    const json_t *ratio = json_object_get(r->root, "expand_ratio");
    int32_t n_heads = lx_hf_int(r, "num_heads", 1, MAX_HEADS, 0);
    bool by_heads = ratio != NULL && json_is_null(ratio) && n_heads > 0;
    int32_t usual = by_heads ? c->d_model / n_heads : USUAL_RATIO;
    m->d_key = lx_hf_int(r, "expand_ratio", 1, MAX_HEAD_SIZE, usual);
    if (m->d_key < 1 || m->d_key > MAX_HEAD_SIZE || c->d_model % m->d_key != 0 ||
        c->d_model / m->d_key > MAX_HEADS) {
        lx_hf_wrong(r, "expand_ratio", "must divide hidden_size, into at most 1024 heads");
        m->d_key = c->d_model;
    }
    m->d_value = m->d_key;
    m->n_heads = c->d_model / m->d_key;
    m->n_layers = c->n_layers;
    m->d_model = c->d_model;
    m->d_ff = c->d_ff;
    c->n_heads = m->n_heads;
    c->d_key = m->d_key;
    c->d_value = m->d_value;
}

static void read_config(lx_hf_reader *r, lx_config *c)
{
    lx_mixer_config m = {.mixer = lx_mixer_find("hgrn2")};
    lx_hf_read_blocks(r, c, &names, &tied_names, 24, 4);
    read_heads(r, c, &m);
    bool conv = lx_hf_flag(r, "use_short_conv", false);
    int32_t taps = lx_hf_int(r, "conv_size", 2, LX_CONV_MOST_TAPS, 4);
    lx_mixer_value(&m, "conv")->i = conv ? taps : 0;
    lx_mixer_value(&m, "bounds")->i = lx_hf_flag(r, "use_lower_bound", true);
    lx_mixer_value(&m, "eps")->f = 1e-5f;
    lx_hf_only_flag(r, "elementwise_affine", true);
    lx_hf_ignore(r, (const char *const[]){"attn_mode", NULL});
    lx_hf_set_mixers(r, c, &m);
    lx_hf_read_text(r, c, 32000, 2048);
}

const lx_hf_kind lx_hf_hgrn2 = {.model_types = model_types, .read = read_config};
