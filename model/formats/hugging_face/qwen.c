/*
 * Text models of Qwen as transformers writes them: Qwen3.5 (its Qwen3_5TextConfig, and the text of
 * Qwen3_5Config), Qwen3.5-MoE (Qwen3_5MoeTextConfig, Qwen3_5MoeConfig) and Qwen3-Next
 * (Qwen3NextConfig). They have the mixers gated_deltanet, joined or in Qwen3-Next interleaved, and
 * in every fourth layer, or where layer_types says so, grouped_query with a gate; gated_mlp, or
 * experts with a shared net that has a gate; norms of 1 + weight. Their own names for the parts:
 *
 *     input_layernorm, post_attention_layernorm        norm1, norm2
 *     linear_attn.in_proj_{qkv,b,a,z}, out_proj        attn.qkv, attn.b, attn.a, attn.g, attn.out
 *     linear_attn.in_proj_{qkvz,ba}                    attn.qkvz, attn.ba
 *     linear_attn.conv1d, norm                         attn.conv, attn.norm
 *     self_attn.{q,k,v,o}_proj                         attn.q, attn.k, attn.v, attn.out
 *     mlp.gate, mlp.shared_expert_gate                 ff.router, ff.shared.open
 *     mlp.shared_expert.{gate,up,down}_proj            ff.shared.gate, ff.shared.up, ff.shared.down
 *     mlp.experts.I.{gate,up,down}_proj                ff.experts.I.gate, .up, .down
 *     mlp.experts.{gate_up,down}_proj                  ff.experts.gate_up, ff.experts.down
 *
 * With pictures (qwen3_5, qwen3_5_moe) the text is below model.language_model; what reads pictures
 * is not used, nor are the layers that guess tokens (mtp).
 */
#include "model/formats/hugging_face/reader.h"
#include "model/tasks/text_config.h"

enum { MAX_EVERY = 1024 };

static const lx_tensor_name block_names[] = {
    {"norm1", "input_layernorm"},
    {"norm2", "post_attention_layernorm"},
    LX_HF_GATED_MLP_NAMES,
    {"ff.router", "mlp.gate"},
    {"ff.shared.gate", "mlp.shared_expert.gate_proj"},
    {"ff.shared.up", "mlp.shared_expert.up_proj"},
    {"ff.shared.down", "mlp.shared_expert.down_proj"},
    {"ff.shared.open", "mlp.shared_expert_gate"},
    LX_HF_EXPERT_NAMES("mlp.experts", "gate_proj", "up_proj", "down_proj"),
    {NULL, NULL},
};

