/*
 * The rows of an expert are collected, so that its weights are read once for all of them, and go
 * through the loop of `linear`. Any number of rows gives a row the same bits there.
 */
#include <string.h>

#include "kernels/cpu/cpu.h"

#define LEAST_PRODUCTS 8192 /* to share them */
#define COLLECTED 64        /* rows of an expert that go through `linear` together */

/* The part's groups of outputs of one expert, and the choices that are collected for it. */
typedef struct collection {
    const lx_cpu *c;
    const lx_experts_args *a;
    lx_matrix w; /* the expert's rows of a->w */
    lx_cpu_range groups;
    int64_t choice[COLLECTED]; /* row K + j */
    int64_t n_choices;
    float *x, *y, *scratch; /* room for the rows, and for `linear` */
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

static void multiply(collection *of)
{
    int64_t cols = of->a->w->shape.cols;
    if (of->n_choices == 0)
        return;
    for (int64_t i = 0; i < of->n_choices; i++)
        memcpy(of->x + i * cols, input_of(of->a, of->choice[i]), (size_t)cols * sizeof *of->x);
    of->c->isa->linear(&(lx_cpu_linear){.w = &of->w,
                                        .x = of->x,
                                        .y = of->y,
                                        .stride = of->w.shape.rows,
                                        .activation = LX_ACT_NONE,
                                        .row1 = of->n_choices,
                                        .group0 = of->groups.from,
                                        .group1 = of->groups.to,
                                        .scratch = of->scratch});
    for (int64_t i = 0; i < of->n_choices; i++)
        put(of, of->choice[i], of->y + i * of->a->n);
    of->n_choices = 0;
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

static void run_expert(collection *of, int64_t expert, lx_cpu_range rows)
{
    const lx_experts_args *a = of->a;
    of->w = matrix_of(a, expert);
    for (int64_t row = rows.from; row < rows.to; row++) {
        const float *chosen = a->choice->data + 2 * row * a->n_active;
        for (int64_t j = 0; j < a->n_active; j++) {
            if (chosen[j] != (float)expert)
                continue;
            of->choice[of->n_choices++] = row * a->n_active + j;
            if (of->n_choices == COLLECTED)
                multiply(of);
        }
    }
    multiply(of);
}

static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_experts_args *a = args;
    lx_cpu_range rows = lx_cpu_rows(part, LX_ROWS_TOKENS);
    lx_cpu_range groups = lx_cpu_share(0, lx_expert_rows(a->n) / LX_CPU_GROUP, part);
    if (rows.from == rows.to || groups.from == groups.to)
        return;
    collection of = {.c = c,
                     .a = a,
                     .groups = groups,
                     .x = scratch + lx_cpu_linear_scratch(a->w),
                     .scratch = scratch};
    of.y = of.x + COLLECTED * a->w->shape.cols;
    if (a->sums)
        begin_sums(a, rows, columns_of(a, groups));
    for (int64_t e = 0; e < a->n_experts; e++)
        run_expert(&of, e, rows);
}

static int64_t scratch(const void *args)
{
    const lx_experts_args *a = args;
    return lx_cpu_linear_scratch(a->w) + COLLECTED * (a->w->shape.cols + lx_expert_rows(a->n));
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_experts_args *a = args;
    int64_t groups = lx_expert_rows(a->n) / LX_CPU_GROUP, rows = c->batch->n_tokens;
    bool few = rows * a->n_active * a->n * a->w->shape.cols < LEAST_PRODUCTS;
    return few ? 1 : groups;
}

LX_DEFINE_CPU(experts, .scratch = scratch, .pieces = pieces, .pieces_a_thread = 2, .run = run);
