/*
 * The operations a linear transformer needs, as one small table with several back ends behind it.
 *
 *   reference  plain C, double sums, one thread: the oracle every other back end is tested against
 *   cpu        vectorised and multi-threaded
 *   cuda       an NVIDIA GPU; a library of its own, loaded when it is asked for
 *
 * A step of a model is: begin(batch), a fixed sequence of operations, end(), sync(). Operations
 * only *queue* work; a back end may run them at once, record them and let every thread carry its
 * own sequences through the whole step, or replay a captured graph. Results (samples, downloads)
 * are valid after sync().
 *
 * Steps happen in the order of their end(). One may begin before those that ended have been synced,
 * and take as input what they will have drawn: see lx_drawn_id.
 *
 * A batch is ragged: sequence i owns the token rows seq_start[i] .. seq_start[i+1]-1 and the state
 * in slot[i]. Prefill and decode are the same call; decode is a sequence of one row.
 *
 * Laws, bit for bit on a given back end and instruction set, tested in tests/conformance:
 *   - prefill(T) = prefill(a) then prefill(b), a + b = T = T single steps
 *   - a sequence's result does not depend on its neighbours, the batch size or the thread count
 *   - a zeroed slot behaves like a fresh one
 *   - an id that stands for a drawn token gives what that token gives
 *   - every output element of the batch's rows is written; nothing else is
 *
 * Letters: N sequences, T token rows, H heads, D key size, M value size, V head size.
 * All activations are f32, row-major, one row a token. States are f32 always.
 *
 * Thread: one thread between begin and end of a step. Two engines may share a back end: begin()
 * waits until the other's step has ended. Everything that creates or frees is not thread-safe with
 * respect to the object, but may run while another object is in use.
 */
#ifndef LINNET_KERNELS_KERNELS_H
#define LINNET_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lx_kernels lx_kernels; /* the table */
typedef struct lx_array lx_array;     /* f32 elements in the device's memory */
typedef struct lx_matrix lx_matrix;   /* prepared weights of one `linear`, with its bias */
typedef struct lx_table lx_table;     /* an embedding table */
typedef struct lx_states lx_states;   /* the recurrent states of all slots */
typedef struct lx_mask lx_mask;       /* a fixed set of token ids that may not be sampled */

/* An opened back end. Every back end's own structure begins with this. */
typedef struct lx_backend {
    const lx_kernels *ops;
} lx_backend;

typedef enum lx_dtype { LX_F32, LX_BF16, LX_F16 } lx_dtype;
typedef enum lx_activation { LX_ACT_NONE, LX_ACT_RELU, LX_ACT_GELU /* erf form */ } lx_activation;
typedef enum lx_feature_map { LX_PHI_ELU1 /* elu(x) + 1 */ } lx_feature_map;

/*
 * The instruction set of the cpu back end. LX_ISA_AUTO takes the best the processor has for the
 * precision.
 *
 *   plain, avx2, avx512    every precision, the same bits
 *   avx512bf16             auto only: rounds activations to bf16, bits of its own
 *   avx512vnni             int8 only: the bits of the first three
 *   amx                    auto: bf16 on tiles, bits of its own; int8: the bits of the first three
 *   amxplain               the bits of amx in plain C, slowly: never chosen by auto
 */
typedef enum lx_isa {
    LX_ISA_AUTO,
    LX_ISA_PLAIN,
    LX_ISA_AVX2,
    LX_ISA_AVX512,
    LX_ISA_AVX512_BF16,
    LX_ISA_AVX512_VNNI,
    LX_ISA_AMX,
    LX_ISA_AMX_PLAIN
} lx_isa;

/* As in options and descriptions, "auto" to "amxplain"; NULL behind the last. Static; any thread.
 */
const char *lx_isa_name(lx_isa isa);

