/*
 * Qwen3.5's text models as transformers writes them (its Qwen3_5TextConfig and Qwen3_5ForCausalLM,
 * and the text of Qwen3_5Config): the mixers gated_deltanet, joined, and in every fourth layer, or
 * where layer_types says so, grouped_query with a gate; gated_mlp; norms of 1 + weight. Their own
 * names for the parts:
 *
 *     input_layernorm, post_attention_layernorm        norm1, norm2
 *     linear_attn.in_proj_{qkv,b,a,z}, out_proj        attn.qkv, attn.b, attn.a, attn.g, attn.out
 *     linear_attn.conv1d, norm                         attn.conv, attn.norm
 *     self_attn.{q,k,v,o}_proj                         attn.q, attn.k, attn.v, attn.out
 *
 * With pictures (qwen3_5) the text is below model.language_model; what reads pictures is not used,
 * nor are the layers that guess tokens (mtp).
 */
#include <string.h>

#include "model/formats/hugging_face/reader.h"
#include "model/tasks/text_config.h"

enum { MAX_SOFTMAX_HEAD = 1024, MAX_EVERY = 1024 };

static const lx_tensor_name block_names[] = {
    {"norm1", "input_layernorm"},
    {"norm2", "post_attention_layernorm"},
    LX_HF_GATED_MLP_NAMES,
    {NULL, NULL},
};

static const lx_tensor_name linear_names[] = {
    {"attn.qkv", "linear_attn.in_proj_qkv"}, {"attn.b", "linear_attn.in_proj_b"},
    {"attn.a", "linear_attn.in_proj_a"},     {"attn.g", "linear_attn.in_proj_z"},
    {"attn.out", "linear_attn.out_proj"},    {"attn.norm", "linear_attn.norm"},
    {"attn.conv", "linear_attn.conv1d"},     {"attn.A_log", "linear_attn.A_log"},
    {"attn.dt_bias", "linear_attn.dt_bias"}, {NULL, NULL},
};
static const lx_tensor_name softmax_names[] = {
    {"attn.q", "self_attn.q_proj"},
    {"attn.k", "self_attn.k_proj"},
    {"attn.v", "self_attn.v_proj"},
    {"attn.out", "self_attn.o_proj"},
    {"attn.q_norm", "self_attn.q_norm"},
    {"attn.k_norm", "self_attn.k_norm"},
    {NULL, NULL},
};

static const char *const unused[] = {"mtp.", "model.visual.", NULL};

#define NAMES(MODEL)                                                                               \
    {                                                                                              \
        .layers = MODEL ".layers.", .embed = MODEL ".embed_tokens", .final_norm = MODEL ".norm",   \
        .tables = {{NULL, block_names},                                                            \
                   {"gated_deltanet", linear_names},                                               \
                   {"grouped_query", softmax_names}},                                              \
        .unused = unused                                                                           \
    }
/* Of text alone, and of text with pictures. */
static const struct lx_tensor_names names[2] = {NAMES("model"), NAMES("model.language_model")};

static void read_softmax(lx_hf_reader *r, lx_config *c, lx_mixer_config *m)
{
    m->n_heads = lx_hf_int(r, "num_attention_heads", 1, LX_MAX_HEADS, 16);
    m->d_key = lx_hf_int(r, "head_dim", 2, MAX_SOFTMAX_HEAD, 256);
    m->d_value = m->d_key;
    int32_t key_heads = lx_hf_int(r, "num_key_value_heads", 1, LX_MAX_HEADS, 4);
    if (m->n_heads % key_heads != 0)
        lx_hf_wrong(r, "num_key_value_heads", "must divide num_attention_heads");
    if (2 * m->n_heads * m->d_key > LX_MAX_D_FF)
        lx_hf_wrong(r, "num_attention_heads", "times head_dim is more than 131072 columns");
    lx_mixer_value(m, "key_heads")->i = key_heads;
    lx_hf_only_flag(r, "attention_bias", false);
    lx_mixer_set_word(m, "norm", "plus_one");
    lx_mixer_set_word(m, "gate", "sigmoid");
    lx_mixer_value(m, "eps")->f = c->norm_eps;
    lx_hf_only_flag(r, "attn_output_gate", true);
    lx_hf_only_word(r, "output_gate_type", "swish"); /* of the linear layers */
    lx_hf_read_rotation(r, m, 10000, 0.25);
}

