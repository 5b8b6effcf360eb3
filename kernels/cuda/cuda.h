/* The cuda back end's insides, shared by its C files only. See backend.c and program.c. */
#ifndef LINNET_KERNELS_CUDA_CUDA_H
#define LINNET_KERNELS_CUDA_CUDA_H

#include <stdatomic.h>
#include <string.h>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/product.h"
#include "kernels/op.h"

/*
 * Memory for the inputs, or the results, of steps. The host's is pinned and has a part per step
 * under way; the device's has one part, since steps follow each other there. A step's inputs are
 * written here while it is recorded, and copied in one piece when it starts. Places in it are
 * offsets, since it may move.
 */
typedef struct lx_cuda_arena {
    unsigned char *all;    /* pinned, [LX_CUDA_STEPS, capacity] */
    unsigned char *host;   /* the part of the step that is recorded */
    unsigned char *device; /* [capacity] */
    size_t used, capacity;
} lx_cuda_arena;

/* Device memory that holds nothing between steps. */
typedef struct lx_cuda_scratch {
    void *data;
    size_t wanted, capacity;
} lx_cuda_scratch;

typedef struct lx_cuda lx_cuda;
typedef struct lx_cuda_op lx_cuda_op;

#define LX_CUDA_KEY_WORDS 32 /* of an operation's key */

/* How an operation writes the rows of its output. */
typedef enum lx_cuda_writing {
    LX_CUDA_SOME,    /* it also reads them, or leaves some elements unchanged */
    LX_CUDA_WHOLE,   /* it writes every element and reads none */
    LX_CUDA_ROUNDED, /* as WHOLE; it can also write them rounded to bf16, in addition or alone */
} lx_cuda_writing;

/* How the cuda back end carries out an operation. */
typedef struct lx_cuda_kind {
    const lx_op *op;
    /* Copies the operation's inputs from the host, and asks for scratch. NULL: neither. */
    lx_status (*record)(lx_cuda *c, lx_cuda_op *op);
    /* Everything that decides about the launches, in at most LX_CUDA_KEY_WORDS - 1 numbers
       (graph.c). */
    void (*key)(const lx_cuda_op *op, uint64_t *words);
    /* Queues its kernels on c->target; allocates nothing and does not wait. */
    lx_status (*run)(lx_cuda *c, const lx_cuda_op *op);
    /* NULL: LX_CUDA_SOME. */
    lx_cuda_writing (*writes)(const void *args);
    /* Whether it takes its main input rounded, without padding. NULL: no. */
    bool (*takes_rounded)(const void *args);
} lx_cuda_kind;

#define LX_DEFINE_CUDA(NAME, ...)                                                                  \
    const lx_cuda_kind lx_cuda_op_##NAME = {.op = &lx_op_##NAME, __VA_ARGS__}

#define LX_OP_HOST(name)
#define LX_OP(name) extern const lx_cuda_kind lx_cuda_op_##name;
#include "kernels/ops.def"

/* A recorded operation; `in`, `more` and `biases` are offsets in the inputs, `out` and `top` in the
   results. */
struct lx_cuda_op {
    const lx_cuda_kind *kind;
    size_t in, more, biases, out, top;
    lx_op_args args;
    lx_uses uses;
    bool rounds; /* run.c: only products read its results, so its array holds them rounded */
    bool takes;  /* run.c: the array of its main input holds rounded values */
};

/* The operations of larger steps are launched one by one. The host launches faster than the device
 * computes, and a bucket's unused rows would cost more than a graph saves. */
#define LX_CUDA_MOST_CAPTURED 1024

/* A captured step: its key, which describes the recorded operations, and its graph (graph.c). */
typedef struct lx_cuda_graph {
    cudaGraphExec_t exec; /* NULL: the step cannot be captured */
    uint64_t *key;        /* [n_key], owned */
    size_t n_key;
    uint64_t last_use;
} lx_cuda_graph;

/* An engine of 10,000 slots has some fifty (two per bucket), and a model that replaces another has
   its own. */
#define LX_CUDA_MAX_GRAPHS 256

/* Addresses that were freed since the last search through the graphs. */
#define LX_CUDA_MOST_FREED 4096
typedef struct lx_cuda_freed {
    pthread_mutex_t lock;
    uint64_t at[LX_CUDA_MOST_FREED];
    int32_t n;
    bool too_many; /* `at` is full: then all graphs are dropped */
} lx_cuda_freed;

#define LX_CUDA_STEPS 8     /* under way at most: ended, their results not handed out */
#define LX_CUDA_MAX_DRAWS 8 /* sampling operations of a step */

