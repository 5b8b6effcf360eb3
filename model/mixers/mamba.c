/*
 * Mamba-1 (Gu and Dao 2023, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces"), a
 * whole layer unless `feed_forward` is true. Each of `inner` channels has K = `state` numbers:
 *
 *     x, z = W_in x                    inner numbers each
 *     x = silu(conv(x) + b)
 *     r, B, C = W_x x                  `rank`, K and K numbers
 *     t = softplus(W_dt n(r) + b_dt)   a step per channel
 *     S[k, m] = exp(-exp(A_log[m, k]) t[m]) S[k, m] + n(B)[k] t[m] x[m]
 *     y[m] = sum over k of n(C)[k] S[k, m] + D[m] x[m]
 *     A(x) = W_out (y silu(z))
 *
 * n: with norm "none" n(u) = u; with "plain" rms_norm(u), as in Falcon-Mamba; with "weights"
 * rms_norm(u) gamma, as in Jamba.
 *
 * Tensors: attn.in, attn.out, with `bias` "products" or "both" a bias each; attn.x; attn.dt with a
 * bias; attn.conv.weight [inner, taps], with "conv" or "both" attn.conv.bias. Further tensors:
 * attn.A_log [inner, K]; attn.D [inner]; with norm "weights" attn.dt_norm.weight,
 * attn.b_norm.weight and attn.c_norm.weight.
 * State: once S [K, inner], and the last inputs of the convolution, conv.
 */
#include <math.h>

#include "model/mixers/recurrent.h"

static const char *const biases[] = {"none", "conv", "products", "both", NULL};
static const char *const norms[] = {"none", "plain", "weights", NULL};
static const lx_mixer_param params[] = {
    {.name = "inner", .kind = LX_PARAM_INT, .min = 1, .max = 131072},
    {.name = "state", .kind = LX_PARAM_INT, .min = 1, .max = 4096},
    {.name = "rank", .kind = LX_PARAM_INT, .min = 1, .max = 65536},
    {.name = "conv", .kind = LX_PARAM_INT, .min = 2, .max = LX_CONV_MOST_TAPS},
    {.name = "bias", .kind = LX_PARAM_WORD, .words = biases},
    {.name = "norm", .kind = LX_PARAM_WORD, .words = norms},
    {.name = "eps", .kind = LX_PARAM_EPS},
    {.name = "feed_forward", .kind = LX_PARAM_FLAG, .optional = true},
};

enum { INNER, KEYS, RANK, TAPS, BIAS, NORM, EPS, FEED_FORWARD }; /* params */
enum { BIAS_NONE, BIAS_CONV, BIAS_PRODUCTS, BIAS_BOTH };         /* values of BIAS */
enum { NORM_NONE, NORM_PLAIN, NORM_WEIGHTS };                    /* of NORM */
enum { W_IN, W_OUT, W_X, W_DT, CONV, A_LOG, SKIP, MORE };        /* tensors; optional: last */
enum { CONV_TAPS, RATES };                                       /* derived */
enum { PROJECTED, CONVOLVED, MIXED, LOW, STEP, Y, ARRAYS };      /* scratch */

static int32_t inner_of(const lx_mixer_config *c)
{
    return c->params[INNER].i;
}

/* Columns of r, B and C together. */
static int32_t mixed_of(const lx_mixer_config *c)
{
    return c->params[RANK].i + 2 * c->params[KEYS].i;
}

static bool has_conv_bias(const lx_mixer_config *c)
{
    return c->params[BIAS].i == BIAS_CONV || c->params[BIAS].i == BIAS_BOTH;
}

/* A_log [inner, K] becomes -exp(A_log) as [K, inner]. */
static void fill_rates(const lx_mixer_config *c, const lx_mixer_parts *p, const lx_mixer_derived *d,
                       const float *from, float *to)
{
    lx_mixer_fill_transposed(c, p, d, from, to);
    for (int64_t i = 0; i < d->n; i++)
        to[i] = -expf(to[i]);
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    int32_t inner = inner_of(c), keys = c->params[KEYS].i, rank = c->params[RANK].i;
    int32_t taps = c->params[TAPS].i;
    void (*add)(lx_mixer_parts *, const char *, int64_t, int64_t) =
        c->params[BIAS].i >= BIAS_PRODUCTS ? lx_mixer_add_product : lx_mixer_add_map;
    add(p, "attn.in", 2 * (int64_t)inner, c->d_model);
    add(p, "attn.out", c->d_model, inner);
    lx_mixer_add_map(p, "attn.x", mixed_of(c), inner);
    lx_mixer_add_product(p, "attn.dt", inner, rank);
    lx_mixer_add_array(p, "attn.conv.weight", inner, taps);
    lx_mixer_add_array(p, "attn.A_log", inner, keys);
    lx_mixer_add_array(p, "attn.D", 0, inner);
    if (has_conv_bias(c))
        lx_mixer_add_array(p, "attn.conv.bias", 0, inner);
    if (c->params[NORM].i == NORM_WEIGHTS) {
        lx_mixer_add_array(p, "attn.dt_norm.weight", 0, rank);
        lx_mixer_add_array(p, "attn.b_norm.weight", 0, keys);
        lx_mixer_add_array(p, "attn.c_norm.weight", 0, keys);
    }
    lx_mixer_add_derived(p, CONV, 1, (int64_t)taps * inner, lx_mixer_fill_transposed);
    lx_mixer_add_derived(p, A_LOG, 1, (int64_t)keys * inner, fill_rates);
    const int64_t scratch[ARRAYS] = {[PROJECTED] = 2 * (int64_t)inner,
                                     [CONVOLVED] = inner,
                                     [MIXED] = mixed_of(c),
                                     [LOW] = rank,
                                     [STEP] = inner,
                                     [Y] = inner};
    for (int32_t i = 0; i < ARRAYS; i++)
        lx_mixer_add_scratch(p, scratch[i]);
    p->n_heads = 1;
    lx_mixer_add_field_once(p, "S", keys, inner);
    lx_mixer_add_field_once(p, "conv", taps - 1, inner);
}

