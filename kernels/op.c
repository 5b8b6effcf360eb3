/*
 * The checks that follow from an operation's declarations: its arrays are large enough, the batch's
 * slots exist, and the pages of their tokens are mapped. They cost a few comparisons per row and
 * turn a caller's bug, which would overwrite memory, into an error of that step.
 */
#include "kernels/op.h"

/* Without a division: a step has hundreds of arrays. */
static inline bool has_room(const lx_use *use, int64_t rows)
{
    int64_t wanted;
    return use->array != NULL && use->width >= 1 &&
           !__builtin_mul_overflow(rows, use->width, &wanted) && wanted <= use->array->n;
}

static inline int64_t rows_of(const lx_batch *b, const lx_use *use)
{
    return use->role == LX_USE_PARAMETER ? 1 : lx_batch_rows(b, use->rows);
}

static lx_status fail_use(const lx_op *op, const lx_batch *b, const lx_use *use, lx_error *err)
{
    if (use->array == NULL)
        return lx_fail(err, LX_ERR_INVALID, NULL, "%s: %s is NULL", op->name, use->name);
    return lx_fail(err, LX_ERR_INVALID, NULL, "%s: %s has %lld floats, not %lld x %lld", op->name,
                   use->name, (long long)use->array->n, (long long)rows_of(b, use),
                   (long long)use->width);
}

static lx_status check_slots(const lx_op *op, const lx_batch *b, const lx_states *s, bool branches,
                             lx_error *err)
{
    for (int32_t i = 0; i < b->n_seqs; i++) {
        if (b->slot[i] >= s->n_slots)
            return lx_fail(err, LX_ERR_INVALID, NULL, "%s: slot %d of %d", op->name, b->slot[i],
                           s->n_slots);
        if (b->branch == NULL || b->branch[i] < 0)
            continue;
        if (b->branch[i] >= s->n_slots)
            return lx_fail(err, LX_ERR_INVALID, NULL, "%s: branch to slot %d of %d", op->name,
                           b->branch[i], s->n_slots);
        if (!branches)
            return lx_fail(err, LX_ERR_UNSUPPORTED, NULL, "%s: a sequence cannot branch", op->name);
    }
    return LX_OK;
}

static lx_status check_positions(const lx_op *op, const lx_batch *b, const lx_uses *uses,
                                 lx_error *err)
{
    if (b->position == NULL)
        return lx_fail(err, LX_ERR_INVALID, NULL, "%s: the batch has no positions", op->name);
    for (int32_t i = 0; uses->pages && i < b->n_seqs; i++) {
        int32_t tokens = b->position[i] + b->seq_start[i + 1] - b->seq_start[i];
        int32_t pages = (tokens + LX_PAGE_TOKENS - 1) / LX_PAGE_TOKENS;
        int32_t slot = lx_batch_page_slot(b, i);
        if (!lx_states_have(uses->states, slot, pages))
            return lx_fail(err, LX_ERR_INVALID, NULL,
                           "%s: slot %d: pages for %d tokens are not mapped", op->name, slot,
                           tokens);
    }
    return LX_OK;
}

lx_status lx_op_check(const lx_op *op, const lx_batch *b, const void *args, lx_uses *uses,
                      lx_error *err)
{
    const char *wrong = op->wrong != NULL ? op->wrong(args) : NULL;
    if (wrong != NULL)
        return lx_fail(err, LX_ERR_INVALID, NULL, "%s: %s", op->name, wrong);
    lx_status st = op->check != NULL ? op->check(args, err) : LX_OK;
    if (st != LX_OK)
        return st;
    uses->n = 0;
    uses->states = NULL;
    uses->positions = uses->pages = uses->branches = false;
    op->uses(args, uses);
    return lx_op_check_batch(op, b, args, uses, err);
}

lx_status lx_op_check_batch(const lx_op *op, const lx_batch *b, const void *args,
                            const lx_uses *uses, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t i = 0; i < uses->n; i++) {
        if (!has_room(&uses->arrays[i], rows_of(b, &uses->arrays[i])))
            return fail_use(op, b, &uses->arrays[i], err);
    }
    if (uses->states != NULL)
        st = check_slots(op, b, uses->states, uses->branches, err);
    if (st == LX_OK && uses->positions)
        st = check_positions(op, b, uses, err);
    return st == LX_OK && op->check_rows != NULL ? op->check_rows(b, args, err) : st;
}