static const lx_tensor_name linear_names[] = {
    {"attn.qkv", "linear_attn.in_proj_qkv"},
    {"attn.qkvz", "linear_attn.in_proj_qkvz"},
    {"attn.ba", "linear_attn.in_proj_ba"},
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

/* The parts that all of them have; c->d_ff and the feed-forward nets are the caller's. */
static void read_layers(lx_hf_reader *r, lx_config *c, const lx_hf_heads *heads, bool interleaved)
{
    c->norm_plus_one = true;
    lx_mixer_config linear = lx_hf_read_delta(r, c, 16, 32, 128);
    lx_mixer_config softmax = lx_hf_read_heads(r, c, heads);
    lx_mixer_value(&linear, interleaved ? "interleaved" : "joined")->i = true;
    lx_mixer_value(&linear, "eps")->f = c->norm_eps;
    lx_mixer_set_word(&softmax, "gate", "sigmoid");
    lx_hf_only_flag(r, "attn_output_gate", true);
    lx_hf_only_word(r, "output_gate_type", "swish"); /* of the linear layers */
    lx_hf_read_rotation(r, &softmax, 10000, 0.25);
    const lx_hf_layer_type types[] = {{{"linear_attention"}, &linear},
                                      {{"full_attention"}, &softmax}};
    int32_t every = lx_hf_int(r, "full_attention_interval", 1, MAX_EVERY, 4);
    (void)lx_hf_place_layers(r, c, types, 2, every);
    lx_hf_ignore(r, "mamba_ssm_dtype mtp_num_hidden_layers mtp_use_dedicated_embeddings");
}

static lx_mixer_config read_experts(lx_hf_reader *r, const lx_config *c, int32_t n, int32_t active)
{
    const lx_hf_experts usual = {"num_experts", "moe_intermediate_size", n, active, 512, NULL};
    lx_mixer_config m = lx_hf_read_experts(r, c, &usual);
    lx_mixer_value(&m, "normalise")->i = true;
    lx_mixer_value(&m, "shared")->i =
        lx_hf_int(r, "shared_expert_intermediate_size", 1, LX_MAX_D_FF, 512);
    lx_mixer_value(&m, "shared_gate")->i = true;
    lx_hf_ignore(r, "output_router_logits router_aux_loss_coef"); /* of training */
    return m;
}

static void read_model(lx_hf_reader *r, lx_config *c, bool whole)
{
    static const lx_hf_heads heads = {16, 4, 256, "plus_one"};
    const lx_hf_hybrid usual = {.names = &names[whole ? 1 : 0],
                                .eps = 1e-6,
                                .d_model = 4096,
                                .n_layers = 32,
                                .d_ff = 12288,
                                .vocab_size = 248320,
                                .context = 32768};
    lx_hf_read_hybrid(r, c, &usual);
    read_layers(r, c, &heads, false);
    lx_hf_ignore(r, "mlp_only_layers");
}

/* --- Qwen3.5-MoE --- */

/* Every layer has experts; no layer has a net of intermediate_size columns. */
static void read_moe(lx_hf_reader *r, lx_config *c, bool whole)
{
    static const lx_hf_heads heads = {16, 2, 256, "plus_one"};
    const lx_hf_hybrid usual = {.names = &names[whole ? 1 : 0],
                                .eps = 1e-6,
                                .d_model = 2048,
                                .n_layers = 40,
                                .d_ff = 512,
                                .vocab_size = 248320,
                                .context = 32768};
    lx_hf_ignore(r, "intermediate_size mlp_only_layers");
    lx_hf_read_hybrid(r, c, &usual);
    c->feed_forwards[0] = read_experts(r, c, 256, 8);
    read_layers(r, c, &heads, false);
}

/* --- Qwen3-Next --- */

/* The layers of the list mlp_only_layers have no experts. */
static void place_dense(lx_hf_reader *r, lx_config *c, const lx_mixer_config *dense)
{
    const json_t *listed = r->st == LX_OK ? json_object_get(r->root, "mlp_only_layers") : NULL;
    bool none = listed == NULL || json_is_null(listed), ok = none || json_is_array(listed);
    for (size_t i = 0; ok && i < json_array_size(listed); i++) {
        const json_t *layer = json_array_get(listed, i);
        json_int_t at = json_integer_value(layer);
        ok = json_is_integer(layer) && at >= 0;
        if (ok && at < c->n_layers) /* the library takes no notice of others */
            c->feed_forwards[at] = *dense;
    }
    if (!ok)
        lx_hf_wrong(r, "mlp_only_layers", "must be a list of layers, counted from 0");
    lx_hf_ignore(r, "mlp_only_layers");
}

static void read_next(lx_hf_reader *r, lx_config *c)
{
    static const lx_hf_heads heads = {16, 2, 256, "plus_one"};
    const lx_hf_hybrid usual = {.names = &names[0],
                                .eps = 1e-6,
                                .d_model = 2048,
                                .n_layers = 48,
                                .d_ff = 5632,
                                .vocab_size = 151936,
                                .context = 32768};
    lx_hf_read_hybrid(r, c, &usual);
    lx_mixer_config dense = c->feed_forwards[0], experts = read_experts(r, c, 512, 10);
    lx_mixer_value(&experts, "normalise")->i = lx_hf_flag(r, "norm_topk_prob", true);
    int32_t step = lx_hf_int(r, "decoder_sparse_step", 1, INT32_MAX, 1);
    c->n_feed_forwards = c->n_layers;
    for (int32_t i = 0; i < c->n_layers; i++)
        c->feed_forwards[i] = (i + 1) % step == 0 ? experts : dense;
    place_dense(r, c, &dense);
    read_layers(r, c, &heads, true);
    lx_hf_only_flag(r, "use_sliding_window", false);
}

/* --- the kinds --- */

static void read_text(lx_hf_reader *r, lx_config *c)
{
    read_model(r, c, false);
}

static void read_moe_text(lx_hf_reader *r, lx_config *c)
{
    read_moe(r, c, false);
}

/* The keys of the text lie in an object of their own, of this model_type; those of pictures and
   films change nothing about it. */
static void read_inner(lx_hf_reader *r, lx_config *c, const char *type,
                       void (*read)(lx_hf_reader *r, lx_config *c, bool whole))
{
    lx_hf_reader inner = *r;
    inner.root = r->st == LX_OK ? json_object_get(r->root, "text_config") : NULL;
    inner.prefix = "text_config.";
    if (!json_is_object(inner.root)) {
        lx_hf_wrong(r, "text_config", "must be an object");
        return;
    }
    lx_hf_only_word(&inner, "model_type", type);
    read(&inner, c, true);
    lx_hf_ignore_common(&inner);
    lx_hf_refuse_rest(&inner);
    r->st = inner.st;
    c->tied_head = lx_hf_flag(r, "tie_word_embeddings", c->tied_head); /* the whole model decides */
    lx_hf_read_ends(r, c, lx_text_own(c));
    lx_hf_ignore(r, "language_model_only image_token_id video_token_id vision_start_token_id "
                    "vision_end_token_id vision_config text_config");
}

static void read_whole(lx_hf_reader *r, lx_config *c)
{
    read_inner(r, c, "qwen3_5_text", read_model);
}

static void read_whole_moe(lx_hf_reader *r, lx_config *c)
{
    read_inner(r, c, "qwen3_5_moe_text", read_moe);
}

const lx_hf_kind lx_hf_qwen_text = {.model_types = {"qwen3_5_text"}, .read = read_text};
const lx_hf_kind lx_hf_qwen = {.model_types = {"qwen3_5"}, .read = read_whole};
const lx_hf_kind lx_hf_qwen_moe_text = {.model_types = {"qwen3_5_moe_text"}, .read = read_moe_text};
const lx_hf_kind lx_hf_qwen_moe = {.model_types = {"qwen3_5_moe"}, .read = read_whole_moe};
const lx_hf_kind lx_hf_qwen_next = {.model_types = {"qwen3_next"}, .read = read_next};
