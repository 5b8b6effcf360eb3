/*
 * What softmax attention and its relatives share: queries, keys and values from one product,
 * attend_rows over the rows that the kind's patterns see (kernels/ops/attend_rows/op.h), a product
 * back. A kind is its patterns.
 *
 *     q, k, v = W_qkv x + b
 *     y_i = sum over j in A(i) of softmax_j(q_i . k_j / sqrt(D)) v_j
 *     A(x) = W_out y + b
 *
 * Tensors: attn.qkv (rows of q, then k, then v, head by head), attn.out.
 * State: the rows (k, v) that may be seen again: a ring of them in the slot where that is enough,
 * else all, in pages.
 */
#ifndef LINNET_MODEL_MIXERS_ROWS_H
#define LINNET_MODEL_MIXERS_ROWS_H

#include "model/mixers/mixer.h"

/* Tensors and scratch in the order of their declaration; a kind may add further ones. */
enum { LX_ROWS_QKV, LX_ROWS_OUT, LX_ROWS_TENSORS };
enum { LX_ROWS_PROJECTED, LX_ROWS_ATTENDED };

/* For `check`: what attend_rows asks of the heads. */
const char *lx_mixer_check_rows(const lx_mixer_config *c);
/* For `declare`: the products and their scratch alone. */
void lx_mixer_declare_products(const lx_mixer_config *c, lx_mixer_parts *p);
/* For `declare`: head h has patterns[h % n], n <= LX_MAX_MIXER_PATTERNS. */
void lx_mixer_declare_rows(const lx_mixer_config *c, const lx_rows_pattern *patterns, int32_t n,
                           lx_mixer_parts *p);
/* For `queue`, and of it the attention from PROJECTED to ATTENDED. */
void lx_mixer_queue_rows(const lx_mixer_call *call);
lx_attend_rows_args lx_mixer_attend_rows_args(const lx_mixer_call *call);

#endif
