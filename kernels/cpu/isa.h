/*
 * What the cpu back end asks of an instruction set: the inner loops, on plain pointers. All tables
 * are made from one text (body.h); what they give, and which give the same bits, is at lx_isa.
 * Thread: any; nothing here has state.
 */
#ifndef LINNET_KERNELS_CPU_ISA_H
#define LINNET_KERNELS_CPU_ISA_H

#include "kernels/host.h"
#include "kernels/row_ranges.h"

/*
 * Packed weights: outputs in groups of 32, each group contiguous and padded with zeros to 32,
 * inputs outermost within it. f32: [groups][cols][32]. bf16: [groups][(cols + 1) / 2][32] words
 * that hold inputs 2k (low half) and 2k + 1 (high half), so that a shift and a mask turn one load
 * into the f32 weights of two inputs. int8: [groups][(cols + 3) / 4][32] words of four inputs.
 * Of both the words of inputs are padded with zeros to a multiple of LX_CPU_TILE, so that tiles of
 * sixteen words read zeros behind the last.
 */
#define LX_CPU_GROUP 32
#define LX_CPU_TILE 16

typedef enum lx_cpu_format { LX_CPU_F32, LX_CPU_BF16, LX_CPU_INT8 } lx_cpu_format;

struct lx_matrix {
    lx_matrix_shape shape;
    int64_t groups;
    lx_cpu_format format;
    int64_t group_words; /* 4-byte words of one group */
    void *data;          /* words [groups, group_words] */
    size_t n_bytes;
    float *bias; /* [groups * 32], zeros behind the end and when there is none */
    /* int8 only: the scale of an output; where its sum over a chunk of inputs starts, because an
       activation n is stored as n + 128, that is, -128 times the sum of the chunk's weights */
    float *scales;   /* [groups * 32] */
    int32_t *starts; /* [groups][chunks][32] */
};

/* Rows row0 .. row1 - 1 of `linear`, for the outputs of groups group0 .. group1 - 1. */
typedef struct lx_cpu_linear {
    const lx_matrix *w;
    const float *x;
    const float *residual; /* NULL for none */
    float *y;
    lx_activation activation;
    int64_t row0, row1, group0, group1;
    float *scratch; /* lx_cpu_linear_scratch(cols) floats of this thread */
} lx_cpu_linear;

/* One head of one sequence: n_tokens rows, x_stride or y_stride floats apart. */
typedef struct lx_cpu_attend {
    const float *q, *k, *v;
    float *y;
    float *s, *z; /* the state: [d_key, d_value], [d_key] */
    /* the states this thread takes next, s and behind it z, and some heads later; or NULL */
    const float *next, *later;
    int64_t n_tokens, x_stride, y_stride;
    int32_t d_key, d_value;
    lx_feature_map feature_map;
    float eps;
    float *scratch; /* lx_cpu_attend_scratch(d_key) floats of this thread */
} lx_cpu_attend;

/* What a head reads of a row, from the first token's on. */
typedef struct lx_cpu_inputs {
    const float *at; /* NULL for none */
    int64_t stride;  /* floats from one token to the next */
} lx_cpu_inputs;

/* Columns of one head of one sequence; v, y and s begin at the first one. */
typedef struct lx_cpu_recurrence {
    lx_cpu_inputs q, k, v, w, a, b, beta;
    const float *bonus; /* NULL for none */
    float *y, *s;
    const float *next; /* where this thread's next columns begin, or NULL */
    int64_t n_tokens, y_stride;
    int32_t d_key, d_value, columns;
    lx_decay decay; /* not FIXED: that is HEAD with stride 0 */
    lx_correction correction;
    lx_read read;
    float scale, skip;
    float *scratch; /* d_key + 15 floats of this thread */
} lx_cpu_recurrence;

