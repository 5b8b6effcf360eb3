/* The cpu back end's insides, shared by its files only. See backend.c and program.c. */
#ifndef LINNET_KERNELS_CPU_CPU_H
#define LINNET_KERNELS_CPU_CPU_H

#include "kernels/cpu/event_count.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/weights.h"
#include "kernels/host.h"
#include "kernels/op.h"

typedef struct lx_cpu lx_cpu;

typedef struct lx_cpu_range {
    int64_t from, to; /* from .. to - 1 */
} lx_cpu_range;

/* A piece of work: some sequences with their rows, and of those a share of the work. */
typedef struct lx_cpu_part {
    int32_t seq0, seq1;
    int32_t row0, row1; /* token rows of these sequences */
    int32_t out0, out1; /* output rows of these sequences */
    int32_t share, n_shares;
} lx_cpu_part;

/* Share number part->share of from .. to - 1. */
static inline lx_cpu_range lx_cpu_share(int64_t from, int64_t to, const lx_cpu_part *part)
{
    int64_t n = to - from;
    return (lx_cpu_range){from + n * part->share / part->n_shares,
                          from + n * (part->share + 1) / part->n_shares};
}

static inline lx_cpu_range lx_cpu_rows(const lx_cpu_part *part, lx_rows rows)
{
    return rows == LX_ROWS_TOKENS ? (lx_cpu_range){part->row0, part->row1}
                                  : (lx_cpu_range){part->out0, part->out1};
}

static inline lx_cpu_range lx_cpu_shared_rows(const lx_cpu_part *part, lx_rows rows)
{
    lx_cpu_range all = lx_cpu_rows(part, rows);
    return lx_cpu_share(all.from, all.to, part);
}

/* What an operation offers to the planner's fusions: the output, some of its columns at a time. */
typedef struct lx_cpu_columns {
    /* The output's columns in groups of LX_CPU_GROUP. */
    int64_t (*groups)(const void *args);
    /* Some groups for some rows, of the input at x instead of its own array. */
    void (*run)(const lx_cpu *c, const void *args, const float *x, lx_cpu_range rows,
                lx_cpu_range groups, float *scratch);
    /* Asks for what these groups read first, to be near when their turn comes. */
    void (*prefetch)(const void *args, lx_cpu_range groups);
} lx_cpu_columns;

#define LX_CPU_MOST_RANGES 4

/* The same: some heads at a time, each of which reads its own columns of the input. */
typedef struct lx_cpu_heads {
    /* How many there are; 0 when their columns are not whole groups of LX_CPU_GROUP. */
    int64_t (*count)(const void *args);
    /* Which groups of columns these heads read; returns how many ranges, LX_CPU_MOST_RANGES at
       most. */
    int32_t (*columns)(const void *args, lx_cpu_range heads, lx_cpu_range *groups);
    void (*run)(const lx_cpu *c, const void *args, const lx_cpu_part *part, lx_cpu_range heads,
                float *scratch);
} lx_cpu_heads;

/* Unit i of the n units of sequence seq, in a piece that ends before sequence seq1. */
typedef struct lx_cpu_unit {
    int32_t seq, seq1;
    int64_t i, n;
} lx_cpu_unit;

/* The unit that a piece takes k units later, to prefetch its state; with seq = seq1 there is none.
 */
static inline lx_cpu_unit lx_cpu_unit_after(const lx_cpu_unit *u, int64_t k)
{
    int64_t seq = u->seq + (u->i + k) / u->n;
    return (lx_cpu_unit){seq < u->seq1 ? (int32_t)seq : u->seq1, u->seq1, (u->i + k) % u->n, u->n};
}

/* Columns of a state that make a unit, and those of them that a row of d has from `column` on. */
#define LX_CPU_COLUMNS 64
static inline int64_t lx_cpu_tiles(int64_t d)
{
    return (d + LX_CPU_COLUMNS - 1) / LX_CPU_COLUMNS;
}
static inline int32_t lx_cpu_columns_from(int64_t d, int64_t column)
{
    return (int32_t)(d - column < LX_CPU_COLUMNS ? d - column : LX_CPU_COLUMNS);
}

/* How the cpu back end carries out an operation. */
typedef struct lx_cpu_kind {
    const lx_op *op;
    /* Floats of scratch that a thread needs. NULL: none. */
    int64_t (*scratch)(const void *args);
    /* Into how many pieces it is worth cutting, at most pieces_a_thread for each thread; a piece
       should take half a microsecond. */
    int64_t (*pieces)(const lx_cpu *c, const void *args);
    int32_t pieces_a_thread;
    /* The part's rows, of these its share. */
    void (*run)(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch);
    /* In place of `run`, for an operation that carries a state through a sequence's tokens: how
       many units (heads, some columns) a sequence has, and one of them. */
    int64_t (*units)(const void *args);
    void (*run_unit)(const lx_cpu *c, const void *args, const lx_cpu_unit *unit, float *scratch);

    /* Offers, each NULL where it makes no sense. run_rows: some rows of the output go to y, laid
       out as the output is from row 0 on, instead of its own array. */
    void (*run_rows)(const lx_cpu *c, const void *args, float *y, lx_cpu_range rows);
    const lx_cpu_columns *columns;
    const lx_cpu_heads *heads;
} lx_cpu_kind;

