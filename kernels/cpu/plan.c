/*
 * How a step is cut into phases, and these into pieces for the threads. Time depends on it, results
 * do not.
 *
 * With enough sequences, a piece is a group of whole sequences carried through all operations up to
 * the next fence: threads need not wait for one another in between. But every piece reads all
 * weights. So with fewer than LEAST_ROWS rows per thread, or when one sequence has most of the
 * rows, every operation is a phase whose pieces are shares of its columns, heads or rows. Where the
 * weights come from memory, that takes more time than the products of LX_CPU_LEAST_FAR_ROWS rows.
 *
 * Of those operations, neighbours that compute each row by itself make one phase when there are
 * many rows. Its pieces are strips of rows, whose activations stay in the second cache from one
 * operation to the next. Threads meet only where a state or a convolution goes along the rows.
 *
 * A phase costs a third of a microsecond and more, as much as a row's norm. So with few rows there
 * are two fusions, which operations offer (lx_cpu_kind). A piece that makes columns (of a product)
 * computes their input rows (of a norm) for itself. A piece that computes heads makes the columns
 * (queries, keys and values) that these read.
 */
#include "kernels/cpu/cpu.h"

#define LEAST_ROWS 2          /* per thread, to deal out sequences */
#define FAR_BYTES (32u << 20) /* of weights: the third cache where it was measured */
#define PIECE_ROWS 64         /* per group, roughly: its activations stay in the caches */
#define STRIP_ROWS 128        /* of a prompt, roughly; each strip reads all weights */

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

static lx_cpu_part rows_of(const lx_batch *b, int32_t seq0, int32_t seq1, int32_t row0,
                           int32_t row1)
{
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

/* --- sequences --- */

static lx_cpu_part part_of(const lx_batch *b, int32_t seq0, int32_t seq1)
{
    return rows_of(b, seq0, seq1, b->seq_start[seq0], b->seq_start[seq1]);
}

/* Deals the sequences out into n groups, in order; returns the rows of the largest. */
static int32_t deal(lx_cpu *c, int32_t n)
{
    const lx_batch *b = c->batch;
    int32_t seq = 0, most = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t from = seq;
        int64_t goal = (int64_t)b->n_tokens * (i + 1) / n;
        while (seq < b->n_seqs && (b->seq_start[seq] + b->seq_start[seq + 1]) / 2 < goal)
            seq++;
        c->groups[i] = part_of(b, from, seq);
        int32_t rows = c->groups[i].row1 - c->groups[i].row0;
        most = rows > most ? rows : most;
    }
    return most;
}

/* The caches do not keep the weights from step to step. Not asked where rows are so few that all is
   shared in either case. */
static bool are_far(const lx_cpu *c)
{
    size_t bytes = 0;
    if (c->batch->n_tokens < LEAST_ROWS * c->n_threads)
        return false;
    for (int32_t i = 0; i < c->n_ops && bytes <= FAR_BYTES; i++) {
        const lx_cpu_op *op = &c->ops[i];
        bytes += op->kind->columns != NULL ? op->kind->columns->bytes(&op->args) : 0;
    }
    return bytes > FAR_BYTES;
}

/* The number of groups, or 0 when operations should be shared. */
static int32_t plan_groups(lx_cpu *c)
{
    int32_t rows = c->batch->n_tokens, n = c->n_threads;
    if (rows / n < (c->is_far ? LX_CPU_LEAST_FAR_ROWS : LEAST_ROWS))
        return 0;
    int32_t rounds = (rows + n * PIECE_ROWS / 2) / (n * PIECE_ROWS);
    rounds = rounds < 1 ? 1 : rounds < LX_CPU_ROUNDS ? rounds : LX_CPU_ROUNDS;
    int64_t most = deal(c, n * rounds);
    return n == 1 || most * n * rounds <= (int64_t)rows * 5 / 4 ? n * rounds : 0;
}

static void plan_by_sequences(lx_cpu *c, int32_t n_groups)
{
    lx_cpu_phase *p = NULL;
    for (int32_t i = 0; i < c->n_ops; i++) {
        if (p == NULL || c->ops[i].fence) {
            p = &c->phases[c->n_phases++];
            *p = (lx_cpu_phase){.n_pieces = n_groups, .op0 = i, .cut = LX_CPU_BY_SEQUENCES};
        }
        p->op1 = i + 1;
    }
}

/* --- shares --- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int32_t pieces_of(const lx_cpu *c, const lx_cpu_op *op)
{
    if (c->n_threads == 1)
        return 1;
    int64_t n = op->kind->pieces(c, &op->args);
    int64_t most = op->kind->pieces_a_thread > 0 ? op->kind->pieces_a_thread : 1;
    return n < 1 ? 1 : (int32_t)least(n, most * c->n_threads);
}

/* --- fusions: rules about two neighbouring operations and their offers --- */

static const lx_array *made_by(const lx_cpu_op *op)
{
    const lx_use *out = lx_uses_find(&op->uses, LX_USE_OUT);
    return out != NULL ? out->array : NULL;
}

/* `next` takes what `op` makes as its main input, in the same shape. */
static bool feeds(const lx_cpu_op *op, const lx_cpu_op *next)
{
    const lx_use *out = lx_uses_find(&op->uses, LX_USE_OUT);
    const lx_use *in = lx_uses_find(&next->uses, LX_USE_IN);
    return out != NULL && in != NULL && in->array == out->array && in->width == out->width &&
           in->rows == out->rows;
}

