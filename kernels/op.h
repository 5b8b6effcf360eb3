/*
 * The descriptor of an operation, by which every back end handles it. A recorder copies the
 * arguments by their size, checks them by the declarations, and finds by the declared arrays which
 * operation makes the input of which other. The registry is ops.def.
 */
#ifndef LINNET_KERNELS_OP_H
#define LINNET_KERNELS_OP_H

#include <math.h>

#include "kernels/step.h"

/* An array that an operation reads or writes: [rows, width] where `role` is not a parameter. */
typedef enum lx_use_role {
    LX_USE_OUT,      /* written; may be read as well */
    LX_USE_IN,       /* its main input, which another operation made for it */
    LX_USE_BESIDE,   /* a further input, read row by row */
    LX_USE_PARAMETER /* [width], one for all rows */
} lx_use_role;

typedef struct lx_use {
    lx_use_role role;
    const char *name;      /* as in the arguments, for errors */
    const lx_array *array; /* NULL is an error */
    int64_t width;
    lx_rows rows;
} lx_use;

#define LX_MAX_USES 10 /* arrays of an operation */

typedef struct lx_uses {
    lx_use arrays[LX_MAX_USES];
    int32_t n;
    const lx_states *states; /* whose slots the operation uses; NULL for none */
    bool positions;          /* it needs the tokens' positions in their sequences */
    bool pages;              /* and mapped pages for all tokens up to the last */
    bool branches;           /* a sequence may branch */
} lx_uses;

/* The common part of sampling operations' arguments. */
typedef struct lx_drawing {
    const lx_sampling *rows;
    lx_sample *out;
    lx_states *states;
} lx_drawing;

typedef struct lx_op {
    const char *name;
    size_t args_size;
    /* The arguments point to no memory of the host, so a check holds as long as their objects
       exist. */
    bool lasting;
    /* A fault of the arguments that shows without reading a row; NULL: none. */
    const char *(*wrong)(const void *args);
    /* Checks after `wrong` that write their own error. Both are NULL where none is needed. */
    lx_status (*check)(const void *args, lx_error *err);
    void (*uses)(const void *args, lx_uses *uses);
    /* Checks the arguments' rows on the host, last. NULL: there are none. */
    lx_status (*check_rows)(const lx_batch *b, const void *args, lx_error *err);
    /* Of a sampling operation, else NULL. */
    lx_drawing (*drawing)(const void *args);
} lx_op;

#define LX_DEFINE_OP(NAME, ...)                                                                    \
    const lx_op lx_op_##NAME = {.name = #NAME, .args_size = sizeof(lx_##NAME##_args), __VA_ARGS__}

/* Room for the arguments of any operation. */
typedef union lx_op_args {
#define LX_OP(name) lx_##name##_args name;
#include "kernels/ops.def"
} lx_op_args;

#define LX_OP(name) extern const lx_op lx_op_##name;
#include "kernels/ops.def"

/*
 * All checks of an operation against the batch; an error names the operation and the fault. *uses
 * receives the operation's declarations.
 */
lx_status lx_op_check(const lx_op *op, const lx_batch *b, const void *args, lx_uses *uses,
                      lx_error *err);
/* Only the checks against the batch, for arguments that passed before and declared *uses, and whose
   objects all still exist. */
lx_status lx_op_check_batch(const lx_op *op, const lx_batch *b, const void *args,
                            const lx_uses *uses, lx_error *err);

/* For `uses`: an array, of token rows; and a parameter of `width` floats, if it is not NULL. */
static inline void lx_uses_array(lx_uses *u, lx_use_role role, const char *name,
                                 const lx_array *array, int64_t width)
{
    u->arrays[u->n++] = (lx_use){role, name, array, width, LX_ROWS_TOKENS};
}

static inline void lx_uses_optional(lx_uses *u, const char *name, const lx_array *array,
                                    int64_t width)
{
    if (array != NULL)
        lx_uses_array(u, LX_USE_PARAMETER, name, array, width);
}

/* For `wrong`: the faults that attention operations have in common; NULL: none. */
static inline const char *lx_wrong_attention(int64_t n_heads, int64_t d_key, int64_t d_value,
                                             float scale, const lx_array *y, const lx_array *qkv)
{
    if (n_heads < 1 || d_key < 1 || d_value < 1 || n_heads > 65536 || d_key > 1024 ||
        d_value > 1024)
        return "there must be 1 to 65536 heads, and their sizes be 1 to 1024";
    if (!isfinite(scale))
        return "the scale is not finite";
    return y == qkv ? "qkv and y are the same array" : NULL;
}

/* Whether the slots' fixed parts have `floats` floats from `offset` on. */
static inline bool lx_states_hold(const lx_states *s, int64_t offset, int64_t floats)
{
    return s != NULL && offset >= 0 && offset <= s->floats - floats;
}

/* The first array of this role, or NULL. */
static inline const lx_use *lx_uses_find(const lx_uses *uses, lx_use_role role)
{
    for (int32_t i = 0; i < uses->n; i++) {
        if (uses->arrays[i].role == role)
            return &uses->arrays[i];
    }
    return NULL;
}

#endif
