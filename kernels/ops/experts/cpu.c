/*
 * The rows of an expert go through the loop of `linear` together, so that its weights are read once
 * for all of them. Any number of rows gives a row the same bits there. With few rows a piece has
 * some columns of all rows. With many rows it has all columns of some rows, which it then copies
 * once, and which it has often written itself.
 */
#include <string.h>

#include "kernels/cpu/cpu.h"

#define LEAST_PRODUCTS 8192 /* to share them */
#define COLLECTED 64        /* rows of an expert that go through `linear` together */

/* The part's groups of outputs of one expert, and the choices of its rows: a choice is row K + j.
 */
typedef struct collection {
    const lx_cpu *c;
    const lx_experts_args *a;
    lx_matrix w; /* the expert's rows of a->w */
    lx_cpu_range groups;
    int32_t *choices, *ends; /* of all experts, one after another; where each expert's end */
    float *y, *scratch;      /* room for the rows' outputs, and for `linear` */
} collection;

static lx_matrix matrix_of(const lx_experts_args *a, int64_t expert)
{
    lx_matrix w = *a->w;
    int64_t groups = lx_expert_rows(a->n) / LX_CPU_GROUP, first = expert * groups;
    w.shape.rows = a->n;
    w.groups = groups;
    w.data = (uint32_t *)a->w->data + first * w.group_words;
    w.bias += first * LX_CPU_GROUP;
    if (w.format == LX_CPU_INT8) {
        w.scales += first * LX_CPU_GROUP;
        w.starts += first * lx_cpu_chunks(w.shape.cols) * LX_CPU_GROUP;
    }
    return w;
}

/* The columns of an expert's output that the part computes. */
static lx_cpu_range columns_of(const lx_experts_args *a, lx_cpu_range groups)
{
    int64_t end = groups.to * LX_CPU_GROUP;
    return (lx_cpu_range){groups.from * LX_CPU_GROUP, end < a->n ? end : a->n};
}

static const float *input_of(const lx_experts_args *a, int64_t choice)
{
    return a->x->data + (a->sums ? choice : choice / a->n_active) * a->w->shape.cols;
}

static void put(const collection *to, int64_t choice, const float *y)
{
    const lx_experts_args *a = to->a;
    int64_t row = choice / a->n_active, j = choice % a->n_active;
    lx_cpu_range columns = columns_of(a, to->groups);
    float *out = a->y->data + (a->sums ? row : choice) * a->n + columns.from;
    int64_t n = columns.to - columns.from;
    if (a->sums)
        to->c->isa->experts(out, y + columns.from, a->choice->data[(2 * row + 1) * a->n_active + j],
                            n);
    else
        memcpy(out, y + columns.from, (size_t)n * sizeof *out);
}

/* At most COLLECTED choices of the expert. */
static void multiply(const collection *of, const int32_t *choices, int64_t n)
{
    const float *rows[COLLECTED];
    for (int64_t i = 0; i < n; i++)
        rows[i] = input_of(of->a, choices[i]);
    of->c->isa->linear(&(lx_cpu_linear){.w = &of->w,
                                        .rows = rows,
                                        .y = of->y,
                                        .stride = of->w.shape.rows,
                                        .activation = LX_ACT_NONE,
                                        .row1 = n,
                                        .group0 = of->groups.from,
                                        .group1 = of->groups.to,
                                        .scratch = of->scratch});
    for (int64_t i = 0; i < n; i++)
        put(of, choices[i], of->y + i * of->a->n);
}

/* Sums begin with the residual, or with zeros. */
static void begin_sums(const lx_experts_args *a, lx_cpu_range rows, lx_cpu_range columns)
{
    size_t bytes = (size_t)(columns.to - columns.from) * sizeof(float);
    for (int64_t row = rows.from; row < rows.to; row++) {
        float *y = a->y->data + row * a->n + columns.from;
        if (a->residual == NULL)
            memset(y, 0, bytes);
        else if (a->residual != a->y)
            memcpy(y, a->residual->data + row * a->n + columns.from, bytes);
    }
}

