#include "kernels/cpu/cpu.h"

#define LEAST_PRODUCTS 8192 /* to share them */
#define LEAST_ROWS 12       /* per thread, to share rows */

static int64_t groups_of(const void *args)
{
    return ((const lx_linear_args *)args)->w->groups;
}

static void run_groups(const lx_cpu *c, const void *args, const float *x, lx_cpu_range rows,
                       lx_cpu_range groups, float *scratch)
{
    const lx_linear_args *a = args;
    if (rows.from == rows.to || groups.from == groups.to)
        return;
    lx_cpu_linear job = {
        .w = a->w,
        .x = x,
        .residual = a->residual != NULL ? a->residual->data : NULL,
        .y = a->y->data,
        .activation = a->activation,
        .row0 = rows.from,
        .row1 = rows.to,
        .group0 = groups.from,
        .group1 = groups.to,
        .scratch = scratch,
    };
    c->isa->linear(&job);
}

/* With many rows a piece has all columns of some rows, like a piece of a norm. So a thread has
   itself written most of its input, and does not fetch it from the cache of another core. */
static bool shares_rows(const lx_cpu *c, const lx_linear_args *a)
{
    return lx_batch_rows(c->batch, a->rows) >= LEAST_ROWS * c->n_threads;
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
    return lx_cpu_linear_scratch(((const lx_linear_args *)args)->w);
}

/* Wide kernels take four groups of outputs, so only matrices with many get two pieces per thread.
 */
static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_linear_args *a = args;
    int64_t rows = lx_batch_rows(c->batch, a->rows), n = c->n_threads;
    if (rows * a->w->shape.rows * a->w->shape.cols < LEAST_PRODUCTS)
        return 1;
    if (shares_rows(c, a))
        return n;
    if (a->w->groups >= 8 * n)
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
    const lx_matrix *w = ((const lx_linear_args *)args)->w;
    for (int64_t g = groups.from; g < groups.to && g < groups.from + 4; g++) {
        const uint32_t *words = (const uint32_t *)w->data + g * w->group_words;
        for (int64_t i = 0; i < LINES * LINE && i < w->group_words; i += LINE)
            __builtin_prefetch(words + i, 0, 2);
    }
}

static const lx_cpu_columns columns = {groups_of, run_groups, prefetch};

LX_DEFINE_CPU(linear, .scratch = scratch, .pieces = pieces, .pieces_a_thread = 2, .run = run,
              .columns = &columns);
