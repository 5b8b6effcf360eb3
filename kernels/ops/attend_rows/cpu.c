#include "kernels/cpu/cpu.h"

enum { PIECES_A_THREAD = 4, LEAST_TOGETHER = 16 }; /* queries of a part */
#define PIECE_WORK 100000 /* floats of rows that a piece reads: half a microsecond and more */

/* The pattern of a head of keys, and where its tiles lie. */
static lx_cpu_attend_rows job_of(const lx_cpu *c, const lx_attend_rows_args *a, int32_t seq,
                                 int64_t head)
{
    const lx_batch *b = c->batch;
    const lx_states *s = a->states;
    int64_t rows = a->ring > 0 ? a->ring : LX_PAGE_TOKENS;
    int64_t at = a->offset + head * rows * (a->d_key + a->d_value);
    lx_cpu_attend_rows job = {
        .pattern = &a->patterns[head % a->n_patterns],
        .to_next_head = head + 1 < lx_attend_rows_key_heads(a) ? rows * (a->d_key + a->d_value) : 0,
        .position = b->position[seq],
        .d_key = a->d_key,
        .d_value = a->d_value,
        .common_key = a->common_key,
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
        job.tiles = s->data + b->slot[seq] * s->stride + at;
        job.ring = a->ring / LX_ROWS_TILE;
        job.kept = lx_ring_kept(a->patterns, a->n_patterns);
    } else {
        job.together = true;
        job.tiles = s->pool + at;
        job.pages = s->pages + (int64_t)lx_batch_page_slot(b, seq) * s->slot_pages;
        job.page_stride = s->page_stride;
    }
    return job;
}

static int64_t sharing(const lx_attend_rows_args *a)
{
    return a->n_heads / lx_attend_rows_key_heads(a);
}

/* All queries of a head of keys, which keeps their rows too. */
static lx_cpu_attend_rows head_of(const lx_cpu *c, const lx_attend_rows_args *a, int32_t seq,
                                  int64_t head, float *scratch)
{
    const lx_batch *b = c->batch;
    int64_t n = a->n_heads, dk = a->d_key, dv = a->d_value;
    int64_t row = b->seq_start[seq], x_stride = lx_attend_rows_width(a), y_stride = n * dv;
    int64_t shared = sharing(a);
    const float *x = a->qkv->data + row * x_stride;
    lx_cpu_attend_rows job = job_of(c, a, seq, head);
    job.q = x + head * shared * dk;
    job.k = x + lx_attend_rows_keys_at(a) + head * (dk - a->common_key);
    job.v = x + lx_attend_rows_values_at(a) + head * dv;
    job.common = x + x_stride - a->common_key;
    job.y = a->y->data + row * y_stride + head * shared * dv;
    job.shared = (int32_t)shared;
    job.to = (b->seq_start[seq + 1] - b->seq_start[seq]) * shared;
    job.keeps = job.reads = true;
    job.x_stride = x_stride;
    job.y_stride = y_stride;
    job.scratch = scratch;
    return job;
}

/*
 * The work is a line: of each sequence in turn its heads of keys, and of a head its parts, each as
 * long as its cost. A piece has the parts that begin in its share of the line. A head is one part,
 * or it is cut into parts. Then all rows are kept first.
 */
typedef struct line {
    const lx_cpu *c;
    const lx_attend_rows_args *a;
    bool cut;
} line;

static int64_t part_queries(const line *l, int32_t seq)
{
    const lx_batch *b = l->c->batch;
    int64_t all = (b->seq_start[seq + 1] - b->seq_start[seq]) * sharing(l->a);
    int64_t n = all / (PIECES_A_THREAD * l->c->n_threads) / LX_CPU_QUERIES * LX_CPU_QUERIES;
    n = n > LEAST_TOGETHER ? n : LEAST_TOGETHER;
    n = n < LX_CPU_TOGETHER ? n : LX_CPU_TOGETHER;
    return l->cut && n < all ? n : all;
}

/* The approximate cost of queries of a head, in rows: a constant, and the rows that they read. */
static int64_t weight(const line *l, int32_t seq, int64_t head, int64_t from, int64_t to)
{
    int32_t middle = (int32_t)((from + to) / 2 / sharing(l->a));
    lx_rows_ranges sees =
        lx_ranges_of(&l->a->patterns[head % l->a->n_patterns], l->c->batch->position[seq] + middle);
    return (to - from) * (LX_ROWS_TILE + lx_ranges_rows(&sees));
}

static int64_t head_weight(const line *l, int32_t seq, int64_t head)
{
    const lx_batch *b = l->c->batch;
    int64_t n = part_queries(l, seq), total = 0;
    int64_t all = (b->seq_start[seq + 1] - b->seq_start[seq]) * sharing(l->a);
    for (int64_t from = 0; from < all; from += n)
        total += weight(l, seq, head, from, from + n < all ? from + n : all);
    return total;
}

