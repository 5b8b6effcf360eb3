/*
 * The operations of a linear transformer: one table of functions, which each back end fills.
 *
 *   reference  plain C, double sums, one thread: the oracle every other back end is tested against
 *   cpu        vectorised and multi-threaded
 *   cuda       an NVIDIA GPU; a library of its own, loaded on request
 *
 * A step of a model is: begin(batch), a fixed sequence of operations, end(), sync(). Operations
 * only *queue* work. A back end may run them at once, or record them and let every thread carry its
 * own sequences through the whole step, or replay a captured graph. Results (samples, downloads)
 * are valid after sync().
 *
 * Steps run in the order of their end(). A step may begin before earlier steps are synced, and take
 * as input the tokens that they will draw: see lx_drawn_id.
 *
 * A batch is ragged: sequence i owns the token rows seq_start[i] .. seq_start[i+1]-1 and the state
 * in slot[i]. Prefill and decode are the same call; decode is a sequence of one row.
 *
 * Laws, bit for bit on a given back end and instruction set, tested in tests/conformance:
 *   - prefill(T) = prefill(a) then prefill(b), a + b = T = T single steps
 *   - a sequence's result does not depend on its neighbours, the batch size or the thread count
 *   - a zeroed slot behaves like a fresh one
 *   - an id that stands for a deferred token gives the results of that token
 *   - every output element of the batch's rows is written; no other element is, except in arrays
 *     of rows_new
 *
 * A page of a slot's growing part keeps its last owner's data until it is written. An operation
 * that writes the growing part zeroes its own part of a page first when the position it writes is
 * the page's first token (position % LX_PAGE_TOKENS == 0). So an export depends on the slot's
 * tokens alone and never shows another client's data.
 *
 * Letters: N sequences, T token rows, H heads, D key size, M value size, V head size.
 * All activations are f32, row-major, one row per token. Arrays of rows_new may hold less precise
 * values between operations where no result can differ. States are always f32.
 *
 * Thread: one thread between begin and end of a step. Two engines may share a back end: begin()
 * waits until the other's step has ended. One thread at a time may create or free an object; other
 * objects may be in use meanwhile.
 */
#ifndef LINNET_KERNELS_KERNELS_H
#define LINNET_KERNELS_KERNELS_H

#include "common/status.h"
#include "kernels/ops/columns.h"
#include "kernels/types.h"

#define LX_OP_FILE op.h
#include "kernels/ops.def"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lx_kernels lx_kernels; /* the table */

/*
 * The rows of a matrix or table that is larger than the memory for a copy of it. `read` puts rows
 * first .. first + n - 1 to `to`, as they lie in a lx_host_tensor. It is called from several
 * threads at once.
 */
typedef struct lx_row_reader {
    lx_status (*read)(const void *context, int64_t first, int64_t n, void *to, lx_error *err);
    const void *context;
} lx_row_reader;

/*
 * The instruction set of the cpu back end. LX_ISA_AUTO takes the processor's best set for the
 * precision. "Exact bits" are those of plain.
 *
 *   plain, avx2, avx512    every precision, exact bits
 *   avx512bf16             auto only: rounds activations to bf16, bits of its own
 *   avx512vnni             int8 and int4: exact bits
 *   amx                    auto: bf16 on tiles, bits of its own; int8 and int4: exact bits
 *   amxplain               the bits of amx in plain C, slowly: never chosen by auto
 *   neon                   every precision, exact bits
 *   neondot                int8 and int4: exact bits
 *   neonbf16               auto: rounds activations to bf16, bits of its own; int8 and int4: exact
 *                          bits
 *   neonbf16plain          the bits of neonbf16 in plain C, slowly: never chosen by auto
 */
typedef enum lx_isa {
    LX_ISA_AUTO,
    LX_ISA_PLAIN,
    LX_ISA_AVX2,
    LX_ISA_AVX512,
    LX_ISA_AVX512_BF16,
    LX_ISA_AVX512_VNNI,
    LX_ISA_AMX,
    LX_ISA_AMX_PLAIN,
    LX_ISA_NEON,
    LX_ISA_NEON_DOT,
    LX_ISA_NEON_BF16,
    LX_ISA_NEON_BF16_PLAIN
} lx_isa;

