/*
 * Carries out a piece of a phase: some rows, and of those a share. What a share is depends on the
 * phase and the operation (plan.c): heads; groups of outputs, (sequence, head) pairs, or rows.
 */
#include <string.h>

#include "kernels/cpu/cpu.h"

#define LATER 3 /* heads; measured: 2 to 4 are alike, 6 gain nothing */

typedef struct range {
    int64_t from, to;
} range;

/* Share number `share` of from .. to - 1. */
static range share_of(int64_t from, int64_t to, const lx_cpu_part *p)
{
    int64_t n = to - from;
    return (range){from + n * p->share / p->n_shares, from + n * (p->share + 1) / p->n_shares};
}

static range rows_of(const lx_cpu_part *p, lx_rows rows)
{
    return rows == LX_ROWS_TOKENS ? (range){p->row0, p->row1} : (range){p->out0, p->out1};
}

static range shared_rows(const lx_cpu_part *p, lx_rows rows)
{
    range r = rows_of(p, rows);
    return share_of(r.from, r.to, p);
}

/* y += row `id` of a table */
static void add_table_row(const lx_cpu *c, float *y, const lx_table *t, int64_t id)
{
    int64_t d = t->cols;
    if (t->dtype != LX_F16) {
        size_t size = t->dtype == LX_F32 ? sizeof(float) : sizeof(uint16_t);
        c->isa->add_row(y, (const char *)t->data + (size_t)(id * d) * size, t->dtype, d);
        return;
    }
    const uint16_t *half = (const uint16_t *)t->data + id * d;
    for (int64_t i = 0; i < d; i++)
        y[i] += lx_f16_to_f32(half[i]);
}

/* The id, or the drawn token that it stands for. */
static int64_t id_of(const lx_embed_args *a, int32_t table, int32_t slot, int32_t id)
{
    if (!lx_is_drawn_id(id))
        return id;
    int32_t token = a->states->drawn[lx_drawn_place_of(slot, id)];
    return token >= 0 && token < a->tables[table]->rows ? token : 0;
}

static void run_embed(const lx_cpu *c, const lx_embed_args *a, const lx_cpu_part *part)
{
    range rows = shared_rows(part, LX_ROWS_TOKENS);
    int64_t d = a->tables[0]->cols;
    int32_t seq = part->seq0;
    for (int64_t r = rows.from; r < rows.to; r++) {
        const int32_t *ids = a->ids + r * a->n_tables;
        while (c->batch->seq_start[seq + 1] <= r)
            seq++;
        float *y = a->y->data + r * d;
        memset(y, 0, (size_t)d * sizeof *y);
        for (int32_t j = 0; j < a->n_tables; j++)
            add_table_row(c, y, a->tables[j], id_of(a, j, c->batch->slot[seq], ids[j]));
    }
}