/* The results of one sampling operation, for sync() to hand out. */
typedef struct lx_cuda_draw {
    lx_sample *out;
    const lx_sampling *rows; /* NULL: there are no top ids */
    size_t at, top;          /* in the results */
} lx_cuda_draw;

/* A step that is recorded or under way. */
typedef struct lx_cuda_frame {
    cudaEvent_t done;
    const unsigned char *results; /* in pinned memory */
    int32_t n_outputs, n_draws;
    lx_cuda_draw draws[LX_CUDA_MAX_DRAWS];
} lx_cuda_frame;

struct lx_cuda {
    lx_backend base;
    int32_t device;
    bool exact; /* precision f32: no product rounds its inputs */
    bool own;   /* no product is the library's */
    cudaStream_t stream;
    cudaStream_t capture;    /* steps are captured here: copies of other threads go to `stream` */
    cudaStream_t moves;      /* states to and from the host, while steps run in `stream` */
    cudaEvent_t settled;     /* in `stream`, after all states that were zeroed, mapped or copied */
    cudaStream_t target;     /* where run.c queues: one of these two */
    const lx_cuda_op *ready; /* run.c: the product whose inputs `rounded` holds */
    bool is_ready;           /* run.c: the operation that runs has its main input rounded */
    lx_cuda_blas *blas;      /* NULL: exact or own */
    lx_turn turn;            /* held from begin to end, and while results are handed out */
    char about[64];

    pthread_mutex_t lost_lock;
    bool lost; /* the first failure of the device; nothing works after it */
    lx_error lost_error;

    /* the results of steps up to n_finished are handed out; steps up to n_ended are started */
    lx_cuda_frame frames[LX_CUDA_STEPS]; /* step i has number i % LX_CUDA_STEPS */
    uint64_t n_ended;
    _Atomic uint64_t n_finished; /* threads that move states look at it without the turn */

    /* the step that is being recorded */
    lx_cuda_frame *frame;
    lx_batch_seen seen;
    const lx_batch *batch;
    int32_t n_tokens, n_seqs, n_outputs;
    lx_cuda_live
        bucket;    /* rows that launches cover; equal to the three where nothing is captured */
    bool captured; /* the step is one of single rows, and runs as a graph */
    size_t seq_start, slot, output_row, position; /* in the inputs */
    size_t branch, branch_row;                    /* in the inputs, if batch->branch is not NULL */
    lx_status failed; /* the first error; end() returns it and starts nothing */
    lx_error error;
    lx_cuda_op *ops;
    int32_t n_ops, ops_capacity;
    lx_cuda_arena inputs, results;
    lx_cuda_scratch rounded, product, bits;
    lx_cuda_graph graphs[LX_CUDA_MAX_GRAPHS];
    int32_t n_graphs;
    uint64_t n_steps;                    /* that ran as graphs */
    _Atomic int64_t n_captured, n_plain; /* steps that became graphs so far, and that could not */
    lx_cuda_freed freed;
    uint64_t *key; /* [key_capacity], of the step that is being started */
    size_t n_key, key_capacity;
};

typedef struct lx_cuda_array {
    lx_array base;
    int64_t
        room; /* of rows_new: floats that a launch may write, more than there are rows; else 0 */
} lx_cuda_array;

static inline int64_t lx_cuda_room(const lx_array *a)
{
    return ((const lx_cuda_array *)a)->room;
}

typedef struct lx_cuda_states {
    lx_states base;
    int32_t *pages;      /* the device's copy of base.pages */
    uint64_t *last_step; /* [n_slots], the last step that had a row of the slot */
    bool *changed;       /* [n_slots], the slot was zeroed, mapped or copied after that step */
} lx_cuda_states;

static inline const lx_cuda_states *lx_cuda_states_of(const lx_states *s)
{
    return (const lx_cuda_states *)s;
}

/* A matrix is packed for one of two products. */
struct lx_matrix {
    lx_matrix_shape shape;
    float *bias;   /* [padded_rows], zeros for padding and when there is none */
    float *w;      /* exact: [rows, cols]; else NULL */
    uint16_t *w16; /* bf16: [padded_rows, padded_cols], zeros outside */
    int32_t padded_rows, padded_cols;
    lx_cuda_product *plan; /* NULL: exact, or of our own kernel */
};

