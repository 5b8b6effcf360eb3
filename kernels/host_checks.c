/*
 * What a step is given, checked before any of it runs (see host.h): the batch's shape once a step,
 * and each operation's arguments against the batch. It costs a few comparisons a row and turns a
 * caller's bug, which would overwrite memory, into an error of that step.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/host.h"

static lx_status bad(lx_error *err, const char *op, const char *what)
{
    return lx_fail(err, LX_ERR_INVALID, NULL, "%s: %s", op, what);
}

/* --- the batch -------------------------------------------------------------------------------- */

static lx_status grow_seen(lx_host_seen *seen, int32_t slot, lx_error *err)
{
    int32_t n = seen->n < 64 ? 64 : seen->n;
    while (n <= slot)
        n *= 2;
    uint64_t *stamp = realloc(seen->stamp, (size_t)n * sizeof *stamp);
    if (stamp == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory to check %d slots", n);
    memset(stamp + seen->n, 0, (size_t)(n - seen->n) * sizeof *stamp);
    seen->stamp = stamp;
    seen->n = n;
    return LX_OK;
}

static lx_status check_slots(const lx_batch *b, lx_host_seen *seen, lx_error *err)
{
    uint64_t now = ++seen->now;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        int32_t slot = b->slot[i];
        if (slot < 0 || slot >= LX_HOST_MAX_SLOTS)
            return lx_fail(err, LX_ERR_INVALID, NULL, "batch: slot[%d] is %d", i, slot);
        if (slot >= seen->n) {
            lx_status st = grow_seen(seen, slot, err);
            if (st != LX_OK)
                return st;
        }
        if (seen->stamp[slot] == now)
            return lx_fail(err, LX_ERR_INVALID, NULL, "batch: slot %d comes twice", slot);
        seen->stamp[slot] = now;
    }
    return LX_OK;
}

static lx_status check_outputs(const lx_batch *b, lx_error *err)
{
    if (b->n_outputs < 0 || b->n_outputs > b->n_tokens)
        return lx_fail(err, LX_ERR_INVALID, NULL, "batch: %d outputs of %d rows", b->n_outputs,
                       b->n_tokens);
    int32_t last = -1;
    for (int32_t i = 0; i < b->n_outputs; i++) {
        if (b->output_row[i] <= last || b->output_row[i] >= b->n_tokens)
            return lx_fail(err, LX_ERR_INVALID, NULL, "batch: output_row[%d] is %d", i,
                           b->output_row[i]);
        last = b->output_row[i];
    }
    return LX_OK;
}

lx_status lx_host_batch_check(const lx_batch *b, lx_host_seen *seen, lx_error *err)
{
    if (b->n_tokens < 1 || b->n_tokens > LX_HOST_MAX_TOKENS || b->n_seqs < 1 ||
        b->n_seqs > b->n_tokens)
        return lx_fail(err, LX_ERR_INVALID, NULL, "batch: %d rows in %d sequences", b->n_tokens,
                       b->n_seqs);
    if (b->seq_start[0] != 0 || b->seq_start[b->n_seqs] != b->n_tokens)
        return lx_fail(err, LX_ERR_INVALID, NULL, "batch: seq_start runs %d to %d, not 0 to %d",
                       b->seq_start[0], b->seq_start[b->n_seqs], b->n_tokens);
    for (int32_t i = 0; i < b->n_seqs; i++) {
        if (b->seq_start[i] >= b->seq_start[i + 1])
            return lx_fail(err, LX_ERR_INVALID, NULL, "batch: sequence %d is empty", i);
    }
    lx_status st = check_slots(b, seen, err);
    return st != LX_OK ? st : check_outputs(b, err);
}

/* --- operations ------------------------------------------------------------------------------- */

int32_t lx_host_row_count(const lx_batch *batch, lx_rows rows)
{
    return rows == LX_ROWS_TOKENS ? batch->n_tokens : batch->n_outputs;
}

static lx_status need(const lx_array *a, int64_t rows, int64_t width, const char *op,
                      const char *name, lx_error *err)
{
    if (a == NULL)
        return lx_fail(err, LX_ERR_INVALID, NULL, "%s: %s is NULL", op, name);
    if (width < 1 || rows > a->n / width)
        return lx_fail(err, LX_ERR_INVALID, NULL, "%s: %s has %lld floats, not %lld x %lld", op,
                       name, (long long)a->n, (long long)rows, (long long)width);
    return LX_OK;
}

