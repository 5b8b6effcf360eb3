/*
 * How a batch is divided among the threads. Results do not depend on it; time does.
 *
 * With enough rows, each thread takes whole sequences through the whole step and never waits for
 * another. But then every thread reads all weights, so below LEAST_ROWS rows a thread, or when the
 * sequences cannot be dealt out evenly, the threads instead share each operation: outputs of a
 * `linear`, heads of `attend`, rows of the small ones, with a barrier between operations.
 */
#include "kernels/cpu/cpu.h"

#define LEAST_ROWS 8

/* The first output row that is not before token row `row`. */
static int32_t first_output(const lx_batch *b, int32_t row)
{
    int32_t low = 0, high = b->n_outputs;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (b->output_row[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static lx_cpu_part part_of(const lx_batch *b, int32_t seq0, int32_t seq1)
{
    int32_t row0 = b->seq_start[seq0], row1 = b->seq_start[seq1];
    return (lx_cpu_part){
        .seq0 = seq0,
        .seq1 = seq1,
        .row0 = row0,
        .row1 = row1,
        .out0 = first_output(b, row0),
        .out1 = first_output(b, row1),
        .share = 0,
        .n_shares = 1,
    };
}

/* Deals sequences out in order; returns the rows of the thread that got most. */
static int32_t deal(lx_cpu *c)
{
    const lx_batch *b = c->batch;
    int32_t seq = 0, most = 0;
    for (int32_t t = 0; t < c->n_threads; t++) {
        int32_t from = seq;
        int64_t goal = (int64_t)b->n_tokens * (t + 1) / c->n_threads;
        while (seq < b->n_seqs && (b->seq_start[seq] + b->seq_start[seq + 1]) / 2 < goal)
            seq++;
        c->parts[t] = part_of(b, from, seq);
        int32_t rows = c->parts[t].row1 - c->parts[t].row0;
        most = rows > most ? rows : most;
    }
    return most;
}

void lx_cpu_split(lx_cpu *c)
{
    const lx_batch *b = c->batch;
    c->shared = false;
    if (c->n_threads > 1 && b->n_tokens / c->n_threads >= LEAST_ROWS) {
        int64_t most = deal(c);
        if (most * c->n_threads <= (int64_t)b->n_tokens * 5 / 4)
            return;
    }
    c->shared = c->n_threads > 1;
    for (int32_t t = 0; t < c->n_threads; t++) {
        c->parts[t] = part_of(b, 0, b->n_seqs);
        c->parts[t].share = t;
        c->parts[t].n_shares = c->n_threads;
    }
}