static int64_t total_weight(const line *l, int32_t seq0, int32_t seq1)
{
    const lx_attend_rows_args *a = l->a;
    int64_t n = lx_attend_rows_key_heads(a);
    int64_t total = 0, full = n / a->n_patterns, rest = n % a->n_patterns;
    for (int32_t seq = seq0; seq < seq1; seq++) {
        for (int64_t h = 0; h < a->n_patterns; h++)
            total += head_weight(l, seq, h) * (full + (h < rest));
    }
    return total;
}

/* Whether heads are cut: a head that has several parts has so much of the work that other threads
   would wait for it. */
static bool is_cut(const lx_cpu *c, const void *args)
{
    const lx_attend_rows_args *a = args;
    const lx_batch *b = c->batch;
    const line whole = {c, a, false};
    int64_t most = 0;
    for (int32_t seq = 0; a->ring == 0 && seq < b->n_seqs; seq++) {
        bool parts = (b->seq_start[seq + 1] - b->seq_start[seq]) * sharing(a) > LEAST_TOGETHER;
        for (int64_t h = 0; parts && h < a->n_patterns; h++) {
            int64_t own = head_weight(&whole, seq, h);
            most = own > most ? own : most;
        }
    }
    return most > 0 && most * 2 * c->n_threads > total_weight(&whole, 0, b->n_seqs);
}

/* Keeps all rows. */
static void run_first(const lx_cpu *c, const void *args)
{
    const lx_attend_rows_args *a = args;
    for (int32_t seq = 0; seq < c->batch->n_seqs; seq++) {
        for (int64_t h = 0; h < lx_attend_rows_key_heads(a); h++) {
            lx_cpu_attend_rows job = head_of(c, a, seq, h, NULL);
            job.reads = false;
            c->isa->attend_rows(&job);
        }
    }
}

/* The parts of a head that begin in `mine`, where the head begins at `at`. */
static void run_parts(const line *l, int32_t seq, int64_t head, int64_t at, lx_cpu_range mine,
                      float *scratch)
{
    lx_cpu_attend_rows job = head_of(l->c, l->a, seq, head, scratch);
    int64_t n = part_queries(l, seq), all = job.to;
    job.keeps = !l->cut;
    for (int64_t from = 0; from < all && at < mine.to; from += n) {
        job.from = from;
        job.to = from + n < all ? from + n : all;
        if (at >= mine.from)
            l->c->isa->attend_rows(&job);
        at += weight(l, seq, head, job.from, job.to);
    }
}

static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_attend_rows_args *a = args;
    const line l = {c, a, part->n_shares > 1 && is_cut(c, args)};
    lx_cpu_range mine = lx_cpu_share(0, total_weight(&l, part->seq0, part->seq1), part);
    int64_t at = 0;
    for (int32_t seq = part->seq0; seq < part->seq1 && at < mine.to; seq++) {
        int64_t all = total_weight(&l, seq, seq + 1);
        if (at + all <= mine.from) {
            at += all;
            continue;
        }
        for (int64_t h = 0; h < lx_attend_rows_key_heads(a) && at < mine.to; h++) {
            int64_t own = head_weight(&l, seq, h);
            if (at + own > mine.from)
                run_parts(&l, seq, h, at, mine, scratch);
            at += own;
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
    const lx_batch *b = c->batch;
    const line l = {c, a, is_cut(c, args)};
    int64_t parts = 0, keys = lx_attend_rows_key_heads(a);
    int64_t work = total_weight(&l, 0, b->n_seqs) * (a->d_key + a->d_value) / PIECE_WORK;
    for (int32_t seq = 0; seq < b->n_seqs; seq++) {
        int64_t n = part_queries(&l, seq);
        int64_t all = (b->seq_start[seq + 1] - b->seq_start[seq]) * sharing(a);
        parts += (all + n - 1) / n * keys;
    }
    return work < parts ? work : parts;
}

/* --- by heads of keys, each with all of its queries --- */

static int64_t count(const void *args)
{
    const lx_attend_rows_args *a = args;
    bool whole =
        a->d_key % LX_CPU_GROUP == 0 && a->d_value % LX_CPU_GROUP == 0 && a->common_key == 0;
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
        for (int64_t h = mine.from; h < mine.to; h++) {
            lx_cpu_attend_rows job = head_of(c, a, seq, h, scratch);
            c->isa->attend_rows(&job);
        }
    }
}

static const lx_cpu_heads heads = {count, columns, run_heads};

LX_DEFINE_CPU(attend_rows, .scratch = scratch, .pieces = pieces, .pieces_a_thread = PIECES_A_THREAD,
              .run = run, .has_first = is_cut, .run_first = run_first, .heads = &heads);
