#include "kernels/cpu/cpu.h"

static void run_way(const lx_cpu *c, const void *args, const lx_cpu_unit *u, float *scratch)
{
    const lx_lstm_both_args *a = args;
    int64_t seq = u->seq, way = u->i;
    const int32_t *start = c->batch->seq_start + seq;
    int64_t n = a->n, step = way == 0 ? 1 : -1, first = way == 0 ? start[0] : start[1] - 1;
    c->isa->lstm_both(&(lx_cpu_lstm_both){.x = a->x->data + (2 * first + way) * 4 * n,
                                          .u = a->u->data + way * 4 * n * n,
                                          .y = a->y->data + (2 * first + way) * n,
                                          .n_tokens = start[1] - start[0],
                                          .x_stride = step * 8 * n,
                                          .y_stride = step * 2 * n,
                                          .n = a->n,
                                          .scratch = scratch});
}

static int64_t units(const void *args)
{
    (void)args;
    return 2;
}

static int64_t scratch(const void *args)
{
    return lx_cpu_lstm_both_scratch(((const lx_lstm_both_args *)args)->n);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    (void)args;
    return 2 * (int64_t)c->batch->n_seqs;
}

LX_DEFINE_CPU(lstm_both, .scratch = scratch, .pieces = pieces, .pieces_a_thread = 4, .units = units,
              .run_unit = run_way);