/* The name in options and descriptions, "auto" to "neonbf16plain"; NULL after the last. Static; any
   thread. */
const char *lx_isa_name(lx_isa isa);

/*
 * How the factors enter a product. All other values are f32, states too.
 *
 * Weights in blocks (lx_dtype) stay in blocks on the cpu with AUTO.
 * Weights of LX_F32_OF_BLOCKS become LX_Q8_0 there. With INT4 every matrix becomes LX_Q4_0
 * (lx_block_of). Each 32 inputs that meet a block have a scale t = max |x| / 127, and become
 * n = x / t, rounded to nearest, ties to even. y = b + sum over the blocks of (d t) (sum of q n),
 * where the inner sum is exact. Blocks of 256 add each part so, with d s for d. After each part of
 * LX_Q4_K or LX_Q5_K comes -(e m) (t (sum of n)).
 *
 * INT8 (cpu only): a row of W has a scale s = max |w| / 127, and its weights are stored as whole
 * numbers p = w / s, -127 .. 127, rounded to nearest, ties to even. A chunk of 256 neighbouring
 * inputs has a scale t = max |x| / 127, and its inputs become n = x / t with the same rounding.
 * y = b + sum over the chunks of (s t) (sum of p n), where the inner sum is exact.
 */
typedef enum lx_precision {
    LX_PRECISION_F32,  /* unchanged: the exact path */
    LX_PRECISION_AUTO, /* rounded to bf16 where the processor multiplies bf16, otherwise F32 */
    LX_PRECISION_INT8,
    LX_PRECISION_INT4 /* cpu only */
} lx_precision;

/* "f32" .. "int4"; NULL after the last. Static; any thread. */
const char *lx_precision_name(lx_precision precision);

/* An opened back end; the first member of every back end's own structure. */
struct lx_backend {
    const lx_kernels *ops;
    lx_precision precision;
    const char *isa; /* lx_isa_name of its instruction set, static; NULL: it has none */
};

/* Who multiplies in bf16 on the cuda back end: NVIDIA's library, or our own kernels. Those need one
   launch per product and document their order of sums (kernels/ops/linear/cuda_mma.cu). */
typedef enum lx_cuda_products { LX_CUDA_PRODUCTS_CUBLAS, LX_CUDA_PRODUCTS_OWN } lx_cuda_products;

typedef struct lx_backend_options {
    int32_t n_threads; /* 1 .. 256; the calling thread is one of them */
    lx_isa isa;
    lx_precision precision;
    lx_cuda_products cuda_products; /* other back ends ignore it */
} lx_backend_options;

/*
 * Opens a back end by name: "reference", "cpu", "cuda" or "cuda:N" for device N. LX_ERR_UNSUPPORTED
 * for another name, and where this machine lacks the instruction set, or CUDA's library, driver or
 * device. Close it with be->ops->close(be).
 */
lx_status lx_backend_open(const char *name, const lx_backend_options *options, lx_backend **out,
                          lx_error *err) LX_MUST_USE;

/*
 * Opens the back end of a device: "cpu", "cuda", "cuda:N" or "auto". auto takes cuda where its
 * library, driver and device exist and options name no isa, else cpu. `why` receives one line for
 * the log: the choice and its reason. A device that exists and fails is an error: auto then does
 * not fall back to cpu.
 */
lx_status lx_backend_choose(const char *device, const lx_backend_options *options, lx_backend **out,
                            char *why, size_t size, lx_error *err) LX_MUST_USE;

/* Whether `device` is one of these words; opens nothing. */
lx_status lx_device_check(const char *device, lx_error *err) LX_MUST_USE;

struct lx_kernels {
    const char *name;
    /* Frees the back end; all its objects must be gone. NULL is allowed. */
    void (*close)(lx_backend *be);
    /* One line for logs: instruction set, threads. */
    void (*describe)(const lx_backend *be, char *text, size_t size);
    /* A device computes while the calling thread goes on, with memory of its own: starting steps
       before earlier results arrive pays, and a slot takes its memory at once. */
    bool is_device;
    /* Free bytes of the device's memory; NULL unless is_device. */
    lx_status (*memory)(lx_backend *be, int64_t *free_bytes, lx_error *err);

