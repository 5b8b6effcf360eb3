/*
 * The cpu back end: weights of several formats, f32 activations, states and sums, one or more
 * threads.
 *
 *   program.c  records a step and runs it        plan.c   cuts it into pieces for the threads
 *   run.c      carries out a piece               pool.c, event_count.c  the threads
 *   choose.c   which instruction set             weights.c  the memory of matrices
 *   kernels/ops/NAME/cpu.c  an operation on a piece
 *   body*.h    the inner loops over sixteen lanes (v16_*.h) and tiles (tiles_*.h), for isa_*.c
 *
 * The instruction set is chosen when the back end is opened. Every exact instruction set, thread
 * count and batch gives equal bits (the rule is at the top of body.h).
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cpu/cpu.h"

static void cpu_close(lx_backend *be)
{
    if (be == NULL)
        return;
    lx_cpu *c = (lx_cpu *)be;
    lx_cpu_pool_free(c->pool);
    lx_turn_fini(&c->turn);
    lx_cpu_weights_fini(&c->weights);
    lx_host_release(c->scratch, (size_t)(c->scratch_floats * c->n_threads) * sizeof(float));
    if (c->has_count)
        lx_event_count_fini(&c->finished);
    free(c->groups);
    free(c->claims);
    free(c->phases);
    free(c->ops);
    free(c->seen.stamp);
    free(c);
}

static void cpu_describe(const lx_backend *be, char *text, size_t size)
{
    const lx_cpu *c = (const lx_cpu *)be;
    bool whole = be->precision >= LX_PRECISION_INT8;
    (void)snprintf(text, size, "cpu (%s%s%s, %d thread%s)", c->isa->name, whole ? ", " : "",
                   whole ? lx_precision_name(be->precision) : "", c->n_threads,
                   c->n_threads == 1 ? "" : "s");
}

#define LX_OP(name)                                                                                \
    static void queue_##name(lx_backend *be, const lx_##name##_args *args)                         \
    {                                                                                              \
        lx_cpu_record((lx_cpu *)be, &lx_cpu_op_##name, args);                                      \
    }
#include "kernels/ops.def"

static const lx_kernels table = {
    .name = "cpu",
    .close = cpu_close,
    .describe = cpu_describe,
    LX_OBJECTS(LX_ENTRY, lx_host) LX_ENTRY(lx_host, sync) LX_ENTRY(lx_cpu, matrix_new)
        LX_ENTRY(lx_cpu, matrix_join) LX_ENTRY(lx_cpu, matrix_free) LX_ENTRY(lx_cpu, matrix_bytes)
            LX_ENTRY(lx_cpu, table_of) LX_ENTRY(lx_cpu, begin) LX_ENTRY(lx_cpu, end)
#define LX_OP(name) .name = queue_##name,
#include "kernels/ops.def"
};

static lx_status start(lx_cpu *c, lx_error *err)
{
    c->groups = calloc((size_t)c->n_threads * LX_CPU_ROUNDS, sizeof *c->groups);
    c->claims = aligned_alloc(64, (size_t)c->n_threads * sizeof *c->claims);
    c->has_count = lx_event_count_init(&c->finished) == 0;
    if (c->groups == NULL || c->claims == NULL || !c->has_count)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the cpu back end");
    for (int32_t i = 0; i < c->n_threads; i++)
        atomic_init(&c->claims[i].taken, UINT64_MAX); /* of the phase before the first */
    return lx_cpu_pool_new(c->n_threads, &c->pool, err);
}

lx_status lx_cpu_open(const lx_backend_options *options, lx_backend **out, lx_error *err)
{
    lx_cpu_isa loops;
    lx_status st = lx_cpu_choose(options, &loops, err);
    if (st != LX_OK)
        return st;
    lx_cpu *c = aligned_alloc(64, sizeof *c); /* it holds an event count */
    if (c == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the cpu back end");
    *c = (lx_cpu){0};
    bool has_turn = lx_turn_init(&c->turn) == 0;
    if (!has_turn || lx_cpu_weights_init(&c->weights) != 0) {
        if (has_turn)
            lx_turn_fini(&c->turn);
        free(c);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a lock");
    }
    c->host.base.ops = &table;
    c->host.base.precision = options->precision;
    c->host.base.isa = loops.name;
    c->loops = loops;
    c->isa = &c->loops;
    c->n_threads = options->n_threads;
    st = start(c, err);
    if (st != LX_OK) {
        cpu_close(&c->host.base);
        return st;
    }
    *out = &c->host.base;
    return LX_OK;
}
