/*
 * See file.h. The header is read in steps, each when the parser needs more bytes than it has; the
 * places of values are offsets, as the memory moves when it grows. Keys and names are sorted, so
 * that two equal ones are neighbours.
 */
#include "model/formats/gguf/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model/formats/gguf/values.h"

enum { MAX_VALUES = 4096, MAX_TENSORS = 1 << 14, MAX_KEY = 255, MIN_STEP = 1 << 16 };
enum { MIN_ALIGNMENT = 8, MAX_ALIGNMENT = 1 << 16, USUAL_ALIGNMENT = 32 };
/* The fewest bytes of a key with its value, and of a tensor's entry. */
enum { MIN_VALUE_BYTES = 8 + 1 + 4 + 1, MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8 };
#define MAX_FILE_BYTES ((size_t)1 << 40)
#define MAX_HEADER_BYTES ((uint64_t)1 << 28)

static const uint8_t kind_bytes[LX_GGUF_KINDS] = {
    [LX_GGUF_U8] = 1,   [LX_GGUF_I8] = 1,  [LX_GGUF_U16] = 2, [LX_GGUF_I16] = 2,
    [LX_GGUF_U32] = 4,  [LX_GGUF_I32] = 4, [LX_GGUF_F32] = 4, [LX_GGUF_BOOL] = 1,
    [LX_GGUF_TEXT] = 8, [LX_GGUF_U64] = 8, [LX_GGUF_I64] = 8, [LX_GGUF_F64] = 8,
};

/* A walk over the header. After the first fault all numbers are 0. */
typedef struct parser {
    lx_gguf *f;
    uint64_t at;
    const char *part; /* the part of the file that is being read, for errors */
    int32_t i;        /* which of them, from 0; -1: there is one */
    char name[64];    /* its key or name, where that is known; else "" */
    lx_status st;
    lx_error *err;
} parser;

static void fail(parser *p, const char *what)
{
    char which[80] = "", quoted[sizeof p->name];
    if (p->name[0] != '\0')
        (void)snprintf(which, sizeof which, " %s", lx_file_quote(p->name, quoted, sizeof quoted));
    else if (p->i >= 0)
        (void)snprintf(which, sizeof which, " %d", p->i);
    if (p->st == LX_OK)
        p->st =
            lx_fail(p->err, LX_ERR_FORMAT, NULL, "%s: %s%s: %s", p->f->label, p->part, which, what);
}

/* Memory for n bytes of the header; at most twice as many as the file has before the data. */
static bool reserve(parser *p, uint64_t n)
{
    lx_gguf *f = p->f;
    uint64_t size = 2 * f->capacity > MIN_STEP ? 2 * f->capacity : MIN_STEP;
    size = size > n ? size : n;
    size = size < f->file.n_bytes ? size : f->file.n_bytes;
    unsigned char *grown = size > f->capacity ? realloc(f->header, size) : f->header;
    if (grown == NULL) {
        p->st = lx_fail(p->err, LX_ERR_NO_MEMORY, NULL, "%s: no memory for the metadata", f->label);
        return false;
    }
    f->header = grown;
    f->capacity = size > f->capacity ? size : f->capacity;
    return true;
}

/* Whether n bytes more are in memory: false after a fault. */
static bool need(parser *p, uint64_t n)
{
    lx_gguf *f = p->f;
    if (p->st == LX_OK && n > f->file.n_bytes - p->at)
        fail(p, "the file ends before it does");
    if (p->st == LX_OK && n > MAX_HEADER_BYTES - p->at)
        fail(p, "the metadata is larger than 256 MiB");
    if (p->st != LX_OK)
        return false;
    if (p->at + n <= f->n_read)
        return true;
    if (p->at + n > f->capacity && !reserve(p, p->at + n))
        return false;
    p->st = lx_file_read_at(&f->file, f->label, f->n_read, f->header + f->n_read,
                            (size_t)(f->capacity - f->n_read), p->err);
    f->n_read = f->capacity;
    return p->st == LX_OK;
}