    /* --- objects: each *_free accepts NULL; *_new sets *out only on LX_OK --- */
    lx_status (*array_new)(lx_backend *be, int64_t n_floats, lx_array **out, lx_error *err);
    /* An array for values within a step, at most so many rows of `width` floats. After the step it
     * holds the last value only if no operation has read that value. A back end may also write
     * further rows, and round values that only products read. */
    lx_status (*rows_new)(lx_backend *be, int64_t rows, int64_t width, lx_array **out,
                          lx_error *err);
    void (*array_free)(lx_backend *be, lx_array *a);
    /* Copies n floats between host and elements offset .. offset + n - 1; outside a step. */
    lx_status (*array_upload)(lx_backend *be, lx_array *a, int64_t offset, const float *src,
                              int64_t n);
    lx_status (*array_download)(lx_backend *be, const lx_array *a, int64_t offset, float *dst,
                                int64_t n);

    /* Packs weights [rows = outputs, cols = inputs] for `linear`; bias [rows] may be NULL. With
       `rows` they are read in parts, and w->data is NULL. `rows` NULL: they are at w->data. */
    lx_status (*matrix_new)(lx_backend *be, const lx_host_tensor *w, const lx_row_reader *rows,
                            const float *bias, lx_matrix **out, lx_error *err);
    /* n matrices of equal cols as one, whose rows are theirs in order and keep their formats; for
       `linear` alone. It takes the n, also on an error. The rows of all but the last are multiples
       of LX_JOINED_ROWS. NULL: the back end joins none. */
    lx_status (*matrix_join)(lx_backend *be, lx_matrix *const *parts, int32_t n, lx_matrix **out,
                             lx_error *err);
    void (*matrix_free)(lx_backend *be, lx_matrix *w);
    /* Bytes that such a matrix takes, without w->data. NULL: the back end does not know. */
    int64_t (*matrix_bytes)(const lx_backend *be, const lx_host_tensor *w);

    /* `rows` as of matrix_new. */
    lx_status (*table_new)(lx_backend *be, const lx_host_tensor *t, const lx_row_reader *rows,
                           lx_table **out, lx_error *err);
    void (*table_free)(lx_backend *be, lx_table *t);
    /* A table that is the rows of a matrix, without memory of its own. It is freed before the
       matrix. The matrix was made of values of `dtype`, and the table has their numbers. Numbers of
       LX_F32_OF_BLOCKS are as the matrix rounded them. Where the matrix does not hold such values
       in blocks, *out stays NULL. NULL: the back end makes no such tables. */
    lx_status (*table_of)(lx_backend *be, const lx_matrix *w, lx_dtype dtype, lx_table **out,
                          lx_error *err);

    /* banned[i] != 0: id i may not be sampled. */
    lx_status (*mask_new)(lx_backend *be, const uint8_t *banned, int32_t n_ids, lx_mask **out,
                          lx_error *err);
    void (*mask_free)(lx_backend *be, lx_mask *m);

    /* --- states: all slots and pages are zero at first, and no page is mapped. The calls below run
       outside a step, after all steps that have ended, synced or not. LX_ERR_INVALID for a slot or
       page out of range, too many pages, or a page that is not mapped --- */
    lx_status (*states_new)(lx_backend *be, const lx_state_layout *layout, int32_t n_slots,
                            lx_states **out, lx_error *err);
    void (*states_free)(lx_backend *be, lx_states *s);
    /* Maps the slot's pages first .. first + n - 1 to pages[0 .. n - 1] of the pool; -1: no page.
       Several slots may share a page if at most one of them gets tokens that lie in it, and the
       tokens of the others come first. Writes no page. */
    lx_status (*state_map)(lx_backend *be, lx_states *s, int32_t slot, int32_t first, int32_t n,
                           const int32_t *pages);
    /* Zeroes the fixed part; pages stay mapped and keep their content. */
    lx_status (*state_zero)(lx_backend *be, lx_states *s, int32_t slot);
    /* Copies the fixed part, and the first n_pages pages into the pages of `to`, but for pages that
       both slots share. */
    lx_status (*state_copy)(lx_backend *be, lx_states *s, int32_t to, int32_t from,
                            int32_t n_pages);
    /* The state as fixed_floats f32, then n_pages times page_floats; op.h of an operation has the
       layout. Other threads may call both while steps run, if no step that begins before they
       return has a row of the slot. */
    lx_status (*state_export)(lx_backend *be, const lx_states *s, int32_t slot, float *dst,
                              int32_t n_pages);
    lx_status (*state_import)(lx_backend *be, lx_states *s, int32_t slot, const float *src,
                              int32_t n_pages);

