#include "kernels/op.h"

static lx_status check(const void *args, lx_error *err)
{
    return lx_attend_linear_check(args, "attend_both", err);
}

static void uses(const void *args, lx_uses *u)
{
    lx_op_attend_linear.uses(args, u);
    u->branches = false; /* a sequence is whole */
}

const lx_op lx_op_attend_both = {.name = "attend_both",
                                 .args_size = sizeof(lx_attend_both_args),
                                 .lasting = true,
                                 .check = check,
                                 .uses = uses};
