#include <string.h>

#include "kernels/cpu/cpu.h"

/* y += row `id` of a table */
static void add_table_row(const lx_cpu *c, float *y, const lx_table *t, int64_t id)
{
    int64_t d = t->cols;
    if (t->dtype == LX_F32 || t->dtype == LX_BF16) {
        c->isa->embed(y, (const char *)t->data + lx_format_bytes(t->dtype, id * d), t->dtype, d);
        return;
    }
    const lx_host_tensor all = {t->dtype, t->rows, d, t->data};
    float values[LX_BLOCK];
    for (int64_t k = 0; k < d; k += LX_BLOCK) {
        int64_t n = d - k < LX_BLOCK ? d - k : LX_BLOCK;
        if (t->of != NULL)
            lx_cpu_block_values(t->of, id, k, values);
        else
            lx_host_tensor_expand(&all, id * d + k, n, values);
        for (int64_t i = 0; i < n; i++)
            y[k + i] += values[i];
    }
}

static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_embed_args *a = args;
    lx_cpu_range rows = lx_cpu_shared_rows(part, LX_ROWS_TOKENS);
    int64_t d = a->tables[0]->cols;
    int32_t seq = part->seq0;
    (void)scratch;
    for (int64_t r = rows.from; r < rows.to; r++) {
        const int32_t *ids = a->ids + r * a->n_tables;
        while (c->batch->seq_start[seq + 1] <= r)
            seq++;
        float *y = a->y->data + r * d;
        memset(y, 0, (size_t)d * sizeof *y);
        for (int32_t j = 0; j < a->n_tables; j++)
            add_table_row(c, y, a->tables[j],
                          lx_host_id(a->states, a->tables[j], c->batch->slot[seq], ids[j]));
    }
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    (void)args;
    return c->batch->n_tokens / 4;
}

LX_DEFINE_CPU(embed, .pieces = pieces, .run = run);
