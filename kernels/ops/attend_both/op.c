#include "kernels/op.h"

static const char *wrong(const void *args)
{
    const lx_attend_both_args *a = args;
    return a->decay != NULL ? "sums over a whole sequence have no decay"
                            : lx_op_attend_linear.wrong(args);
}

static void uses(const void *args, lx_uses *u)
{
    lx_op_attend_linear.uses(args, u);
    u->branches = false; /* a sequence is whole */
}

LX_DEFINE_OP(attend_both, .lasting = true, .wrong = wrong, .uses = uses);
