/* Embedding: the sum of a row of each table. */
#ifndef LINNET_KERNELS_OPS_EMBED_OP_H
#define LINNET_KERNELS_OPS_EMBED_OP_H

#include "kernels/types.h"

#define LX_EMBED_MAX_TABLES 64

/* y[r] = sum_j tables[j][ids[r * n_tables + j]]          y [T, d] */
typedef struct lx_embed_args {
    lx_array *y;
    int32_t n_tables;
    const lx_table *const *tables; /* [n_tables], all of the same width; borrowed until sync() */
    /* [T, n_tables], host, each within its table or of lx_drawn_id; borrowed likewise */
    const int32_t *ids;
    const lx_states *states; /* whose drawn tokens are meant; NULL: no id is one */
} lx_embed_args;

#endif
