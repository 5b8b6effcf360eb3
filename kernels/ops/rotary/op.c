#include "kernels/op.h"

static lx_status bad(lx_error *err, const char *what)
{
    return lx_fail(err, LX_ERR_INVALID, NULL, "rotary: %s", what);
}

static lx_status check(const void *args, lx_error *err)
{
    const lx_rotary_args *a = args;
    if (a->n_heads < 1 || a->d < 2 || a->d % 2 != 0 || a->d > a->apart)
        return bad(err, "there are no heads, or no pairs of columns in them");
    if (a->first < 0 || a->first + (int64_t)a->n_heads * a->apart > a->width)
        return bad(err, "columns lie outside the row");
    if (a->x == a->turns)
        return bad(err, "x and turns are the same array");
    return LX_OK;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_rotary_args *a = args;
    int64_t n = (int64_t)LX_ROTARY_LEVELS * LX_ROTARY_STEPS * a->d;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "x", a->x, a->width, LX_ROWS_TOKENS};
    u->arrays[u->n++] = (lx_use){LX_USE_PARAMETER, "turns", a->turns, n, LX_ROWS_TOKENS};
    u->positions = true;
}

static lx_status check_rows(const lx_batch *b, const void *args, lx_error *err)
{
    (void)args;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        if (b->position[i] + b->seq_start[i + 1] - b->seq_start[i] > LX_ROTARY_POSITIONS)
            return bad(err, "a position is not below 2097152");
    }
    return LX_OK;
}

const lx_op lx_op_rotary = {.name = "rotary",
                            .args_size = sizeof(lx_rotary_args),
                            .lasting = true,
                            .check = check,
                            .uses = uses,
                            .check_rows = check_rows};
