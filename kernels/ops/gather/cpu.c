#include "kernels/cpu/cpu.h"

static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_gather_args *a = args;
    lx_cpu_range rows = lx_cpu_shared_rows(part, LX_ROWS_OUTPUTS);
    (void)scratch;
    for (int64_t i = rows.from; i < rows.to; i++)
        c->isa->gather(a->y->data + i * a->width + a->column,
                       a->x->data + c->batch->output_row[i] * (int64_t)a->d, a->d);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    (void)args;
    return c->batch->n_outputs / 16;
}

LX_DEFINE_CPU(gather, .pieces = pieces, .run = run);
