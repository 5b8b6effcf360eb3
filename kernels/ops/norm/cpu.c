#include "kernels/cpu/cpu.h"

static void run_rows(const lx_cpu *c, const void *args, float *y, lx_cpu_range rows)
{
    const lx_norm_args *a = args;
    for (int64_t r = rows.from; r < rows.to; r++)
        c->isa->norm(y + r * a->d, a->x->data + r * a->d, a->gamma->data, a->beta->data, a->d,
                     a->eps);
}

static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_norm_args *a = args;
    (void)scratch;
    run_rows(c, a, a->y->data, lx_cpu_shared_rows(part, a->rows));
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    return lx_batch_rows(c->batch, ((const lx_norm_args *)args)->rows) / 4;
}

LX_DEFINE_CPU(norm, .pieces = pieces, .is_by_rows = true, .run = run, .run_rows = run_rows);