/*
 * How the factors enter a product. Everything else is f32 always, states too.
 *
 * INT8 (cpu only): weights w are stored as whole numbers p of -127 .. 127 times a scale a row of W,
 * s = max |w| / 127, p = w / s rounded to nearest, ties to even. Of an activation, every 256
 * inputs that follow each other have their own scale t = max |x| / 127, n = x / t rounded likewise;
 * y = b + sum over these chunks of (s t) (sum of p n), the inner sum in whole numbers, exactly.
 */
typedef enum lx_precision {
    LX_PRECISION_F32,  /* as they are: the exact path */
    LX_PRECISION_AUTO, /* rounded to bf16 where the processor multiplies bf16, otherwise F32 */
    LX_PRECISION_INT8
} lx_precision;

typedef struct lx_backend_options {
    int32_t n_threads; /* 1 .. 256; the calling thread is one of them */
    lx_isa isa;
    lx_precision precision;
} lx_backend_options;

/*
 * Opens a back end by name: "reference", "cpu", "cuda" or "cuda:N" for device N. LX_ERR_UNSUPPORTED
 * for another name and for what this machine lacks: an instruction set, or CUDA's library, driver
 * or device. Close with be->ops->close(be).
 */
lx_status lx_backend_open(const char *name, const lx_backend_options *options, lx_backend **out,
                          lx_error *err) LX_MUST_USE;

/*
 * Opens what `device` says: "cpu", "cuda", "cuda:N" or "auto": cuda where its library, driver and
 * device are there and no isa is asked for, else cpu. `why` receives one line for the log: what was
 * chosen and why. A device that is there and fails is an error, not a reason for the other one.
 */
lx_status lx_backend_choose(const char *device, const lx_backend_options *options, lx_backend **out,
                            char *why, size_t size, lx_error *err) LX_MUST_USE;

/* A matrix on the host, as it lies in a weights file: row-major [rows, cols]. */
typedef struct lx_host_tensor {
    lx_dtype dtype;
    int64_t rows, cols; /* a vector has rows = 1 */
    const void *data;   /* borrowed during the call; need not be aligned */
} lx_host_tensor;

/*
 * The size of a slot's state. An attention kind has a part that never grows and one that grows with
 * every token (0 for linear attention; a softmax cache has only this one).
 */
typedef struct lx_state_layout {
    int64_t fixed_floats;   /* a slot */
    int64_t growing_floats; /* a slot and token */
    int64_t max_tokens;     /* 0 when growing_floats is 0 */
} lx_state_layout;

/* Borrowed by the back end from begin() until the sync() of its step has returned. */
typedef struct lx_batch {
    int32_t n_tokens; /* T >= 1 */
    int32_t n_seqs;   /* N >= 1 */
    /* [N + 1], ascending, seq_start[0] = 0, seq_start[N] = T, none empty */
    const int32_t *seq_start;
    const int32_t *slot;       /* [N], distinct */
    int32_t n_outputs;         /* rows that go through the head: 0 .. T */
    const int32_t *output_row; /* [n_outputs], strictly ascending token rows */
} lx_batch;

/* Which rows an operation works on: the batch's token rows or its output rows. */
typedef enum lx_rows { LX_ROWS_TOKENS, LX_ROWS_OUTPUTS } lx_rows;

/*
 * Beside each slot lie the last tokens that were drawn in it: the token of a sequence's last output
 * row is kept in place `step % LX_DRAWN` of its slot, `step` being that of its lx_sampling. An id
 * that lx_drawn_id made stands for the token in that place of the row's own slot when the step
 * happens; a token that the table has not (-1: nothing could be drawn) counts as id 0. So a step
 * can be started while nobody knows yet what the steps before it have drawn. These tokens are no
 * part of the state: zeroing, copying, exporting and importing leave them as they are.
 */
#define LX_DRAWN 4

static inline int32_t lx_drawn_id(int32_t step)
{
    return INT32_MIN + step % LX_DRAWN;
}

