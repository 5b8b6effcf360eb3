/* The cpu back end's insides, shared by its files only. See backend.c and program.c. */
#ifndef LINNET_KERNELS_CPU_CPU_H
#define LINNET_KERNELS_CPU_CPU_H

#include "kernels/cpu/gate.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/pool.h"
#include "kernels/host.h"

typedef enum lx_cpu_kind {
    LX_CPU_EMBED,
    LX_CPU_LINEAR,
    LX_CPU_NORM,
    LX_CPU_ATTEND_LINEAR,
    LX_CPU_GATHER,
    LX_CPU_SAMPLE,
    LX_CPU_SAMPLE_MIXTURE
} lx_cpu_kind;

/* A recorded operation. */
typedef struct lx_cpu_op {
    lx_cpu_kind kind;
    bool fence; /* everything before must be finished, for all rows */
    union {
        lx_embed_args embed;
        lx_linear_args linear;
        lx_norm_args norm;
        lx_attend_linear_args attend_linear;
        lx_gather_args gather;
        lx_sample_args sample;
        lx_sample_mixture_args sample_mixture;
    };
} lx_cpu_op;

/* A piece of work: some sequences with their rows, and of those a share of the work.
 */
typedef struct lx_cpu_part {
    int32_t seq0, seq1;
    int32_t row0, row1; /* token rows of these sequences */
    int32_t out0, out1; /* output rows of these sequences */
    int32_t share, n_shares;
} lx_cpu_part;

/* What piece i of a phase is. */
typedef enum lx_cpu_cut {
    LX_CPU_BY_SEQUENCES, /* groups[i], through all operations */
    LX_CPU_BY_SHARES,    /* share i of the one operation; a piece that is alone takes several */
    LX_CPU_BY_HEADS      /* some heads: their queries, keys and values, then attend */
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
    bool own_norm; /* the first is a norm which every piece computes for itself */
} lx_cpu_phase;

/*
 * The pieces of a phase are dealt out in ranges, one a thread, so that a thread finds its own in
 * its caches and can ask for them ahead; what a thread has not begun another one may take. `taken`
 * says of the latest phase in which somebody took from the range (its number above) which piece
 * comes next (below).
 */
typedef struct lx_cpu_claims {
    _Alignas(64) atomic_uint_fast64_t taken;
} lx_cpu_claims;

#define LX_CPU_ROUNDS 64   /* groups of sequences a thread, at most */
#define LX_CPU_OWN_NORMS 4 /* rows that every piece may norm for itself, at most */

typedef struct lx_cpu {
    lx_backend base;
    const lx_cpu_isa *isa;
    lx_precision precision;
    int32_t n_threads;
    lx_cpu_pool *pool;
    lx_turn turn; /* held from begin to end */

    /* the step that is being recorded or run */
    lx_host_seen seen;
    const lx_batch *batch;
    uint64_t step;
    lx_status failed; /* the first error; end() returns it and nothing of the step runs */
    lx_error error;
    lx_cpu_op *ops;
    int32_t n_ops, ops_capacity;
    lx_cpu_phase *phases; /* [ops_capacity] */
    int32_t n_phases;
    lx_cpu_claims *claims; /* [n_threads] */
    lx_cpu_part *groups;   /* [LX_CPU_ROUNDS * n_threads] */
    lx_cpu_gate finished;  /* steps once a phase */
    bool has_gate;
    unsigned finished_before; /* its value when the step began */

    float *scratch; /* [n_threads, scratch_floats] */
    int64_t scratch_floats, scratch_wanted;
} lx_cpu;

/* begin .. end of lx_kernels (program.c) */
lx_status lx_cpu_begin(lx_backend *be, const lx_batch *batch, lx_error *err);
void lx_cpu_embed(lx_backend *be, const lx_embed_args *args);
void lx_cpu_linear_op(lx_backend *be, const lx_linear_args *args);
void lx_cpu_norm(lx_backend *be, const lx_norm_args *args);
void lx_cpu_attend_linear(lx_backend *be, const lx_attend_linear_args *args);
void lx_cpu_gather(lx_backend *be, const lx_gather_args *args);
void lx_cpu_sample(lx_backend *be, const lx_sample_args *args);
void lx_cpu_sample_mixture(lx_backend *be, const lx_sample_mixture_args *args);
lx_status lx_cpu_end(lx_backend *be, uint64_t *step, lx_error *err);
lx_status lx_cpu_sync(lx_backend *be, uint64_t step, lx_error *err);

/* Cuts the recorded step into phases and pieces (plan.c). */
void lx_cpu_plan(lx_cpu *c);
lx_cpu_part lx_cpu_piece(const lx_cpu *c, const lx_cpu_phase *phase, int32_t piece);

/* Carries out a piece of a phase, with scratch of this thread (run.c). */
void lx_cpu_run_piece(const lx_cpu *c, const lx_cpu_phase *phase, int32_t piece, float *scratch);
/* Asks for what a piece of a phase reads first, to be near when its turn comes. */
void lx_cpu_ask_ahead(const lx_cpu *c, const lx_cpu_phase *phase, int32_t piece);
/* Floats of it for an operation; of a `linear`, with a norm before it. */
int64_t lx_cpu_linear_op_scratch(int64_t cols);

/* One output row; scratch holds lx_cpu_sample_scratch(n_ids) floats (sample.c). */
lx_sample lx_cpu_sample_row(const lx_cpu_isa *isa, const lx_sampling *s, const float *logits,
                            int32_t n_ids, float *scratch);
int64_t lx_cpu_sample_scratch(int32_t n_ids);

/* Likewise of a mixture of n logistics, parameters [3 n]; scratch: LX_CPU_MIXTURE (mixture.c). */
lx_sample lx_cpu_mixture_row(const lx_cpu_isa *isa, const lx_sampling *s, const float *parameters,
                             int32_t n, int32_t levels, float *scratch);

/* The inner loops for these options (choose.c). */
lx_status lx_cpu_choose(const lx_backend_options *options, const lx_cpu_isa **out, lx_error *err);

/* Weights in the order described in isa.h (pack.c). */
lx_status lx_cpu_matrix_new(lx_backend *be, const lx_host_tensor *t, const float *bias,
                            lx_matrix **out, lx_error *err);
void lx_cpu_matrix_free(lx_backend *be, lx_matrix *w);

#endif
