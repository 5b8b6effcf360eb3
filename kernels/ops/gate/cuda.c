#include "kernels/ops/gate/cuda.h"
#include "kernels/cuda/cuda.h"

/* What is not looked at is no part of it. */
static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_gate_args *a = &op->args.gate;
    w[0] = lx_cuda_key_address(a->y);
    w[1] = lx_cuda_key_address(a->bias);
    w[2] = lx_cuda_key_address(a->factor);
    w[3] = lx_cuda_key_address(a->offset);
    w[4] = lx_cuda_key_pair(a->d, a->rows);
    w[5] = lx_cuda_key_pair(a->f, a->weighing);
    w[6] = a->exponent;
    w[7] = lx_cuda_key_pair(a->y_width, a->y_first);
    w = lx_cuda_key_columns(w + 8, &a->x);
    if (a->weighing != LX_WEIGH_NONE)
        w = lx_cuda_key_columns(w, &a->z);
    if (lx_gate_has_other(a))
        (void)lx_cuda_key_columns(w, &a->other);
}

/* Beside columns that are not written there is no room for rounded ones. */
static lx_cuda_writing writes(const void *args)
{
    const lx_gate_args *a = args;
    return lx_gate_output(a).width == a->d ? LX_CUDA_ROUNDED : LX_CUDA_SOME;
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_gate_args *a = &op->args.gate;
    const lx_cuda_results to = lx_cuda_results_of(c, op);
    const lx_columns y = lx_gate_output(a);
    lx_cuda_gate k = {.y = to.f32 != NULL ? to.f32 + y.first : NULL,
                      .twin = to.rounded,
                      .y_width = y.width,
                      .x = lx_columns_at(&a->x, 0, 0),
                      .bias = lx_array_at(a->bias, 0),
                      .factor = lx_array_at(a->factor, 0),
                      .offset = lx_array_at(a->offset, 0),
                      .x_width = a->x.width,
                      .z_width = a->z.width,
                      .other_width = a->other.width,
                      .live = lx_cuda_live_rows(c, a->rows),
                      .d = a->d,
                      .rows = lx_cuda_row_count(c, a->rows),
                      .f = a->f,
                      .exponent = a->exponent,
                      .towards = a->weighing == LX_WEIGH_TOWARDS};
    if (a->weighing != LX_WEIGH_NONE)
        k.z = lx_columns_at(&a->z, 0, 0);
    if (lx_gate_has_other(a))
        k.other = lx_columns_at(&a->other, 0, 0);
    return k.rows == 0 ? LX_OK : lx_cuda_launched(c, lx_cuda_launch_gate(&k, c->target), "gate");
}

LX_DEFINE_CUDA(gate, .key = key, .run = run, .writes = writes);
