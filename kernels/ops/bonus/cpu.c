#include "kernels/cpu/cpu.h"

static void run_head(const lx_cpu *c, const lx_bonus_args *a, int64_t row, int64_t head)
{
    int64_t key = head * a->d_key, value = head * a->d_value;
    lx_cpu_bonus job = {
        .y = a->y->data + row * a->n_heads * a->d_value + value,
        .x = lx_columns_at(&a->x, row, value),
        .q = lx_columns_at(&a->q, row, key),
        .k = lx_columns_at(&a->k, row, key),
        .v = lx_columns_at(&a->v, row, value),
        .z = lx_columns_at(&a->z, row, value),
        .u = a->u->data + key,
        .d_key = a->d_key,
        .d_value = a->d_value,
    };
    c->isa->bonus(&job);
}

/* The work is a line: of each row in turn its heads. */
static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_bonus_args *a = args;
    int64_t n = a->n_heads;
    lx_cpu_range mine = lx_cpu_share(part->row0 * n, part->row1 * n, part);
    (void)scratch;
    for (int64_t i = mine.from; i < mine.to; i++)
        run_head(c, a, i / n, i % n);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_bonus_args *a = args;
    return (int64_t)c->batch->n_tokens * a->n_heads * (a->d_key + a->d_value) / 2048;
}

LX_DEFINE_CPU(bonus, .pieces = pieces, .is_by_rows = true, .run = run);
