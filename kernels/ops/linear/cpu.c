#include "kernels/cpu/cpu.h"

#define LEAST_PRODUCTS 8192 /* to share them */
#define FEW_ROWS 3          /* most rows of two pieces per thread */

static int64_t groups_of(const void *args)
{
    return ((const lx_linear_args *)args)->w->groups;
}

/* Part i of a matrix, which may be the only one; NULL after the last. */
static const lx_matrix *part_of(const lx_matrix *w, int32_t i)
{
    if (w->parts == NULL)
        return i == 0 ? w : NULL;
    return i < w->n_parts ? w->parts[i] : NULL;
}

static void run_groups(const lx_cpu *c, const void *args, const float *x, lx_cpu_range rows,
                       lx_cpu_range groups, float *scratch)
{
    const lx_linear_args *a = args;
    const lx_matrix *w;
    int64_t first = 0; /* group of the part */
    for (int32_t i = 0; (w = part_of(a->w, i)) != NULL; first += w->groups, i++) {
        int64_t from = groups.from - first, to = groups.to - first;
        lx_cpu_linear job = {
            .w = w,
            .x = x,
            .residual = a->residual != NULL ? a->residual->data + first * LX_CPU_GROUP : NULL,
            .y = a->y->data + first * LX_CPU_GROUP,
            .stride = a->w->shape.rows,
            .activation = a->activation,
            .row0 = rows.from,
            .row1 = rows.to,
            .group0 = from > 0 ? from : 0,
            .group1 = to < w->groups ? to : w->groups,
            .scratch = scratch,
        };
        if (job.row0 < job.row1 && job.group0 < job.group1)
            c->isa->linear(&job);
    }
}

/* With many rows a piece has all columns of some rows, like a piece of a norm. So a thread has
   itself written most of its input, and does not fetch it from the cache of another core. */
static bool shares_rows(const lx_cpu *c, const lx_linear_args *a)
{
    return lx_cpu_shares_rows(c, lx_batch_rows(c->batch, a->rows));
}

static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_linear_args *a = args;
    if (shares_rows(c, a))
        run_groups(c, a, a->x->data, lx_cpu_shared_rows(part, a->rows),
                   (lx_cpu_range){0, a->w->groups}, scratch);
    else
        run_groups(c, a, a->x->data, lx_cpu_rows(part, a->rows),
                   lx_cpu_share(0, a->w->groups, part), scratch);
}

static int64_t scratch(const void *args)
{
    const lx_matrix *w;
    int64_t most = 0;
    for (int32_t i = 0; (w = part_of(((const lx_linear_args *)args)->w, i)) != NULL; i++) {
        int64_t floats = lx_cpu_linear_scratch(w);
        most = floats > most ? floats : most;
    }
    return most;
}

/* Two pieces per thread let a thread that is done help another. But wide kernels take four groups
   of outputs, and every piece copies all rows first, which takes longer than such help saves. */
static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_linear_args *a = args;
    int64_t rows = lx_batch_rows(c->batch, a->rows), n = c->n_threads;
    if (rows * a->w->shape.rows * a->w->shape.cols < LEAST_PRODUCTS)
        return 1;
    if (shares_rows(c, a))
        return n;
    if (rows <= FEW_ROWS && a->w->groups >= 8 * n)
        return 2 * n;
    return a->w->groups < n ? a->w->groups : n;
}

/*
 * Prefetches the first lines of the weights, four groups at a time, in the order of the
 * micro-kernels of few rows. A thread does it while it waits for other threads.
 */
static void prefetch(const void *args, lx_cpu_range groups)
{
    enum { LINE = 16, LINES = 32 }; /* of a group, in words */
    const lx_matrix *whole = ((const lx_linear_args *)args)->w, *part = part_of(whole, 0);
    int64_t first = 0; /* group of the part */
    for (int32_t i = 1; groups.from - first >= part->groups && groups.from < groups.to; i++) {
        first += part->groups;
        part = part_of(whole, i);
    }
    for (int64_t g = groups.from; g < groups.to && g < groups.from + 4 && g - first < part->groups;
         g++) {
        const uint32_t *words = (const uint32_t *)part->data + (g - first) * part->group_words;
        for (int64_t i = 0; i < LINES * LINE && i < part->group_words; i += LINE)
            __builtin_prefetch(words + i, 0, 2);
    }
}

static size_t bytes_of(const void *args)
{
    const lx_matrix *w;
    size_t bytes = 0;
    for (int32_t i = 0; (w = part_of(((const lx_linear_args *)args)->w, i)) != NULL; i++)
        bytes += w->n_bytes;
    return bytes;
}

static const lx_cpu_columns columns = {groups_of, run_groups, prefetch, bytes_of};

LX_DEFINE_CPU(linear, .scratch = scratch, .pieces = pieces, .pieces_a_thread = 2, .run = run,
              .is_by_rows = true, .columns = &columns);
