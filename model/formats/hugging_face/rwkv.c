/* What RWKV's models have around their mixers as flash-linear-attention writes them (see reader.h):
   x += A(LayerNorm(x)), then x += B(LayerNorm(x)), B with a state, too. */
#include "model/formats/hugging_face/reader.h"

#define MODEL_NAMES(head)                                                                          \
    {"embed.token", "model.embeddings"}, {"input_norm", "model.layers.0.pre_norm"},                \
        {"final_norm", "model.norm"}, {"head", head},                                              \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }

const lx_tensor_name lx_hf_rwkv_names[] = {MODEL_NAMES("lm_head")};
const lx_tensor_name lx_hf_tied_rwkv_names[] = {MODEL_NAMES("model.embeddings")};

void lx_hf_read_rwkv(lx_hf_reader *r, lx_config *c, const struct lx_tensor_names *names,
                     const struct lx_tensor_names *tied_names, double ratio)
{
    c->wiring = LX_WIRING_PRE;
    c->activation = LX_ACT_RELU;
    lx_hf_only_word(r, "hidden_act", "sqrelu");
    lx_hf_only_flag(r, "norm_bias", true);
    c->norm_eps = (float)lx_hf_number(r, "norm_eps", 1e-30, 1, 1e-5);
    c->input_norm = lx_hf_flag(r, "norm_first", true);
    c->names = lx_hf_flag(r, "tie_word_embeddings", false) ? tied_names : names;
    c->d_model = lx_hf_int(r, "hidden_size", 1, LX_HF_MAX_WIDTH, 2048);
    c->n_layers = lx_hf_int(r, "num_hidden_layers", 1, LX_MAX_LAYERS, 24);
    ratio = lx_hf_number(r, "hidden_ratio", 1e-3, 1024, ratio);
    int64_t usual = ((int64_t)(c->d_model * ratio) + 31) / 32 * 32;
    c->d_ff = lx_hf_int(r, "intermediate_size", 1, LX_HF_MAX_D_FF,
                        usual <= LX_HF_MAX_D_FF ? (int32_t)usual : LX_HF_MAX_D_FF);
}