static inline bool lx_is_drawn_id(int32_t id)
{
    return id < INT32_MIN + LX_DRAWN;
}

/* y[r] = sum_j tables[j][ids[r * n_tables + j]]          y [T, d] */
typedef struct lx_embed_args {
    lx_array *y;
    int32_t n_tables;
    const lx_table *const *tables; /* [n_tables], all of the same width; borrowed until sync() */
    /* [T, n_tables], host, each within its table or of lx_drawn_id; borrowed likewise */
    const int32_t *ids;
    const lx_states *states; /* whose drawn tokens are meant; NULL: no id is one */
} lx_embed_args;

/* y[r] = act(W x[r] + b) + residual[r]               x [rows, cols of W], y [rows, rows of W] */
typedef struct lx_linear_args {
    lx_array *y;
    const lx_array *x; /* not y */
    const lx_matrix *w;
    lx_activation activation;
    const lx_array *residual; /* NULL for none; may be y */
    lx_rows rows;
} lx_linear_args;

/* LayerNorm: y[r] = (x[r] - mean) / sqrt(var + eps) * gamma + beta; y may be x */
typedef struct lx_norm_args {
    lx_array *y;
    const lx_array *x;
    const lx_array *gamma, *beta; /* [d] */
    int32_t d;
    float eps;
    lx_rows rows;
} lx_norm_args;

/*
 * Causal linear attention, recurrent form (Katharopoulos et al. 2020, eq. 16-20), for every token
 * of every sequence in order and every head:
 *     s += phi(k) v^T      s: D x M
 *     z += phi(k)          z: D
 *     y  = phi(q)^T s / (phi(q)^T z + eps)
 * The state of head h begins at offset + h * (D * M + D) floats of the slot: s row-major, then z.
 */
typedef struct lx_attend_linear_args {
    lx_array *y;         /* [T, H * M] */
    const lx_array *qkv; /* [T, H*D | H*D | H*M], feature map not yet applied */
    lx_states *states;
    int64_t offset; /* where this layer's part of a slot begins, in floats */
    int32_t n_heads, d_key, d_value;
    lx_feature_map feature_map;
    float eps;
} lx_attend_linear_args;

/* y[i] = x[output_row[i]]                                y [n_outputs, d] */
typedef struct lx_gather_args {
    lx_array *y;
    const lx_array *x;
    int32_t d;
} lx_gather_args;

/* What is added to one id's logit before it is sampled. */
typedef struct lx_bias {
    int32_t id;
    float add; /* finite, not beyond LX_MAX_BIAS either way */
} lx_bias;

#define LX_MAX_BIAS 10000.0f
#define LX_MAX_TOP 20 /* ids that are reported beside the sampled one */

/*
 * How one output row is sampled. Of the ids allowed (not in `mask`, not in `banned`), with b the
 * logits with `biases` added (in f32) and l = b / temperature:
 *   forced >= 0        that id, whatever else is said here (scoring)
 *   temperature == 0   the largest b, the lowest id among equals
 *   otherwise          sort by l descending, equals by id; keep the first top_k (0: all); of those
 *                      the shortest prefix whose share of them reaches top_p (>= 1: all, at least
 *                      one id); with u = lx_uniform(seed, sample, step, 0), the first id in this
 *                      order whose cumulative probability within the kept ids exceeds u.
 *                      With top_k = 0 and top_p >= 1 nothing is sorted: the order is that of ids.
 */
typedef struct lx_sampling {
    uint64_t seed;
    uint32_t sample, step;
    float temperature;   /* >= 0 */
    float top_p;         /* > 0 */
    int32_t top_k;       /* >= 0 */
    int32_t forced;      /* -1 for none */
    const lx_mask *mask; /* NULL for none */
    int32_t n_banned;
    const int32_t *banned; /* [n_banned], host, any order, may repeat; borrowed until sync() */
    int32_t n_biases;
    const lx_bias *biases; /* [n_biases], host, ids strictly ascending; borrowed until sync() */
    int32_t n_top;         /* 0 .. LX_MAX_TOP, not more than there are ids */
    /* [n_top], host, written by sync(): the ids with the largest logits, equals by id, with the
       same log-probabilities as lx_sample has; all -1 and NAN when that has no token */
    struct lx_sample *top;
} lx_sampling;

