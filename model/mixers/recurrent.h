/* Parts of mixers over the operation `recurrence`. */
#ifndef LINNET_MODEL_MIXERS_RECURRENT_H
#define LINNET_MODEL_MIXERS_RECURRENT_H

#include "model/mixers/mixer.h"

/* Defines a mixer of a file with several kinds: its constants are in NAME, its parameters in
   NAME_params. The file has functions `check`, `declare` and `queue`. */
#define LX_RECURRENT_KIND(NAME, SUMMARY)                                                           \
    LX_MIXER_PLAIN(NAME, .summary = (SUMMARY), .variant = &(NAME), .params = NAME##_params,        \
                   .n_params = sizeof NAME##_params / sizeof *NAME##_params, .check = check)

/* The names of the convolutions' taps for q, k and v, and of the state fields with their inputs. */
extern const char *const lx_mixer_conv_tensors[3], *const lx_mixer_conv_fields[3];

/* --- for lx_mixer_add_derived --- */

/* Arrays, concatenated without a change. */
void lx_mixer_fill_copy(const lx_mixer_config *c, const lx_mixer_parts *p,
                        const lx_mixer_derived *d, const float *from, float *to);
/* Row d->number of an array. */
void lx_mixer_fill_row(const lx_mixer_config *c, const lx_mixer_parts *p, const lx_mixer_derived *d,
                       const float *from, float *to);
/* A tensor's rows as columns, from row d->number on: taps of a convolution, which files hold
 * channel by channel. */
void lx_mixer_fill_transposed(const lx_mixer_config *c, const lx_mixer_parts *p,
                              const lx_mixer_derived *d, const float *from, float *to);
/* A vector that all heads share, repeated. */
void lx_mixer_fill_repeated(const lx_mixer_config *c, const lx_mixer_parts *p,
                            const lx_mixer_derived *d, const float *from, float *to);
/* -exp of every number, each as often in a row as there is room: A of A_log. */
void lx_mixer_fill_decay(const lx_mixer_config *c, const lx_mixer_parts *p,
                         const lx_mixer_derived *d, const float *from, float *to);

/* For `declare`: the numbers that lx_mixer_gate_heads takes. */
void lx_mixer_add_head_gate(const lx_mixer_config *c, lx_mixer_parts *p);

/* --- for `queue` --- */

/* `gate` over n columns for the token rows, from x, in place where args.y is NULL. */
void lx_mixer_gate(const lx_mixer_call *call, lx_array *x, int32_t n, lx_gate_args args);

/* y sigmoid(W x) for each head of y, a number per head; W is tensor `weight`, and `first` the first
   number that lx_mixer_add_head_gate adds. `open` has room for a number per head, and `zero` for as
   many as y has. */
void lx_mixer_gate_heads(const lx_mixer_call *call, lx_array *y, lx_array *open, lx_array *zero,
                         int32_t weight, int32_t first);

/* y = f of the short convolution of x, n columns of either; its inputs are kept `behind` floats
 * after the heads' fields. weights [taps * n], transposed. */
void lx_mixer_convolve(const lx_mixer_call *call, lx_array *y, const lx_array *x, int32_t n,
                       int32_t taps, const lx_array *weights, int64_t behind, lx_function f);

/* y = W_second f(W_first x), the bias of the second if it has one; the tensors follow each other.
   `middle` has room for W_first x. */
void lx_mixer_low_rank(const lx_mixer_call *call, lx_array *y, const lx_array *x, lx_array *middle,
                       int32_t first, lx_function f);

/* `recurrence` on the branch's state, with the sizes of its heads; `args` has the rest. */
void lx_mixer_recur(const lx_mixer_call *call, lx_recurrence_args args);

/* `head_norm` of an array of n_heads heads of d columns, in place; `args` has the rest. */
void lx_mixer_norm_heads(const lx_mixer_call *call, lx_array *y, int32_t n_heads, int32_t d,
                         lx_head_norm_args args);

/* The heads of an array that holds nothing else, d columns each. */
lx_head_columns lx_mixer_heads(const lx_array *array, int32_t n_heads, int32_t d);

#endif