/* The same over kept rows; where they lie: in the op.h of the operation. */
typedef struct lx_cpu_attend_kept {
    const float *q, *k, *v;
    float *y;
    int64_t n_tokens, x_stride, y_stride;
    int32_t shared; /* heads of queries that read these rows, one behind the other in q and y */
    const lx_rows_pattern *pattern;
    int32_t position; /* of the first token */
    /* this head's tiles in the slot, `ring` of them, of which `kept` keep their place; or with
       ring 0 in page 0 of the pool, and which pages are the slot's */
    float *tiles;
    int32_t ring, kept;
    const int32_t *pages;
    int64_t page_stride;
    int64_t to_next_head; /* floats from a tile to the same one of the next head; 0: no such head */
    int32_t d_key, d_value;
    float scale;
    float divisor; /* of squares, and by_count; 0: softmax */
    bool by_count, leave_unseeing;
    /* see lx_rows_distances: all d_key rows of `keys`, the head's row of `weights`; or NULL */
    const float *distance_keys, *distance_weights;
    int32_t n_distances;
    bool zeros_before;
    bool together;  /* several tokens' rows may be kept before the first of them reads */
    float *scratch; /* lx_cpu_attend_kept_scratch(d_key, d_value) floats of this thread */
} lx_cpu_attend_kept;

/* One head of one sequence by buckets; where its rows lie: in the op.h of the operation. */
typedef struct lx_cpu_lsh {
    const float *qk, *v, *hashes;
    float *y, *last;
    float *rows; /* the head's in page 0 of the pool */
    const int32_t *pages;
    int64_t page_stride, row; /* floats from page to page, from token to token */
    int64_t n_tokens, x_stride, y_stride;
    int32_t position; /* of the first token */
    int32_t d_key, d_value, rounds, n_buckets, cap;
    float scale;
    float *scratch; /* lx_cpu_lsh_scratch() floats of this thread */
} lx_cpu_lsh;

/* One head of one whole sequence; hashes NULL: every token sees all others. */
typedef struct lx_cpu_whole {
    const float *q, *k, *v, *hashes;
    float *y, *sorted;
    int64_t n_tokens, x_stride, y_stride, sorted_stride;
    int32_t d_key, d_value, rounds, n_buckets, chunk;
    float scale;
    float *scratch; /* lx_cpu_lsh_scratch() or lx_cpu_whole_scratch() floats of this thread */
} lx_cpu_whole;

/* One way of one sequence, from the first token that it comes to; strides are below 0 on the way
   back. */
typedef struct lx_cpu_lstm {
    const float *x, *u;
    float *y;
    int64_t n_tokens, x_stride, y_stride;
    int32_t n;
    float *scratch; /* lx_cpu_lstm_scratch(n) floats of this thread */
} lx_cpu_lstm;

/* What makes a head's keys, or values, of blocks. */
typedef struct lx_cpu_taps {
    const float *taps, *bias;
    float *open; /* the sum of the open block */
    int32_t d;
} lx_cpu_taps;

/* One head of one sequence over compressed rows; where they lie: in the op.h of the operation. */
typedef struct lx_cpu_compressed {
    const float *q, *k, *v;
    float *y;
    lx_cpu_taps key, value;
    const float *first; /* the row before all blocks */
    float *kept_first;  /* the same where it is token 0's, else NULL */
    float *rows;        /* the head's part of page 0 of the pool */
    const int32_t *pages;
    int64_t page_stride;
    int64_t n_tokens, x_stride, y_stride;
    int32_t position; /* of the first token */
    int32_t d_key, d_value, factor;
    bool inclusive;
    float scale;
    float *scratch; /* lx_cpu_compressed_scratch() floats of this thread */
} lx_cpu_compressed;

/* Columns of one sequence; v, y and s begin at the first one. */
typedef struct lx_cpu_chunks_job {
    lx_cpu_inputs q, k, v;
    float *y, *s; /* of finished chunks; d_key rows further on, of the open one */
    int64_t n_tokens;
    int32_t position; /* of the first token */
    int32_t d_key, d_value, columns, chunk;
    float scale;
} lx_cpu_chunks_job;

#define LX_CPU_QUERIES 4 /* tokens whose queries share the reading of a row, at most */
/* Some elements of a row, all at the first one; NULL for what is not there. */
typedef struct lx_cpu_gating {
    float *y;
    const float *x, *z, *other, *bias, *factor, *offset;
    int32_t n;
    lx_function f;
    bool exponent, towards;
} lx_cpu_gating;

