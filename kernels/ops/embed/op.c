#include "kernels/op.h"

static lx_status check(const void *args, lx_error *err)
{
    const lx_embed_args *a = args;
    if (a->n_tables < 1 || a->n_tables > LX_EMBED_MAX_TABLES)
        return lx_fail(err, LX_ERR_INVALID, NULL, "embed: n_tables must be 1 to %d",
                       LX_EMBED_MAX_TABLES);
    for (int32_t j = 1; j < a->n_tables; j++) {
        if (a->tables[j]->cols != a->tables[0]->cols)
            return lx_fail(err, LX_ERR_INVALID, NULL, "embed: the tables differ in width");
    }
    return LX_OK;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_embed_args *a = args;
    u->arrays[u->n++] = (lx_use){LX_USE_OUT, "y", a->y, a->tables[0]->cols, LX_ROWS_TOKENS};
    u->states = a->states;
    u->branches = true;
}

static lx_status check_ids(const lx_batch *b, const void *args, lx_error *err)
{
    const lx_embed_args *a = args;
    for (int32_t i = 0; i < b->n_tokens * a->n_tables; i++) {
        if (a->states != NULL && lx_is_drawn_id(a->ids[i]))
            continue;
        if (a->ids[i] < 0 || a->ids[i] >= a->tables[i % a->n_tables]->rows)
            return lx_fail(err, LX_ERR_INVALID, NULL,
                           "embed: ids[%d] is %d, table %d has %lld rows", i, a->ids[i],
                           i % a->n_tables, (long long)a->tables[i % a->n_tables]->rows);
    }
    return LX_OK;
}

const lx_op lx_op_embed = {.name = "embed",
                           .args_size = sizeof(lx_embed_args),
                           .check = check,
                           .uses = uses,
                           .check_rows = check_ids};