static lx_status check_in_arena(const lx_batch *b, const lx_states *s, const char *op,
                                lx_error *err)
{
    for (int32_t i = 0; i < b->n_seqs; i++) {
        if (b->slot[i] >= s->n_slots)
            return lx_fail(err, LX_ERR_INVALID, NULL, "%s: slot %d of %d", op, b->slot[i],
                           s->n_slots);
    }
    return LX_OK;
}

static lx_status check_ids(const lx_batch *b, const lx_embed_args *a, lx_error *err)
{
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

lx_status lx_host_check_embed(const lx_batch *b, const lx_embed_args *a, lx_error *err)
{
    if (a->n_tables < 1 || a->n_tables > 64)
        return bad(err, "embed", "n_tables must be 1 to 64");
    for (int32_t j = 1; j < a->n_tables; j++) {
        if (a->tables[j]->cols != a->tables[0]->cols)
            return bad(err, "embed", "the tables differ in width");
    }
    lx_status st = need(a->y, b->n_tokens, a->tables[0]->cols, "embed", "y", err);
    if (st == LX_OK && a->states != NULL)
        st = check_in_arena(b, a->states, "embed", err);
    return st != LX_OK ? st : check_ids(b, a, err);
}

lx_status lx_host_check_linear(const lx_batch *b, const lx_linear_args *a, lx_linear_shape w,
                               lx_error *err)
{
    int64_t rows = lx_host_row_count(b, a->rows);
    if (a->x == a->y)
        return bad(err, "linear", "x and y are the same array");
    if (a->activation != LX_ACT_NONE && a->activation != LX_ACT_RELU &&
        a->activation != LX_ACT_GELU)
        return bad(err, "linear", "unknown activation");
    lx_status st = need(a->y, rows, w.rows, "linear", "y", err);
    if (st == LX_OK)
        st = need(a->x, rows, w.cols, "linear", "x", err);
    if (st == LX_OK && a->residual != NULL)
        st = need(a->residual, rows, w.rows, "linear", "residual", err);
    return st;
}

lx_status lx_host_check_norm(const lx_batch *b, const lx_norm_args *a, lx_error *err)
{
    int64_t rows = lx_host_row_count(b, a->rows);
    lx_status st = need(a->y, rows, a->d, "norm", "y", err);
    if (st == LX_OK)
        st = need(a->x, rows, a->d, "norm", "x", err);
    if (st == LX_OK)
        st = need(a->gamma, 1, a->d, "norm", "gamma", err);
    if (st == LX_OK)
        st = need(a->beta, 1, a->d, "norm", "beta", err);
    return st;
}

static lx_status check_attend_state(const lx_batch *b, const lx_attend_linear_args *a,
                                    lx_error *err)
{
    int64_t part = a->n_heads * ((int64_t)a->d_key * a->d_value + a->d_key);
    if (a->states == NULL || a->offset < 0 || a->offset > a->states->floats - part)
        return bad(err, "attend_linear", "the layer's state lies outside the slot");
    return check_in_arena(b, a->states, "attend_linear", err);
}

lx_status lx_host_check_attend(const lx_batch *b, const lx_attend_linear_args *a, lx_error *err)
{
    int64_t h = a->n_heads, d = a->d_key, m = a->d_value;
    if (h < 1 || d < 1 || m < 1 || h > 65536 || d > 65536 || m > 65536)
        return bad(err, "attend_linear", "heads and their sizes must be 1 to 65536");
    if (a->feature_map != LX_PHI_ELU1)
        return bad(err, "attend_linear", "unknown feature map");
    if (a->y == a->qkv)
        return bad(err, "attend_linear", "qkv and y are the same array");
    lx_status st = need(a->y, b->n_tokens, h * m, "attend_linear", "y", err);
    if (st == LX_OK)
        st = need(a->qkv, b->n_tokens, h * (2 * d + m), "attend_linear", "qkv", err);
    return st != LX_OK ? st : check_attend_state(b, a, err);
}

lx_status lx_host_check_gather(const lx_batch *b, const lx_gather_args *a, lx_error *err)
{
    if (a->x == a->y)
        return bad(err, "gather", "x and y are the same array");
    lx_status st = need(a->y, b->n_outputs, a->d, "gather", "y", err);
    return st != LX_OK ? st : need(a->x, b->n_tokens, a->d, "gather", "x", err);
}

static lx_status check_biases(const lx_sampling *s, int32_t n_ids, lx_error *err)
{
    int32_t last = -1;
    for (int32_t i = 0; i < s->n_biases; i++) {
        if (s->biases[i].id <= last || s->biases[i].id >= n_ids)
            return lx_fail(err, LX_ERR_INVALID, NULL, "sample: biases[%d] is for id %d of %d", i,
                           s->biases[i].id, n_ids);
        if (!(fabsf(s->biases[i].add) <= LX_MAX_BIAS))
            return lx_fail(err, LX_ERR_INVALID, NULL, "sample: biases[%d] is %g", i,
                           (double)s->biases[i].add);
        last = s->biases[i].id;
    }
    return LX_OK;
}

static lx_status check_sampling(const lx_sampling *s, int32_t n_ids, lx_error *err)
{
    if (!(s->temperature >= 0) || !isfinite(s->temperature) || !(s->top_p > 0) || s->top_k < 0)
        return lx_fail(err, LX_ERR_INVALID, NULL, "sample: temperature %g, top_p %g, top_k %d",
                       (double)s->temperature, (double)s->top_p, s->top_k);
    if (s->forced < -1 || s->forced >= n_ids)
        return lx_fail(err, LX_ERR_INVALID, NULL, "sample: forced id %d of %d", s->forced, n_ids);
    if (s->mask != NULL && s->mask->n_ids != n_ids)
        return lx_fail(err, LX_ERR_INVALID, NULL, "sample: the mask has %d ids, not %d",
                       s->mask->n_ids, n_ids);
    for (int32_t i = 0; i < s->n_banned; i++) {
        if (s->banned[i] < 0 || s->banned[i] >= n_ids)
            return lx_fail(err, LX_ERR_INVALID, NULL, "sample: banned id %d of %d", s->banned[i],
                           n_ids);
    }
    if (s->n_top < 0 || s->n_top > LX_MAX_TOP || s->n_top > n_ids)
        return lx_fail(err, LX_ERR_INVALID, NULL, "sample: the top %d of %d ids", s->n_top, n_ids);
    return check_biases(s, n_ids, err);
}

lx_status lx_host_check_sample(const lx_batch *b, const lx_sample_args *a, lx_error *err)
{
    lx_status st = need(a->logits, b->n_outputs, a->n_ids, "sample", "logits", err);
    if (st == LX_OK && a->states != NULL)
        st = check_in_arena(b, a->states, "sample", err);
    for (int32_t i = 0; st == LX_OK && i < b->n_outputs; i++)
        st = check_sampling(&a->rows[i], a->n_ids, err);
    return st;
}

lx_status lx_host_check_sample_mixture(const lx_batch *b, const lx_sample_mixture_args *a,
                                       lx_error *err)
{
    if (a->n_components < 1 || a->n_components > LX_MIXTURE_MAX_COMPONENTS || a->n_levels < 2 ||
        a->n_levels > LX_MIXTURE_MAX_LEVELS)
        return lx_fail(err, LX_ERR_INVALID, NULL, "sample_mixture: %d components, %d levels",
                       a->n_components, a->n_levels);
    for (int32_t i = 0; i < b->n_outputs; i++) {
        const lx_sampling *s = &a->rows[i];
        if (!(s->temperature >= 0) || !isfinite(s->temperature))
            return lx_fail(err, LX_ERR_INVALID, NULL, "sample_mixture: temperature %g",
                           (double)s->temperature);
        if (s->forced < -1 || s->forced >= a->n_levels)
            return lx_fail(err, LX_ERR_INVALID, NULL, "sample_mixture: forced level %d of %d",
                           s->forced, a->n_levels);
    }
    if (a->states != NULL && check_in_arena(b, a->states, "sample_mixture", err) != LX_OK)
        return LX_ERR_INVALID;
    return need(a->parameters, b->n_outputs, 3 * (int64_t)a->n_components, "sample_mixture",
                "parameters", err);
}
