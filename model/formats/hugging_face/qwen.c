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
#include "model/formats/hugging_face/reader.h"
#include "model/tasks/text_config.h"

enum { MAX_EVERY = 1024 };

static const lx_tensor_name block_names[] = {
    {"norm1", "input_layernorm"},
    {"norm2", "post_attention_layernorm"},
    LX_HF_GATED_MLP_NAMES,
    {NULL, NULL},
};

static const lx_tensor_name linear_names[] = {
    {"attn.qkv", "linear_attn.in_proj_qkv"},
    {"attn.b", "linear_attn.in_proj_b"},
    {"attn.a", "linear_attn.in_proj_a"},
    {"attn.g", "linear_attn.in_proj_z"},
    {"attn.out", "linear_attn.out_proj"},
    {"attn.conv", "linear_attn.conv1d"},
    {"attn", "linear_attn"},
    {NULL, NULL},
};
static const lx_tensor_name softmax_names[] = {LX_HF_SOFTMAX_NAMES, {NULL, NULL}};

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

static void read_model(lx_hf_reader *r, lx_config *c, bool whole)
{
    const lx_hf_hybrid usual = {.names = &names[whole ? 1 : 0],
                                .eps = 1e-6,
                                .d_model = 4096,
                                .n_layers = 32,
                                .d_ff = 12288,
                                .vocab_size = 248320,
                                .context = 32768};
    const lx_hf_heads heads = {16, 4, 256, "plus_one"};
    lx_hf_read_hybrid(r, c, &usual);
    c->norm_plus_one = true;
    lx_mixer_config linear = lx_hf_read_delta(r, c, 16, 32, 128);
    lx_mixer_config softmax = lx_hf_read_heads(r, c, &heads);
    lx_mixer_value(&linear, "joined")->i = true;
    lx_mixer_value(&linear, "eps")->f = c->norm_eps;
    lx_mixer_set_word(&softmax, "gate", "sigmoid");
    lx_hf_only_flag(r, "attn_output_gate", true);
    lx_hf_only_word(r, "output_gate_type", "swish"); /* of the linear layers */
    lx_hf_read_rotation(r, &softmax, 10000, 0.25);
    const lx_hf_layer_type types[] = {{{"linear_attention"}, &linear},
                                      {{"full_attention"}, &softmax}};
    int32_t every = lx_hf_int(r, "full_attention_interval", 1, MAX_EVERY, 4);
    (void)lx_hf_place_layers(r, c, types, 2, every);
    lx_hf_ignore(r, "mamba_ssm_dtype mlp_only_layers mtp_num_hidden_layers "
                    "mtp_use_dedicated_embeddings");
}

static void read_text(lx_hf_reader *r, lx_config *c)
{
    read_model(r, c, false);
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
    read_model(&inner, c, true);
    lx_hf_ignore_common(&inner);
    lx_hf_refuse_rest(&inner);
    r->st = inner.st;
    c->tied_head = lx_hf_flag(r, "tie_word_embeddings", c->tied_head); /* the whole model decides */
    lx_hf_read_ends(r, c, lx_text_own(c));
    lx_hf_ignore(r, "language_model_only image_token_id video_token_id vision_start_token_id "
                    "vision_end_token_id vision_config text_config");
}

const lx_hf_kind lx_hf_qwen_text = {.model_types = {"qwen3_5_text"}, .read = read_text};
const lx_hf_kind lx_hf_qwen = {.model_types = {"qwen3_5"}, .read = read_whole};
