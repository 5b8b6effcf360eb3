/* What fla's models have in common around their mixers (see reader.h): x += A(RMSNorm(x)), then
   x += MLP(RMSNorm(x)). */
#include <math.h>

#include "model/formats/hugging_face/reader.h"

#define MODEL_NAMES(head)                                                                          \
    {"embed.token", "model.embeddings"}, {"final_norm", "model.norm"}, {"head", head},             \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }

const lx_tensor_name lx_hf_model_names[] = {MODEL_NAMES("lm_head")};
const lx_tensor_name lx_hf_tied_model_names[] = {MODEL_NAMES("model.embeddings")};

int32_t lx_hf_columns(lx_hf_reader *r, const char *key, int32_t size, double fallback)
{
    double n = size * lx_hf_number(r, key, 1e-3, 1024, fallback);
    if (r->st == LX_OK && (fabs(n - nearbyint(n)) > 1e-5 * n || n < 1 || n > LX_HF_MAX_WIDTH)) {
        lx_hf_wrong(r, key, "does not give a whole number of columns");
        n = 1;
    }
    return r->st == LX_OK ? (int32_t)nearbyint(n) : 1;
}

/* fla's own rule: two thirds of hidden_ratio times the width, up to a multiple of 256. */
static int32_t read_d_ff(lx_hf_reader *r, int32_t d_model, double ratio)
{
    ratio = lx_hf_number(r, "hidden_ratio", 1e-3, 1024, ratio);
    int64_t usual = ((int64_t)(d_model * ratio * 2 / 3) + 255) / 256 * 256;
    return lx_hf_int(r, "intermediate_size", 1, LX_HF_MAX_D_FF,
                     usual <= LX_HF_MAX_D_FF ? (int32_t)usual : LX_HF_MAX_D_FF);
}

void lx_hf_read_blocks(lx_hf_reader *r, lx_config *c, const struct lx_tensor_names *names,
                       const struct lx_tensor_names *tied_names, int32_t n_layers, double ratio)
{
    c->wiring = LX_WIRING_PRE;
    c->rms_norm = true;
    lx_hf_only_word(r, "hidden_act", "swish");
    lx_hf_only_null(r, "attnres_block_size");
    c->norm_eps = (float)lx_hf_number(r, "norm_eps", 1e-30, 1, 1e-6);
    c->names = lx_hf_flag(r, "tie_word_embeddings", false) ? tied_names : names;
    c->d_model = lx_hf_int(r, "hidden_size", 1, LX_HF_MAX_WIDTH, 2048);
    c->n_layers = lx_hf_int(r, "num_hidden_layers", 1, LX_MAX_LAYERS, n_layers);
    c->d_ff = read_d_ff(r, c->d_model, ratio);
    c->feed_forward = (lx_mixer_config){
        .mixer = lx_mixer_find("gated_mlp"), .d_model = c->d_model, .d_ff = c->d_ff};
}
