#include "kernels/reference/reference.h"

static void embed_row(const lx_embed_args *a, int32_t slot, int64_t row)
{
    int64_t d = a->tables[0]->cols;
    const int32_t *ids = a->ids + row * a->n_tables;
    for (int64_t i = 0; i < d; i++) {
        double sum = 0;
        for (int32_t j = 0; j < a->n_tables; j++) {
            int64_t id = lx_host_id(a->states, a->tables[j], slot, ids[j]);
            sum += (double)lx_host_table_at(a->tables[j], id, i);
        }
        a->y->data[row * d + i] = (float)sum;
    }
}

lx_status lx_reference_embed(const lx_batch *b, const void *args)
{
    const lx_embed_args *a = args;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        for (int64_t row = b->seq_start[i]; row < b->seq_start[i + 1]; row++)
            embed_row(a, b->slot[i], row);
    }
    return LX_OK;
}
