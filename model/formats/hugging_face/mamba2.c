/*
 * Mamba-2 as transformers and flash-linear-attention write it (the Mamba2Config of either): the
 * mixer mamba2 in whole layers with RMSNorm. Their own names for the parts:
 *
 *     norm               norm1                 mixer.{in,out}_proj     attn.in, attn.out
 *     mixer.conv1d       attn.conv             mixer.{A_log,D,dt_bias,norm}
 *
 * They call some keys otherwise (layer_norm_epsilon and norm_eps, rms_norm and rmsnorm,
 * time_step_limit and dt_limit), and transformers has other defaults and never looks at
 * norm_before_gate. fla's configs are known by norm_eps.
 */
#include <stdio.h>
#include <string.h>

#include "model/formats/hugging_face/reader.h"
#include "model/tasks/text_config.h"

static const lx_tensor_name layer_names[] = {
    {"norm1", "norm"},
    {"attn.in", "mixer.in_proj"},
    {"attn.out", "mixer.out_proj"},
    {"attn.conv", "mixer.conv1d"},
    {"attn.A_log", "mixer.A_log"},
    {"attn.D", "mixer.D"},
    {"attn.dt_bias", "mixer.dt_bias"},
    {"attn.norm", "mixer.norm"},
    {NULL, NULL},
};

static const struct lx_tensor_names names = {.layers = "backbone.layers.",
                                             .embed = "backbone.embeddings",
                                             .final_norm = "backbone.norm_f",
                                             .tables = {{.names = layer_names}}};

/* The newest transformers name a type for every layer; the name depends on the version. */
void lx_hf_only_mamba_layers(lx_hf_reader *r)
{
    json_t *types = json_object_get(r->root, "layer_types");
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (type == NULL || (strcmp(type, "mamba") != 0 && strcmp(type, "linear_attention") != 0)) {
            lx_hf_wrong(r, "layer_types",
                        "must be \"mamba\" or \"linear_attention\" for every layer");
            break;
        }
    }
    lx_hf_ignore(r, "layer_types");
}

/* Keys that have other names in hybrids. */
enum { HEADS, GROUPS, TAPS, CONV_BIAS, BIAS };

void lx_hf_read_mamba_parts(lx_hf_reader *r, lx_mixer_config *m, const char *const keys[],
                            int32_t usual_groups)
{
    char what[64];
    int32_t groups = lx_hf_int(r, keys[GROUPS], 1, LX_MAX_HEADS, usual_groups);
    (void)snprintf(what, sizeof what, "must divide %s", keys[HEADS]);
    if (m->n_heads % groups != 0)
        lx_hf_wrong(r, keys[GROUPS], what);
    if ((int64_t)m->n_heads * m->d_value + 2 * (int64_t)groups * m->d_key > LX_MAX_D_FF)
        lx_hf_wrong(r, keys[HEADS], "gives more than 262144 columns");
    lx_mixer_value(m, "groups")->i = groups;
    lx_mixer_value(m, "conv")->i = lx_hf_int(r, keys[TAPS], 2, LX_CONV_MOST_TAPS, 4);
    bool conv = lx_hf_flag(r, keys[CONV_BIAS], true), products = lx_hf_flag(r, keys[BIAS], false);
    lx_mixer_set_word(m, "bias",
                      conv ? (products ? "both" : "conv") : (products ? "products" : "none"));
}

static lx_mixer_config read_sizes(lx_hf_reader *r, lx_config *c, bool fla)
{
    c->d_model = lx_hf_int(r, "hidden_size", 1, LX_MAX_WIDTH, fla ? 2048 : 4096);
    c->n_layers = lx_hf_int(r, "num_hidden_layers", 1, LX_MAX_LAYERS, fla ? 48 : 64);
    static const char *const keys[] = {"num_heads", "n_groups", "conv_kernel", "use_conv_bias",
                                       "use_bias"};
    lx_mixer_config m = lx_hf_mixer(c, "mamba2");
    double inner = c->d_model * lx_hf_number(r, "expand", 1e-3, 64, 2);
    m.d_key = lx_hf_int(r, "state_size", 1, LX_MAX_HEAD_SIZE, 128);
    m.d_value = lx_hf_int(r, "head_dim", 1, LX_MAX_HEAD_SIZE, 64);
    m.n_heads = lx_hf_int(r, "num_heads", 1, LX_MAX_HEADS, fla ? (int32_t)inner / m.d_value : 128);
    if ((int64_t)m.n_heads * m.d_value != (int64_t)inner)
        lx_hf_wrong(r, "num_heads", "times head_dim must be expand times hidden_size");
    if (lx_hf_int(r, "intermediate_size", 1, INT32_MAX, (int32_t)inner) != (int32_t)inner)
        lx_hf_wrong(r, "intermediate_size", "must be expand times hidden_size");
    lx_hf_read_mamba_parts(r, &m, keys, fla ? 1 : 8);
    return m;
}