/* device.c */
/* Marks the device as lost, after a failed call of the runtime. Returns LX_ERR_DEVICE. */
lx_status lx_cuda_lose(lx_cuda *c, cudaError_t error, const char *what, lx_error *err);
/* LX_OK when the call `what` gave no error, else as lx_cuda_lose. */
lx_status lx_cuda_check(lx_cuda *c, cudaError_t e, const char *what, lx_error *err);
/* Makes the device this thread's device; an error if it is lost. */
lx_status lx_cuda_use(lx_cuda *c, lx_error *err);
static inline size_t lx_cuda_floats(int64_t n) /* in bytes */
{
    return (size_t)n * sizeof(float);
}
/* Zeroed memory of the device, since results are copied with the gaps between them, and the library
   reads further rows. Waits, because the memory may be freed before other work is queued. `what`
   names its purpose in an error. */
cudaError_t lx_cuda_zeros(const lx_cuda *c, size_t n_bytes, void **out);
lx_status lx_cuda_device_new(lx_cuda *c, size_t n_bytes, const char *what, void **out,
                             lx_error *err);
void lx_cuda_device_free(lx_cuda *c, void *p); /* NULL is allowed */
/* Device memory with a copy of these bytes of the host. `*out` may be set even after an error. */
lx_status lx_cuda_device_put(lx_cuda *c, const void *from, size_t n_bytes, const char *what,
                             void **out, lx_error *err);
/* Waits until the copy is done. */
lx_status lx_cuda_copy(lx_cuda *c, void *to, const void *from, size_t n_bytes,
                       enum cudaMemcpyKind kind, lx_error *err);

/* freed.c */
/* Any thread calls it before it frees an object at p. The next lx_cuda_graph_get drops the graphs
   whose keys name the address. */
void lx_cuda_freed_add(lx_cuda *c, const void *p);
/* Whether there are addresses. No other thread adds one until end(), which forgets them. */
bool lx_cuda_freed_begin(lx_cuda_freed *f);
bool lx_cuda_freed_has(const lx_cuda_freed *f, const uint64_t *words, size_t n);
void lx_cuda_freed_end(lx_cuda_freed *f);

/* objects.c */
LX_OBJECTS(LX_DECLARE, lx_cuda) /* those of states: states.c */
LX_DECLARE(lx_cuda, matrix_new)
LX_DECLARE(lx_cuda, matrix_free)

/* states.c */
/* Notes that the step of this number, which is queued, has a row of each of the batch's slots. */
void lx_cuda_states_note(const lx_states *s, const lx_batch *b, uint64_t step);

/* program.c: begin .. prepare of lx_kernels */
LX_DECLARE(lx_cuda, begin)
void lx_cuda_record(lx_cuda *c, const lx_cuda_kind *kind, const void *args);
LX_DECLARE(lx_cuda, end)
LX_DECLARE(lx_cuda, prepare)

/* steps.c */
LX_DECLARE(lx_cuda, sync)
/* Waits for the steps up to that one and hands out their results. */
lx_status lx_cuda_finish_step(lx_cuda *c, uint64_t step, lx_error *err);
/* Finishes all steps under way, so that their memory may be replaced. */
lx_status lx_cuda_finish_all(lx_cuda *c, lx_error *err);

/* graph.c */
/* The smallest of 1, 2, 3, 4, 6, 8, 12, 16, .. that holds n. */
static inline int32_t lx_cuda_bucket(int32_t n)
{
    int32_t power = 1;
    while (power < n && power < 1 << 30)
        power *= 2;
    return power >= 4 && power / 4 * 3 >= n ? power / 4 * 3 : power;
}
LX_DECLARE(lx_cuda, step_size)
/* The graph of the recorded operations, captured when it is new. */
lx_status lx_cuda_graph_get(lx_cuda *c, lx_cuda_graph **out);
lx_status lx_cuda_graph_run(lx_cuda *c);
void lx_cuda_graphs_drop(lx_cuda *c);

/* Numbers of a key (graph.c). */
static inline uint64_t lx_cuda_key_address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}
static inline uint64_t lx_cuda_key_pair(int64_t a, int64_t b) /* two that are not negative */
{
    return (uint64_t)a << 32 | (uint64_t)b;
}
uint64_t lx_cuda_key_float(float f);
/* In LX_CUDA_KEY: the numbers of columns. */
#define LX_CUDA_KEY_COLUMNS(c)                                                                     \
    lx_cuda_key_address((c).array), lx_cuda_key_pair((c).width, (c).first)
/* For `key`: writes these numbers to w. */
#define LX_CUDA_KEY(w, ...)                                                                        \
    memcpy(w, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}))

