#include "kernels/reference/reference.h"

/* The id, or the drawn token that it stands for. */
static int64_t id_of(const lx_embed_args *a, const lx_table *t, int32_t slot, int32_t id)
{
    if (!lx_is_drawn_id(id))
        return id;
    int32_t token = a->states->drawn[lx_drawn_place_of(slot, id)];
    return token >= 0 && token < t->rows ? token : 0;
}

static void embed_row(const lx_embed_args *a, int32_t slot, int64_t row)
{
    int64_t d = a->tables[0]->cols;
    const int32_t *ids = a->ids + row * a->n_tables;
    for (int64_t i = 0; i < d; i++) {
        double sum = 0;
        for (int32_t j = 0; j < a->n_tables; j++)
            sum += (double)lx_host_table_at(a->tables[j], id_of(a, a->tables[j], slot, ids[j]), i);
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
