/*
 * The conformance suite's own small runner and its tools. Only libc and kernels/ are needed, so
 * that it also runs on a bare machine with an accelerator.
 *
 * A test gets the device under test and the oracle (`reference`) and returns true when it passed.
 * Host memory comes from an arena that is emptied after each test; objects made through a device
 * are freed after each test, whether it passed or not.
 */
#ifndef LINNET_TESTS_CONFORMANCE_H
#define LINNET_TESTS_CONFORMANCE_H

#include "kernels/kernels.h"

#define GUARD 16 /* guard floats after every array, which must stay unchanged */

typedef enum owned_kind { OWN_ARRAY, OWN_MATRIX, OWN_TABLE, OWN_MASK, OWN_STATES } owned_kind;

/* Instruction sets of cpu with the same kind give the same bits. */
typedef enum product_kind {
    EXACT,
    BYTES,          /* precision int8 */
    BLOCKS,         /* weights in blocks, with any of the others */
    PAIRS,          /* of bf16: avx512bf16 */
    TILES,          /* amx, amxplain */
    ROUNDED_TO_ODD, /* neonbf16, neonbf16plain */
    PRODUCT_KINDS
} product_kind;

typedef struct device {
    lx_backend *be;
    const lx_kernels *k;
    const char *label; /* "cpu avx2, 3 threads" */
    bool is_cpu;
    int threads;
    bool rounds; /* activations to bf16, before a product with bf16 weights */
    bool int8;   /* products of whole numbers (lx_precision) */
    bool int4;   /* all weights become blocks of 4 bits */
    bool blocks; /* weights in blocks stay as they are */
    product_kind kind;
    bool only_runs; /* a sanitizer skips results that take long to compute otherwise */
    struct owned {
        owned_kind kind;
        void *object;
    } owned[256];
    int n_owned;
} device;

typedef bool (*test_fn)(device *dut, device *oracle);
typedef struct test {
    const char *name;
    test_fn run;
} test;

/* Each file's tests, ended by a NULL name. */
#define TESTS(name, group) extern const test name##_tests[];
#include "tests/conformance/tests.def"

/* Prints where and why; returns false, so that CHECK leaves the test. */
bool fail_at(const char *file, int line, const char *fmt, ...) LX_PRINTF(3, 4);
#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return fail_at(__FILE__, __LINE__, __VA_ARGS__);                                       \
    } while (0)
#define CHECK_OK(call) CHECK((call) == LX_OK, "%s", #call)

/* --- host --- */

void *take(size_t n_bytes); /* zeroed, from the arena; thread-safe */
float *floats(int64_t n);

typedef struct rng {
    uint64_t state;
} rng;
uint32_t random_below(rng *r, uint32_t n);
float random_between(rng *r, float low, float high);

/* Distributions of inputs. PEAKY: both signs, sizes spread evenly over 10^-low .. 10^high. */
typedef enum pattern { UNIFORM, PEAKY, PATTERNS } pattern;
void fill(rng *r, float *x, int64_t n, pattern p, float low, float high);
float *random_floats(rng *r, int64_t n, pattern p, float low, float high);

/* Rounds values to a stored type and back (in place); returns them as a tensor. */
lx_host_tensor tensor_of(float *values, int64_t rows, int64_t cols, lx_dtype dtype);

/*
 * The largest |got - want| / scale, where scale[i] measures the rounding errors of element i;
 * infinite when a value is not finite.
 */
double worst_error(const float *got, const float *want, const double *scale, int64_t n);
bool same_bytes(const float *a, const float *b, int64_t n);

/* FNV-1a, continued from `hash`, which is NO_BYTES at first. */
#define NO_BYTES UINT64_C(0xcbf29ce484222325)
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n);

/*
 * Hash of the results of the first cpu back end of a kind of products in this run.
 */
typedef struct agreement {
    struct {
        bool seen;
        uint64_t hash;
        char label[96];
    } first[PRODUCT_KINDS];
} agreement;

/* Whether the results of d, if it is a cpu, have the hash of the first back end of its kind. */
bool agrees(const device *d, agreement *a, uint64_t hash);

/* Sequence i has length[i] rows and the slot slots[i] (NULL: i). Output rows: none are set. */
lx_batch *ragged_batch(int32_t n_seqs, const int32_t *length, const int32_t *slots);
lx_batch *single_rows(int32_t n); /* n sequences of one row, each an output row */
/* A step in which an operation works on n rows. Of output rows there are n among more rows. */
lx_batch *step_of(lx_rows which, int32_t n);
void all_outputs(lx_batch *b);

/* --- device --- */

lx_array *dev_array(device *d, const float *values, int64_t n); /* values NULL: all NaN */
lx_array *dev_rows(device *d, int64_t rows, int64_t width);     /* by rows_new */
lx_matrix *dev_matrix(device *d, const lx_host_tensor *t, const float *bias);
lx_table *dev_table(device *d, const lx_host_tensor *t);
/* The same of rows that a reader has. */
lx_matrix *dev_matrix_read(device *d, const lx_host_tensor *t, const float *bias);
lx_table *dev_table_read(device *d, const lx_host_tensor *t);
lx_mask *dev_mask(device *d, const uint8_t *banned, int32_t n);
lx_states *dev_states(device *d, int64_t n_floats, int32_t n_slots);
lx_states *dev_states_of(device *d, lx_state_layout layout, int32_t n_slots);
void dev_release(device *d); /* frees all of the above */

/* Reads the n floats of an array made by dev_array; false when its guard was touched. */
bool dev_read(device *d, const lx_array *a, float *to, int64_t n);
/* end and sync */
bool dev_finish(device *d);

/* Whether one thread packs all matrices, as in a back end of the cpu with one thread: large ones
 * are then packed as small ones. */
bool packs_alone(const device *d);

/* Whether the device lacks an operation (LX_OP_HOST in kernels/ops.def); prints that. */
#define IS_MISSING(d, operation) is_missing(d, (d)->k->operation != NULL, #operation)
bool is_missing(const device *d, bool there, const char *operation);

#endif
