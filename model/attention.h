/*
 * Attention kinds. A kind says how large a slot's state is and which kernel advances it; the
 * transformer's forward pass is written once over this table. A new kind is one table and one entry
 * in the registry of attention.c.
 */
#ifndef LINNET_MODEL_ATTENTION_H
#define LINNET_MODEL_ATTENTION_H

#include "model/config.h"

typedef struct lx_attention_kind {
    const char *name; /* config.json: attention.kind */
    /* The state of one layer of one slot. */
    lx_state_layout (*layer_state)(const lx_config *config);
    /* Queues layer `layer`: y [T, H*M] from qkv [T, 2*H*D + H*M] and the state of every sequence.
     */
    void (*attend)(lx_backend *be, const lx_config *config, int32_t layer, lx_array *y,
                   const lx_array *qkv, lx_states *states);
} lx_attention_kind;

/* NULL for an unknown name. */
const lx_attention_kind *lx_attention_find(const char *name);

#endif