/* run.c: queues the recorded operations on a stream; the rest is for the `run` of operations. */
lx_status lx_cuda_run_ops(lx_cuda *c, cudaStream_t target);
/* The device's copy of the inputs from that place on. */
const void *lx_cuda_input(const lx_cuda *c, size_t at);
lx_cuda_branches lx_cuda_branches_of(const lx_cuda *c);
/* How many rows launches cover, and the device's address of the number that exists. */
int32_t lx_cuda_row_count(const lx_cuda *c, lx_rows rows);
const int32_t *lx_cuda_live_rows(const lx_cuda *c, lx_rows rows);
/* For the arguments of launches: sequences. */
#define LX_CUDA_SEQUENCES(c)                                                                       \
    .seq_start = lx_cuda_input(c, (c)->seq_start), .slot = lx_cuda_input(c, (c)->slot),            \
    .live = &((const lx_cuda_live *)lx_cuda_input(c, 0))->seqs, .n_seqs = (c)->bucket.seqs
/* The layer's part of the states. */
#define LX_CUDA_STATES(a) .states = (a)->states->data + (a)->offset, .stride = (a)->states->stride
/* Rows, columns of an array for a field of that name, and results (below). */
#define LX_CUDA_ROWS(c, which)                                                                     \
    .live = lx_cuda_live_rows(c, which), .rows = lx_cuda_row_count(c, which)
#define LX_CUDA_COLUMNS(name, columns)                                                             \
    .name = lx_columns_at(&(columns), 0, 0), .name##_width = (columns).width
#define LX_CUDA_RESULTS(to) .y = (to).f32, .twin = (to).rounded
/* The rows of a sampling operation (lx_cuda_put_rows), and the places of its results. */
#define LX_CUDA_DRAWS(c, op, a)                                                                    \
    .rows = lx_cuda_input(c, (op)->in), .out = (void *)((c)->results.device + (op)->out),          \
    .drawn = (a)->states != NULL ? (a)->states->drawn : NULL,                                      \
    .live = lx_cuda_live_rows(c, LX_ROWS_OUTPUTS), .n_rows = (c)->bucket.outputs
/* For `run`: launches the kernels of NAME with these arguments; `what` is for the error. */
#define LX_CUDA_LAUNCH_AS(c, NAME, what, ...)                                                      \
    lx_cuda_check(c, lx_cuda_launch_##NAME(&(lx_cuda_##NAME){__VA_ARGS__}, (c)->target), what,     \
                  &(c)->error)
#define LX_CUDA_LAUNCH(c, NAME, ...) LX_CUDA_LAUNCH_AS(c, NAME, #NAME, __VA_ARGS__)
/* Where an operation writes its results, all columns: in f32 (NULL: no), and rounded (NULL: no).
   The planner's rules in run.c decide. */
typedef struct lx_cuda_results {
    float *f32;
    uint16_t *rounded;
} lx_cuda_results;
lx_cuda_results lx_cuda_results_of(lx_cuda *c, const lx_cuda_op *op);
/* The rounded main input of the operation that runs; NULL: it is not rounded yet. */
const uint16_t *lx_cuda_rounded_input(const lx_cuda *c, const lx_cuda_op *op);
/* For `writes`, of an operation that can always round: LX_CUDA_ROUNDED. */
lx_cuda_writing lx_cuda_writes_rounded(const void *args);

/* draws.c: inputs and results of sampling operations. */
lx_status lx_cuda_put(lx_cuda *c, const void *data, size_t n_bytes, size_t room, size_t *at);
/* The lists of an operation's rows. */
typedef struct lx_cuda_lists {
    size_t banned, biases, top; /* entries of all rows */
    size_t allowed;             /* rows with a list of allowed ids */
    bool masks;
} lx_cuda_lists;
lx_status lx_cuda_put_rows(lx_cuda *c, lx_cuda_op *op, lx_cuda_lists *lists);
/* with_top: also hands out the rows' `top`, from op->top on. */
lx_status lx_cuda_note_draw(lx_cuda *c, const lx_cuda_op *op, bool with_top);

/* arena.c: memory that grows while a step is recorded, never while one runs. put() takes `room`
   bytes, at least n_bytes, and copies n_bytes of data to their beginning. */
void lx_cuda_arena_turn(lx_cuda_arena *a, uint64_t step); /* begins that step's part */
lx_status lx_cuda_arena_put(lx_cuda *c, lx_cuda_arena *a, const void *data, size_t n_bytes,
                            size_t room, size_t *at);
void lx_cuda_arena_fini(lx_cuda_arena *a);
void lx_cuda_scratch_want(lx_cuda_scratch *s, int64_t n_bytes);
lx_status lx_cuda_scratch_grow(lx_cuda *c, lx_cuda_scratch *s);

#endif