typedef struct lx_sample {
    int32_t token; /* -1 when no id was allowed or a logit is not finite */
    /* log softmax(logits)[token], before bias, temperature, mask and cuts; NAN with -1 */
    float logprob;
} lx_sample;

typedef struct lx_sample_args {
    const lx_array *logits; /* [n_outputs, n_ids] */
    int32_t n_ids;
    const lx_sampling *rows; /* [n_outputs], host; borrowed until sync() */
    lx_sample *out;          /* [n_outputs], host; written by sync() */
    lx_states *states;       /* where the tokens are kept (lx_drawn_id); NULL: nowhere */
} lx_sample_args;

/*
 * The other head: a mixture of K logistics over L levels (Salimans et al. 2017). A row has K
 * mixture logits, K means and K log scales. In units of levels, component k has
 *     m = (mean + 1) (L - 1) / 2
 *     r = 2 / (L - 1) exp(-max(log_scale, -7))
 *     a = (v + 1/2 - m) r
 *     b = (v - 1/2 - m) r = a - r
 *     P_k(v) = sigma(a) - sigma(b) = sigma(a) sigma(-b) (1 - exp(-r))
 *     P_k(0) = sigma(a)
 *     P_k(L - 1) = sigma(-b)
 * and P(v) = sum_k softmax(logits)_k P_k(v). The product form loses no digits, and neighbours share
 * an edge exactly, so the levels' sum is 1.
 *
 * Of lx_sampling, forced, temperature, seed, sample and step count; the rest is not looked at:
 *   forced >= 0        that level
 *   temperature == 0   the mean of the likeliest component (the first among equals), rounded
 *   otherwise          the first k whose cumulative softmax(logits / temperature) exceeds
 *                      lx_uniform(.., 0); with u = lx_uniform(.., 1) kept within 2^-24 and
 *                      1 - 2^-24, x = m + temperature / r (log u - log(1 - u)), rounded
 * Rounding is floor(x + 1/2), kept within 0 .. L - 1. The log-probability is log P(v), whatever the
 * temperature, and never below the least finite f32; token -1 and NAN when a parameter is not
 * finite.
 */
#define LX_MIXTURE_MIN_LOG_SCALE (-7.0f)
#define LX_MIXTURE_MAX_COMPONENTS 64
#define LX_MIXTURE_MAX_LEVELS 65536

typedef struct lx_sample_mixture_args {
    const lx_array *parameters; /* [n_outputs, 3 K] */
    int32_t n_components;       /* K, 1 .. LX_MIXTURE_MAX_COMPONENTS */
    int32_t n_levels;           /* L, 2 .. LX_MIXTURE_MAX_LEVELS */
    const lx_sampling *rows;    /* [n_outputs], host; borrowed until sync() */
    lx_sample *out;             /* [n_outputs], host; written by sync() */
    lx_states *states;          /* as of lx_sample_args */
} lx_sample_mixture_args;

struct lx_kernels {
    const char *name;
    /* Frees the back end; all its objects must be gone. NULL is allowed. */
    void (*close)(lx_backend *be);
    /* One line for logs: instruction set, threads. */
    void (*describe)(const lx_backend *be, char *text, size_t size);
    /* Bytes of its own memory that are free now. NULL: its memory is the process's. */
    lx_status (*memory)(lx_backend *be, int64_t *free_bytes, lx_error *err);

