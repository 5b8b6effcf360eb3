/* See recurrent.h. */
#include "model/mixers/recurrent.h"

#include <math.h>
#include <string.h>

const char *const lx_mixer_conv_tensors[] = {"attn.q_conv.weight", "attn.k_conv.weight",
                                             "attn.v_conv.weight"};
const char *const lx_mixer_conv_fields[] = {"q_conv", "k_conv", "v_conv"};

void lx_mixer_fill_copy(const lx_mixer_config *c, const lx_mixer_parts *p,
                        const lx_mixer_derived *d, const float *from, float *to)
{
    (void)c, (void)p;
    memcpy(to, from, (size_t)d->n * sizeof *to);
}

void lx_mixer_fill_row(const lx_mixer_config *c, const lx_mixer_parts *p, const lx_mixer_derived *d,
                       const float *from, float *to)
{
    (void)c, (void)p;
    memcpy(to, from + (int64_t)d->number * d->n, (size_t)d->n * sizeof *to);
}

void lx_mixer_fill_transposed(const lx_mixer_config *c, const lx_mixer_parts *p,
                              const lx_mixer_derived *d, const float *from, float *to)
{
    (void)c;
    int64_t cols = p->tensors[d->from].cols, rows = d->n / cols;
    int64_t first = (int64_t)d->number * cols;
    for (int64_t i = 0; i < d->n; i++)
        to[i % cols * rows + i / cols] = from[first + i];
}

void lx_mixer_fill_repeated(const lx_mixer_config *c, const lx_mixer_parts *p,
                            const lx_mixer_derived *d, const float *from, float *to)
{
    (void)c;
    for (int64_t i = 0; i < d->n; i++)
        to[i] = from[i % p->tensors[d->from].cols];
}

void lx_mixer_fill_decay(const lx_mixer_config *c, const lx_mixer_parts *p,
                         const lx_mixer_derived *d, const float *from, float *to)
{
    (void)c;
    int64_t each = d->n / p->tensors[d->from].cols;
    for (int64_t i = 0; i < d->n; i++)
        to[i] = -expf(from[i / each]);
}

void lx_mixer_gate(const lx_mixer_call *call, lx_array *x, int32_t n, lx_gate_args args)
{
    args.x = (lx_columns){x, n, 0};
    args.y = args.y != NULL ? args.y : x;
    args.d = n;
    args.rows = call->rows;
    call->be->ops->gate(call->be, &args);
}

void lx_mixer_add_head_gate(const lx_mixer_config *c, lx_mixer_parts *p)
{
    lx_mixer_add_constant(p, c->n_heads, 0.5);
    lx_mixer_add_constant(p, c->n_heads, 1);
    lx_mixer_add_constant(p, (int64_t)c->n_heads * c->d_value, 0);
}

/* y = 0 + (1 u u) y = y sigmoid(g) for every head, with u = sqrt(sigmoid(g)), of which the exponent
   is log_sigmoid(g) / 2. */
void lx_mixer_gate_heads(const lx_mixer_call *call, lx_array *y, lx_array *open, lx_array *zero,
                         int32_t weight, int32_t first)
{
    const lx_mixer_config *c = call->config;
    int32_t values = c->n_heads * c->d_value;
    lx_mixer_product(call, open, call->x, weight, LX_ACT_NONE, NULL);
    lx_mixer_gate(
        call, open, c->n_heads,
        (lx_gate_args){.factor = call->derived[first], .f = LX_FN_LOG_SIGMOID, .exponent = true});
    lx_mixer_gate(call, y, values, (lx_gate_args){.y = zero, .factor = call->derived[first + 2]});
    call->be->ops->bonus(call->be, &(lx_bonus_args){.y = y,
                                                    .x = {zero, values, 0},
                                                    .q = {open, c->n_heads, 0},
                                                    .k = {open, c->n_heads, 0},
                                                    .v = {y, values, 0},
                                                    .u = call->derived[first + 1],
                                                    .n_heads = c->n_heads,
                                                    .d_key = 1,
                                                    .d_value = c->d_value});
}

void lx_mixer_convolve(const lx_mixer_call *call, lx_array *y, const lx_array *x, int32_t n,
                       int32_t taps, const lx_array *weights, int64_t behind, lx_function f)
{
    call->be->ops->short_conv(
        call->be,
        &(lx_short_conv_args){.y = y,
                              .x = {x, n, 0},
                              .weights = weights,
                              .states = call->states,
                              .offset = call->offset + lx_mixer_heads_floats(call->parts) + behind,
                              .d = n,
                              .taps = taps,
                              .f = f});
}

void lx_mixer_low_rank(const lx_mixer_call *call, lx_array *y, const lx_array *x, lx_array *middle,
                       int32_t first, lx_function f)
{
    lx_mixer_product(call, middle, x, first, LX_ACT_NONE, NULL);
    if (f != LX_FN_IDENTITY)
        lx_mixer_gate(call, middle, (int32_t)call->parts->tensors[first].rows,
                      (lx_gate_args){.f = f});
    lx_mixer_product(call, y, middle, first + 1, LX_ACT_NONE, NULL);
}

void lx_mixer_recur(const lx_mixer_call *call, lx_recurrence_args args)
{
    args.states = call->states;
    args.offset = call->offset;
    args.n_heads = call->config->n_heads;
    args.d_key = call->config->d_key;
    args.d_value = call->config->d_value;
    call->be->ops->recurrence(call->be, &args);
}

void lx_mixer_norm_heads(const lx_mixer_call *call, lx_array *y, int32_t n_heads, int32_t d,
                         lx_head_norm_args args)
{
    args.y = y;
    args.x = (lx_columns){y, n_heads * d, 0};
    args.n_heads = n_heads;
    args.d = d;
    args.rows = call->rows;
    call->be->ops->head_norm(call->be, &args);
}

lx_head_columns lx_mixer_heads(const lx_array *array, int32_t n_heads, int32_t d)
{
    return (lx_head_columns){array, n_heads * d, 0, d, 1};
}