/* A head of a row, see lx_norm_kind; NULL for what is not there. */
typedef struct lx_cpu_head {
    float *y;
    const float *x, *gate, *gamma, *beta;
    int32_t d;
    lx_norm_kind kind;
    lx_function f;
    bool gate_first;
    float eps;
} lx_cpu_head;

/* Channels of one sequence; everything is at the first of them, rows but those of x d floats apart.
   bias NULL for none. */
typedef struct lx_cpu_conv {
    float *y, *state;
    lx_cpu_inputs x;
    const float *weights, *bias;
    int64_t n_tokens;
    int32_t d, columns, taps;
    lx_function f;
} lx_cpu_conv;

/* Columns of one sequence, likewise. */
typedef struct lx_cpu_shift {
    float *y[LX_SHIFT_MOST_MIXES];
    float *state;
    const float *x, *mixes;
    int64_t n_tokens;
    int32_t d, columns, n_mixes;
} lx_cpu_shift;

/* A head of a row; z NULL for none. */
typedef struct lx_cpu_bonus {
    float *y;
    const float *x, *q, *k, *v, *z, *u;
    int32_t d_key, d_value;
} lx_cpu_bonus;

/* The heads of a row, [apart] each, of which d columns turn; scratch [d]. */
typedef struct lx_cpu_rotary {
    float *x, *scratch;
    const float *turns[LX_ROTARY_LEVELS]; /* [d] each: this position's */
    int32_t d, apart, n_heads;
} lx_cpu_rotary;

/* A row of a mixture head. */
typedef struct lx_cpu_mixture {
    const float *logits, *means, *log_scales; /* [n], all finite */
    int32_t n, levels;
    float largest; /* of the logits */
} lx_cpu_mixture;

typedef struct lx_cpu_isa {
    const char *name;
    void (*linear)(const lx_cpu_linear *job);
    /* y += row of n values, f32 or bf16 */
    void (*add_row)(float *y, const void *row, lx_dtype dtype, int64_t n);
    void (*norm)(float *y, const float *x, const float *gamma, const float *beta, int32_t d,
                 float eps);
    void (*attend)(const lx_cpu_attend *job);
    void (*attend_both)(const lx_cpu_attend *job);
    void (*attend_whole)(const lx_cpu_whole *job);
    void (*lstm)(const lx_cpu_lstm *job);
    void (*recurrence)(const lx_cpu_recurrence *job);
    void (*attend_kept)(const lx_cpu_attend_kept *job);
    void (*lsh)(const lx_cpu_lsh *job);
    void (*compressed)(const lx_cpu_compressed *job);
    void (*chunk_sums)(const lx_cpu_chunks_job *job);
    void (*gate)(const lx_cpu_gating *job);
    void (*head_norm)(const lx_cpu_head *job);
    void (*short_conv)(const lx_cpu_conv *job);
    void (*token_shift)(const lx_cpu_shift *job);
    void (*bonus)(const lx_cpu_bonus *job);
    void (*rotary)(const lx_cpu_rotary *job);
    /* Sampling, over n values. false when one is not finite; *largest is the greatest. */
    bool (*scan)(const float *x, int32_t n, float *largest);
    /* The least and greatest of the values that are not -infinity; false when there are none. */
    bool (*range)(const float *x, int32_t n, float *least, float *greatest);
    /* y = x + bias (bias may be NULL) */
    void (*add)(float *y, const float *x, const float *bias, int32_t n);
    /* w = exp((x - largest) / temperature), x <= largest; returns the sum of w; w may be x. */
    double (*weights)(float *w, const float *x, int32_t n, float largest, float temperature);
    /* The sum of a block of at most LX_CPU_BLOCK, in the order `weights` uses. */
    double (*sum)(const float *x, int32_t n);
    /* The sum of w[i] over the ids with x[i] >= level, which is above -infinity, and their number.
     */
    double (*above)(const float *x, const float *w, int32_t n, float level, int32_t *count);
    /* log P(v) */
    double (*mixture)(const lx_cpu_mixture *x, int32_t v);
} lx_cpu_isa;

