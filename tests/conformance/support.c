/* Tools of the conformance suite, see conformance.h. */
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "support.h"

#define ARENA_BYTES ((size_t)192 << 20)

static _Alignas(64) unsigned char arena[ARENA_BYTES];
static size_t arena_used;
static pthread_mutex_t arena_lock = PTHREAD_MUTEX_INITIALIZER;

void *take(size_t n_bytes)
{
    size_t rounded = (n_bytes + 63) / 64 * 64;
    (void)pthread_mutex_lock(&arena_lock);
    void *p = arena + arena_used;
    if (rounded > ARENA_BYTES - arena_used) {
        (void)fprintf(stderr, "the arena of the conformance suite is too small\n");
        __builtin_trap();
    }
    arena_used += rounded;
    (void)pthread_mutex_unlock(&arena_lock);
    memset(p, 0, rounded);
    return p;
}

void arena_reset(void)
{
    arena_used = 0;
}

float *floats(int64_t n)
{
    return take((size_t)n * sizeof(float));
}

bool fail_at(const char *file, int line, const char *fmt, ...)
{
    const char *name = strrchr(file, '/');
    (void)printf("  %s:%d: ", name != NULL ? name + 1 : file, line);
    va_list args;
    va_start(args, fmt);
    (void)vprintf(fmt, args);
    va_end(args);
    (void)printf("\n");
    return false;
}

/* --- numbers --- */

static uint64_t next_random(rng *r)
{
    r->state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t z = r->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint32_t random_below(rng *r, uint32_t n)
{
    return (uint32_t)((next_random(r) >> 32) * n >> 32);
}

float random_between(rng *r, float low, float high)
{
    return low + (high - low) * ((float)(next_random(r) >> 40) * 0x1p-24f);
}

void fill(rng *r, float *x, int64_t n, pattern p, float low, float high)
{
    for (int64_t i = 0; i < n; i++) {
        if (p == UNIFORM) {
            x[i] = random_between(r, -1.0f, 1.0f);
        } else {
            float size = powf(10.0f, random_between(r, -low, high));
            x[i] = random_below(r, 2) == 0 ? size : -size;
        }
    }
}

float *random_floats(rng *r, int64_t n, pattern p, float low, float high)
{
    float *x = floats(n);
    fill(r, x, n, p, low, high);
    return x;
}

/* To f16 by truncation; tiny values become subnormal or 0, big ones the largest. */
static uint16_t to_f16(float f)
{
    float size = fminf(fabsf(f), 65504);
    uint32_t bits;
    memcpy(&bits, &size, sizeof bits);
    uint32_t half = size < 0x1p-14f ? (uint32_t)(size * 0x1p24f) : (bits >> 13) - (112u << 10);
    return (uint16_t)(half | (f < 0 ? 0x8000u : 0u));
}

lx_host_tensor tensor_of(float *values, int64_t rows, int64_t cols, lx_dtype dtype)
{
    int64_t n = rows * cols;
    lx_host_tensor t = {dtype, rows, cols, values};
    if (dtype == LX_F32)
        return t;
    uint16_t *half = take((size_t)n * sizeof *half);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits += 0x7fff + (bits >> 16 & 1); /* to the nearest bf16, ties to even */
        half[i] = dtype == LX_BF16 ? (uint16_t)(bits >> 16) : to_f16(values[i]);
        values[i] = dtype == LX_BF16 ? lx_bf16_to_f32(half[i]) : lx_f16_to_f32(half[i]);
    }
    t.data = half;
    return t;
}

double worst_error(const float *got, const float *want, const double *scale, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(got[i]) || !isfinite(want[i]))
            return INFINITY;
        double error = fabs((double)got[i] - (double)want[i]);
        if (error > 0)
            worst = fmax(worst, error / scale[i]);
    }
    return worst;
}

