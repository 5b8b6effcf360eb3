#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_gate_args *a = &op->args.gate;
    LX_CUDA_KEY(w, lx_cuda_key_address(a->y), lx_cuda_key_address(a->bias),
                lx_cuda_key_address(a->factor), lx_cuda_key_address(a->offset),
                lx_cuda_key_pair(a->d, a->rows), lx_cuda_key_pair(a->f, a->weighing), a->exponent,
                lx_cuda_key_pair(a->y_width, a->y_first), LX_CUDA_KEY_COLUMNS(a->x),
                LX_CUDA_KEY_COLUMNS(a->z), LX_CUDA_KEY_COLUMNS(a->other));
}

/* A row of rounded results has d columns, so a wider row of y has none. */
static lx_cuda_writing writes(const void *args)
{
    const lx_gate_args *a = args;
    return lx_gate_output(a).width == a->d ? LX_CUDA_ROUNDED : LX_CUDA_SOME;
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_gate_args *a = &op->args.gate;
    const lx_cuda_results to = lx_cuda_results_of(c, op);
    const lx_columns y = lx_gate_output(a), none = {0};
    const lx_columns z = a->weighing != LX_WEIGH_NONE ? a->z : none;
    const lx_columns other = lx_gate_has_other(a) ? a->other : none;
    return LX_CUDA_LAUNCH(c, gate, .y = to.f32 != NULL ? to.f32 + y.first : NULL,
                          .twin = to.rounded, .y_width = y.width, LX_CUDA_COLUMNS(x, a->x),
                          LX_CUDA_COLUMNS(z, z), LX_CUDA_COLUMNS(other, other),
                          .bias = lx_array_at(a->bias, 0), .factor = lx_array_at(a->factor, 0),
                          .offset = lx_array_at(a->offset, 0), LX_CUDA_ROWS(c, a->rows), .d = a->d,
                          .f = a->f, .exponent = a->exponent,
                          .towards = a->weighing == LX_WEIGH_TOWARDS);
}

LX_DEFINE_CUDA(gate, .key = key, .run = run, .writes = writes);