static uint64_t number_of(const unsigned char *bytes, size_t n)
{
    uint64_t x = 0;
    for (size_t i = 0; i < n; i++)
        x |= (uint64_t)bytes[i] << (8 * i);
    return x;
}

/* An unsigned number of n bytes. */
static uint64_t take(parser *p, size_t n)
{
    if (!need(p, n))
        return 0;
    p->at += n;
    return number_of(p->f->header + p->at - n, n);
}

/* A text's place; its bytes, which are in memory. */
static uint64_t take_text(parser *p, uint64_t *at)
{
    uint64_t n = take(p, 8);
    if (!need(p, n))
        n = 0;
    *at = p->at;
    p->at += n;
    return n;
}

/* --- metadata --- */

static void skip_items(parser *p, lx_gguf_value *v)
{
    uint64_t size = kind_bytes[v->kind], left = p->f->file.n_bytes - p->at, at;
    v->at = p->at;
    if (p->st == LX_OK && v->n > left / size) {
        fail(p, "the file ends before it does");
    } else if (v->kind == LX_GGUF_TEXT) {
        for (uint64_t i = 0; i < v->n && p->st == LX_OK; i++)
            (void)take_text(p, &at);
    } else if (need(p, v->n * size)) {
        p->at += v->n * size;
    }
}

static void check_flags(parser *p, const lx_gguf_value *v)
{
    for (uint64_t i = 0; v->kind == LX_GGUF_BOOL && p->st == LX_OK && i < v->n; i++) {
        if (p->f->header[v->at + i] > 1)
            fail(p, "a flag must be 0 or 1");
    }
}

static void take_value(parser *p, lx_gguf_value *v)
{
    p->name[0] = '\0';
    v->key_bytes = take_text(p, &v->key_at);
    if (v->key_bytes < 1 || v->key_bytes > MAX_KEY ||
        memchr(p->f->header + v->key_at, '\0', (size_t)v->key_bytes) != NULL)
        fail(p, "a key has 1 to 255 bytes and no NUL");
    if (p->st == LX_OK)
        (void)snprintf(p->name, sizeof p->name, "%.*s", (int)v->key_bytes,
                       (const char *)p->f->header + v->key_at);
    uint64_t kind = take(p, 4);
    v->is_array = kind == LX_GGUF_ARRAY;
    v->n = 1;
    if (v->is_array) {
        kind = take(p, 4);
        v->n = take(p, 8);
        if (kind == LX_GGUF_ARRAY)
            fail(p, "arrays of arrays are not supported");
    }
    if (kind >= LX_GGUF_KINDS)
        fail(p, "the value's type must be 0 to 12");
    if (p->st != LX_OK)
        return;
    v->kind = (lx_gguf_kind)kind;
    skip_items(p, v);
    check_flags(p, v);
}

static int compare_bytes(const char *a, size_t n, const char *b, size_t m)
{
    int order = memcmp(a, b, n < m ? n : m);
    return order != 0 ? order : (n > m) - (n < m);
}

/* qsort's functions have no context: keys are compared through a copy of their place. */
typedef struct placed {
    const char *key;
    lx_gguf_value value;
} placed;

static int compare_keys(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    return compare_bytes(x->key, x->value.key_bytes, y->key, y->value.key_bytes);
}

static void sort_values(parser *p)
{
    lx_gguf *f = p->f;
    placed *all = calloc((size_t)f->n_values + 1, sizeof *all);
    if (all == NULL) {
        p->st = lx_fail(p->err, LX_ERR_NO_MEMORY, NULL, "%s: no memory for the metadata", f->label);
        return;
    }
    for (int32_t i = 0; i < f->n_values; i++)
        all[i] = (placed){(const char *)f->header + f->values[i].key_at, f->values[i]};
    qsort(all, (size_t)f->n_values, sizeof *all, compare_keys);
    for (int32_t i = 0; i < f->n_values; i++) {
        char key[MAX_KEY + 1], quoted[MAX_KEY + 1];
        f->values[i] = all[i].value;
        if (p->st != LX_OK || i == 0 || compare_keys(&all[i - 1], &all[i]) != 0)
            continue;
        (void)snprintf(key, sizeof key, "%.*s", (int)all[i].value.key_bytes, all[i].key);
        p->st = lx_fail(p->err, LX_ERR_FORMAT, NULL, "%s: the key %s is there twice", f->label,
                        lx_file_quote(key, quoted, sizeof quoted));
    }
    free(all);
}