bool same_bytes(const float *a, const float *b, int64_t n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

bool agrees(const device *d, agreement *a, uint64_t hash)
{
    product_kind kind = d->kind;
    if (!d->is_cpu)
        return true;
    if (!a->first[kind].seen) {
        a->first[kind].seen = true;
        a->first[kind].hash = hash;
        (void)snprintf(a->first[kind].label, sizeof a->first[kind].label, "%s", d->label);
    }
    CHECK(hash == a->first[kind].hash, "%s: other bytes than %s", d->label, a->first[kind].label);
    return true;
}

/* --- batches --- */

lx_batch *ragged_batch(int32_t n_seqs, const int32_t *length, const int32_t *slots)
{
    lx_batch *b = take(sizeof *b);
    int32_t *start = take(((size_t)n_seqs + 1) * sizeof *start);
    int32_t *slot = take((size_t)n_seqs * sizeof *slot);
    for (int32_t i = 0; i < n_seqs; i++) {
        start[i + 1] = start[i] + length[i];
        slot[i] = slots != NULL ? slots[i] : i;
    }
    *b = (lx_batch){.n_tokens = start[n_seqs], .n_seqs = n_seqs, .seq_start = start, .slot = slot};
    return b;
}

void all_outputs(lx_batch *b)
{
    int32_t *row = take((size_t)b->n_tokens * sizeof *row);
    for (int32_t i = 0; i < b->n_tokens; i++)
        row[i] = i;
    b->n_outputs = b->n_tokens;
    b->output_row = row;
}

lx_batch *single_rows(int32_t n)
{
    int32_t *length = take((size_t)n * sizeof *length);
    for (int32_t i = 0; i < n; i++)
        length[i] = 1;
    lx_batch *b = ragged_batch(n, length, NULL);
    all_outputs(b);
    return b;
}

lx_batch *step_of(lx_rows which, int32_t n)
{
    if (which == LX_ROWS_TOKENS)
        return single_rows(n);
    lx_batch *b = single_rows(2 * n + 1);
    int32_t *row = take((size_t)n * sizeof *row);
    for (int32_t i = 0; i < n; i++)
        row[i] = 2 * i + 1;
    b->n_outputs = n;
    b->output_row = row;
    return b;
}

/* --- objects on a device --- */

static const float guard_value = -12345.5f;

/* A device that cannot make a small object ends the run, because no test could continue. */
static void *own(device *d, owned_kind kind, lx_status st, void *object, const lx_error *err)
{
    if (st != LX_OK || d->n_owned == (int)(sizeof d->owned / sizeof d->owned[0])) {
        (void)fprintf(stderr, "%s: cannot make an object: %s\n", d->label, err->text);
        __builtin_trap();
    }
    d->owned[d->n_owned].kind = kind;
    d->owned[d->n_owned++].object = object;
    return object;
}

lx_array *dev_array(device *d, const float *values, int64_t n)
{
    lx_error err = {0};
    lx_array *a = NULL;
    lx_status st = d->k->array_new(d->be, n + GUARD, &a, &err);
    (void)own(d, OWN_ARRAY, st, a, &err);
    float *all = malloc((size_t)(n + GUARD) * sizeof *all);
    if (all == NULL)
        __builtin_trap();
    for (int64_t i = 0; i < n + GUARD; i++)
        all[i] = i >= n ? guard_value : values != NULL ? values[i] : NAN;
    if (d->k->array_upload(d->be, a, 0, all, n + GUARD) != LX_OK)
        __builtin_trap();
    free(all);
    return a;
}

lx_array *dev_rows(device *d, int64_t rows, int64_t width)
{
    lx_error err = {0};
    lx_array *a = NULL;
    lx_status st = d->k->rows_new(d->be, rows, width, &a, &err);
    return own(d, OWN_ARRAY, st, a, &err);
}

bool dev_read(device *d, const lx_array *a, float *to, int64_t n)
{
    float guard[GUARD];
    CHECK_OK(d->k->array_download(d->be, a, 0, to, n));
    CHECK_OK(d->k->array_download(d->be, a, n, guard, GUARD));
    for (int i = 0; i < GUARD; i++)
        CHECK(guard[i] == guard_value, "element %lld was written, the array has %lld",
              (long long)(n + i), (long long)n);
    return true;
}

lx_matrix *dev_matrix(device *d, const lx_host_tensor *t, const float *bias)
{
    lx_error err = {0};
    lx_matrix *m = NULL;
    lx_status st = d->k->matrix_new(d->be, t, NULL, bias, &m, &err);
    return own(d, OWN_MATRIX, st, m, &err);
}

/* For lx_row_reader; the context is a lx_host_tensor. */
static lx_status read_rows(const void *context, int64_t first, int64_t n, void *to, lx_error *err)
{
    const lx_host_tensor *t = context;
    size_t at = lx_format_bytes(t->dtype, first * t->cols);
    if (first < 0 || n < 1 || n > t->rows - first)
        return lx_fail(err, LX_ERR_INTERNAL, NULL, "rows that are not there");
    memcpy(to, (const char *)t->data + at, lx_format_bytes(t->dtype, n * t->cols));
    return LX_OK;
}

lx_matrix *dev_matrix_read(device *d, const lx_host_tensor *t, const float *bias)
{
    lx_error err = {0};
    lx_matrix *m = NULL;
    const lx_host_tensor shape = {t->dtype, t->rows, t->cols, NULL};
    lx_status st = d->k->matrix_new(d->be, &shape, &(lx_row_reader){read_rows, t}, bias, &m, &err);
    return own(d, OWN_MATRIX, st, m, &err);
}

lx_table *dev_table(device *d, const lx_host_tensor *t)
{
    lx_error err = {0};
    lx_table *table = NULL;
    lx_status st = d->k->table_new(d->be, t, NULL, &table, &err);
    return own(d, OWN_TABLE, st, table, &err);
}

lx_table *dev_table_read(device *d, const lx_host_tensor *t)
{
    lx_error err = {0};
    lx_table *table = NULL;
    const lx_host_tensor shape = {t->dtype, t->rows, t->cols, NULL};
    lx_status st = d->k->table_new(d->be, &shape, &(lx_row_reader){read_rows, t}, &table, &err);
    return own(d, OWN_TABLE, st, table, &err);
}

lx_mask *dev_mask(device *d, const uint8_t *banned, int32_t n)
{
    lx_error err = {0};
    lx_mask *m = NULL;
    lx_status st = d->k->mask_new(d->be, banned, n, &m, &err);
    return own(d, OWN_MASK, st, m, &err);
}

lx_states *dev_states(device *d, int64_t n_floats, int32_t n_slots)
{
    return dev_states_of(d, (lx_state_layout){.fixed_floats = n_floats}, n_slots);
}

lx_states *dev_states_of(device *d, lx_state_layout layout, int32_t n_slots)
{
    lx_error err = {0};
    lx_states *s = NULL;
    lx_status st = d->k->states_new(d->be, &layout, n_slots, &s, &err);
    return own(d, OWN_STATES, st, s, &err);
}

void dev_release(device *d)
{
    while (d->n_owned > 0) {
        struct owned *o = &d->owned[--d->n_owned];
        switch (o->kind) {
        case OWN_ARRAY:
            d->k->array_free(d->be, o->object);
            break;
        case OWN_MATRIX:
            d->k->matrix_free(d->be, o->object);
            break;
        case OWN_TABLE:
            d->k->table_free(d->be, o->object);
            break;
        case OWN_MASK:
            d->k->mask_free(d->be, o->object);
            break;
        case OWN_STATES:
            d->k->states_free(d->be, o->object);
            break;
        }
    }
}

bool dev_finish(device *d)
{
    lx_error err = {0};
    uint64_t step = 0;
    CHECK(d->k->end(d->be, &step, &err) == LX_OK, "end: %s", err.text);
    CHECK(d->k->sync(d->be, step, &err) == LX_OK, "sync: %s", err.text);
    return true;
}

bool packs_alone(const device *d)
{
    return strcmp(d->k->name, "cpu") == 0 && d->threads == 1;
}

bool is_missing(const device *d, bool there, const char *operation)
{
    if (!there)
        (void)printf("%s has no %s\n", d->label, operation);
    return !there;
}
