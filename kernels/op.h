/*
 * What every back end knows of an operation before it runs it: a descriptor. Recorders store its
 * arguments by size, check them by what it declares, and see by its arrays which operation makes
 * what another one takes. The registry is ops.def.
 */
#ifndef LINNET_KERNELS_OP_H
#define LINNET_KERNELS_OP_H

#include "kernels/step.h"

/* An array that an operation reads or writes: [rows, width] where `role` is not a parameter. */
typedef enum lx_use_role {
    LX_USE_OUT,      /* written; may be read as well */
    LX_USE_IN,       /* its main input: what another operation made for it */
    LX_USE_BESIDE,   /* read beside that, row by row */
    LX_USE_PARAMETER /* [width], the same for all rows */
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
    const lx_states *states; /* whose slots the operation looks at; NULL for none */
    bool positions;          /* it needs to know where in their sequences the tokens are */
    bool pages;              /* and pages of the states for all tokens up to its last */
    bool branches;           /* a sequence may branch */
} lx_uses;

/* What sampling operations have in common; what is drawn is kept beside the slots. */
typedef struct lx_drawing {
    const lx_sampling *rows;
    lx_sample *out;
    lx_states *states;
} lx_drawing;

typedef struct lx_op {
    const char *name;
    size_t args_size;
    /* No memory of the host lies behind the arguments: what is right once is right as long as their
       objects are there. */
    bool lasting;
    /* What is wrong with the arguments by themselves, without looking at any row; NULL: nothing. */
    const char *(*wrong)(const void *args);
    /* The same, after that, with a text of its own. Both are NULL where there is nothing to check.
     */
    lx_status (*check)(const void *args, lx_error *err);
    void (*uses)(const void *args, lx_uses *uses);
    /* What is given by rows on the host, when all else is right. NULL: nothing is. */
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
 * All checks of an operation against the batch; an error names the operation and what is wrong.
 * *uses receives what the operation declares.
 */
lx_status lx_op_check(const lx_op *op, const lx_batch *b, const void *args, lx_uses *uses,
                      lx_error *err);
/* The same of arguments that have passed before, whose objects are all still there and declared
 *uses. */
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