static void read_norm(lx_hf_reader *r, lx_config *c, lx_mixer_config *m, bool fla)
{
    c->norm_eps = (float)lx_hf_number(r, fla ? "norm_eps" : "layer_norm_epsilon", 1e-30, 1, 1e-5);
    lx_mixer_value(m, "eps")->f = c->norm_eps;
    bool has_norm = true, gate_last = false;
    if (fla) {
        has_norm = lx_hf_flag(r, "rmsnorm", true);
        gate_last = lx_hf_flag(r, "norm_before_gate", false);
        lx_hf_only_flag(r, "D_has_hdim", false);
    } else {
        lx_hf_only_flag(r, "rms_norm", true);
        lx_hf_ignore(r, "norm_before_gate");
    }
    lx_mixer_set_word(m, "norm", !has_norm ? "none" : gate_last ? "gate_last" : "gate_first");
}

static void read_config(lx_hf_reader *r, lx_config *c)
{
    bool fla = json_object_get(r->root, "norm_eps") != NULL;
    c->wiring = LX_WIRING_PRE;
    c->rms_norm = true;
    c->names = &names;
    c->tied_head = lx_hf_flag(r, "tie_word_embeddings", false);
    lx_hf_only_word(r, "hidden_act", "silu");
    lx_hf_only_unbounded(r, fla ? "dt_limit" : "time_step_limit");
    lx_hf_only_mamba_layers(r);
    lx_mixer_config m = read_sizes(r, c, fla);
    read_norm(r, c, &m, fla);
    lx_hf_set_mixer(c, &m);
    lx_hf_ignore(r, "A_init_range chunk_size conv_init dt_init_floor dt_max dt_min "
                    "rescale_prenorm_residual residual_in_fp32 time_step_floor "
                    "time_step_init_scheme time_step_max time_step_min time_step_rank "
                    "time_step_scale");
    lx_hf_read_text(r, c, fla ? 32000 : 32768, LX_MAX_CONTEXT);
}

/* The size of heads; "auto" and null leave it open. */
static int32_t read_head_size(lx_hf_reader *r, int32_t fallback)
{
    const char *text =
        r->st == LX_OK ? json_string_value(json_object_get(r->root, "mamba_d_head")) : NULL;
    if (text != NULL && strcmp(text, "auto") == 0)
        lx_hf_ignore(r, "mamba_d_head");
    return lx_hf_int(r, "mamba_d_head", 1, LX_MAX_HEAD_SIZE, fallback);
}

lx_mixer_config lx_hf_read_mamba(lx_hf_reader *r, const lx_config *c, int64_t inner, float eps)
{
    static const char *const keys[] = {"mamba_n_heads", "mamba_n_groups", "mamba_d_conv",
                                       "mamba_conv_bias", "mamba_proj_bias"};
    lx_mixer_config m = lx_hf_mixer(c, "mamba2");
    m.n_heads = lx_hf_int(r, "mamba_n_heads", 1, LX_MAX_HEADS, 128);
    int64_t size = inner / m.n_heads;
    m.d_value = read_head_size(r, size >= 1 && size <= LX_MAX_HEAD_SIZE ? (int32_t)size : 1);
    m.d_key = lx_hf_int(r, "mamba_d_state", 1, LX_MAX_HEAD_SIZE, 256);
    if ((int64_t)m.n_heads * m.d_value != inner)
        lx_hf_wrong(r, "mamba_n_heads", "times mamba_d_head must be the columns of the mixer");
    lx_hf_read_mamba_parts(r, &m, keys, 1);
    lx_mixer_value(&m, "eps")->f = eps;
    lx_mixer_value(&m, "feed_forward")->i = true;
    lx_hf_only_unbounded(r, "time_step_limit");
    lx_hf_ignore(r, "mamba_chunk_size");
    return m;
}

const lx_hf_kind lx_hf_mamba2 = {.model_types = {"mamba2"}, .read = read_config};
