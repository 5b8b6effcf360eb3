#include "kernels/cpu/cpu.h"

static lx_cpu_inputs inputs(const lx_columns *c, int64_t row, int64_t column)
{
    return (lx_cpu_inputs){lx_columns_at(c, row, column), c->width};
}

static void run_rows(const lx_cpu *c, const void *args, int64_t row, int64_t n_tokens,
                     int64_t column, int32_t slot)
{
    const lx_selective_scan_args *a = args;
    lx_cpu_selective_scan job = {
        .x = inputs(&a->x, row, column),
        .t = inputs(&a->t, row, column),
        .b = inputs(&a->b, row, 0),
        .c = inputs(&a->c, row, 0),
        .a = a->a->data + column,
        .skip = a->skip->data + column,
        .y = a->y->data + row * a->d + column,
        .state = a->states->data + slot * a->states->stride + a->offset + column,
        .n_tokens = n_tokens,
        .d = a->d,
        .d_key = a->d_key,
        .columns = lx_cpu_columns_from(a->d, column),
    };
    c->isa->selective_scan(&job);
}

static void run_columns(const lx_cpu *c, const void *args, const lx_cpu_unit *u, float *scratch)
{
    const lx_selective_scan_args *a = args;
    (void)scratch;
    lx_cpu_run_columns(c, a, u, run_rows, a->states, a->offset, a->d_key, a->d);
}

static int64_t units(const void *args)
{
    return lx_cpu_tiles(((const lx_selective_scan_args *)args)->d);
}

/* The exponentials of 64 channels with 16 numbers of state take half a microsecond. */
static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_selective_scan_args *a = args;
    return (int64_t)c->batch->n_tokens * lx_cpu_tiles(a->d) * a->d_key / 16;
}

LX_DEFINE_CPU(selective_scan, .pieces = pieces, .units = units, .run_unit = run_columns);