static void queue_convolution(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    int32_t inner = inner_of(c);
    call->be->ops->short_conv(
        call->be, &(lx_short_conv_args){.y = call->scratch[CONVOLVED],
                                        .x = {call->scratch[PROJECTED], 2 * inner, 0},
                                        .weights = call->derived[CONV_TAPS],
                                        .bias = has_conv_bias(c) ? call->arrays[MORE] : NULL,
                                        .states = call->states,
                                        .offset = call->offset + (int64_t)c->params[KEYS].i * inner,
                                        .d = inner,
                                        .taps = c->params[TAPS].i,
                                        .f = LX_FN_SILU});
}

/* y = n of n columns of r, B and C, where y is that array or another one. */
static void queue_norm(const lx_mixer_call *call, lx_array *y, int32_t first, int32_t n,
                       int32_t gamma)
{
    const lx_mixer_config *c = call->config;
    int32_t weights = MORE + has_conv_bias(c) + gamma;
    call->be->ops->head_norm(
        call->be, &(lx_head_norm_args){
                      .y = y,
                      .x = {call->scratch[MIXED], mixed_of(c), first},
                      .gamma = c->params[NORM].i == NORM_WEIGHTS ? call->arrays[weights] : NULL,
                      .n_heads = 1,
                      .d = n,
                      .kind = LX_NORM_RMS,
                      .eps = c->params[EPS].f,
                      .rows = LX_ROWS_TOKENS});
}

/* n(r), which a product reads, into an array of its own; n(B) and n(C) in place. */
static void queue_norms(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t rank = c->params[RANK].i, keys = c->params[KEYS].i;
    if (c->params[NORM].i == NORM_NONE) {
        call->be->ops->gate(call->be, &(lx_gate_args){.y = s[LOW],
                                                      .x = {s[MIXED], mixed_of(c), 0},
                                                      .d = rank,
                                                      .rows = LX_ROWS_TOKENS});
        return;
    }
    queue_norm(call, s[LOW], 0, rank, 0);
    queue_norm(call, s[MIXED], rank, keys, 1);
    queue_norm(call, s[MIXED], rank + keys, keys, 2);
}

static void queue_scan(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t inner = inner_of(c), rank = c->params[RANK].i, keys = c->params[KEYS].i;
    call->be->ops->selective_scan(
        call->be, &(lx_selective_scan_args){.y = s[Y],
                                            .x = {s[CONVOLVED], inner, 0},
                                            .t = {s[STEP], inner, 0},
                                            .b = {s[MIXED], mixed_of(c), rank},
                                            .c = {s[MIXED], mixed_of(c), rank + keys},
                                            .a = call->derived[RATES],
                                            .skip = call->arrays[SKIP],
                                            .states = call->states,
                                            .offset = call->offset,
                                            .d = inner,
                                            .d_key = keys});
}

static void queue(const lx_mixer_call *call)
{
    lx_array *const *s = call->scratch;
    int32_t inner = inner_of(call->config);
    lx_mixer_product(call, s[PROJECTED], call->x, W_IN, LX_ACT_NONE, NULL);
    queue_convolution(call);
    lx_mixer_product(call, s[MIXED], s[CONVOLVED], W_X, LX_ACT_NONE, NULL);
    queue_norms(call);
    lx_mixer_product(call, s[STEP], s[LOW], W_DT, LX_ACT_NONE, NULL);
    lx_mixer_gate(call, s[STEP], inner, (lx_gate_args){.f = LX_FN_SOFTPLUS});
    queue_scan(call);
    call->be->ops->gate(call->be, &(lx_gate_args){.y = s[Y],
                                                  .x = {s[PROJECTED], 2 * inner, inner},
                                                  .z = {s[Y], inner, 0},
                                                  .d = inner,
                                                  .f = LX_FN_SILU,
                                                  .weighing = LX_WEIGH_TIMES,
                                                  .rows = LX_ROWS_TOKENS});
    lx_mixer_end(call, s[Y], W_OUT, s[PROJECTED]);
}

LX_MIXER(mamba, .summary = "Mamba-1 (Gu and Dao 2023)", .is_whole_layer = true,
         .feed_forward = FEED_FORWARD + 1);
