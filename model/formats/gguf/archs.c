/* The architectures (see reader.h): keys of their metadata, names of their tensors. */
#include <string.h>

#include "model/formats/gguf/reader.h"

enum { MAX_EVERY = 1024, MAX_BASE = 1 << 30, MAX_RANK = 1 << 14 };

/* --- parts that several architectures share --- */

static void set(lx_gguf_reader *r, json_t *root, const char *key, json_t *value)
{
    if (json_object_set_new(root, key, value) != 0 && r->st == LX_OK)
        r->st = lx_fail(r->err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", r->f->label);
}

static double read_eps(lx_gguf_reader *r, const char *key)
{
    return lx_gguf_real(r, key, 1e-30, 1, -1);
}

/* Sizes that all models have. The heads are those of the sequence mixers, or of most of them. */
static void set_sizes(lx_gguf_reader *r, json_t *root, int32_t n_heads, int32_t d_key,
                      int32_t d_value)
{
    set(r, root, "n_heads", json_integer(n_heads));
    set(r, root, "d_key", json_integer(d_key));
    set(r, root, "d_value", json_integer(d_value));
}

static void set_norm(lx_gguf_reader *r, json_t *root, const char *kind, double eps)
{
    set(r, root, "norm_kind", json_string(kind));
    set(r, root, "norm_eps", json_real(eps));
}

static void set_feed_forward(lx_gguf_reader *r, json_t *root, int32_t d_ff, json_t *mixer)
{
    set(r, root, "d_ff", json_integer(d_ff));
    set(r, root, "feed_forward", mixer);
}

static bool has_tensor(const lx_gguf_reader *r, const char *name)
{
    return lx_gguf_find_tensor(r->f, name) != NULL;
}

/* A whole number that the file may write as a float. */
static int32_t read_base(lx_gguf_reader *r)
{
    double base = lx_gguf_real(r, "rope.freq_base", 2, MAX_BASE, 10000);
    if (base != (double)(int32_t)base)
        lx_gguf_wrong(r, "rope.freq_base", "must be a whole number: nothing else is supported");
    return (int32_t)base;
}

/* The softmax layers but for words of the kind; keys: heads of keys, 0: the file says how many. */
static json_t *softmax_mixer(lx_gguf_reader *r, double eps, int32_t keys, bool bias,
                             const char *norm, const char *gate)
{
    int32_t d_model = lx_gguf_int(r, "embedding_length", 1, LX_MAX_WIDTH, LX_GGUF_NEEDED);
    int32_t heads = lx_gguf_int(r, "attention.head_count", 1, LX_MAX_HEADS, LX_GGUF_NEEDED);
    if (keys == 0)
        keys = lx_gguf_int(r, "attention.head_count_kv", 1, LX_MAX_HEADS, heads);
    int32_t usual = heads > 0 ? d_model / heads : 0;
    if (r->st == LX_OK && heads % keys != 0)
        lx_gguf_wrong(r, "attention.head_count", "must be a multiple of attention.head_count_kv");
    int32_t size = lx_gguf_int(r, "attention.key_length", 1, LX_MAX_HEAD_SIZE, usual);
    if (lx_gguf_int(r, "attention.value_length", 1, LX_MAX_HEAD_SIZE, size) != size)
        lx_gguf_wrong(r, "attention.value_length", "must be attention.key_length");
    int32_t rotated = lx_gguf_int(r, "rope.dimension_count", 2, LX_MAX_HEAD_SIZE, size);
    json_t *mixer =
        json_pack("{ss si si si si si si sb ss ss sf}", "kind", "grouped_query", "n_heads", heads,
                  "d_key", size, "d_value", size, "key_heads", keys, "base", read_base(r),
                  "rotated", rotated, "bias", bias, "norm", norm, "gate", gate, "eps", eps);
    return mixer;
}

/* --- Qwen3.5 --- */

static const lx_tensor_name qwen35_blocks[] = {
    {"norm1", "attn_norm"}, {"norm2", "post_attention_norm"}, {"ff.gate", "ffn_gate"},
    {"ff.up", "ffn_up"},    {"ff.down", "ffn_down"},          {NULL, NULL}};
static const lx_tensor_name qwen35_linear[] = {
    {"attn.qkv", "attn_qkv"},        {"attn.b", "ssm_beta"},
    {"attn.a", "ssm_alpha"},         {"attn.g", "attn_gate"},
    {"attn.out", "ssm_out"},         {"attn.norm", "ssm_norm"},
    {"attn.conv", "ssm_conv1d"},     {"attn.A_log", "ssm_a"},
    {"attn.dt_bias", "ssm_dt.bias"}, {NULL, NULL}};
static const lx_tensor_name softmax_names[] = {{"attn.q", "attn_q"},
                                               {"attn.k", "attn_k"},
                                               {"attn.v", "attn_v"},
                                               {"attn.out", "attn_output"},
                                               {"attn.q_norm", "attn_q_norm"},
                                               {"attn.k_norm", "attn_k_norm"},
                                               {NULL, NULL}};
#define FRAME                                                                                      \
    .layers = "blk.", .embed = "token_embd", .input_norm = "token_embd_norm",                      \
    .final_norm = "output_norm", .head = "output"
static const struct lx_tensor_names qwen35_names = {FRAME,
                                                    .tables = {{NULL, qwen35_blocks},
                                                               {"gated_deltanet", qwen35_linear},
                                                               {"grouped_query", softmax_names}}};
static const lx_gguf_undo qwen35_undo[] = {
    {"attn_qkv.weight", LX_GGUF_TILED | LX_GGUF_AFTER_KEYS},
    {"ssm_conv1d.weight", LX_GGUF_TILED | LX_GGUF_AFTER_KEYS},
    {"attn_gate.weight", LX_GGUF_TILED},
    {"ssm_out.weight", LX_GGUF_TILED_COLUMNS},
    {"ssm_beta.weight", LX_GGUF_TILED_SINGLE},
    {"ssm_alpha.weight", LX_GGUF_TILED_SINGLE},
    {"ssm_dt.bias", LX_GGUF_VECTOR | LX_GGUF_TILED_SINGLE},
    {"ssm_a", LX_GGUF_VECTOR | LX_GGUF_TILED_SINGLE | LX_GGUF_MINUS_EXP},
    {NULL, 0}};

/* The linear layers; the converter has a head's keys as large as its values. */
static json_t *qwen35_linear_mixer(lx_gguf_reader *r, json_t *root, double eps)
{
    int32_t keys = lx_gguf_int(r, "ssm.group_count", 1, LX_MAX_HEADS, LX_GGUF_NEEDED);
    int32_t heads = lx_gguf_int(r, "ssm.time_step_rank", 1, LX_MAX_HEADS, LX_GGUF_NEEDED);
    int32_t d_key = lx_gguf_int(r, "ssm.state_size", 1, LX_MAX_HEAD_SIZE, LX_GGUF_NEEDED);
    int32_t inner = lx_gguf_int(r, "ssm.inner_size", 1, LX_MAX_D_FF, LX_GGUF_NEEDED);
    int32_t taps = lx_gguf_int(r, "ssm.conv_kernel", 2, LX_CONV_MOST_TAPS, LX_GGUF_NEEDED);
    if (r->st == LX_OK && (heads % keys != 0 || inner % heads != 0))
        lx_gguf_wrong(r, "ssm.time_step_rank",
                      "must divide ssm.inner_size and be a multiple of ssm.group_count");
    int32_t d_value = heads > 0 ? inner / heads : 0;
    set_sizes(r, root, heads, d_key, d_value);
    return json_pack("{ss si si si si si ss ss sf sb}", "kind", "gated_deltanet", "n_heads", heads,
                     "d_key", d_key, "d_value", d_value, "key_heads", keys, "conv", taps, "beta",
                     "sigmoid", "gate", "silu", "eps", eps, "joined", 1);
}

/* Each layer has one of two mixers, which this takes. */
static void set_layers(lx_gguf_reader *r, json_t *root, int32_t n, const bool *full, json_t *linear,
                       json_t *softmax)
{
    json_t *all = json_array();
    for (int32_t i = 0; i < n && r->st == LX_OK; i++) {
        json_t *mixer = json_deep_copy(full[i] ? softmax : linear);
        if (json_array_append_new(all, mixer) != 0)
            r->st = lx_fail(r->err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", r->f->label);
    }
    json_decref(linear);
    json_decref(softmax);
    set(r, root, "attention", all);
}

static void read_qwen35(lx_gguf_reader *r, json_t *root)
{
    double eps = read_eps(r, "attention.layer_norm_rms_epsilon");
    set_norm(r, root, "rms", eps);
    int32_t extra = lx_gguf_int(r, "nextn_predict_layers", 0, LX_MAX_LAYERS, 0);
    int32_t n = lx_gguf_int(r, "block_count", 1, LX_MAX_LAYERS, LX_GGUF_NEEDED) - extra;
    set(r, root, "n_layers", json_integer(n)); /* without the layers that guess further tokens */
    set_feed_forward(r, root, lx_gguf_int(r, "feed_forward_length", 1, LX_MAX_D_FF, LX_GGUF_NEEDED),
                     json_pack("{ss}", "kind", "gated_mlp"));
    int32_t every = lx_gguf_int(r, "full_attention_interval", 1, MAX_EVERY, 4);
    lx_gguf_value *list = lx_gguf_find(r->f, "qwen35.attention.recurrent_layers");
    if (list != NULL && (list->kind != LX_GGUF_BOOL || !list->is_array || (int64_t)list->n < n))
        lx_gguf_wrong(r, "attention.recurrent_layers", "must have a flag per layer");
    else if (list != NULL)
        list->used = true;
    bool full[LX_MAX_LAYERS] = {false};
    for (int32_t i = 0; i < n && r->st == LX_OK; i++)
        full[i] =
            list != NULL ? lx_gguf_number_at(r->f, list, (uint64_t)i) == 0 : (i + 1) % every == 0;
    json_t *linear = qwen35_linear_mixer(r, root, eps);
    set_layers(r, root, n, full, linear, softmax_mixer(r, eps, 0, false, "rms", "sigmoid"));
}

static const lx_gguf_arch qwen35 = {
    .name = "qwen35",
    .names = &qwen35_names,
    .undo = qwen35_undo,
    .read = read_qwen35,
    /* Text is at the same place of all axes of its rotation. */
    .ignored = "rope.dimension_sections vocab_size",
};

/* --- LFM2 --- */

static const lx_tensor_name dense_blocks[] = {{"norm1", "attn_norm"},  {"norm2", "ffn_norm"},
                                              {"ff.gate", "ffn_gate"}, {"ff.up", "ffn_up"},
                                              {"ff.down", "ffn_down"}, {NULL, NULL}};
static const lx_tensor_name lfm2_conv[] = {{"attn.in", "shortconv.in_proj"},
                                           {"attn.out", "shortconv.out_proj"},
                                           {"attn.conv", "shortconv.conv"},
                                           {NULL, NULL}};
static const struct lx_tensor_names lfm2_names = {
    .layers = "blk.",
    .embed = "token_embd",
    .final_norm = "token_embd_norm",
    .head = "output",
    .tables = {{NULL, dense_blocks}, {"gated_conv", lfm2_conv}, {"grouped_query", softmax_names}}};
static const lx_gguf_undo no_undo[] = {{NULL, 0}};

/* Which layers are softmax layers: those with heads of keys, which all have as many. Returns how
   many. */
static int32_t read_lfm2_layers(lx_gguf_reader *r, int32_t n, bool *full)
{
    int32_t keys = 0;
    lx_gguf_value *list = lx_gguf_find(r->f, "lfm2.attention.head_count_kv");
    bool ok = list != NULL && list->is_array && list->n == (uint64_t)n &&
              (list->kind == LX_GGUF_I32 || list->kind == LX_GGUF_U32);
    for (int32_t i = 0; ok && i < n; i++) {
        double x = lx_gguf_number_at(r->f, list, (uint64_t)i);
        ok = x >= 0 && x <= LX_MAX_HEADS && (x == 0 || keys == 0 || x == (double)keys);
        full[i] = x > 0;
        keys = ok && x > 0 ? (int32_t)x : keys;
    }
    if (!ok)
        lx_gguf_wrong(r, "attention.head_count_kv",
                      "must have a number per layer: 0, or the one that all other layers have");
    if (list != NULL)
        list->used = true;
    return keys;
}

static void read_lfm2(lx_gguf_reader *r, json_t *root)
{
    bool full[LX_MAX_LAYERS] = {false};
    double eps = read_eps(r, "attention.layer_norm_rms_epsilon");
    set_norm(r, root, "rms", eps);
    set_feed_forward(r, root, lx_gguf_int(r, "feed_forward_length", 1, LX_MAX_D_FF, LX_GGUF_NEEDED),
                     json_pack("{ss}", "kind", "gated_mlp"));
    int32_t n = lx_gguf_int(r, "block_count", 1, LX_MAX_LAYERS, LX_GGUF_NEEDED);
    int32_t taps = lx_gguf_int(r, "shortconv.l_cache", 2, LX_CONV_MOST_TAPS, LX_GGUF_NEEDED);
    int32_t keys = read_lfm2_layers(r, n, full);
    json_t *softmax = softmax_mixer(r, eps, keys > 0 ? keys : 1, false, "rms", "none");
    json_t *conv = json_pack("{ss si sb}", "kind", "gated_conv", "conv", taps, "bias", 0);
    int32_t size = (int32_t)json_integer_value(json_object_get(softmax, "d_key"));
    set_sizes(r, root, (int32_t)json_integer_value(json_object_get(softmax, "n_heads")), size,
              size);
    set_layers(r, root, n, full, conv, softmax);
}

static const lx_gguf_arch lfm2 = {.name = "lfm2",
                                  .names = &lfm2_names,
                                  .undo = no_undo,
                                  .read = read_lfm2,
                                  .ignored = "vocab_size"};

/* --- Llama, Qwen2, Qwen3: softmax layers only --- */

static const struct lx_tensor_names dense_names = {
    FRAME, .tables = {{NULL, dense_blocks}, {NULL, softmax_names}}};

static void read_dense(lx_gguf_reader *r, json_t *root, bool bias, const char *norm)
{
    double eps = read_eps(r, "attention.layer_norm_rms_epsilon");
    set_norm(r, root, "rms", eps);
    set_feed_forward(r, root, lx_gguf_int(r, "feed_forward_length", 1, LX_MAX_D_FF, LX_GGUF_NEEDED),
                     json_pack("{ss}", "kind", "gated_mlp"));
    json_t *mixer = softmax_mixer(r, eps, 0, bias, norm, "none");
    static const char *const sizes[] = {"n_heads", "d_key", "d_value"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        json_t *size = json_object_get(mixer, sizes[i]);
        set(r, root, sizes[i], json_incref(size));
    }
    set(r, root, "attention", mixer);
    if (has_tensor(r, "rope_freqs.weight"))
        lx_gguf_wrong(r, "rope.scaling.type", "must be none: rope_freqs.weight is not supported");
    if (lx_gguf_int(r, "expert_count", 0, INT32_MAX, 0) != 0)
        lx_gguf_wrong(r, "expert_count", "must be 0: experts are not supported");
}

static void read_llama(lx_gguf_reader *r, json_t *root)
{
    read_dense(r, root, false, "none");
    const json_t *mixer = json_object_get(root, "attention");
    if (json_integer_value(json_object_get(mixer, "rotated")) !=
        json_integer_value(json_object_get(mixer, "d_key"))) /* pairs would lie elsewhere */
        lx_gguf_wrong(r, "rope.dimension_count", "must be the size of a head");
}

static void read_qwen2(lx_gguf_reader *r, json_t *root)
{
    read_dense(r, root, true, "none");
}

static void read_qwen3(lx_gguf_reader *r, json_t *root)
{
    read_dense(r, root, false, "rms");
}

static const lx_gguf_undo llama_undo[] = {
    {"attn_q.weight", LX_GGUF_PAIRS}, {"attn_k.weight", LX_GGUF_PAIRS}, {NULL, 0}};

static const lx_gguf_arch llama = {.name = "llama",
                                   .names = &dense_names,
                                   .undo = llama_undo,
                                   .read = read_llama,
                                   .ignored = "vocab_size"};
static const lx_gguf_arch qwen2 = {.name = "qwen2",
                                   .names = &dense_names,
                                   .undo = no_undo,
                                   .read = read_qwen2,
                                   .ignored = "vocab_size"};
static const lx_gguf_arch qwen3 = {.name = "qwen3",
                                   .names = &dense_names,
                                   .undo = no_undo,
                                   .read = read_qwen3,
                                   .ignored = "vocab_size"};

/* --- Mamba-2 --- */

static const lx_tensor_name mamba2_blocks[] = {
    {"norm1", "attn_norm"},          {"attn.in", "ssm_in"},     {"attn.out", "ssm_out"},
    {"attn.conv", "ssm_conv1d"},     {"attn.A_log", "ssm_a"},   {"attn.D", "ssm_d"},
    {"attn.dt_bias", "ssm_dt.bias"}, {"attn.norm", "ssm_norm"}, {NULL, NULL}};
static const struct lx_tensor_names mamba2_names = {FRAME, .tables = {{NULL, mamba2_blocks}}};
static const lx_gguf_undo mamba2_undo[] = {{"ssm_a", LX_GGUF_VECTOR | LX_GGUF_MINUS_EXP},
                                           {"ssm_d", LX_GGUF_VECTOR},
                                           {"ssm_norm.weight", LX_GGUF_VECTOR},
                                           {NULL, 0}};

static void read_mamba2(lx_gguf_reader *r, json_t *root)
{
    double eps = read_eps(r, "attention.layer_norm_rms_epsilon");
    set_norm(r, root, "rms", eps);
    int32_t heads = lx_gguf_int(r, "ssm.time_step_rank", 1, LX_MAX_HEADS, LX_GGUF_NEEDED);
    int32_t d_key = lx_gguf_int(r, "ssm.state_size", 1, LX_MAX_HEAD_SIZE, LX_GGUF_NEEDED);
    int32_t inner = lx_gguf_int(r, "ssm.inner_size", 1, LX_MAX_D_FF, LX_GGUF_NEEDED);
    int32_t groups = lx_gguf_int(r, "ssm.group_count", 1, LX_MAX_HEADS, LX_GGUF_NEEDED);
    int32_t taps = lx_gguf_int(r, "ssm.conv_kernel", 2, LX_CONV_MOST_TAPS, LX_GGUF_NEEDED);
    if (r->st == LX_OK && inner % heads != 0)
        lx_gguf_wrong(r, "ssm.time_step_rank", "must divide ssm.inner_size");
    set_sizes(r, root, heads, d_key, heads > 0 ? inner / heads : 0);
    set(r, root, "d_ff", json_integer(1)); /* its layers have no feed-forward net */
    set(r, root, "attention",
        json_pack("{ss si si ss ss sf}", "kind", "mamba2", "groups", groups, "conv", taps, "bias",
                  has_tensor(r, "blk.0.ssm_conv1d.bias") ? "conv" : "none", "norm", "gate_first",
                  "eps", eps));
}

static const lx_gguf_arch mamba2 = {
    .name = "mamba2",
    .names = &mamba2_names,
    .undo = mamba2_undo,
    .read = read_mamba2,
    .ignored = "attention.head_count feed_forward_length vocab_size",
};

/* --- Mamba-1 and Falcon-Mamba --- */

static const lx_tensor_name mamba_blocks[] = {
    {"norm1", "attn_norm"},  {"attn.in", "ssm_in"}, {"attn.out", "ssm_out"},
    {"attn.x", "ssm_x"},     {"attn.dt", "ssm_dt"}, {"attn.conv", "ssm_conv1d"},
    {"attn.A_log", "ssm_a"}, {"attn.D", "ssm_d"},   {NULL, NULL}};
static const struct lx_tensor_names mamba_names = {FRAME, .tables = {{NULL, mamba_blocks}}};
static const lx_gguf_undo mamba_undo[] = {{"ssm_a", LX_GGUF_MINUS_EXP}, {NULL, 0}};

/* Whether dt, B and C are normed, without weights. */
static bool read_normed(lx_gguf_reader *r)
{
    static const char key[] = "mamba.ssm.dt_b_c_rms";
    lx_gguf_value *flag = lx_gguf_find(r->f, key);
    if (flag == NULL)
        return false;
    if (flag->kind != LX_GGUF_BOOL || flag->is_array)
        lx_gguf_wrong(r, "ssm.dt_b_c_rms", "must be a flag");
    flag->used = true;
    return r->st == LX_OK && lx_gguf_number_at(r->f, flag, 0) != 0;
}

static void read_mamba(lx_gguf_reader *r, json_t *root)
{
    double eps = read_eps(r, "attention.layer_norm_rms_epsilon");
    set_norm(r, root, "rms", eps);
    int32_t inner = lx_gguf_int(r, "ssm.inner_size", 1, 1 << 17, LX_GGUF_NEEDED);
    int32_t state = lx_gguf_int(r, "ssm.state_size", 1, LX_MAX_HEAD_SIZE, LX_GGUF_NEEDED);
    int32_t rank = lx_gguf_int(r, "ssm.time_step_rank", 1, LX_MAX_WIDTH, LX_GGUF_NEEDED);
    int32_t taps = lx_gguf_int(r, "ssm.conv_kernel", 2, LX_CONV_MOST_TAPS, LX_GGUF_NEEDED);
    set_sizes(r, root, 1, 1, 1);
    set(r, root, "d_ff", json_integer(1)); /* its layers have no feed-forward net */
    set(r, root, "attention",
        json_pack("{ss si si si si ss ss sf}", "kind", "mamba", "inner", inner, "state", state,
                  "rank", rank, "conv", taps, "bias",
                  has_tensor(r, "blk.0.ssm_conv1d.bias") ? "conv" : "none", "norm",
                  read_normed(r) ? "plain" : "none", "eps", eps));
}

static const lx_gguf_arch mamba = {
    .name = "mamba",
    .names = &mamba_names,
    .undo = mamba_undo,
    .read = read_mamba,
    .ignored = "attention.head_count feed_forward_length vocab_size",
};

/* --- RWKV --- */

/* Of a head of 64 numbers; llama.cpp has no other. */
#define GROUP_EPS 64e-5

static void read_rwkv(lx_gguf_reader *r, json_t *root, json_t *mixer, bool receptance)
{
    double eps = read_eps(r, "attention.layer_norm_epsilon");
    int32_t size = lx_gguf_int(r, "wkv.head_size", 1, LX_MAX_HEAD_SIZE, LX_GGUF_NEEDED);
    int32_t d_model = lx_gguf_int(r, "embedding_length", 1, LX_MAX_WIDTH, LX_GGUF_NEEDED);
    set_norm(r, root, "layer", eps);
    if (r->st == LX_OK && d_model % size != 0)
        lx_gguf_wrong(r, "wkv.head_size", "must divide embedding_length");
    set_sizes(r, root, size > 0 ? d_model / size : 0, size, size);
    set_feed_forward(r, root, lx_gguf_int(r, "feed_forward_length", 1, LX_MAX_D_FF, LX_GGUF_NEEDED),
                     json_pack("{ss sb}", "kind", "channel_mix", "receptance", receptance));
    set(r, root, "input_norm", json_true());
    set(r, root, "attention", mixer);
}

static const lx_tensor_name rwkv7_blocks[] = {{"norm1", "attn_norm"},
                                              {"norm2", "attn_norm_2"},
                                              {"attn.x_r", "time_mix_lerp_r"},
                                              {"attn.x_w", "time_mix_lerp_w"},
                                              {"attn.x_k", "time_mix_lerp_k"},
                                              {"attn.x_v", "time_mix_lerp_v"},
                                              {"attn.x_a", "time_mix_lerp_a"},
                                              {"attn.x_g", "time_mix_lerp_g"},
                                              {"attn.r", "time_mix_receptance"},
                                              {"attn.k", "time_mix_key"},
                                              {"attn.v", "time_mix_value"},
                                              {"attn.out", "time_mix_output"},
                                              {"attn.w1", "time_mix_w1"},
                                              {"attn.w2.bias", "time_mix_w0.weight"},
                                              {"attn.w2", "time_mix_w2"},
                                              {"attn.a1", "time_mix_a1"},
                                              {"attn.a2.bias", "time_mix_a0.weight"},
                                              {"attn.a2", "time_mix_a2"},
                                              {"attn.v1", "time_mix_v1"},
                                              {"attn.v2.bias", "time_mix_v0.weight"},
                                              {"attn.v2", "time_mix_v2"},
                                              {"attn.g1", "time_mix_g1"},
                                              {"attn.g2", "time_mix_g2"},
                                              {"attn.k_k", "time_mix_k_k.weight"},
                                              {"attn.k_a", "time_mix_k_a.weight"},
                                              {"attn.r_k", "time_mix_r_k.weight"},
                                              {"attn.norm", "time_mix_ln"},
                                              {"ff.x_k", "channel_mix_lerp_k.weight"},
                                              {"ff.key", "channel_mix_key"},
                                              {"ff.value", "channel_mix_value"},
                                              {NULL, NULL}};
/* Of layer 0, which has no use for them. */
static const char *const rwkv7_unused[] = {"blk.0.time_mix_v0.", "blk.0.time_mix_v1.",
                                           "blk.0.time_mix_v2.", NULL};
static const struct lx_tensor_names rwkv7_names = {FRAME, .tables = {{NULL, rwkv7_blocks}},
                                                   .unused = rwkv7_unused};
static const char *const rwkv7_mixes[] = {"time_mix_lerp_r",
                                          "time_mix_lerp_w",
                                          "time_mix_lerp_k",
                                          "time_mix_lerp_v",
                                          "time_mix_lerp_a",
                                          "time_mix_lerp_g",
                                          NULL};
static const lx_gguf_undo rwkv7_undo[] = {{"channel_mix_lerp_k.weight", LX_GGUF_VECTOR},
                                          {"time_mix_r_k.weight", LX_GGUF_HEADS},
                                          {NULL, 0}};

static void read_rwkv7(lx_gguf_reader *r, json_t *root)
{
    static const char *const keys[] = {"attention.decay_lora_rank", "attention.iclr_lora_rank",
                                       "attention.value_residual_mix_lora_rank",
                                       "attention.gate_lora_rank"};
    int32_t ranks[4];
    for (int i = 0; i < 4; i++)
        ranks[i] = lx_gguf_int(r, keys[i], 1, MAX_RANK, LX_GGUF_NEEDED);
    read_rwkv(r, root,
              json_pack("{ss si si si si sf}", "kind", "rwkv7", "w_rank", ranks[0], "a_rank",
                        ranks[1], "v_rank", ranks[2], "g_rank", ranks[3], "group_eps", GROUP_EPS),
              false);
}

static const lx_gguf_arch rwkv7 = {
    .name = "rwkv7",
    .names = &rwkv7_names,
    .undo = rwkv7_undo,
    .fused = "time_mix_lerp_fused.weight",
    .fused_parts = rwkv7_mixes,
    .read = read_rwkv7,
    .ignored = "attention.head_count vocab_size",
};

static const lx_tensor_name rwkv6_blocks[] = {{"norm1", "attn_norm"},
                                              {"norm2", "attn_norm_2"},
                                              {"attn.x_x", "time_mix_lerp_x.weight"},
                                              {"attn.x1", "time_mix_w1"},
                                              {"attn.x2", "time_mix_w2"},
                                              {"attn.x_bias", "time_mix_lerp_fused.weight"},
                                              {"attn.r", "time_mix_receptance"},
                                              {"attn.k", "time_mix_key"},
                                              {"attn.v", "time_mix_value"},
                                              {"attn.g", "time_mix_gate"},
                                              {"attn.out", "time_mix_output"},
                                              {"attn.w1", "time_mix_decay_w1"},
                                              {"attn.w2.bias", "time_mix_decay.weight"},
                                              {"attn.w2", "time_mix_decay_w2"},
                                              {"attn.bonus", "time_mix_first.weight"},
                                              {"attn.norm", "time_mix_ln"},
                                              {"ff.x_k", "channel_mix_lerp_k.weight"},
                                              {"ff.key", "channel_mix_key"},
                                              {"ff.x_r", "channel_mix_lerp_r.weight"},
                                              {"ff.receptance", "channel_mix_receptance"},
                                              {"ff.value", "channel_mix_value"},
                                              {NULL, NULL}};
static const struct lx_tensor_names rwkv6_names = {FRAME, .tables = {{NULL, rwkv6_blocks}}};
static const lx_gguf_undo rwkv6_undo[] = {{"time_mix_lerp_x.weight", LX_GGUF_VECTOR},
                                          {"time_mix_w1.weight", LX_GGUF_SLICES},
                                          {"time_mix_lerp_fused.weight", LX_GGUF_SLICES},
                                          {"time_mix_w2.weight", LX_GGUF_SLICE_COLUMNS},
                                          {"time_mix_decay.weight", LX_GGUF_VECTOR},
                                          {"time_mix_first.weight", LX_GGUF_HEADS},
                                          {"time_mix_output.weight", LX_GGUF_RESCALED},
                                          {"channel_mix_lerp_k.weight", LX_GGUF_VECTOR},
                                          {"channel_mix_lerp_r.weight", LX_GGUF_VECTOR},
                                          {"channel_mix_value.weight", LX_GGUF_RESCALED},
                                          {NULL, 0}};

static void read_rwkv6(lx_gguf_reader *r, json_t *root)
{
    int32_t mix = lx_gguf_int(r, "time_mix_extra_dim", 1, MAX_RANK, LX_GGUF_NEEDED);
    int32_t decay = lx_gguf_int(r, "time_decay_extra_dim", 1, MAX_RANK, LX_GGUF_NEEDED);
    read_rwkv(r, root,
              json_pack("{ss si si sf}", "kind", "rwkv6", "x_rank", mix, "w_rank", decay,
                        "group_eps", GROUP_EPS),
              true);
}

static const lx_gguf_arch rwkv6 = {
    .name = "rwkv6",
    .names = &rwkv6_names,
    .undo = rwkv6_undo,
    .read = read_rwkv6,
    .ignored = "attention.head_count rescale_every_n_layers vocab_size",
};

const lx_gguf_arch *const lx_gguf_archs[] = {&qwen35, &rwkv7, &rwkv6, &mamba, &mamba2,
                                             &llama,  &qwen2, &qwen3, &lfm2,  NULL};

const char *lx_gguf_arch_name(int32_t i)
{
    return lx_gguf_archs[i] != NULL ? lx_gguf_archs[i]->name : NULL;
}
