#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_rotary_args *a = args;
    if (a->n_heads < 1 || a->d < 2 || a->d % 2 != 0 || a->d > a->apart)
        return "there are no heads, or no pairs of columns in them";
    if (a->first < 0 || a->first + (int64_t)a->n_heads * a->apart > a->width)
        return "columns lie outside the row";
    if (a->x == a->turns)
        return "x and turns are the same array";
    return NULL;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_rotary_args *a = args;
    int64_t n = (int64_t)LX_ROTARY_LEVELS * LX_ROTARY_STEPS * a->d;
    lx_uses_array(u, LX_USE_OUT, "x", a->x, a->width);
    lx_uses_array(u, LX_USE_PARAMETER, "turns", a->turns, n);
    u->positions = true;
}

static lx_status check_rows(const lx_batch *b, const void *args, lx_error *err)
{
    (void)args;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        if (b->position[i] + b->seq_start[i + 1] - b->seq_start[i] > LX_ROTARY_POSITIONS)
            return lx_fail(err, LX_ERR_INVALID, NULL, "rotary: a position is not below 2097152");
    }
    return LX_OK;
}

LX_DEFINE_OP(rotary, .lasting = true, .wrong = wrong, .uses = uses, .check_rows = check_rows);
