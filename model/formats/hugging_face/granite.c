/*
 * Granite-4.0-H as transformers writes it (its GraniteMoeHybridConfig): the mixer mamba2 and, in
 * layers that layer_types names, grouped_query; after both gated_mlp or experts, whose shared net
 * it is then; RMSNorm. Their own names for the parts:
 *
 *     input_layernorm, post_attention_layernorm        norm1, norm2
 *     mamba.{in_proj,out_proj,conv1d,...}              attn.in, attn.out, attn.conv, ...
 *     self_attn.{q,k,v,o}_proj                         attn.q, attn.k, attn.v, attn.out
 *     shared_mlp.{input_linear,output_linear}          ff.gate_up, ff.down, with experts
 *                                                      ff.shared.gate_up, ff.shared.down
 *     block_sparse_moe.router.layer                    ff.router
 *     block_sparse_moe.{input_linear,output_linear}    ff.experts.gate_up, ff.experts.down
 *
 * residual_multiplier m scales every branch: x += m A(norm(x)). The residual stream of the engine
 * is x / m, so its branches need no factor. An RMSNorm of x / m with eps / m^2 is that of x with
 * eps, and the embeddings are divided by m.
 */
#include <string.h>

#include "model/formats/hugging_face/reader.h"

static const lx_tensor_name block_names[] = {
    {"norm1", "input_layernorm"},
    {"norm2", "post_attention_layernorm"},
    {"ff.gate_up", "shared_mlp.input_linear"},
    {"ff.down", "shared_mlp.output_linear"},
    {"ff.shared.gate_up", "shared_mlp.input_linear.weight"},
    {"ff.shared.down", "shared_mlp.output_linear"},
    {"ff.router", "block_sparse_moe.router.layer"},
    {"ff.experts.gate_up", "block_sparse_moe.input_linear.weight"},
    {"ff.experts.down", "block_sparse_moe.output_linear.weight"},
    {NULL, NULL},
};
static const lx_tensor_name mamba_names[] = {LX_HF_MAMBA_NAMES, {NULL, NULL}};
static const lx_tensor_name softmax_names[] = {LX_HF_SOFTMAX_NAMES, {NULL, NULL}};

static const struct lx_tensor_names names = {
    .layers = "model.layers.",
    .embed = "model.embed_tokens",
    .final_norm = "model.norm",
    .tables = {{NULL, block_names}, {"mamba2", mamba_names}, {"grouped_query", softmax_names}}};

/* Only "rope" turns queries and keys. */
static void read_positions(lx_hf_reader *r, lx_mixer_config *m)
{
    const char *key = "position_embedding_type";
    const json_t *value = r->st == LX_OK ? json_object_get(r->root, key) : NULL;
    const char *text = json_string_value(value);
    bool rope = text != NULL && strcmp(text, "rope") == 0;
    if (value != NULL && !json_is_null(value) && !rope &&
        (text == NULL || strcmp(text, "nope") != 0))
        lx_hf_wrong(r, key, "must be \"rope\", \"nope\" or null");
    lx_hf_ignore(r, key);
    if (rope)
        lx_hf_read_rotation(r, m, 10000, 1);
    else
        lx_hf_ignore(r, "rope_parameters rope_theta rope_scaling partial_rotary_factor");
}

static void read_scales(lx_hf_reader *r, lx_config *c, lx_mixer_config *softmax)
{
    double residual = lx_hf_number(r, "residual_multiplier", 1e-3, 1e3, 1);
    double embedding = lx_hf_number(r, "embedding_multiplier", 1e-3, 1e3, 1);
    double logits = lx_hf_number(r, "logits_scaling", 1e-3, 1e3, 1);
    double scores = lx_hf_number(r, "attention_multiplier", 1e-6, 1e6, 1);
    double eps = (double)c->norm_eps / residual / residual;
    if (eps < 1e-30)
        lx_hf_wrong(r, "residual_multiplier", "is too large for rms_norm_eps");
    c->norm_eps = (float)eps;
    c->embedding_scale = (float)(embedding / residual);
    c->head_scale = (float)(1 / logits);
    lx_mixer_value(softmax, "scale")->f = (float)scores;
}

static void read_layers(lx_hf_reader *r, lx_config *c)
{
    static const lx_hf_heads heads = {.heads = 32};
    int64_t inner = (int64_t)c->d_model * lx_hf_int(r, "mamba_expand", 1, 64, 2);
    lx_mixer_config mamba = lx_hf_read_mamba(r, c, inner, c->norm_eps);
    lx_mixer_config softmax = lx_hf_read_heads(r, c, &heads);
    lx_mixer_set_word(&mamba, "norm", "gate_first");
    read_positions(r, &softmax);
    read_scales(r, c, &softmax);
    const lx_hf_layer_type types[] = {{{"linear_attention", "mamba"}, &mamba},
                                      {{"full_attention", "attention"}, &softmax}};
    (void)lx_hf_place_layers(r, c, types, 2, 0);
}

/* Weights are the softmax of the chosen experts' numbers alone. A number of 0 means no experts. */
static void read_experts(lx_hf_reader *r, lx_config *c)
{
    static const lx_hf_experts usual = {
        "num_local_experts", "intermediate_size", 8, 2, 11008, NULL};
    const json_t *n = json_object_get(r->root, usual.count_key);
    if (json_is_integer(n) && json_integer_value(n) == 0) {
        lx_mixer_value(&c->feed_forwards[0], "joined")->i = true;
        lx_hf_ignore(r, "intermediate_size num_experts_per_tok num_local_experts");
        return;
    }
    lx_mixer_config experts = lx_hf_read_experts(r, c, &usual);
    lx_mixer_value(&experts, "normalise")->i = true;
    lx_mixer_value(&experts, "shared")->i = c->d_ff;
    c->feed_forwards[0] = experts;
}

static void read_config(lx_hf_reader *r, lx_config *c)
{
    static const lx_hf_hybrid usual = {.names = &names,
                                       .d_ff_key = "shared_intermediate_size",
                                       .eps = 1e-6,
                                       .d_model = 4096,
                                       .n_layers = 32,
                                       .d_ff = 1024,
                                       .vocab_size = 32000,
                                       .context = 2048};
    lx_hf_read_hybrid(r, c, &usual);
    lx_hf_only_word(r, "normalization_function", "rmsnorm");
    read_experts(r, c);
    read_layers(r, c);
    lx_hf_ignore(r, "init_method output_router_logits router_aux_loss_coef"); /* of training */
}

const lx_hf_kind lx_hf_granite = {.model_types = {"granitemoehybrid"}, .read = read_config};
