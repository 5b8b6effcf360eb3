#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_experts_args *a = args;
    if (a->n_experts < 1 || a->n_experts > LX_MOST_EXPERTS)
        return "there must be 1 to 4096 experts";
    if (a->n_active < 1 || a->n_active > a->n_experts)
        return "the active experts must be 1 to all experts";
    if (a->n < 1 || a->n_experts * lx_expert_rows(a->n) != lx_matrix_shape_of(a->w)->rows)
        return "the matrix has not the rows of all experts";
    if (a->y == a->x || a->y == a->choice)
        return "y is one of the inputs";
    return a->residual != NULL && !a->sums ? "a residual is for sums only" : NULL;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_experts_args *a = args;
    int64_t cols = lx_matrix_shape_of(a->w)->cols, n = a->n, active = a->n_active;
    int64_t outputs = a->sums ? n : active * n, inputs = a->sums ? active * cols : cols;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, outputs, a->rows};
    u->arrays[u->n++] = (lx_use){LX_USE_IN, "x", a->x, inputs, a->rows};
    u->arrays[u->n++] = (lx_use){LX_USE_BESIDE, "choice", a->choice, 2 * active, a->rows};
    if (a->residual != NULL)
        u->arrays[u->n++] = (lx_use){LX_USE_BESIDE, "residual", a->residual, n, a->rows};
}

LX_DEFINE_OP(experts, .lasting = true, .wrong = wrong, .uses = uses);