#define LX_DEFINE_CPU(NAME, ...)                                                                   \
    const lx_cpu_kind lx_cpu_op_##NAME = {.op = &lx_op_##NAME, __VA_ARGS__}

#define LX_OP(name) extern const lx_cpu_kind lx_cpu_op_##name;
#include "kernels/ops.def"

/* A recorded operation. */
typedef struct lx_cpu_op {
    const lx_cpu_kind *kind;
    bool fence; /* everything before must be finished, for all rows */
    lx_op_args args;
    lx_uses uses;
} lx_cpu_op;

/* What piece i of a phase is. */
typedef enum lx_cpu_cut {
    LX_CPU_BY_SEQUENCES, /* groups[i], through all operations */
    LX_CPU_BY_SHARES,    /* share i of the one operation; a piece that is alone takes several */
    LX_CPU_BY_HEADS      /* some heads: the columns they read, then what they make of them */
} lx_cpu_cut;

/*
 * Operations whose pieces may be carried out in any order, by any thread. A phase begins when the
 * one before is finished.
 */
typedef struct lx_cpu_phase {
    _Alignas(64) atomic_int n_done;
    int32_t n_pieces;
    int32_t op0, op1; /* operations op0 .. op1 - 1 */
    lx_cpu_cut cut;
    bool own_rows; /* the first is of few rows, which every piece computes for itself */
} lx_cpu_phase;

/*
 * The pieces of a phase are dealt out in ranges, one a thread, so that a thread finds its own in
 * its caches and can prefetch them; what a thread has not begun another one may take. `taken` says
 * of the latest phase in which a thread took from the range (its number above) which piece comes
 * next (below).
 */
typedef struct lx_cpu_claims {
    _Alignas(64) atomic_uint_fast64_t taken;
} lx_cpu_claims;

#define LX_CPU_ROUNDS 64  /* groups of sequences a thread, at most */
#define LX_CPU_OWN_ROWS 4 /* that every piece may compute for itself, at most */

struct lx_cpu {
    lx_host_backend host;
    const lx_cpu_isa *isa;
    int32_t n_threads;
    lx_cpu_pool *pool;
    lx_turn turn; /* held from begin to end */
    lx_cpu_weights weights;

    /* the step that is being recorded or run */
    lx_batch_seen seen;
    const lx_batch *batch;
    uint64_t step;
    lx_status failed; /* the first error; end() returns it and nothing of the step runs */
    lx_error error;
    lx_cpu_op *ops;
    int32_t n_ops, ops_capacity;
    int32_t n_known;      /* ops of the step before that are as they were: no object was freed */
    unsigned freed_known; /* host.n_freed when the step began */
    lx_cpu_phase *phases; /* [ops_capacity] */
    int32_t n_phases;
    lx_cpu_claims *claims;   /* [n_threads] */
    lx_cpu_part *groups;     /* [LX_CPU_ROUNDS * n_threads] */
    lx_event_count finished; /* steps once a phase */
    bool has_count;
    unsigned finished_before; /* its value when the step began */

    float *scratch; /* [n_threads, scratch_floats] */
    int64_t scratch_floats;
    /* what the step needs: for operations, and before it for rows of a piece's own */
    int64_t scratch_wanted, own_wanted;
};

/* begin .. end of lx_kernels (program.c) */
LX_DECLARE(lx_cpu, begin)
LX_DECLARE(lx_cpu, end)
void lx_cpu_record(lx_cpu *c, const lx_cpu_kind *kind, const void *args);

/* Cuts the recorded step into phases and pieces (plan.c). */
void lx_cpu_plan(lx_cpu *c);
lx_cpu_part lx_cpu_piece(const lx_cpu *c, const lx_cpu_phase *phase, int32_t piece);

/* Carries out a piece of a phase, with scratch of this thread (run.c). */
void lx_cpu_run_piece(const lx_cpu *c, const lx_cpu_phase *phase, int32_t piece, float *scratch);
/* Asks for what a piece of a phase reads first, to be near when its turn comes. */
void lx_cpu_ask_ahead(const lx_cpu *c, const lx_cpu_phase *phase, int32_t piece);
/* Floats that a piece's own rows take of it, in whole cache lines. */
static inline int64_t lx_cpu_own_scratch(int64_t width)
{
    return (LX_CPU_OWN_ROWS * width + 15) / 16 * 16;
}

/* The inner loops for these options (choose.c). */
lx_status lx_cpu_choose(const lx_backend_options *options, const lx_cpu_isa **out, lx_error *err);

/* Weights in the order described in ops/linear/cpu_job.h (ops/linear/cpu_pack.c). */
LX_DECLARE(lx_cpu, matrix_new)
LX_DECLARE(lx_cpu, matrix_free)

/* For lx_cpu_heads.columns of an operation whose input has the queries of all n heads, then the
   keys of `keys` heads, then their values: the groups that some heads of keys read. */
int32_t lx_cpu_qkv_columns(int64_t n, int64_t keys, int64_t d_key, int64_t d_value,
                           lx_cpu_range heads, lx_cpu_range *groups);

#endif