/* The outputs of some groups, of inputs x [rows, cols]. */
static void run_groups(const lx_cpu *c, const lx_linear_args *a, const float *x, range rows,
                       range groups, float *scratch)
{
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

static void run_linear(const lx_cpu *c, const lx_linear_args *a, const float *x,
                       const lx_cpu_part *part, float *scratch)
{
    run_groups(c, a, x, rows_of(part, a->rows), share_of(0, a->w->groups, part), scratch);
}

static void norm_rows(const lx_cpu *c, const lx_norm_args *a, float *y, range rows)
{
    for (int64_t r = rows.from; r < rows.to; r++)
        c->isa->norm(y + r * a->d, a->x->data + r * a->d, a->gamma->data, a->beta->data, a->d,
                     a->eps);
}

/* The state of a head of a sequence. */
static float *head_state(const lx_cpu *c, const lx_attend_linear_args *a, int32_t seq, int64_t head)
{
    int64_t size = (int64_t)a->d_key * a->d_value + a->d_key;
    return a->states->data + c->batch->slot[seq] * a->states->stride + a->offset + head * size;
}

/* The state `heads` after it in a piece that ends before sequence seq1. */
static const float *state_after(const lx_cpu *c, const lx_attend_linear_args *a, int32_t seq,
                                int64_t head, int64_t heads, int32_t seq1)
{
    int64_t at = head + heads, then = seq + at / a->n_heads;
    return then < seq1 ? head_state(c, a, (int32_t)then, at % a->n_heads) : NULL;
}

static void attend_head(const lx_cpu *c, const lx_attend_linear_args *a, int32_t seq, int64_t head,
                        const float *next, const float *later, float *scratch)
{
    const lx_batch *b = c->batch;
    int64_t n = a->n_heads, dk = a->d_key, dv = a->d_value;
    int64_t row = b->seq_start[seq], x_stride = n * (2 * dk + dv), y_stride = n * dv;
    const float *x = a->qkv->data + row * x_stride;
    float *s = head_state(c, a, seq, head);
    lx_cpu_attend job = {
        .q = x + head * dk,
        .k = x + n * dk + head * dk,
        .v = x + 2 * n * dk + head * dv,
        .y = a->y->data + row * y_stride + head * dv,
        .s = s,
        .z = s + dk * dv,
        .next = next,
        .later = later,
        .n_tokens = b->seq_start[seq + 1] - row,
        .x_stride = x_stride,
        .y_stride = y_stride,
        .d_key = a->d_key,
        .d_value = a->d_value,
        .eps = a->eps,
        .scratch = scratch,
    };
    c->isa->attend(&job);
}

/*
 * The work is laid out as sequence after sequence, head after head, each as long as its tokens; a
 * piece has the heads that begin in its share of that line.
 */
static void run_attend_linear(const lx_cpu *c, const lx_attend_linear_args *a,
                              const lx_cpu_part *part, float *scratch)
{
    const lx_batch *b = c->batch;
    int64_t heads = a->n_heads;
    range mine = share_of(part->row0 * heads, part->row1 * heads, part);
    for (int32_t seq = part->seq0; seq < part->seq1; seq++) {
        int64_t row = b->seq_start[seq], tokens = b->seq_start[seq + 1] - row;
        for (int64_t h = 0; h < heads; h++) {
            int64_t at = row * heads + h * tokens;
            if (at >= mine.from && at < mine.to)
                attend_head(c, a, seq, h, state_after(c, a, seq, h, 1, part->seq1),
                            state_after(c, a, seq, h, LATER, part->seq1), scratch);
        }
    }
}

/*
 * The same for some heads, after making their part of qkv, which lies as at lx_attend_linear_args:
 * the queries of all heads, then the keys, then the values.
 */
static void run_heads(const lx_cpu *c, const lx_linear_args *qkv, const lx_attend_linear_args *a,
                      const float *x, const lx_cpu_part *part, float *scratch)
{
    range heads = share_of(0, a->n_heads, part), rows = rows_of(part, qkv->rows);
    int64_t key = a->d_key / LX_CPU_GROUP, value = a->d_value / LX_CPU_GROUP, n = a->n_heads;
    const int64_t first[] = {0, n * key, 2 * n * key}, width[] = {key, key, value};
    for (int i = 0; i < 3; i++) {
        range groups = {first[i] + heads.from * width[i], first[i] + heads.to * width[i]};
        run_groups(c, qkv, x, rows, groups, scratch);
    }
    for (int32_t seq = part->seq0; seq < part->seq1; seq++) {
        for (int64_t h = heads.from; h < heads.to; h++)
            attend_head(c, a, seq, h, h + 1 < heads.to ? head_state(c, a, seq, h + 1) : NULL, NULL,
                        scratch);
    }
}

static void run_gather(const lx_cpu *c, const lx_gather_args *a, const lx_cpu_part *part)
{
    range rows = shared_rows(part, LX_ROWS_OUTPUTS);
    for (int64_t i = rows.from; i < rows.to; i++)
        memcpy(a->y->data + i * a->d, a->x->data + c->batch->output_row[i] * (int64_t)a->d,
               (size_t)a->d * sizeof(float));
}

static void run_sample(const lx_cpu *c, const lx_sample_args *a, const lx_cpu_part *part,
                       float *scratch)
{
    range rows = shared_rows(part, LX_ROWS_OUTPUTS);
    for (int64_t i = rows.from; i < rows.to; i++)
        a->out[i] = lx_cpu_sample_row(c->isa, &a->rows[i], a->logits->data + i * a->n_ids, a->n_ids,
                                      scratch);
}

static void run_sample_mixture(const lx_cpu *c, const lx_sample_mixture_args *a,
                               const lx_cpu_part *part, float *scratch)
{
    range rows = shared_rows(part, LX_ROWS_OUTPUTS);
    int64_t width = 3 * (int64_t)a->n_components;
    for (int64_t i = rows.from; i < rows.to; i++)
        a->out[i] = lx_cpu_mixture_row(c->isa, &a->rows[i], a->parameters->data + i * width,
                                       a->n_components, a->n_levels, scratch);
}

static void run_op(const lx_cpu *c, const lx_cpu_op *op, const lx_cpu_part *part, float *scratch)
{
    switch (op->kind) {
    case LX_CPU_EMBED:
        run_embed(c, &op->embed, part);
        break;
    case LX_CPU_LINEAR:
        run_linear(c, &op->linear, op->linear.x->data, part, scratch);
        break;
    case LX_CPU_NORM:
        norm_rows(c, &op->norm, op->norm.y->data, shared_rows(part, op->norm.rows));
        break;
    case LX_CPU_ATTEND_LINEAR:
        run_attend_linear(c, &op->attend_linear, part, scratch);
        break;
    case LX_CPU_GATHER:
        run_gather(c, &op->gather, part);
        break;
    case LX_CPU_SAMPLE:
        run_sample(c, &op->sample, part, scratch);
        break;
    case LX_CPU_SAMPLE_MIXTURE:
        run_sample_mixture(c, &op->sample_mixture, part, scratch);
        break;
    }
}

/* Floats that an own norm's rows take, in whole cache lines. */
static int64_t own_norm_scratch(int64_t d)
{
    return (LX_CPU_OWN_NORMS * d + 15) / 16 * 16;
}

int64_t lx_cpu_linear_op_scratch(int64_t cols)
{
    return own_norm_scratch(cols) + lx_cpu_linear_scratch(cols);
}

/* All rows of a norm, into scratch; the first piece also writes them where they belong. */
static const float *own_norm(const lx_cpu *c, const lx_norm_args *a, const lx_cpu_part *part,
                             float *scratch)
{
    range rows = rows_of(part, a->rows);
    norm_rows(c, a, scratch, rows);
    if (part->share == 0)
        memcpy(a->y->data, scratch, (size_t)(rows.to * a->d) * sizeof(float));
    return scratch;
}

void lx_cpu_run_piece(const lx_cpu *c, const lx_cpu_phase *phase, int32_t piece, float *scratch)
{
    lx_cpu_part part = lx_cpu_piece(c, phase, piece);
    const lx_cpu_op *op = &c->ops[phase->op0], *end = &c->ops[phase->op1];
    const float *x = NULL;
    if (phase->own_norm) {
        x = own_norm(c, &op->norm, &part, scratch);
        scratch += own_norm_scratch(op->norm.d);
        op++;
    }
    if (phase->cut == LX_CPU_BY_HEADS) {
        run_heads(c, &op->linear, &op[1].attend_linear, x != NULL ? x : op->linear.x->data, &part,
                  scratch);
    } else if (x != NULL) {
        run_linear(c, &op->linear, x, &part, scratch);
    } else {
        for (; op < end; op++)
            run_op(c, op, &part, scratch);
    }
}

/*
 * The first lines of the weights, four groups side by side as the micro-kernels of few rows take
 * them: while a thread waits for the others they come nearer, and a phase is a few microseconds.
 */
void lx_cpu_ask_ahead(const lx_cpu *c, const lx_cpu_phase *phase, int32_t piece)
{
    const lx_cpu_op *op = &c->ops[phase->op0 + phase->own_norm];
    if (phase->cut == LX_CPU_BY_SEQUENCES || op->kind != LX_CPU_LINEAR)
        return;
    enum { LINE = 16, LINES = 32 }; /* of a group, in words */
    const lx_matrix *w = op->linear.w;
    lx_cpu_part part = lx_cpu_piece(c, phase, piece);
    range groups = share_of(0, phase->cut == LX_CPU_BY_HEADS ? w->groups / 3 : w->groups, &part);
    for (int64_t g = groups.from; g < groups.to && g < groups.from + 4; g++) {
        const uint32_t *words = (const uint32_t *)w->data + g * w->group_words;
        for (int64_t i = 0; i < LINES * LINE && i < w->group_words; i += LINE)
            __builtin_prefetch(words + i, 0, 2);
    }
}
