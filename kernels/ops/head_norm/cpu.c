#include "kernels/cpu/cpu.h"

/* A head of a row, with its part of y at `to`. */
static void run_head(const lx_cpu *c, const lx_head_norm_args *a, int64_t row, int64_t head,
                     float *to)
{
    int64_t at = head * a->d;
    lx_cpu_head_norm job = {
        .y = to,
        .x = lx_columns_at(&a->x, row, at),
        .gate = lx_columns_at(&a->gate, row, at),
        .gamma = lx_array_at(a->gamma, at),
        .beta = lx_array_at(a->beta, at),
        .d = a->d,
        .kind = a->kind,
        .f = a->f,
        .gate_first = a->gate_first,
        .eps = a->eps,
    };
    c->isa->head_norm(&job);
}

/* The work is a line: of each row in turn its heads. */
static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_head_norm_args *a = args;
    lx_columns y = lx_head_norm_output(a);
    lx_cpu_range rows = lx_cpu_rows(part, a->rows);
    lx_cpu_range mine = lx_cpu_share(rows.from * a->n_heads, rows.to * a->n_heads, part);
    (void)scratch;
    for (int64_t i = mine.from; i < mine.to; i++) {
        int64_t row = i / a->n_heads, head = i % a->n_heads;
        run_head(c, a, row, head, a->y->data + row * y.width + y.first + head * a->d);
    }
}

/* Only for a y of its own (plan.c), which has whole rows. */
static void run_rows(const lx_cpu *c, const void *args, float *y, lx_cpu_range rows)
{
    const lx_head_norm_args *a = args;
    for (int64_t row = rows.from; row < rows.to; row++) {
        for (int64_t head = 0; head < a->n_heads; head++)
            run_head(c, a, row, head, y + (row * a->n_heads + head) * a->d);
    }
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_head_norm_args *a = args;
    return (int64_t)lx_batch_rows(c->batch, a->rows) * a->n_heads * a->d / 1024;
}

LX_DEFINE_CPU(head_norm, .pieces = pieces, .is_by_rows = true, .run = run, .run_rows = run_rows);