    /* --- objects: each *_free accepts NULL; *_new sets *out only on LX_OK --- */
    lx_status (*array_new)(lx_backend *be, int64_t n_floats, lx_array **out, lx_error *err);
    void (*array_free)(lx_backend *be, lx_array *a);
    /* Copies n floats between host and elements offset .. offset + n - 1; outside a step. */
    lx_status (*array_upload)(lx_backend *be, lx_array *a, int64_t offset, const float *src,
                              int64_t n);
    lx_status (*array_download)(lx_backend *be, const lx_array *a, int64_t offset, float *dst,
                                int64_t n);

    /* Packs weights [rows = outputs, cols = inputs] for `linear`; bias [rows] may be NULL. */
    lx_status (*matrix_new)(lx_backend *be, const lx_host_tensor *w, const float *bias,
                            lx_matrix **out, lx_error *err);
    void (*matrix_free)(lx_backend *be, lx_matrix *w);

    lx_status (*table_new)(lx_backend *be, const lx_host_tensor *t, lx_table **out, lx_error *err);
    void (*table_free)(lx_backend *be, lx_table *t);

    /* banned[i] != 0: id i may not be sampled. */
    lx_status (*mask_new)(lx_backend *be, const uint8_t *banned, int32_t n_ids, lx_mask **out,
                          lx_error *err);
    void (*mask_free)(lx_backend *be, lx_mask *m);

    /* --- states: all slots are zero at first; the calls below run outside a step, after all steps
       that have ended, synced or not --- */
    lx_status (*states_new)(lx_backend *be, const lx_state_layout *layout, int32_t n_slots,
                            lx_states **out, lx_error *err);
    void (*states_free)(lx_backend *be, lx_states *s);
    lx_status (*state_zero)(lx_backend *be, lx_states *s, int32_t slot);
    lx_status (*state_copy)(lx_backend *be, lx_states *s, int32_t to, int32_t from);
    /* The state as fixed_floats f32 in the layout described at lx_attend_linear_args. */
    lx_status (*state_export)(lx_backend *be, const lx_states *s, int32_t slot, float *dst);
    lx_status (*state_import)(lx_backend *be, lx_states *s, int32_t slot, const float *src);

    /* --- a step ------------------------------------------------------------------------------- */
    lx_status (*begin)(lx_backend *be, const lx_batch *batch, lx_error *err);
    void (*embed)(lx_backend *be, const lx_embed_args *args);
    void (*linear)(lx_backend *be, const lx_linear_args *args);
    void (*norm)(lx_backend *be, const lx_norm_args *args);
    void (*attend_linear)(lx_backend *be, const lx_attend_linear_args *args);
    void (*gather)(lx_backend *be, const lx_gather_args *args);
    void (*sample)(lx_backend *be, const lx_sample_args *args);
    void (*sample_mixture)(lx_backend *be, const lx_sample_mixture_args *args);
    /* end() starts the step and says its number; sync() waits for that step and those before it. A
       back end has room for several steps that ended and were not synced; begin() of one too many
       waits for the oldest. After LX_ERR_DEVICE every state is undefined. */
    lx_status (*end)(lx_backend *be, uint64_t *step, lx_error *err);
    lx_status (*sync)(lx_backend *be, uint64_t step, lx_error *err);
    /* In place of end(): the step does not happen, but what it would allocate is there from then
       on, for all that are not larger; of decoding steps (one row and one output a sequence), for
       those of its size: step_size() says up to how many sequences they are of the size that n
       have. Both NULL where nothing is worth it. */
    lx_status (*prepare)(lx_backend *be, lx_error *err);
    int32_t (*step_size)(int32_t n);
};

/* bf16 and f16 to f32, exact. */
float lx_bf16_to_f32(uint16_t x);
float lx_f16_to_f32(uint16_t x);
/* Element i of a host tensor as f32. */
float lx_host_tensor_at(const lx_host_tensor *t, int64_t i);

#ifdef __cplusplus
}
#endif
#endif