static void take_values(parser *p)
{
    p->part = "metadata value";
    for (p->i = 0; p->i < p->f->n_values && p->st == LX_OK; p->i++)
        take_value(p, &p->f->values[p->i]);
    if (p->st == LX_OK)
        sort_values(p);
}

/* --- tensors --- */

static void take_name(parser *p, lx_gguf_tensor *t)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-";
    p->name[0] = '\0';
    uint64_t at, n = take_text(p, &at);
    if (p->st == LX_OK && n > 0 && n < sizeof t->name)
        memcpy(t->name, p->f->header + at, (size_t)n);
    if (t->name[0] == '\0' || strspn(t->name, allowed) != n)
        fail(p, "a name has 1 to 63 letters, digits, '.', '_' and '-'");
    (void)snprintf(p->name, sizeof p->name, "%s", t->name);
}

/* The bytes of its values: whole blocks. */
static void take_shape(parser *p, lx_gguf_tensor *t)
{
    uint64_t n_dims = take(p, 4), rows = 1;
    if (n_dims < 1 || n_dims > LX_GGUF_DIMS)
        fail(p, "it must have 1 to 4 dimensions");
    t->n_dims = p->st == LX_OK ? (int32_t)n_dims : 0;
    for (int32_t i = 0; i < LX_GGUF_DIMS; i++) {
        uint64_t n = i < t->n_dims ? take(p, 8) : 1;
        if (n < 1 || n > INT32_MAX)
            fail(p, "a dimension must be a number from 1 to 2147483647");
        t->dims[i] = (int64_t)n;
        if (i > 0 && __builtin_mul_overflow(rows, n, &rows))
            fail(p, "its dimensions are too large");
    }
    uint64_t type = take(p, 4);
    t->type = lx_gguf_type_of((uint32_t)type);
    if (p->st == LX_OK && t->type == NULL) {
        const char *name = lx_gguf_type_name((uint32_t)type);
        p->st = lx_fail(p->err, LX_ERR_UNSUPPORTED, NULL,
                        "%s: tensor %s has values of type %llu (%s); supported types: %s",
                        p->f->label, t->name, (unsigned long long)type,
                        name != NULL ? name : "unknown", lx_gguf_type_names);
    }
    if (p->st != LX_OK)
        return;
    uint64_t blocks = (uint64_t)t->dims[0] / (uint64_t)t->type->block;
    if (t->dims[0] % t->type->block != 0)
        fail(p, "its first dimension must be a multiple of its type's block");
    if (__builtin_mul_overflow(rows, blocks * t->type->bytes, &t->n_bytes) ||
        t->n_bytes > p->f->file.n_bytes)
        fail(p, "its values are larger than the file");
}

