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
 *   - every output element of the batch's rows is written; nothing else is, but in arrays of
 *     rows_new
 *
 * A page of a slot's growing part holds what its last owner left until it is written. An operation
 * that writes the growing part zeroes its own part of a page first when the position it writes is
 * the page's first token (position % LX_PAGE_TOKENS == 0). So what is exported depends on the
 * slot's tokens alone and never shows another client's.
 *
 * Letters: N sequences, T token rows, H heads, D key size, M value size, V head size.
 * All activations are f32, row-major, one row a token; those of rows_new between operations may be
 * less where no result can differ. States are f32 always.
 *
 * Thread: one thread between begin and end of a step. Two engines may share a back end: begin()
 * waits until the other's step has ended. Everything that creates or frees is not thread-safe with
 * respect to the object, but may run while another object is in use.
 */
#ifndef LINNET_KERNELS_KERNELS_H
#define LINNET_KERNELS_KERNELS_H

#include "common/status.h"
#include "kernels/types.h"

#define LX_OP_FILE op.h
#include "kernels/ops.def"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lx_kernels lx_kernels; /* the table */

/*
 * The instruction set of the cpu back end. LX_ISA_AUTO takes the best the processor has for the
 * precision.
 *
 *   plain, avx2, avx512    every precision, the same bits
 *   avx512bf16             auto only: rounds activations to bf16, bits of its own
 *   avx512vnni             int8 only: the bits of the first three
 *   amx                    auto: bf16 on tiles, bits of its own; int8: the bits of the first three
 *   amxplain               the bits of amx in plain C, slowly: never chosen by auto
 *   neon                   every precision, the bits of the first three
 *   neondot                int8 only: the same
 *   neonbf16               auto: rounds activations to bf16, bits of its own; int8: the same
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

/* As in options and descriptions, "auto" to "neonbf16plain"; NULL after the last. Static; any
 * thread.
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

/* An opened back end. Every back end's own structure begins with this. */
struct lx_backend {
    const lx_kernels *ops;
    lx_precision precision;
    const char *isa; /* lx_isa_name of its instruction set, static; NULL: it has none */
};

/* What multiplies in bf16 on the cuda back end: NVIDIA's library, or kernels of our own, which are
   one launch a product and sum in an order that is written down (kernels/ops/linear/cuda_mma.cu).
 */
typedef enum lx_cuda_products { LX_CUDA_PRODUCTS_CUBLAS, LX_CUDA_PRODUCTS_OWN } lx_cuda_products;

typedef struct lx_backend_options {
    int32_t n_threads; /* 1 .. 256; the calling thread is one of them */
    lx_isa isa;
    lx_precision precision;
    lx_cuda_products cuda_products; /* of other back ends: not looked at */
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

/* Whether `device` is one of these words; opens nothing. */
lx_status lx_device_check(const char *device, lx_error *err) LX_MUST_USE;

struct lx_kernels {
    const char *name;
    /* Frees the back end; all its objects must be gone. NULL is allowed. */
    void (*close)(lx_backend *be);
    /* One line for logs: instruction set, threads. */
    void (*describe)(const lx_backend *be, char *text, size_t size);
    /* A device computes beside the calling thread, with memory of its own: steps are worth starting
       ahead of their results, and a slot takes its memory at once. */
    bool is_device;
    /* Bytes of its own memory that are free now; NULL unless is_device. */
    lx_status (*memory)(lx_backend *be, int64_t *free_bytes, lx_error *err);

    /* --- objects: each *_free accepts NULL; *_new sets *out only on LX_OK --- */
    lx_status (*array_new)(lx_backend *be, int64_t n_floats, lx_array **out, lx_error *err);
    /* An array for what a step computes, at most so many rows of `width` floats. When the step is
       over it holds what was written there last, if no operation has read that, and else nothing: a
       back end may write rows behind the batch's, too, and keep what only products read rounded. */
    lx_status (*rows_new)(lx_backend *be, int64_t rows, int64_t width, lx_array **out,
                          lx_error *err);
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

    /* --- states: all slots and pages are zero at first, no page is mapped; the calls below run
       outside a step, after all steps that have ended, synced or not. LX_ERR_INVALID for a slot, a
       page or a number of pages that is not there, and for a page that is not mapped --- */
    lx_status (*states_new)(lx_backend *be, const lx_state_layout *layout, int32_t n_slots,
                            lx_states **out, lx_error *err);
    void (*states_free)(lx_backend *be, lx_states *s);
    /* The slot's pages first .. first + n - 1 are from now on pages[0 .. n - 1] of the pool; -1 is
       no page. The caller lets a page be in several slots only while none of them is given a token
       that would lie in it; nothing is written. */
    lx_status (*state_map)(lx_backend *be, lx_states *s, int32_t slot, int32_t first, int32_t n,
                           const int32_t *pages);
    /* The fixed part; pages stay mapped and as they are. */
    lx_status (*state_zero)(lx_backend *be, lx_states *s, int32_t slot);
    /* The fixed part, and the first n_pages pages into those mapped in `to`; a page that is mapped
       in both there stays as it is. */
    lx_status (*state_copy)(lx_backend *be, lx_states *s, int32_t to, int32_t from,
                            int32_t n_pages);
    /* The state as fixed_floats f32, then n_pages times page_floats; operations say in their op.h
       what lies where. Both may be called by another thread and beside steps, as long as no step
       that is begun before they return has a row of the slot. */
    lx_status (*state_export)(lx_backend *be, const lx_states *s, int32_t slot, float *dst,
                              int32_t n_pages);
    lx_status (*state_import)(lx_backend *be, lx_states *s, int32_t slot, const float *src,
                              int32_t n_pages);

    /* --- a step --- */
    lx_status (*begin)(lx_backend *be, const lx_batch *batch, lx_error *err);
    /* void (*NAME)(lx_backend *be, const lx_NAME_args *args) of every operation; NULL: not here */
#define LX_OP(name) void (*name)(lx_backend * be, const lx_##name##_args *args);
#include "kernels/ops.def"
    /* end() starts the step and says its number; sync() waits for that step and those before it. A
       back end has room for several steps that ended and were not synced; begin() of one too many
       waits for the oldest. After LX_ERR_DEVICE every state is undefined. */
    lx_status (*end)(lx_backend *be, uint64_t *step, lx_error *err);
    lx_status (*sync)(lx_backend *be, uint64_t step, lx_error *err);
    /* Dry run, in place of end(): allocates (and captures) everything that this step needs, so that
       no smaller one allocates. For decoding steps (one row and one output per sequence) this holds
       for those of the same bucket: step_size(n) is the largest number of sequences that shares the
       captured graph of n. Both are NULL where this gains nothing. */
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
