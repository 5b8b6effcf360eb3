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

/* An operation's offer to the planner's fusions: to compute some columns of its output. */
typedef struct lx_cpu_columns {
    /* The output's columns in groups of LX_CPU_GROUP. */
    int64_t (*groups)(const void *args);
    /* Some groups for some rows, from the input at x. */
    void (*run)(const lx_cpu *c, const void *args, const float *x, lx_cpu_range rows,
                lx_cpu_range groups, float *scratch);
    /* Prefetches the first data that these groups read. */
    void (*prefetch)(const void *args, lx_cpu_range groups);
    /* Bytes of weights that all groups read. */
    size_t (*bytes)(const void *args);
} lx_cpu_columns;

#define LX_CPU_MOST_RANGES 4

/* An operation's offer to compute some heads, each of which reads its own columns of the input. */
typedef struct lx_cpu_heads {
    /* How many heads there are; 0 when their columns are not whole groups of LX_CPU_GROUP. */
    int64_t (*count)(const void *args);
    /* The groups of columns that these heads read; returns the number of ranges, at most
       LX_CPU_MOST_RANGES. */
    int32_t (*columns)(const void *args, lx_cpu_range heads, lx_cpu_range *groups);
    void (*run)(const lx_cpu *c, const void *args, const lx_cpu_part *part, lx_cpu_range heads,
                float *scratch);
} lx_cpu_heads;

/* Unit i of the n units of sequence seq, in a piece that ends before sequence seq1. */
typedef struct lx_cpu_unit {
    int32_t seq, seq1;
    int64_t i, n;
} lx_cpu_unit;

/* The unit that a piece takes k units later, to prefetch its state; seq = seq1: none. */
static inline lx_cpu_unit lx_cpu_unit_after(const lx_cpu_unit *u, int64_t k)
{
    int64_t seq = u->seq + (u->i + k) / u->n;
    return (lx_cpu_unit){seq < u->seq1 ? (int32_t)seq : u->seq1, u->seq1, (u->i + k) % u->n, u->n};
}

/* Columns of a state that make a unit; the units of d columns; the columns of the unit at `column`.
 */
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
    /* How many pieces to cut it into, at most pieces_a_thread per thread (0: one). A piece should
       take half a microsecond. */
    int64_t (*pieces)(const lx_cpu *c, const void *args);
    int32_t pieces_a_thread;
    /* Computes the part's share of its rows. */
    void (*run)(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch);
    /* Whether run_first must be finished before the pieces, where there are several. A piece that
       is alone does all. NULL: never. */
    bool (*has_first)(const lx_cpu *c, const void *args);
    void (*run_first)(const lx_cpu *c, const void *args);
    /* `run` computes a row from the same row of its inputs, so a part's rows may begin and end
       within a sequence. */
    bool is_by_rows;
    /* In place of `run`, for an operation that carries a state through a sequence's tokens: the
       number of units (heads, some columns) of a sequence, and the work of one unit. */
    int64_t (*units)(const void *args);
    void (*run_unit)(const lx_cpu *c, const void *args, const lx_cpu_unit *unit, float *scratch);

    /* Offers to the planner; NULL: none. run_rows writes some rows of the output to y instead of
       the output's array; y has the same layout from row 0 on. */
    void (*run_rows)(const lx_cpu *c, const void *args, float *y, lx_cpu_range rows);
    const lx_cpu_columns *columns;
    const lx_cpu_heads *heads;
} lx_cpu_kind;

#define LX_DEFINE_CPU(NAME, ...)                                                                   \
    const lx_cpu_kind lx_cpu_op_##NAME = {.op = &lx_op_##NAME, __VA_ARGS__}

