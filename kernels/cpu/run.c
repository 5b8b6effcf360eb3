/*
 * Carries out a piece of a phase: a share of some rows. The phase (plan.c) and the operation
 * (kernels/ops/NAME/cpu.c) define the share.
 */
#include <string.h>

#include "kernels/cpu/cpu.h"

/*
 * The work is a line: of each sequence in turn its n units, each as long as its tokens. A piece has
 * the units that begin in its share of the line.
 */
static void run_units(const lx_cpu *c, const lx_cpu_op *op, const lx_cpu_part *part, float *scratch)
{
    const int32_t *start = c->batch->seq_start;
    int64_t n = op->kind->units(&op->args);
    lx_cpu_range mine = lx_cpu_share(part->row0 * n, part->row1 * n, part);
    for (int32_t seq = part->seq0; seq < part->seq1; seq++) {
        int64_t tokens = start[seq + 1] - start[seq];
        for (int64_t i = 0; i < n; i++) {
            int64_t at = start[seq] * n + i * tokens;
            if (at >= mine.from && at < mine.to)
                op->kind->run_unit(c, &op->args, &(lx_cpu_unit){seq, part->seq1, i, n}, scratch);
        }
    }
}

static void run_op(const lx_cpu *c, const lx_cpu_op *op, const lx_cpu_part *part, float *scratch)
{
    if (op->kind->run_unit != NULL)
        run_units(c, op, part, scratch);
    else
        op->kind->run(c, &op->args, part, scratch);
}

/* All rows of an operation, into scratch; the first piece also writes them to their array. */
static const float *run_own_rows(const lx_cpu *c, const lx_cpu_op *op, const lx_cpu_part *part,
                                 float *scratch)
{
    const lx_use *out = lx_uses_find(&op->uses, LX_USE_OUT);
    lx_cpu_range rows = lx_cpu_rows(part, out->rows);
    op->kind->run_rows(c, &op->args, scratch, rows);
    if (part->share == 0)
        memcpy(out->array->data, scratch, (size_t)(rows.to * out->width) * sizeof(float));
    return scratch;
}

void lx_cpu_run_columns(const lx_cpu *c, const void *args, const lx_cpu_unit *u,
                        lx_cpu_run_rows *run_rows, const lx_states *s, int64_t offset, int64_t kept,
                        int64_t d)
{
    const lx_batch *b = c->batch;
    int64_t row = b->seq_start[u->seq], own = lx_batch_own_rows(b, u->seq);
    int64_t rest = b->seq_start[u->seq + 1] - row - own, column = u->i * LX_CPU_COLUMNS;
    run_rows(c, args, row, own, column, b->slot[u->seq]);
    if (rest == 0)
        return;
    for (int64_t i = 0; i < kept; i++)
        (void)lx_host_branch(s, b, u->seq, offset + i * d + column, lx_cpu_columns_from(d, column));
    run_rows(c, args, row + own, rest, column, b->branch[u->seq]);
}

int32_t lx_cpu_qkv_columns(int64_t n, int64_t keys, int64_t d_key, int64_t d_value,
                           lx_cpu_range heads, lx_cpu_range *groups)
{
    int64_t key = d_key / LX_CPU_GROUP, value = d_value / LX_CPU_GROUP;
    const int64_t first[] = {0, n * key, (n + keys) * key}, width[] = {n / keys * key, key, value};
    for (int i = 0; i < 3; i++)
        groups[i] =
            (lx_cpu_range){first[i] + heads.from * width[i], first[i] + heads.to * width[i]};
    return 3;
}

/* The columns that some heads read, of input x, then these heads. */
static void run_heads(const lx_cpu *c, const lx_cpu_op *op, const float *x, const lx_cpu_part *part,
                      float *scratch)
{
    const lx_cpu_op *next = op + 1;
    const lx_cpu_heads *by = next->kind->heads;
    lx_cpu_range heads = lx_cpu_share(0, by->count(&next->args), part);
    lx_cpu_range groups[LX_CPU_MOST_RANGES];
    lx_cpu_range rows = lx_cpu_rows(part, lx_uses_find(&op->uses, LX_USE_OUT)->rows);
    int32_t n = by->columns(&next->args, heads, groups);
    for (int32_t i = 0; i < n; i++)
        op->kind->columns->run(c, &op->args, x, rows, groups[i], scratch);
    by->run(c, &next->args, part, heads, scratch);
}

static void run_columns(const lx_cpu *c, const lx_cpu_op *op, const float *x,
                        const lx_cpu_part *part, float *scratch)
{
    const lx_cpu_columns *columns = op->kind->columns;
    lx_cpu_range rows = lx_cpu_rows(part, lx_uses_find(&op->uses, LX_USE_OUT)->rows);
    columns->run(c, &op->args, x, rows, lx_cpu_share(0, columns->groups(&op->args), part), scratch);
}

void lx_cpu_run_piece(const lx_cpu *c, const lx_cpu_phase *phase, int32_t piece, float *scratch)
{
    lx_cpu_part part = lx_cpu_piece(c, phase, piece);
    const lx_cpu_op *op = &c->ops[phase->op0], *end = &c->ops[phase->op1];
    const float *x = NULL;
    if (phase->cut == LX_CPU_FIRST) {
        op->kind->run_first(c, &op->args);
        return;
    }
    if (phase->own_rows) {
        x = run_own_rows(c, op, &part, scratch);
        scratch += lx_cpu_own_scratch(lx_uses_find(&op->uses, LX_USE_OUT)->width);
        op++;
    }
    if (phase->cut == LX_CPU_BY_HEADS) {
        x = x != NULL ? x : lx_uses_find(&op->uses, LX_USE_IN)->array->data;
        run_heads(c, op, x, &part, scratch);
    } else if (x != NULL) {
        run_columns(c, op, x, &part, scratch);
    } else {
        for (; op < end; op++)
            run_op(c, op, &part, scratch);
    }
}

void lx_cpu_ask_ahead(const lx_cpu *c, const lx_cpu_phase *phase, int32_t piece)
{
    const lx_cpu_op *op = &c->ops[phase->op0 + phase->own_rows];
    const lx_cpu_columns *columns = op->kind->columns;
    if (phase->cut == LX_CPU_BY_SEQUENCES || columns == NULL)
        return;
    lx_cpu_part part = lx_cpu_piece(c, phase, piece);
    lx_cpu_range groups[LX_CPU_MOST_RANGES] = {lx_cpu_share(0, columns->groups(&op->args), &part)};
    if (phase->cut == LX_CPU_BY_HEADS) {
        const lx_cpu_heads *by = op[1].kind->heads;
        lx_cpu_range heads = lx_cpu_share(0, by->count(&op[1].args), &part);
        (void)by->columns(&op[1].args, heads, groups);
    }
    columns->prefetch(&op->args, groups[0]);
}