/* Operation i makes columns, and each head of the next operation reads only some of them. */
static bool is_by_heads(const lx_cpu *c, int32_t i)
{
    const lx_cpu_op *op = &c->ops[i], *next = op + 1;
    if (c->n_threads == 1 || op->kind->columns == NULL || i + 1 == c->n_ops ||
        next->kind->heads == NULL)
        return false;
    return feeds(op, next) && lx_uses_find(&op->uses, LX_USE_BESIDE) == NULL &&
           lx_uses_find(&op->uses, LX_USE_IN)->array != made_by(next) &&
           next->kind->heads->count(&next->args) >= c->n_threads;
}

/* The operation reads this array, row by row. */
static bool reads(const lx_cpu_op *op, const lx_array *array)
{
    for (int32_t i = 0; i < op->uses.n; i++) {
        const lx_use *u = &op->uses.arrays[i];
        if (u->array == array && (u->role == LX_USE_IN || u->role == LX_USE_BESIDE))
            return true;
    }
    return false;
}

/*
 * Operation i computes few rows, from which the next operation makes columns. No piece of the phase
 * writes data that others read while they compute these rows.
 */
static bool is_own_rows(const lx_cpu *c, int32_t i)
{
    const lx_cpu_op *op = &c->ops[i], *next = op + 1;
    if (c->n_threads == 1 || op->kind->run_rows == NULL || i + 1 == c->n_ops ||
        next->kind->columns == NULL || !feeds(op, next))
        return false;
    const lx_use *in = lx_uses_find(&op->uses, LX_USE_IN);
    const lx_use *beside = lx_uses_find(&next->uses, LX_USE_BESIDE);
    const lx_array *y = made_by(op);
    return !reads(op, y) && !reads(op, made_by(next)) && (beside == NULL || beside->array != y) &&
           !(is_by_heads(c, i + 1) && reads(op, made_by(next + 1))) && pieces_of(c, next) > 1 &&
           lx_batch_rows(c->batch, in->rows) <= LX_CPU_OWN_ROWS;
}

static lx_cpu_phase shared_phase(const lx_cpu *c, int32_t i, bool own_rows)
{
    lx_cpu_phase p = {.op0 = i, .cut = LX_CPU_BY_SHARES, .own_rows = own_rows};
    i += own_rows;
    p.n_pieces = pieces_of(c, &c->ops[i]);
    p.op1 = i + 1;
    if (is_by_heads(c, i)) {
        p.cut = LX_CPU_BY_HEADS;
        p.n_pieces = c->n_threads;
        p.op1 = i + 2;
    }
    return p;
}

/* The phase cuts an operation into shares, before which a part of it must be finished. */
static bool has_first(const lx_cpu *c, const lx_cpu_phase *p)
{
    const lx_cpu_op *op = &c->ops[p->op0];
    return p->cut == LX_CPU_BY_SHARES && !p->own_rows && p->n_pieces > 1 &&
           op->kind->has_first != NULL && op->kind->has_first(c, &op->args);
}

/* Operation i computes its rows by themselves, and has many. */
static bool is_by_rows(const lx_cpu *c, int32_t i)
{
    const lx_cpu_op *op = &c->ops[i];
    const lx_use *out = lx_uses_find(&op->uses, LX_USE_OUT);
    return c->n_threads > 1 && op->kind->is_by_rows && out != NULL && !is_by_heads(c, i) &&
           lx_cpu_shares_rows(c, lx_batch_rows(c->batch, out->rows));
}

/* The operations from i on that such pieces can carry out. */
static lx_cpu_phase phase_of_rows(const lx_cpu *c, int32_t i)
{
    int32_t n = c->n_threads, rounds = (c->batch->n_tokens + n * STRIP_ROWS / 2) / (n * STRIP_ROWS);
    lx_cpu_phase p = {
        .n_pieces = n * (rounds > 0 ? rounds : 1), .op0 = i, .op1 = i + 1, .cut = LX_CPU_BY_ROWS};
    while (p.op1 < c->n_ops && is_by_rows(c, p.op1) && !c->ops[p.op1].fence)
        p.op1++;
    return p;
}

/* Neighbouring operations of one piece make one phase. */
static void plan_by_shares(lx_cpu *c)
{
    lx_cpu_phase *p = NULL;
    for (int32_t i = 0; i < c->n_ops; i = p->op1) {
        bool alone = p != NULL && p->n_pieces == 1; /* a phase costs nothing there */
        lx_cpu_phase next = is_by_rows(c, i) ? phase_of_rows(c, i)
                                             : shared_phase(c, i, !alone && is_own_rows(c, i));
        if (alone && next.n_pieces == 1) {
            p->op1 = next.op1;
        } else {
            if (has_first(c, &next))
                c->phases[c->n_phases++] =
                    (lx_cpu_phase){.n_pieces = 1, .op0 = i, .op1 = i, .cut = LX_CPU_FIRST};
            p = &c->phases[c->n_phases++];
            *p = next;
        }
    }
}

void lx_cpu_plan(lx_cpu *c)
{
    c->is_far = are_far(c);
    int32_t n_groups = plan_groups(c);
    c->n_phases = 0;
    if (n_groups > 0)
        plan_by_sequences(c, n_groups);
    else
        plan_by_shares(c);
}

lx_cpu_part lx_cpu_piece(const lx_cpu *c, const lx_cpu_phase *phase, int32_t piece)
{
    if (phase->cut == LX_CPU_BY_SEQUENCES)
        return c->groups[piece];
    const lx_batch *b = c->batch;
    lx_cpu_part part = {0, b->n_seqs, 0, b->n_tokens, 0, b->n_outputs, piece, phase->n_pieces};
    if (phase->cut != LX_CPU_BY_ROWS)
        return part;
    lx_cpu_range rows = lx_cpu_shared_rows(&part, LX_ROWS_TOKENS);
    return rows_of(b, 0, b->n_seqs, (int32_t)rows.from, (int32_t)rows.to);
}
