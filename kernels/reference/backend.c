/*
 * The reference back end: the oracle every other back end is tested against.
 *
 * Its operations (kernels/ops/NAME/reference.c) follow the equations and are not fast: plain C, one
 * thread, every sum in double, exp/erf/log from libm. Every operation runs at once. Only stored
 * results are f32, as the contract says. An error in an operation stops the step; end() returns it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/reference/reference.h"

static void reference_close(lx_backend *be)
{
    if (be == NULL)
        return;
    lx_reference *r = (lx_reference *)be;
    lx_turn_fini(&r->turn);
    free(r->seen.stamp);
    free(r);
}

static void reference_describe(const lx_backend *be, char *text, size_t size)
{
    (void)be;
    (void)snprintf(text, size, "reference (plain C, double sums, 1 thread)");
}

static void reference_matrix_free(lx_backend *be, lx_matrix *w)
{
    (void)be;
    if (w == NULL)
        return;
    free(w->w);
    free(w->bias);
    free(w);
}

static lx_status reference_matrix_new(lx_backend *be, const lx_host_tensor *t,
                                      const lx_row_reader *rows, const float *bias, lx_matrix **out,
                                      lx_error *err)
{
    lx_host_tensor whole;
    void *memory = NULL;
    lx_status st = lx_host_tensor_check(t, rows, "a matrix", err);
    if (st != LX_OK)
        return st;
    lx_matrix *w = calloc(1, sizeof *w);
    if (w == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a matrix");
    w->shape = (lx_matrix_shape){t->rows, t->cols};
    w->w = calloc((size_t)(t->rows * t->cols), sizeof(float));
    w->bias = calloc((size_t)t->rows, sizeof(float));
    if (w->w == NULL || w->bias == NULL) {
        reference_matrix_free(be, w);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a matrix [%lld, %lld]",
                       (long long)t->rows, (long long)t->cols);
    }
    st = lx_host_tensor_read(t, rows, &whole, &memory, err);
    if (st == LX_OK)
        lx_host_tensor_expand(&whole, 0, t->rows * t->cols, w->w);
    free(memory);
    if (st != LX_OK) {
        reference_matrix_free(be, w);
        return st;
    }
    if (bias != NULL)
        memcpy(w->bias, bias, (size_t)t->rows * sizeof(float));
    *out = w;
    return LX_OK;
}

static lx_status reference_begin(lx_backend *be, const lx_batch *batch, lx_error *err)
{
    lx_reference *r = (lx_reference *)be;
    lx_turn_take(&r->turn);
    lx_status st = lx_batch_check(batch, &r->seen, err);
    if (st != LX_OK) {
        lx_turn_give(&r->turn);
        return st;
    }
    r->batch = batch;
    r->failed = LX_OK;
    return LX_OK;
}

static lx_status reference_end(lx_backend *be, uint64_t *step, lx_error *err)
{
    lx_reference *r = (lx_reference *)be;
    lx_status st = r->failed;
    *step = 0; /* all of it has happened */
    if (st != LX_OK && err != NULL)
        *err = r->error;
    r->batch = NULL;
    lx_turn_give(&r->turn);
    return st;
}

/* Checks and runs an operation, unless the step has failed; keeps the tokens that it drew. */
static void run(lx_backend *be, const lx_op *op, lx_reference_run *operate, const void *args)
{
    lx_reference *r = (lx_reference *)be;
    lx_uses uses;
    if (r->failed == LX_OK)
        r->failed = lx_op_check(op, r->batch, args, &uses, &r->error);
    if (r->failed != LX_OK)
        return;
    r->failed = operate(r->batch, args);
    if (r->failed != LX_OK)
        (void)lx_fail(&r->error, r->failed, NULL, "no memory for %s", op->name);
    if (r->failed != LX_OK || op->drawing == NULL)
        return;
    lx_drawing d = op->drawing(args);
    lx_host_keep_drawn(r->batch, d.states, d.rows, d.out);
}

#define LX_OP(name)                                                                                \
    static void queue_##name(lx_backend *be, const lx_##name##_args *args)                         \
    {                                                                                              \
        run(be, &lx_op_##name, lx_reference_##name, args);                                         \
    }
#include "kernels/ops.def"

static const lx_kernels table = {
    .name = "reference",
    .close = reference_close,
    .describe = reference_describe,
    LX_OBJECTS(LX_ENTRY, lx_host) LX_ENTRY(lx_host, sync).matrix_new = reference_matrix_new,
    .matrix_free = reference_matrix_free,
    .begin = reference_begin,
#define LX_OP(name) .name = queue_##name,
#include "kernels/ops.def"
    .end = reference_end,
};

lx_status lx_reference_open(const lx_backend_options *options, lx_backend **out, lx_error *err)
{
    if (options->isa != LX_ISA_AUTO && options->isa != LX_ISA_PLAIN)
        return lx_fail(err, LX_ERR_UNSUPPORTED, "isa", "the reference back end is plain C only");
    lx_reference *r = calloc(1, sizeof *r);
    if (r == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the reference back end");
    if (lx_turn_init(&r->turn) != 0) {
        free(r);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a lock");
    }
    r->host.base.ops = &table;
    r->host.base.precision = options->precision;
    *out = &r->host.base;
    return LX_OK;
}
