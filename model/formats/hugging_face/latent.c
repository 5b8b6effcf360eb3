/*
 * Parts that Kimi-Linear and Ling 3 share (see reader.h): the sizes of mla and kda, the net that
 * stands next to the experts, and the place of the experts.
 */
#include <string.h>

#include "model/formats/hugging_face/reader.h"

#define LATENT_EPS 1e-6f /* of norms of latents, which no key says */

lx_mixer_config lx_hf_unbiased_kda(lx_hf_reader *r, const lx_config *c, int32_t heads, int32_t size,
                                   int32_t taps, int32_t rank)
{
    lx_mixer_config m = lx_hf_mixer(c, "kda");
    m.n_heads = heads;
    m.d_key = m.d_value = size;
    if ((int64_t)3 * heads * size > LX_MAX_D_FF)
        lx_hf_wrong(r, "linear_num_heads", "times the sizes of heads is more than 262144 columns");
    lx_mixer_value(&m, "conv")->i = taps;
    lx_mixer_value(&m, "rank")->i = rank;
    lx_mixer_value(&m, "unbiased")->i = true;
    lx_mixer_value(&m, "eps")->f = c->norm_eps;
    return m;
}

lx_mixer_config lx_hf_read_mla(lx_hf_reader *r, const lx_config *c)
{
    lx_mixer_config m = lx_hf_mixer(c, "mla");
    m.n_heads = lx_hf_int(r, "num_attention_heads", 1, LX_MAX_HEADS, 32);
    int32_t own = lx_hf_int(r, "qk_nope_head_dim", 1, LX_HF_MAX_SOFTMAX_HEAD, 128);
    int32_t common = lx_hf_int(r, "qk_rope_head_dim", 1, LX_HF_MAX_SOFTMAX_HEAD, 64);
    m.d_key = own + common;
    m.d_value = lx_hf_int(r, "v_head_dim", 1, LX_HF_MAX_SOFTMAX_HEAD, 128);
    lx_mixer_value(&m, "common")->i = common;
    lx_mixer_value(&m, "rank")->i = lx_hf_int(r, "kv_lora_rank", 1, LX_MAX_WIDTH, 512);
    lx_mixer_value(&m, "q_rank")->i = lx_hf_int(r, "q_lora_rank", 1, LX_MAX_WIDTH, 0);
    lx_mixer_value(&m, "eps")->f = LATENT_EPS;
    if (m.d_key > LX_HF_MAX_SOFTMAX_HEAD ||
        (int64_t)m.n_heads * (2 * m.d_key + m.d_value) > LX_MAX_D_FF)
        lx_hf_wrong(r, "num_attention_heads", "gives heads that are too large");
    lx_hf_only_number(r, "num_key_value_heads", m.n_heads, "num_attention_heads");
    lx_hf_only_number(r, "qk_head_dim", m.d_key, "qk_nope_head_dim + qk_rope_head_dim");
    lx_hf_only_flag(r, "attention_bias", false);
    return m;
}

void lx_hf_read_shared_net(lx_hf_reader *r, lx_mixer_config *experts)
{
    int64_t columns =
        (int64_t)experts->d_ff * lx_hf_int(r, "num_shared_experts", 1, LX_MOST_EXPERTS, 1);
    if (columns > LX_MAX_D_FF)
        lx_hf_wrong(r, "num_shared_experts", "times moe_intermediate_size must be at most 262144");
    lx_mixer_value(experts, "shared")->i =
        columns <= LX_MAX_D_FF ? (int32_t)columns : experts->d_ff;
}

void lx_hf_place_experts(lx_hf_reader *r, lx_config *c, const lx_mixer_config *experts,
                         int32_t usual_first)
{
    const char *key = "mlp_layer_types";
    const lx_mixer_config dense = c->feed_forwards[0];
    const json_t *list = r->st == LX_OK ? json_object_get(r->root, key) : NULL;
    int32_t first = lx_hf_int(r, "first_k_dense_replace", 0, INT32_MAX, usual_first);
    bool ok = list == NULL || json_is_null(list) || json_array_size(list) == (size_t)c->n_layers;
    c->n_feed_forwards = c->n_layers;
    for (int32_t i = 0; i < c->n_layers && ok; i++) {
        const char *word = json_string_value(json_array_get(list, (size_t)i));
        bool is_dense =
            json_is_array(list) ? word != NULL && strcmp(word, "dense") == 0 : i < first;
        ok = !json_is_array(list) || is_dense || (word != NULL && strcmp(word, "sparse") == 0);
        c->feed_forwards[i] = is_dense ? dense : *experts;
    }
    if (!ok)
        lx_hf_wrong(r, key, "must say \"dense\" or \"sparse\" of every layer");
    lx_hf_ignore(r, key);
}