/* The first row and those of whole pages, LX_ROWS_BLOCK at most, and a vector that is stored whole.
 */
#define LX_CPU_COMPRESSED_ROWS (LX_ROWS_BLOCK + 32)
#define LX_WHOLE_BLOCK 256  /* keys of a whole sequence that are turned together */
#define LX_WHOLE_SHARED 16  /* tokens that share that */
#define LX_CPU_BLOCK 256    /* ids summed in f32 before the sum goes on in double */
#define LX_CPU_MAX_ROWS 16  /* rows of f32 that are copied at once, at most; of pairs, 32 */
#define LX_CPU_MAX_TOKENS 4 /* of a sequence that go through its state together, at most */
#define LX_CPU_CHUNK 256    /* inputs of a row that lie together in the packed rows */
#define LX_CPU_CHUNK_PAD 16 /* keeps the rows of a chunk out of one another's cache sets */
#define LX_CPU_MIXTURE LX_MIXTURE_MAX_COMPONENTS

#define LX_CPU_LEAST_INT8                                                                          \
    1e-30f /* what is not above has 127 / it near the end of f32: taken as 0 */

static inline int64_t lx_cpu_chunks(int64_t cols)
{
    return (cols + LX_CPU_CHUNK - 1) / LX_CPU_CHUNK;
}

static inline int64_t lx_cpu_linear_scratch(int64_t cols)
{
    return lx_cpu_chunks(cols) * LX_CPU_MAX_ROWS * (LX_CPU_CHUNK + LX_CPU_CHUNK_PAD);
}

static inline int64_t lx_cpu_attend_scratch(int64_t d_key)
{
    return 2 * LX_CPU_MAX_TOKENS * ((d_key + 15) / 16 * 16);
}

static inline int64_t lx_cpu_attend_kept_scratch(int64_t d_key, int64_t d_value)
{
    return LX_CPU_QUERIES * ((d_key + 15) / 16 * 16 + (d_value + 15) / 16 * 16 + LX_ROWS_BLOCK);
}

/* Logits, and before them hashes, in the same place. */
static inline int64_t lx_cpu_lsh_logits(int64_t rounds, int64_t n_buckets, int64_t cap)
{
    int64_t seen = (rounds * cap + 15) / 16 * 16, hashes = (n_buckets / 2 + 15) / 16 * 16;
    return seen > hashes ? seen : hashes;
}

static inline int64_t lx_cpu_lsh_scratch(int64_t rounds, int64_t n_buckets, int64_t cap,
                                         int64_t d_value)
{
    return lx_cpu_lsh_logits(rounds, n_buckets, cap) + (d_value + 15) / 16 * 16;
}

/* Keys of a block, its logits and values, and the values of all that share it. */
static inline int64_t lx_cpu_whole_scratch(int64_t d_key, int64_t d_value)
{
    return (d_key + 1) * LX_WHOLE_BLOCK + (LX_WHOLE_SHARED + 1) * ((d_value + 15) / 16 * 16);
}

static inline int64_t lx_cpu_lstm_gates(int64_t n)
{
    return (4 * n + 15) / 16 * 16;
}

/* Gates and cells. */
static inline int64_t lx_cpu_lstm_scratch(int64_t n)
{
    return lx_cpu_lstm_gates(n) + (n + 15) / 16 * 16;
}

static inline int64_t lx_cpu_compressed_scratch(int64_t d_key, int64_t d_value)
{
    return LX_CPU_COMPRESSED_ROWS + 2 * ((d_value + 15) / 16 * 16) + (d_key + 15) / 16 * 16;
}

extern const lx_cpu_isa lx_cpu_plain, lx_cpu_amxplain, lx_cpu_neonbf16plain;
#if defined(__x86_64__)
extern const lx_cpu_isa lx_cpu_avx2, lx_cpu_avx512, lx_cpu_avx512bf16, lx_cpu_avx512vnni,
    lx_cpu_amx;
#elif defined(__aarch64__)
extern const lx_cpu_isa lx_cpu_neon, lx_cpu_neondot, lx_cpu_neonbf16;
#endif

#endif