    /* --- a step --- */
    lx_status (*begin)(lx_backend *be, const lx_batch *batch, lx_error *err);
    /* void (*NAME)(lx_backend *be, const lx_NAME_args *args) of every operation; NULL: missing */
#define LX_OP(name) void (*name)(lx_backend * be, const lx_##name##_args *args);
#include "kernels/ops.def"
    /* end() starts the step and returns its number; sync() waits for that step and earlier ones. A
       back end has room for several steps that are not synced; begin() of one too many waits for
       the oldest. After LX_ERR_DEVICE every state is undefined. */
    lx_status (*end)(lx_backend *be, uint64_t *step, lx_error *err);
    lx_status (*sync)(lx_backend *be, uint64_t step, lx_error *err);
    /* A dry run, in place of end(): allocates (and captures) everything that this step needs, so
       that no smaller step allocates. A decoding step (one row and one output per sequence)
       prepares its own bucket only: step_size(n) is the largest number of sequences that shares the
       captured graph of n. Both are NULL where a dry run gains nothing. */
    lx_status (*prepare)(lx_backend *be, lx_error *err);
    int32_t (*step_size)(int32_t n);
};

/* --- stored values (formats.c) --- */

/* Static; NULL: no such type. */
const lx_format *lx_format_of(lx_dtype dtype);
/* Bytes of n values, which are whole blocks. */
size_t lx_format_bytes(lx_dtype dtype, int64_t n);
/* bf16 and f16 to f32, exact. */
float lx_bf16_to_f32(uint16_t x);
float lx_f16_to_f32(uint16_t x);
/* Element i of a host tensor as f32, exact. */
float lx_host_tensor_at(const lx_host_tensor *t, int64_t i);
/* Elements first .. first + n - 1 as f32. `to` may be the memory that the tensor's data is the end
   of. */
void lx_host_tensor_expand(const lx_host_tensor *t, int64_t first, int64_t n, float *to);

/* The scale and the minimum of a part of a block of LX_Q4_K or LX_Q5_K, 0 .. 63. */
void lx_q4_k_scale(const unsigned char *block, int part, int *scale, int *min);

/* A block's scale and whole numbers: -127 .. 127 for LX_Q8_0 (-128 in some files), -8 .. 7 for
   LX_Q4_0. */
typedef struct lx_block {
    uint16_t scale; /* f16 */
    int8_t q[LX_BLOCK];
} lx_block;

#define LX_BLOCK_MOST 4e5f /* the largest weight that a block may hold: f16 ends at 65504 */

/*
 * Columns col .. col + 31 of a row as a block of LX_Q8_0 or LX_Q4_0; after the row's end they are
 * 0. A block of the tensor's own type stays as it is. Other values are rounded, to nearest, ties to
 * even. For LX_Q8_0 the scale is their greatest size / 127. For LX_Q4_0 it is the value of the
 * greatest size / -8, and then once more the scale with the least sum of squared errors for the
 * numbers found; of both the one with less error counts.
 */
void lx_block_of(const lx_host_tensor *t, int64_t row, int64_t col, lx_dtype to, lx_block *out);
/* The bytes of a block of LX_Q8_0 or LX_Q4_0, as a file has them. */
void lx_block_put(const lx_block *b, lx_dtype dtype, unsigned char *to);

#ifdef __cplusplus
}
#endif
#endif
