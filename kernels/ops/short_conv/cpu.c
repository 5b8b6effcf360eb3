#include "kernels/cpu/cpu.h"

static void run_rows(const lx_cpu *c, const void *args, int64_t row, int64_t n_tokens,
                     int64_t column, int32_t slot)
{
    const lx_short_conv_args *a = args;
    lx_cpu_short_conv job = {
        .y = a->y->data + row * a->d + column,
        .x = {lx_columns_at(&a->x, row, column), a->x.width},
        .weights = a->weights->data + column,
        .bias = lx_array_at(a->bias, column),
        .state = a->states->data + slot * a->states->stride + a->offset + column,
        .n_tokens = n_tokens,
        .d = a->d,
        .columns = lx_cpu_columns_from(a->d, column),
        .taps = a->taps,
        .f = a->f,
    };
    c->isa->short_conv(&job);
}

static void run_columns(const lx_cpu *c, const void *args, const lx_cpu_unit *u, float *scratch)
{
    const lx_short_conv_args *a = args;
    (void)scratch;
    lx_cpu_run_columns(c, a, u, run_rows, a->states, a->offset, a->taps - 1, a->d);
}

static int64_t units(const void *args)
{
    return lx_cpu_tiles(((const lx_short_conv_args *)args)->d);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    return (int64_t)c->batch->n_tokens * ((const lx_short_conv_args *)args)->d / 512;
}

LX_DEFINE_CPU(short_conv, .pieces = pieces, .units = units, .run_unit = run_columns);
