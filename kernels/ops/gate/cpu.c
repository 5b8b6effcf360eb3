#include "kernels/cpu/cpu.h"

#define COLUMNS 64 /* of a row that are dealt out at a time */

static void run_columns(const lx_cpu *c, const lx_gate_args *a, int64_t row, int64_t from,
                        int64_t to)
{
    const lx_columns y = lx_gate_output(a);
    lx_cpu_gate job = {
        .y = a->y->data + row * y.width + y.first + from,
        .x = lx_columns_at(&a->x, row, from),
        .z = a->weighing != LX_WEIGH_NONE ? lx_columns_at(&a->z, row, from) : NULL,
        .other = lx_gate_has_other(a) ? lx_columns_at(&a->other, row, from) : NULL,
        .bias = lx_array_at(a->bias, from),
        .factor = lx_array_at(a->factor, from),
        .offset = lx_array_at(a->offset, from),
        .n = (int32_t)(to - from),
        .f = a->f,
        .exponent = a->exponent,
        .towards = a->weighing == LX_WEIGH_TOWARDS,
    };
    c->isa->gate(&job);
}

/* The work is a line: of each row in turn its groups of columns. */
static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_gate_args *a = args;
    int64_t n = (a->d + COLUMNS - 1) / COLUMNS;
    lx_cpu_range rows = lx_cpu_rows(part, a->rows);
    lx_cpu_range mine = lx_cpu_share(rows.from * n, rows.to * n, part);
    (void)scratch;
    for (int64_t at = mine.from; at < mine.to;) {
        int64_t row = at / n, end = (row + 1) * n < mine.to ? (row + 1) * n : mine.to;
        int64_t to = (end - row * n) * COLUMNS;
        run_columns(c, a, row, at % n * COLUMNS, to < a->d ? to : a->d);
        at = end;
    }
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_gate_args *a = args;
    return (int64_t)lx_batch_rows(c->batch, a->rows) * a->d / 1024;
}

LX_DEFINE_CPU(gate, .pieces = pieces, .is_by_rows = true, .run = run);
