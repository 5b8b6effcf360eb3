/*
 * The gated attention unit with mixed chunk attention (Hua et al. 2022, "Transformer quality in
 * linear time", section 3.2), which takes the place of attention and feed-forward net. One head;
 * s = d_key, e = d_value, C = chunk; chunks are counted from the first token on.
 *
 *     u, v = silu(W_u x + b), silu(W_v x + b)          [e]
 *     z    = silu(W_z x + b)                           [s]
 *     q, k, q', k' = gamma z + beta, element by element, each with its own
 *     y_i  = sum over j <= i in the chunk of i of max(q_i . k_j / C, 0)^2 v_j
 *          + q'_i . (sum over all j in the chunks before of k'_j v_j^T) / C
 *     A(x) = W_out (u y) + b
 *
 * Tensors: attn.uvz (rows of u, then v, then z), attn.gamma_q, .beta_q, .gamma_k, .beta_k and, of
 * q' and k', attn.gamma_far_q, .beta_far_q, .gamma_far_k, .beta_far_k [s], attn.out. State: the
 * sums of the chunks before and of the open one, and a ring of the open one's rows (k, v).
 */
#include "model/mixers/rows.h"

static const lx_mixer_param params[] = {
    {.name = "chunk", .kind = LX_PARAM_INT, .min = 1, .max = 1 << 16},
};

enum { CHUNK }; /* params */
enum {
    UVZ,
    GAMMA_Q,
    BETA_Q,
    GAMMA_K,
    BETA_K,
    GAMMA_FAR_Q,
    BETA_FAR_Q,
    GAMMA_FAR_K,
    BETA_FAR_K,
    OUT
};
enum { PROJECTED, QKV, FAR, ATTENDED }; /* scratch */

static const char *check(const lx_mixer_config *c)
{
    return c->n_heads != 1 ? "n_heads must be 1" : lx_mixer_check_rows(c);
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    static const char *const arrays[] = {"attn.gamma_q",     "attn.beta_q",      "attn.gamma_k",
                                         "attn.beta_k",      "attn.gamma_far_q", "attn.beta_far_q",
                                         "attn.gamma_far_k", "attn.beta_far_k"};
    const lx_rows_pattern own = {.kind = LX_PATTERN_BLOCK, .block = c->params[CHUNK].i};
    int32_t s = c->d_key, e = c->d_value;
    lx_mixer_add_product(p, "attn.uvz", 2 * e + s, c->d_model);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        lx_mixer_add_array(p, arrays[i], 0, s);
    lx_mixer_add_product(p, "attn.out", c->d_model, e);
    lx_mixer_add_scratch(p, 2 * e + s);
    lx_mixer_add_scratch(p, 2 * s + e);
    lx_mixer_add_scratch(p, 2 * s);
    lx_mixer_add_scratch(p, e);
    lx_mixer_add_pattern_ring(p, 1, s, e, &own);
    lx_mixer_add_field(p, "s", s, e);
    lx_mixer_add_field(p, "p", s, e);
}

/* n columns of `to` from n columns of the projection; gamma with beta after it, or 0. */
static void queue_columns(const lx_mixer_call *call, int32_t to, int32_t width, int32_t first,
                          int32_t from, int32_t n, int32_t gamma)
{
    int32_t s = call->config->d_key, e = call->config->d_value;
    call->be->ops->gate(call->be,
                        &(lx_gate_args){.y = call->scratch[to],
                                        .y_width = width,
                                        .y_first = first,
                                        .x = {call->scratch[PROJECTED], 2 * e + s, from},
                                        .factor = gamma > 0 ? call->arrays[gamma] : NULL,
                                        .offset = gamma > 0 ? call->arrays[gamma + 1] : NULL,
                                        .d = n,
                                        .f = LX_FN_SILU});
}

static void queue_attention(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    int32_t s = c->d_key, e = c->d_value;
    float one = 1.0f / (float)c->params[CHUNK].i;
    const lx_array *far = call->scratch[FAR];
    call->be->ops->attend_rows(
        call->be,
        &(lx_attend_rows_args){.y = call->scratch[ATTENDED],
                               .qkv = call->scratch[QKV],
                               .states = call->states,
                               .offset = call->offset + lx_mixer_fields_floats(call->parts),
                               .ring = call->parts->ring,
                               .n_heads = 1,
                               .d_key = s,
                               .d_value = e,
                               .scale = one,
                               .patterns = call->parts->patterns,
                               .n_patterns = call->parts->n_patterns,
                               .weighting = LX_WEIGHT_RELU2,
                               .divisor = 1});
    call->be->ops->chunk_sums(call->be,
                              &(lx_chunk_sums_args){.y = call->scratch[ATTENDED],
                                                    .q = {far, 2 * s, 0},
                                                    .k = {far, 2 * s, s},
                                                    .v = {call->scratch[QKV], 2 * s + e, 2 * s},
                                                    .states = call->states,
                                                    .offset = call->offset,
                                                    .d_key = s,
                                                    .d_value = e,
                                                    .chunk = c->params[CHUNK].i,
                                                    .scale = one});
}

static void queue(const lx_mixer_call *call)
{
    int32_t s = call->config->d_key, e = call->config->d_value, wide = 2 * s + e;
    lx_array *projected = call->scratch[PROJECTED], *attended = call->scratch[ATTENDED];
    lx_mixer_product(call, projected, call->x, UVZ, LX_ACT_NONE, NULL);
    queue_columns(call, QKV, wide, 0, 2 * e, s, GAMMA_Q);
    queue_columns(call, QKV, wide, s, 2 * e, s, GAMMA_K);
    queue_columns(call, QKV, wide, 2 * s, e, e, 0);
    queue_columns(call, FAR, 2 * s, 0, 2 * e, s, GAMMA_FAR_Q);
    queue_columns(call, FAR, 2 * s, s, 2 * e, s, GAMMA_FAR_K);
    queue_attention(call);
    call->be->ops->gate(call->be, &(lx_gate_args){.y = attended,
                                                  .x = {projected, 2 * e + s, 0},
                                                  .z = {attended, e, 0},
                                                  .d = e,
                                                  .f = LX_FN_SILU,
                                                  .weighing = LX_WEIGH_TIMES});
    lx_mixer_end(call, attended, OUT, call->scratch[QKV]);
}

LX_MIXER(flash, .summary = "the gated attention unit, linear between chunks",
         .is_whole_layer = true, .check = check);