/* Adds to counts[e] the choices of expert e, or with `list` puts each at list[counts[e]++]. */
static void go_through(const lx_experts_args *a, lx_cpu_range rows, int32_t *counts, int32_t *list)
{
    for (int64_t row = rows.from; row < rows.to; row++) {
        const float *chosen = a->choice->data + 2 * row * a->n_active;
        for (int64_t j = 0; j < a->n_active; j++) {
            if (!(chosen[j] >= 0 && chosen[j] < (float)a->n_experts)) /* not of `route` */
                continue;
            int32_t e = (int32_t)chosen[j];
            if (list != NULL)
                list[counts[e]] = (int32_t)(row * a->n_active + j);
            counts[e]++;
        }
    }
}

/* Sorts the rows' choices by experts, in the order of the rows. */
static void sort_choices(const collection *of, lx_cpu_range rows)
{
    const lx_experts_args *a = of->a;
    int32_t *ends = of->ends, before = 0;
    memset(ends, 0, (size_t)a->n_experts * sizeof *ends);
    go_through(a, rows, ends, NULL);
    for (int32_t e = 0; e < a->n_experts; e++) {
        int32_t n = ends[e];
        ends[e] = before;
        before += n;
    }
    go_through(a, rows, ends, of->choices);
}

static void run_expert(collection *of, int64_t expert)
{
    int32_t from = expert > 0 ? of->ends[expert - 1] : 0, to = of->ends[expert];
    if (from < to)
        of->w = matrix_of(of->a, expert);
    int64_t rows = to - from, n = (rows + COLLECTED - 1) / COLLECTED;
    for (int64_t i = 0; i < n; i++) /* of about equal numbers of rows */
        multiply(of, of->choices + from + rows * i / n, rows * (i + 1) / n - rows * i / n);
}

/* An expert has so many rows per thread that every thread may read its weights. */
static bool shares_rows(const lx_cpu *c, const lx_experts_args *a)
{
    return (int64_t)lx_batch_rows(c->batch, a->rows) * a->n_active >=
           (int64_t)LX_CPU_LEAST_FAR_ROWS * c->n_threads * a->n_experts;
}

static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_experts_args *a = args;
    lx_cpu_range rows = lx_cpu_rows(part, a->rows);
    lx_cpu_range groups = {0, lx_expert_rows(a->n) / LX_CPU_GROUP};
    if (shares_rows(c, a))
        rows = lx_cpu_shared_rows(part, a->rows);
    else
        groups = lx_cpu_share(0, groups.to, part);
    if (rows.from == rows.to || groups.from == groups.to)
        return;
    collection of = {.c = c,
                     .a = a,
                     .groups = groups,
                     .y = scratch + lx_cpu_linear_scratch(a->w),
                     .scratch = scratch};
    of.ends = (int32_t *)(void *)(of.y + COLLECTED * lx_expert_rows(a->n));
    of.choices = of.ends + a->n_experts;
    sort_choices(&of, rows);
    if (a->sums)
        begin_sums(a, rows, columns_of(a, groups));
    for (int64_t e = 0; e < a->n_experts; e++)
        run_expert(&of, e);
}

static int64_t scratch(const void *args)
{
    const lx_experts_args *a = args;
    return lx_cpu_linear_scratch(a->w) + COLLECTED * lx_expert_rows(a->n) + a->n_experts +
           a->choice->n / 2;
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_experts_args *a = args;
    int64_t groups = lx_expert_rows(a->n) / LX_CPU_GROUP, rows = lx_batch_rows(c->batch, a->rows);
    bool few = rows * a->n_active * a->n * a->w->shape.cols < LEAST_PRODUCTS;
    return few ? 1 : shares_rows(c, a) ? c->n_threads : groups;
}

LX_DEFINE_CPU(experts, .scratch = scratch, .pieces = pieces, .pieces_a_thread = 2, .run = run);
