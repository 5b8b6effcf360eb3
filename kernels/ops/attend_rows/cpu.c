#include "kernels/cpu/cpu.h"

#define PIECE_WORK 100000 /* floats of rows that a piece reads: half a microsecond and more */

/* The pattern of a head of keys, and where its tiles lie. */
static lx_cpu_attend_rows job_of(const lx_cpu *c, const lx_attend_rows_args *a, int32_t seq,
                                 int64_t head)
{
    const lx_batch *b = c->batch;
    const lx_states *s = a->states;
    int64_t slot = b->slot[seq], rows = a->ring > 0 ? a->ring : LX_PAGE_TOKENS;
    int64_t at = a->offset + head * rows * (a->d_key + a->d_value);
    lx_cpu_attend_rows job = {
        .pattern = &a->patterns[head % a->n_patterns],
        .to_next_head = head + 1 < lx_attend_rows_key_heads(a) ? rows * (a->d_key + a->d_value) : 0,
        .position = b->position[seq],
        .d_key = a->d_key,
        .d_value = a->d_value,
        .scale = a->scale,
        .divisor = a->weighting == LX_WEIGHT_RELU2 ? a->divisor : 0.0f,
        .by_count = a->by_count,
        .leave_unseeing = a->leave_unseeing,
    };
    if (a->distances.keys != NULL) {
        job.n_distances = a->distances.n;
        job.zeros_before = a->distances.zeros_before;
        job.distance_keys = a->distances.keys->data;
        job.distance_weights =
            a->distances.weights->data + head % a->n_patterns * (a->distances.n + 2 * LX_ROWS_TILE);
    }
    if (a->ring > 0) {
        int32_t least = 0;
        job.together = lx_rows_ring(a->patterns, a->n_patterns, &least, NULL) == LX_OK &&
                       a->ring >= least + LX_ROWS_TILE;
        job.tiles = s->data + slot * s->stride + at;
        job.ring = a->ring / LX_ROWS_TILE;
        job.kept = lx_ring_kept(a->patterns, a->n_patterns);
    } else {
        job.together = true;
        job.tiles = s->pool + at;
        job.pages = s->pages + slot * s->slot_pages;
        job.page_stride = s->page_stride;
    }
    return job;
}

static int64_t sharing(const lx_attend_rows_args *a)
{
    return a->n_heads / lx_attend_rows_key_heads(a);
}

/* A head of keys with all of its queries. */
static void attend_head(const lx_cpu *c, const lx_attend_rows_args *a, int32_t seq, int64_t head,
                        float *scratch)
{
    const lx_batch *b = c->batch;
    int64_t n = a->n_heads, dk = a->d_key, dv = a->d_value;
    int64_t row = b->seq_start[seq], x_stride = lx_attend_rows_width(a), y_stride = n * dv;
    int64_t keys = lx_attend_rows_key_heads(a), shared = sharing(a);
    const float *x = a->qkv->data + row * x_stride;
    lx_cpu_attend_rows job = job_of(c, a, seq, head);
    job.q = x + head * shared * dk;
    job.k = x + (n + head) * dk;
    job.v = x + (n + keys) * dk + head * dv;
    job.y = a->y->data + row * y_stride + head * shared * dv;
    job.shared = (int32_t)shared;
    job.n_tokens = b->seq_start[seq + 1] - b->seq_start[seq];
    job.x_stride = x_stride;
    job.y_stride = y_stride;
    job.scratch = scratch;
    c->isa->attend_rows(&job);
}

/* The approximate cost of a head of a sequence, in rows: a constant, and the rows that it reads. */
static int64_t weight(const lx_cpu *c, const lx_attend_rows_args *a, int32_t seq, int64_t head)
{
    const lx_batch *b = c->batch;
    int32_t tokens = b->seq_start[seq + 1] - b->seq_start[seq];
    lx_rows_ranges middle =
        lx_ranges_of(&a->patterns[head % a->n_patterns], b->position[seq] + tokens / 2);
    return tokens * sharing(a) * (LX_ROWS_TILE + lx_ranges_rows(&middle));
}

static int64_t total_weight(const lx_cpu *c, const lx_attend_rows_args *a, int32_t seq0,
                            int32_t seq1)
{
    int64_t n = lx_attend_rows_key_heads(a);
    int64_t total = 0, full = n / a->n_patterns, rest = n % a->n_patterns;
    for (int32_t seq = seq0; seq < seq1; seq++) {
        for (int64_t h = 0; h < a->n_patterns; h++)
            total += weight(c, a, seq, h) * (full + (h < rest));
    }
    return total;
}

/*
 * The work is a line: of each sequence in turn its heads, each as long as its cost. A piece has the
 * heads that begin in its share of the line.
 */
static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_attend_rows_args *a = args;
    lx_cpu_range mine = lx_cpu_share(0, total_weight(c, a, part->seq0, part->seq1), part);
    int64_t at = 0;
    for (int32_t seq = part->seq0; seq < part->seq1 && at < mine.to; seq++) {
        int64_t all = total_weight(c, a, seq, seq + 1);
        if (at + all <= mine.from) {
            at += all;
            continue;
        }
        for (int64_t h = 0; h < lx_attend_rows_key_heads(a) && at < mine.to; h++) {
            if (at >= mine.from)
                attend_head(c, a, seq, h, scratch);
            at += weight(c, a, seq, h);
        }
    }
}

static int64_t scratch(const void *args)
{
    const lx_attend_rows_args *a = args;
    return lx_cpu_attend_rows_scratch(a->d_key, a->d_value);
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_attend_rows_args *a = args;
    int64_t heads = (int64_t)c->batch->n_seqs * lx_attend_rows_key_heads(a);
    int64_t work = total_weight(c, a, 0, c->batch->n_seqs) * (a->d_key + a->d_value) / PIECE_WORK;
    return work < heads ? work : heads;
}

/* --- by heads of keys, each with all of its queries --- */

static int64_t count(const void *args)
{
    const lx_attend_rows_args *a = args;
    bool whole = a->d_key % LX_CPU_GROUP == 0 && a->d_value % LX_CPU_GROUP == 0;
    return whole ? lx_attend_rows_key_heads(a) : 0;
}

static int32_t columns(const void *args, lx_cpu_range heads, lx_cpu_range *groups)
{
    const lx_attend_rows_args *a = args;
    return lx_cpu_qkv_columns(a->n_heads, lx_attend_rows_key_heads(a), a->d_key, a->d_value, heads,
                              groups);
}

static void run_heads(const lx_cpu *c, const void *args, const lx_cpu_part *part, lx_cpu_range mine,
                      float *scratch)
{
    const lx_attend_rows_args *a = args;
    for (int32_t seq = part->seq0; seq < part->seq1; seq++) {
        for (int64_t h = mine.from; h < mine.to; h++)
            attend_head(c, a, seq, h, scratch);
    }
}

static const lx_cpu_heads heads = {count, columns, run_heads};

LX_DEFINE_CPU(attend_rows, .scratch = scratch, .pieces = pieces, .pieces_a_thread = 4, .run = run,
              .heads = &heads);