static void read_linear(lx_hf_reader *r, const lx_config *c, lx_mixer_config *m)
{
    int32_t keys = lx_hf_int(r, "linear_num_key_heads", 1, LX_MAX_HEADS, 16);
    m->n_heads = lx_hf_int(r, "linear_num_value_heads", 1, LX_MAX_HEADS, 32);
    m->d_key = lx_hf_int(r, "linear_key_head_dim", 1, LX_MAX_HEAD_SIZE, 128);
    m->d_value = lx_hf_int(r, "linear_value_head_dim", 1, LX_MAX_HEAD_SIZE, 128);
    if (m->n_heads % keys != 0)
        lx_hf_wrong(r, "linear_num_value_heads", "must be a multiple of linear_num_key_heads");
    if ((int64_t)2 * keys * m->d_key + (int64_t)m->n_heads * m->d_value > LX_MAX_D_FF)
        lx_hf_wrong(r, "linear_num_value_heads", "times the sizes of heads is too much");
    lx_mixer_value(m, "key_heads")->i = keys;
    lx_mixer_value(m, "conv")->i = lx_hf_int(r, "linear_conv_kernel_dim", 2, LX_CONV_MOST_TAPS, 4);
    lx_mixer_set_word(m, "gate", "silu");
    lx_mixer_value(m, "joined")->i = true;
    lx_mixer_value(m, "eps")->f = c->norm_eps;
}

/* Which mixer each layer has. */
static void place_layers(lx_hf_reader *r, lx_config *c, const lx_mixer_config *linear,
                         const lx_mixer_config *softmax)
{
    const lx_hf_layer_type types[] = {{{"linear_attention"}, linear},
                                      {{"full_attention"}, softmax}};
    int32_t every = lx_hf_int(r, "full_attention_interval", 1, MAX_EVERY, 4);
    bool listed = lx_hf_place_layers(r, c, types, 2);
    for (int32_t i = every - 1; i < c->n_layers && !listed; i += every)
        c->mixers[i] = *softmax;
}

static void read_model(lx_hf_reader *r, lx_config *c, bool whole, bool tied)
{
    c->wiring = LX_WIRING_PRE;
    c->rms_norm = c->norm_plus_one = true;
    lx_hf_only_word(r, "hidden_act", "silu");
    c->names = &names[whole ? 1 : 0];
    c->tied_head = tied;
    c->norm_eps = (float)lx_hf_number(r, "rms_norm_eps", 1e-30, 1, 1e-6);
    c->d_model = lx_hf_int(r, "hidden_size", 1, LX_MAX_WIDTH, 4096);
    c->n_layers = lx_hf_int(r, "num_hidden_layers", 1, LX_MAX_LAYERS, 32);
    c->d_ff = lx_hf_int(r, "intermediate_size", 1, LX_MAX_D_FF, 12288);
    c->feed_forward = lx_hf_mixer(c, "gated_mlp");
    lx_mixer_config linear = lx_hf_mixer(c, "gated_deltanet");
    lx_mixer_config softmax = lx_hf_mixer(c, "grouped_query");
    read_linear(r, c, &linear);
    read_softmax(r, c, &softmax);
    place_layers(r, c, &linear, &softmax);
    lx_hf_ignore(r, "attention_dropout mamba_ssm_dtype mlp_only_layers mtp_num_hidden_layers "
                    "mtp_use_dedicated_embeddings");
    lx_hf_read_text(r, c, 248320, 32768);
}

static void read_text(lx_hf_reader *r, lx_config *c)
{
    read_model(r, c, false, lx_hf_flag(r, "tie_word_embeddings", false));
}

/* The keys of the text lie in an object of their own; those of pictures and films change nothing
   about it. */
static void read_whole(lx_hf_reader *r, lx_config *c)
{
    lx_hf_reader inner = *r;
    inner.root = r->st == LX_OK ? json_object_get(r->root, "text_config") : NULL;
    inner.prefix = "text_config.";
    if (!json_is_object(inner.root)) {
        lx_hf_wrong(r, "text_config", "must be an object");
        return;
    }
    lx_hf_only_word(&inner, "model_type", "qwen3_5_text");
    bool tied = lx_hf_flag(&inner, "tie_word_embeddings", false); /* the whole model decides */
    tied = lx_hf_flag(r, "tie_word_embeddings", tied);
    read_model(&inner, c, true, tied);
    lx_hf_ignore_common(&inner);
    lx_hf_refuse_rest(&inner);
    r->st = inner.st;
    lx_hf_read_ends(r, c, lx_text_own(c));
    lx_hf_ignore(r, "language_model_only image_token_id video_token_id vision_start_token_id "
                    "vision_end_token_id "
                    "vision_config text_config");
}

const lx_hf_kind lx_hf_qwen_text = {.model_types = {"qwen3_5_text"}, .read = read_text};
const lx_hf_kind lx_hf_qwen = {.model_types = {"qwen3_5"}, .read = read_whole};