static int compare_names(const void *a, const void *b)
{
    const lx_gguf_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int compare_offsets(const void *a, const void *b)
{
    const lx_gguf_tensor *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static void take_tensors(parser *p)
{
    lx_gguf *f = p->f;
    p->part = "tensor";
    for (p->i = 0; p->i < f->n_tensors && p->st == LX_OK; p->i++) {
        lx_gguf_tensor *t = &f->tensors[p->i];
        take_name(p, t);
        take_shape(p, t);
        t->at = take(p, 8);
    }
    qsort(f->tensors, (size_t)f->n_tensors, sizeof *f->tensors, compare_names);
    for (int32_t i = 1; i < f->n_tensors && p->st == LX_OK; i++) {
        if (strcmp(f->tensors[i - 1].name, f->tensors[i].name) == 0)
            p->st = lx_fail(p->err, LX_ERR_FORMAT, NULL, "%s: the tensor %s is there twice",
                            f->label, f->tensors[i].name);
    }
}

/* The alignment of the data area and of each tensor in it. */
static uint64_t read_alignment(parser *p)
{
    const lx_gguf_value *v = p->st == LX_OK ? lx_gguf_find(p->f, "general.alignment") : NULL;
    if (v == NULL)
        return USUAL_ALIGNMENT;
    double x = v->kind == LX_GGUF_U32 && !v->is_array ? lx_gguf_number_at(p->f, v, 0) : 0;
    if (x >= MIN_ALIGNMENT && x <= MAX_ALIGNMENT && ((uint32_t)x & ((uint32_t)x - 1)) == 0)
        return (uint64_t)x;
    p->st =
        lx_fail(p->err, LX_ERR_FORMAT, NULL,
                "%s: general.alignment must be a u32, a power of two from 8 to 65536", p->f->label);
    return USUAL_ALIGNMENT;
}

/* Every tensor begins where the one before it ends, up to the alignment. */
static void check_tiling(parser *p, uint64_t alignment)
{
    lx_gguf *f = p->f;
    uint64_t n_bytes = f->file.n_bytes, at = 0, end = 0;
    f->data_at = (p->at + alignment - 1) & ~(alignment - 1);
    qsort(f->tensors, (size_t)f->n_tensors, sizeof *f->tensors, compare_offsets);
    for (int32_t i = 0; i < f->n_tensors && p->st == LX_OK; i++) {
        const lx_gguf_tensor *t = &f->tensors[i];
        if (t->at != at)
            p->st = lx_fail(p->err, LX_ERR_FORMAT, NULL,
                            "%s: tensor %s begins at data byte %llu, it must be %llu", f->label,
                            t->name, (unsigned long long)t->at, (unsigned long long)at);
        end = at + t->n_bytes;
        if (p->st == LX_OK && (f->data_at > n_bytes || end > n_bytes - f->data_at))
            p->st =
                lx_fail(p->err, LX_ERR_FORMAT, NULL,
                        "%s: the file ends before the values of tensor %s do", f->label, t->name);
        at = (end + alignment - 1) & ~(alignment - 1);
    }
    if (p->st == LX_OK && n_bytes - f->data_at > at)
        p->st = lx_fail(p->err, LX_ERR_FORMAT, NULL,
                        "%s: %llu bytes of data, the last tensor ends at %llu", f->label,
                        (unsigned long long)(n_bytes - f->data_at), (unsigned long long)end);
}

/* --- the file --- */

/* A count of entries that the rest of the file has room for. */
static int32_t take_count(parser *p, uint64_t most, uint64_t least_bytes, const char *what)
{
    uint64_t n = take(p, 8);
    if (p->st == LX_OK && (n > most || n > (p->f->file.n_bytes - p->at) / least_bytes))
        p->st =
            lx_fail(p->err, LX_ERR_FORMAT, NULL,
                    "%s: %llu %s, at most %llu are read, and the file has %zu bytes", p->f->label,
                    (unsigned long long)n, what, (unsigned long long)most, p->f->file.n_bytes);
    return p->st == LX_OK ? (int32_t)n : 0;
}

static void take_start(parser *p)
{
    uint64_t magic = take(p, 4), version = take(p, 4);
    if (p->st == LX_OK && magic != 0x46554747)
        fail(p, "it does not begin with GGUF");
    if (p->st == LX_OK && (version & 0xffff) == 0)
        fail(p, "big-endian files are not supported");
    if (p->st == LX_OK && version != 2 && version != 3)
        fail(p, "its version must be 2 or 3");
    int32_t n_tensors = take_count(p, MAX_TENSORS, MIN_TENSOR_BYTES, "tensors");
    int32_t n_values = take_count(p, MAX_VALUES, MIN_VALUE_BYTES, "metadata values");
    if (p->st == LX_OK && n_tensors == 0)
        fail(p, "it has no tensors");
    if (p->st != LX_OK)
        return;
    p->f->values = calloc((size_t)n_values + 1, sizeof *p->f->values);
    p->f->tensors = calloc((size_t)n_tensors, sizeof *p->f->tensors);
    if (p->f->values == NULL || p->f->tensors == NULL) {
        p->st =
            lx_fail(p->err, LX_ERR_NO_MEMORY, NULL, "%s: no memory for the metadata", p->f->label);
        return;
    }
    p->f->n_values = n_values;
    p->f->n_tensors = n_tensors;
}

lx_status lx_gguf_open(const char *path, lx_gguf **out, lx_error *err)
{
    lx_gguf *f = calloc(1, sizeof *f);
    if (f != NULL) {
        f->file.fd = -1;
        f->label = strdup(lx_file_label(path));
    }
    if (f == NULL || f->label == NULL) {
        lx_gguf_close(f);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", lx_file_label(path));
    }
    parser p = {.f = f, .part = "the file", .i = -1, .err = err};
    p.st = lx_file_begin(path, MAX_FILE_BYTES, &f->file, err);
    if (p.st == LX_OK)
        take_start(&p);
    if (p.st == LX_OK)
        take_values(&p);
    if (p.st == LX_OK)
        take_tensors(&p);
    uint64_t alignment = read_alignment(&p);
    if (p.st == LX_OK)
        check_tiling(&p, alignment);
    if (p.st != LX_OK) {
        lx_gguf_close(f);
        return p.st;
    }
    f->hash = lx_file_hash(LX_HASH_SEED, f->header, (size_t)p.at);
    *out = f;
    return LX_OK;
}

uint64_t lx_gguf_hash(const lx_gguf *f)
{
    return f->hash;
}

bool lx_gguf_is_file(const char *path)
{
    static const char end[] = ".gguf";
    struct stat s;
    size_t n = strlen(path), k = sizeof end - 1;
    return n > k && strcmp(path + n - k, end) == 0 && stat(path, &s) == 0 && !S_ISDIR(s.st_mode);
}

void lx_gguf_drop_values(lx_gguf *f)
{
    free(f->header);
    free(f->values);
    f->header = NULL;
    f->values = NULL;
    f->n_values = 0;
}

void lx_gguf_close(lx_gguf *f)
{
    if (f == NULL)
        return;
    lx_file_end(&f->file);
    lx_gguf_drop_values(f);
    free(f->tensors);
    free(f->label);
    free(f);
}

lx_gguf_value *lx_gguf_find(const lx_gguf *f, const char *key)
{
    int32_t from = 0, to = f->n_values;
    size_t n = strlen(key);
    while (from < to) {
        int32_t middle = from + (to - from) / 2;
        lx_gguf_value *v = &f->values[middle];
        int order =
            compare_bytes((const char *)f->header + v->key_at, (size_t)v->key_bytes, key, n);
        if (order == 0)
            return v;
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

const lx_gguf_tensor *lx_gguf_find_tensor(const lx_gguf *f, const char *name)
{
    for (int32_t i = 0; i < f->n_tensors; i++) {
        if (strcmp(f->tensors[i].name, name) == 0)
            return &f->tensors[i];
    }
    return NULL;
}

double lx_gguf_number_at(const lx_gguf *f, const lx_gguf_value *v, uint64_t i)
{
    size_t size = kind_bytes[v->kind];
    uint64_t bits = number_of(f->header + v->at + i * size, size);
    float single;
    double x;
    uint32_t low = (uint32_t)bits;
    switch (v->kind) {
    case LX_GGUF_I8:
        return (double)(int8_t)bits;
    case LX_GGUF_I16:
        return (double)(int16_t)bits;
    case LX_GGUF_I32:
        return (double)(int32_t)low;
    case LX_GGUF_I64:
        return (double)(int64_t)bits;
    case LX_GGUF_F32:
        memcpy(&single, &low, sizeof single);
        return (double)single;
    case LX_GGUF_F64:
        memcpy(&x, &bits, sizeof x);
        return x;
    default:
        return (double)bits;
    }
}

const char *lx_gguf_text_at(const lx_gguf *f, uint64_t *at, size_t *n)
{
    uint64_t from = *at + 8;
    *n = (size_t)number_of(f->header + *at, 8);
    *at = from + *n;
    return (const char *)f->header + from;
}