/* Defines `units` of an operation whose units are its heads. */
#define LX_CPU_UNITS_ARE_HEADS(NAME)                                                               \
    static int64_t units(const void *args)                                                         \
    {                                                                                              \
        return ((const lx_##NAME##_args *)args)->n_heads;                                          \
    }

#define LX_OP(name) extern const lx_cpu_kind lx_cpu_op_##name;
#include "kernels/ops.def"

/* A recorded operation. */
typedef struct lx_cpu_op {
    const lx_cpu_kind *kind;
    bool fence; /* all earlier operations must be finished, for all rows */
    lx_op_args args;
    lx_uses uses;
} lx_cpu_op;

/* How a phase is cut; piece i has: */
typedef enum lx_cpu_cut {
    LX_CPU_BY_SEQUENCES, /* groups[i], through all operations */
    LX_CPU_BY_SHARES,    /* share i of the one operation; a piece that is alone takes several */
    LX_CPU_BY_ROWS,      /* some token rows, through all operations */
    LX_CPU_FIRST,        /* the one piece does the operation's run_first */
    LX_CPU_BY_HEADS      /* some heads: the columns that they read, then the heads themselves */
} lx_cpu_cut;

/*
 * Operations whose pieces any thread may carry out in any order. A phase begins when the previous
 * phase is finished.
 */
typedef struct lx_cpu_phase {
    _Alignas(64) atomic_int n_done;
    int32_t n_pieces;
    int32_t op0, op1; /* operations op0 .. op1 - 1 */
    lx_cpu_cut cut;
    bool own_rows; /* the first operation has few rows, and every piece computes all of them */
} lx_cpu_phase;

/*
 * Each thread has a range of a phase's pieces, so that it finds their data in its caches and can
 * prefetch them. Another thread may take pieces that are not begun. `taken` has, in its upper half,
 * the number of the latest phase in which a thread took from the range, and in its lower half the
 * next piece.
 */
typedef struct lx_cpu_claims {
    _Alignas(64) atomic_uint_fast64_t taken;
} lx_cpu_claims;

#define LX_CPU_ROUNDS 64 /* most groups of sequences per thread */
/* Every thread may read all weights from memory when it has so many rows: their products take
   longer. */
#define LX_CPU_LEAST_FAR_ROWS 16
#define LX_CPU_SHARED_ROWS 12 /* per thread: at least so many are shared, not columns */
#define LX_CPU_OWN_ROWS 4     /* most rows that every piece may compute for itself */

struct lx_cpu {
    lx_host_backend host;
    lx_cpu_isa loops; /* where isa points */
    const lx_cpu_isa *isa;
    int32_t n_threads;
    lx_cpu_pool *pool;
    lx_turn turn; /* held from begin to end */
    lx_cpu_weights weights;

    /* the step that is being recorded or run */
    lx_batch_seen seen;
    const lx_batch *batch;
    uint64_t step;
    lx_status failed; /* the first error; end() returns it and runs nothing */
    lx_error error;
    lx_cpu_op *ops;
    int32_t n_ops, ops_capacity;
    int32_t n_known;      /* ops of the previous step that still hold: no object was freed */
    unsigned freed_known; /* host.n_freed when the step began */
    lx_cpu_phase *phases; /* [2 * ops_capacity] */
    int32_t n_phases;
    bool is_far;             /* the step's weights come from memory (plan.c) */
    lx_cpu_claims *claims;   /* [n_threads] */
    lx_cpu_part *groups;     /* [LX_CPU_ROUNDS * n_threads] */
    lx_event_count finished; /* steps once per phase */
    bool has_count;
    unsigned finished_before; /* its value when the step began */

    float *scratch; /* [n_threads, scratch_floats] */
    int64_t scratch_floats;
    /* floats that the step needs for operations, and before these for a piece's own rows */
    int64_t scratch_wanted, own_wanted;
};

/* begin .. end of lx_kernels (program.c) */
LX_DECLARE(lx_cpu, begin)
LX_DECLARE(lx_cpu, end)
void lx_cpu_record(lx_cpu *c, const lx_cpu_kind *kind, const void *args);

/* So many rows that threads have rows of their own. */
static inline bool lx_cpu_shares_rows(const lx_cpu *c, int32_t rows)
{
    return rows >= (c->is_far ? LX_CPU_LEAST_FAR_ROWS : LX_CPU_SHARED_ROWS) * c->n_threads;
}

/* Cuts the recorded step into phases and pieces (plan.c). */
void lx_cpu_plan(lx_cpu *c);
lx_cpu_part lx_cpu_piece(const lx_cpu *c, const lx_cpu_phase *phase, int32_t piece);

/* Carries out a piece of a phase, with scratch of this thread (run.c). */
void lx_cpu_run_piece(const lx_cpu *c, const lx_cpu_phase *phase, int32_t piece, float *scratch);
/* For run_unit: some columns, from `column` on, of a sequence whose state is `kept` rows of d
   columns. run_rows computes them for n_tokens rows from `row` on, with the state in `slot`. It is
   called for the sequence's own rows, and for the rows of its branch after a copy of the state. */
typedef void lx_cpu_run_rows(const lx_cpu *c, const void *args, int64_t row, int64_t n_tokens,
                             int64_t column, int32_t slot);
void lx_cpu_run_columns(const lx_cpu *c, const void *args, const lx_cpu_unit *u,
                        lx_cpu_run_rows *run_rows, const lx_states *s, int64_t offset, int64_t kept,
                        int64_t d);
/* Prefetches the first data that a piece of a phase reads. */
void lx_cpu_ask_ahead(const lx_cpu *c, const lx_cpu_phase *phase, int32_t piece);
/* Floats of scratch for a piece's own rows, in whole cache lines. */
static inline int64_t lx_cpu_own_scratch(int64_t width)
{
    return (LX_CPU_OWN_ROWS * width + 15) / 16 * 16;
}

/* The inner loops for these options, all of them (choose.c). */
lx_status lx_cpu_choose(const lx_backend_options *options, lx_cpu_isa *out, lx_error *err);

/* Weights in the order described in ops/linear/cpu_job.h (ops/linear/cpu_pack.c). */
LX_DECLARE(lx_cpu, matrix_new)
LX_DECLARE(lx_cpu, matrix_free)
LX_DECLARE(lx_cpu, matrix_join)
LX_DECLARE(lx_cpu, matrix_bytes)
LX_DECLARE(lx_cpu, table_of)
/* The weights of an output of a matrix in blocks, for inputs col .. col + 31: col is the first of a
   block. */
void lx_cpu_block_values(const lx_matrix *w, int64_t row, int64_t col, float *to);

/* For lx_cpu_heads.columns: the groups that some heads of keys read, of an input with the queries
   of all n heads, then the keys of `keys` heads, then their values. */
int32_t lx_cpu_qkv_columns(int64_t n, int64_t keys, int64_t d_key, int64_t d_value,
                           lx_cpu_range heads, lx_cpu_range *groups);

#endif
