#include "kernels/cpu/cpu.h"

#define COLUMNS 64 /* of a row that are dealt out at a time */

static lx_cpu_inputs inputs(const lx_columns *c, bool used, int64_t row, int64_t column)
{
    if (!used)
        return (lx_cpu_inputs){NULL, 0};
    return (lx_cpu_inputs){c->array->data + row * c->width + c->first + column, c->width};
}

static const float *parameter(const lx_array *a, int64_t column)
{
    return a != NULL ? a->data + column : NULL;
}

/* Columns from .. to - 1 of a row. */
static void run_columns(const lx_cpu *c, const lx_gate_args *a, int64_t row, int64_t from,
                        int64_t to)
{
    const lx_columns y = lx_gate_output(a);
    lx_cpu_gate job = {
        .y = a->y->data + row * y.width + y.first + from,
        .x = inputs(&a->x, true, row, from).at,
        .z = inputs(&a->z, a->weighing != LX_WEIGH_NONE, row, from).at,
        .other = inputs(&a->other, lx_gate_has_other(a), row, from).at,
        .bias = parameter(a->bias, from),
        .factor = parameter(a->factor, from),
        .offset = parameter(a->offset, from),
        .n = (int32_t)(to - from),
        .f = a->f,
        .exponent = a->exponent,
        .towards = a->weighing == LX_WEIGH_TOWARDS,
    };
    c->isa->gate(&job);
}

/* The work is laid out as row after row, of each some columns after the others. */
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

const lx_cpu_kind lx_cpu_op_gate = {
    .op = &lx_op_gate, .pieces = pieces, .pieces_a_thread = 1, .run = run};
