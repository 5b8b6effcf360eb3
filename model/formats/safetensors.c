/*
 * The weights reader. The file's header is parsed with jansson into a list of tensors, the list is
 * sorted by offset, and then one walk in parts of PART_BYTES reads all data: it checks that the
 * tensors tile the data area and that every value is finite, and it hashes the bytes. After a
 * successful open the file's contents need no check again, as lx_file_read_at refuses a file that
 * has changed since.
 *
 * All numbers of the header are checked against the file's size before they are used in arithmetic.
 */
#include "model/formats/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "model/formats/file.h"
#include "model/formats/json_memory.h"

enum { MAX_TENSOR_NAME = 127, MAX_DIMS = 8 };
#define MAX_FILE_BYTES ((size_t)1 << 40)
#define MAX_HEADER_BYTES ((uint64_t)16 << 20)
/* For a second-level cache; parts have whole values or blocks. */
#define PART_BYTES ((size_t)256 << 10)

/* A tensor and its place in the data area. */
typedef struct entry {
    lx_tensor tensor;
    const lx_safetensors *file; /* whose data area it is */
    uint64_t begin, end;
    char name[MAX_TENSOR_NAME + 1];
} entry;

struct lx_safetensors {
    lx_file file;
    uint64_t data_at, data_bytes; /* after the header */
    bool has_blocks;              /* the file may have tensors in blocks */
    int32_t n;
    entry *entries; /* [n] in file order */
    int32_t *found; /* [n] the places of the entries, in the order of their names */
    int32_t n_joined;
    lx_safetensors **joined; /* [n_joined] whose tensors these are; then there is no file */
    lx_tensor_source source; /* of another reader's tensors; then there is no file, too */
    uint64_t hash;
    char *label;
};

static lx_status bad(const lx_safetensors *f, const char *name, lx_error *err, const char *what)
{
    return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: tensor %s: %s", f->label, name, what);
}

/* --- the order of names --- */

static int compare_names(const void *a, const void *b)
{
    const entry *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Fills f->found, once all entries are in their places. */
static lx_status sort_names(lx_safetensors *f, lx_error *err)
{
    const entry **sorted = calloc((size_t)f->n, sizeof *sorted);
    f->found = calloc((size_t)f->n, sizeof *f->found);
    if (sorted == NULL || f->found == NULL) {
        free(sorted);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory for %d tensors",
                       f->label != NULL ? f->label : "weights", f->n);
    }
    for (int32_t i = 0; i < f->n; i++)
        sorted[i] = &f->entries[i];
    qsort(sorted, (size_t)f->n, sizeof *sorted, compare_names);
    for (int32_t i = 0; i < f->n; i++)
        f->found[i] = (int32_t)(sorted[i] - f->entries);
    free(sorted);
    return LX_OK;
}

/* --- the header --- */

static bool is_good_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-";
    size_t n = strlen(name);
    return n > 0 && n <= MAX_TENSOR_NAME && strspn(name, allowed) == n;
}

static bool parse_dtype(const char *text, lx_dtype *out)
{
    static const lx_dtype known[] = {LX_F32, LX_BF16, LX_F16, LX_Q8_0, LX_Q4_0};
    for (size_t i = 0; text != NULL && i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(lx_format_of(known[i])->name, text) == 0) {
            *out = known[i];
            return true;
        }
    }
    return false;
}

/* Up to MAX_DIMS sizes, every one at least 1. Sizes of 1 do not count, of three among the first
   two, of four at all. False also when n_bytes overflows. */
static bool parse_shape(const json_t *shape, lx_tensor *t, uint64_t *n_bytes)
{
    const lx_format *format = lx_format_of(t->t.dtype);
    int64_t rows = 1, cols = 1, n;
    size_t n_given = json_array_size(shape), n_dims = 0;
    if (n_given < 1 || n_given > MAX_DIMS)
        return false;
    for (size_t i = 0; i < n_given; i++) {
        const json_t *value = json_array_get(shape, i);
        json_int_t x = json_integer_value(value);
        if (!json_is_integer(value) || x < 1)
            return false;
        if (x == 1 && (n_given == 4 || (n_given == 3 && i < 2)))
            continue;
        if (__builtin_mul_overflow(rows, cols, &rows))
            return false;
        cols = x;
        n_dims++;
    }
    if (__builtin_mul_overflow(rows, cols, &n) || cols % format->block != 0 ||
        __builtin_mul_overflow((uint64_t)(n / format->block), (uint64_t)format->n_bytes, n_bytes))
        return false;
    t->n_dims = (int32_t)n_dims;
    t->planes = n_given == 3 && n_dims == 3 ? json_integer_value(json_array_get(shape, 0)) : 0;
    t->t.rows = rows;
    t->t.cols = cols;
    return true;
}

static bool parse_offsets(const json_t *offsets, entry *e)
{
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < 0)
        return false;
    e->begin = (uint64_t)json_integer_value(begin);
    e->end = (uint64_t)json_integer_value(end);
    return e->begin <= e->end;
}

static lx_status parse_entry(const lx_safetensors *f, const char *name, const json_t *value,
                             entry *e, lx_error *err)
{
    uint64_t n_bytes = 0;
    memcpy(e->name, name, strlen(name) + 1);
    if (!json_is_object(value) || json_object_size(value) != 3)
        return bad(f, name, err, "must have dtype, shape and data_offsets, and nothing else");
    if (!parse_dtype(json_string_value(json_object_get(value, "dtype")), &e->tensor.t.dtype))
        return bad(f, name, err, "dtype must be \"F32\", \"BF16\", \"F16\", \"Q8_0\" or \"Q4_0\"");
    if (lx_format_of(e->tensor.t.dtype)->block > 1 && !f->has_blocks)
        return bad(
            f, name, err,
            "its dtype is one of blocks, which need \"linnet_blocks\": \"1\" in __metadata__");
    if (!parse_shape(json_object_get(value, "shape"), &e->tensor, &n_bytes))
        return bad(f, name, err,
                   "shape must be a list of 1 to 8 whole numbers of 1 or more, the last of them a "
                   "multiple of 32 for blocks");
    if (!parse_offsets(json_object_get(value, "data_offsets"), e))
        return bad(f, name, err, "data_offsets must be [begin, end]");
    if (e->end > f->data_bytes)
        return lx_fail(err, LX_ERR_FORMAT, NULL,
                       "%s: tensor %s: ends at data byte %llu, the file has %llu", f->label, name,
                       (unsigned long long)e->end, (unsigned long long)f->data_bytes);
    if (e->end - e->begin != n_bytes)
        return lx_fail(err, LX_ERR_FORMAT, NULL,
                       "%s: tensor %s: data_offsets hold %llu bytes, dtype and shape need %llu",
                       f->label, name, (unsigned long long)(e->end - e->begin),
                       (unsigned long long)n_bytes);
    return LX_OK;
}

static lx_status check_metadata(const lx_safetensors *f, const json_t *metadata, lx_error *err)
{
    const char *key;
    json_t *value;
    if (metadata == NULL)
        return LX_OK;
    if (!json_is_object(metadata))
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: __metadata__ must be an object", f->label);
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value)
    {
        if (!json_is_string(value))
            return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: __metadata__ may hold text only",
                           f->label);
    }
    return LX_OK;
}

static lx_status parse_entries(lx_safetensors *f, json_t *root, lx_error *err)
{
    const char *name;
    json_t *value;
    size_t n = json_object_size(root);
    const json_t *metadata = json_object_get(root, "__metadata__");
    lx_status st = check_metadata(f, metadata, err);
    if (st != LX_OK)
        return st;
    n -= metadata != NULL;
    const char *blocks = json_string_value(json_object_get(metadata, LX_BLOCKS_KEY));
    f->has_blocks = blocks != NULL && strcmp(blocks, LX_BLOCKS_VERSION) == 0;
    if (n < 1 || n > LX_MAX_FILE_TENSORS)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: %zu tensors, must be 1 to %d", f->label, n,
                       LX_MAX_FILE_TENSORS);
    f->entries = calloc(n, sizeof *f->entries);
    if (f->entries == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory for %zu tensors", f->label, n);
    json_object_foreach(root, name, value)
    {
        char quoted[64];
        if (value == metadata)
            continue;
        if (!is_good_name(name))
            return bad(f, lx_file_quote(name, quoted, sizeof quoted), err,
                       "a name has 1 to 127 letters, digits, '.', '_' and '-'");
        st = parse_entry(f, name, value, &f->entries[f->n], err);
        if (st != LX_OK)
            return st;
        f->n++;
    }
    return LX_OK;
}

/* The entries of a header's text. */
static lx_status parse_header(lx_safetensors *f, const char *text, size_t length, lx_error *err)
{
    json_error_t e;
    char what[JSON_ERROR_TEXT_LENGTH];
    json_t *root = lx_json_load(text, length, JSON_REJECT_DUPLICATES, &e);
    if (root == NULL && e.text[0] == '\0') /* the parser has a text for every other fault */
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory for the header", f->label);
    if (root == NULL)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: header: %s", f->label,
                       lx_file_quote(e.text, what, sizeof what));
    lx_status st = LX_OK;
    if (json_is_object(root))
        st = parse_entries(f, root, err);
    else
        st = lx_fail(err, LX_ERR_FORMAT, NULL, "%s: the header is not an object", f->label);
    json_decref(root);
    return st;
}

static lx_status read_part(const lx_safetensors *f, uint64_t at, void *data, size_t n,
                           lx_hasher *hasher, lx_error *err)
{
    lx_status st = lx_file_read_at(&f->file, f->label, at, data, n, err);
    if (st == LX_OK)
        lx_hasher_add_quarters(hasher, data, n);
    return st;
}

/* The length field, then the JSON; sets the data area. */
static lx_status read_header(lx_safetensors *f, lx_hasher *hasher, lx_error *err)
{
    unsigned char field[8] = {0};
    uint64_t length = 0;
    size_t n_bytes = f->file.n_bytes;
    if (n_bytes < sizeof field)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: %zu bytes, no room for a header", f->label,
                       n_bytes);
    lx_status st = read_part(f, 0, field, sizeof field, hasher, err);
    if (st != LX_OK)
        return st;
    for (int i = 0; i < 8; i++)
        length |= (uint64_t)field[i] << (8 * i);
    if (length > n_bytes - sizeof field || length > MAX_HEADER_BYTES)
        return lx_fail(err, LX_ERR_FORMAT, NULL,
                       "%s: a header of %llu bytes in a file of %zu (at most %llu)", f->label,
                       (unsigned long long)length, n_bytes, (unsigned long long)MAX_HEADER_BYTES);
    f->data_at = sizeof field + length;
    f->data_bytes = n_bytes - f->data_at;
    char *text = malloc((size_t)length + 1);
    if (text == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory for the header", f->label);
    st = read_part(f, sizeof field, text, (size_t)length, hasher, err);
    if (st == LX_OK)
        st = parse_header(f, text, (size_t)length, err);
    free(text);
    return st;
}

/* --- the data --- */

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static lx_status check_tiling(const lx_safetensors *f, lx_error *err)
{
    uint64_t at = 0;
    for (int32_t i = 0; i < f->n; i++) {
        const entry *e = &f->entries[i];
        if (e->begin != at)
            return lx_fail(err, LX_ERR_FORMAT, NULL,
                           "%s: tensor %s: begins at data byte %llu, %s ends at %llu", f->label,
                           e->name, (unsigned long long)e->begin,
                           i > 0 ? f->entries[i - 1].name : "nothing", (unsigned long long)at);
        at = e->end;
    }
    if (at != f->data_bytes)
        return lx_fail(err, LX_ERR_FORMAT, NULL,
                       "%s: %llu bytes of data, the last tensor, %s, ends at %llu", f->label,
                       (unsigned long long)f->data_bytes, f->entries[f->n - 1].name,
                       (unsigned long long)at);
    return LX_OK;
}

/* Whether every block has a scale that is neither NaN nor infinite: an f16 at its beginning. */
static bool scales_are_finite(const unsigned char *data, uint64_t n_bytes, size_t block)
{
    for (uint64_t i = 1; i < n_bytes; i += block) {
        if ((data[i] & 0x7c) == 0x7c)
            return false;
    }
    return true;
}

/*
 * A value is infinite or NaN when all bits of its exponent are set. Eight bytes at a time: keep the
 * exponents, add one to each in its lowest place; then, and only then, does the top bit of the
 * value's field become 1. Nothing is carried into the neighbour.
 */
bool lx_safetensors_is_finite(const unsigned char *data, uint64_t n_bytes, lx_dtype dtype)
{
    static const uint64_t exponent[] = {[LX_F32] = UINT64_C(0x7f8000007f800000),
                                        [LX_BF16] = UINT64_C(0x7f807f807f807f80),
                                        [LX_F16] = UINT64_C(0x7c007c007c007c00)};
    static const uint64_t lowest[] = {[LX_F32] = UINT64_C(0x0080000000800000),
                                      [LX_BF16] = UINT64_C(0x0080008000800080),
                                      [LX_F16] = UINT64_C(0x0400040004000400)};
    if (lx_format_of(dtype)->block > 1)
        return scales_are_finite(data, n_bytes, (size_t)lx_format_of(dtype)->n_bytes);
    uint64_t mask = exponent[dtype], one = lowest[dtype], seen = 0, word, i = 0;
    for (; i + 8 <= n_bytes; i += 8) {
        memcpy(&word, data + i, 8);
        seen |= (word & mask) + one;
    }
    word = 0;
    memcpy(&word, data + i, n_bytes - i);
    seen |= (word & mask) + one;
    uint64_t top = dtype == LX_F32 ? UINT64_C(0x8000000080000000) : UINT64_C(0x8000800080008000);
    return (seen & top) == 0;
}

/* Reads a tensor's values once, in parts. */
static lx_status check_values(const lx_safetensors *f, const entry *e, unsigned char *part,
                              lx_hasher *hasher, lx_error *err)
{
    size_t unit = (size_t)lx_format_of(e->tensor.t.dtype)->n_bytes, most = PART_BYTES / unit * unit;
    for (uint64_t at = e->begin; at < e->end; at += most) {
        size_t n = e->end - at < most ? (size_t)(e->end - at) : most;
        lx_status st = read_part(f, f->data_at + at, part, n, hasher, err);
        if (st != LX_OK)
            return st;
        if (!lx_safetensors_is_finite(part, n, e->tensor.t.dtype))
            return bad(f, e->name, err, "has a value that is NaN or infinite");
    }
    return LX_OK;
}

static lx_status check_data(lx_safetensors *f, lx_hasher *hasher, lx_error *err)
{
    qsort(f->entries, (size_t)f->n, sizeof *f->entries, compare_entries);
    lx_status st = check_tiling(f, err);
    if (st != LX_OK)
        return st;
    unsigned char *part = malloc(PART_BYTES);
    if (part == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory to read it", f->label);
    for (int32_t i = 0; i < f->n && st == LX_OK; i++) {
        entry *e = &f->entries[i];
        e->tensor.name = e->name;
        e->tensor.idx = i;
        e->file = f;
        st = check_values(f, e, part, hasher, err);
    }
    free(part);
    return st == LX_OK ? sort_names(f, err) : st;
}

/* --- the file --- */

lx_status lx_safetensors_open(const char *path, lx_safetensors **out, lx_error *err)
{
    lx_safetensors *f = calloc(1, sizeof *f);
    lx_hasher hasher = {.hash = LX_HASH_SEED};
    if (f != NULL) {
        f->file.fd = -1;
        f->label = strdup(lx_file_label(path));
    }
    if (f == NULL || f->label == NULL) {
        lx_safetensors_close(f);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", lx_file_label(path));
    }
    lx_status st = lx_file_begin(path, MAX_FILE_BYTES, &f->file, err);
    if (st == LX_OK)
        st = read_header(f, &hasher, err);
    if (st == LX_OK)
        st = check_data(f, &hasher, err);
    if (st != LX_OK) {
        lx_safetensors_close(f);
        return st;
    }
    f->hash = lx_hasher_end(&hasher);
    *out = f;
    return LX_OK;
}

void lx_safetensors_end(lx_safetensors *f)
{
    lx_file_end(&f->file);
    if (f->source.end != NULL)
        f->source.end(f->source.context);
    for (int32_t i = 0; i < f->n_joined; i++)
        lx_safetensors_end(f->joined[i]);
}

void lx_safetensors_close(lx_safetensors *f)
{
    if (f == NULL)
        return;
    lx_file_end(&f->file);
    if (f->source.free != NULL)
        f->source.free(f->source.context);
    for (int32_t i = 0; i < f->n_joined; i++)
        lx_safetensors_close(f->joined[i]);
    free(f->joined);
    free(f->entries);
    free(f->found);
    free(f->label);
    free(f);
}

int32_t lx_safetensors_count(const lx_safetensors *f)
{
    return f->n;
}

const lx_tensor *lx_safetensors_at(const lx_safetensors *f, int32_t i)
{
    return &f->entries[i].tensor;
}

const lx_tensor *lx_safetensors_find(const lx_safetensors *f, const char *name)
{
    int32_t from = 0, to = f->n;
    while (from < to) {
        int32_t middle = from + (to - from) / 2;
        const entry *e = &f->entries[f->found[middle]];
        int order = strcmp(name, e->name);
        if (order == 0)
            return &e->tensor;
        from = order > 0 ? middle + 1 : from;
        to = order < 0 ? middle : to;
    }
    return NULL;
}

size_t lx_safetensors_bytes(const lx_tensor *t)
{
    return lx_format_bytes(t->t.dtype, t->t.rows * t->t.cols);
}

bool lx_safetensors_has_rows(const lx_safetensors *f)
{
    return f->source.read == NULL;
}

lx_status lx_safetensors_read_rows(const lx_safetensors *f, const lx_tensor *t, int64_t first,
                                   int64_t rows, void *data, lx_error *err)
{
    const entry *e = &f->entries[t->idx];
    size_t row = lx_format_bytes(t->t.dtype, t->t.cols);
    if (!lx_safetensors_has_rows(f))
        return lx_fail(err, LX_ERR_UNSUPPORTED, NULL, "tensor %s cannot be read in parts", t->name);
    return lx_file_read_at(&e->file->file, e->file->label,
                           e->file->data_at + e->begin + (uint64_t)first * row, data,
                           (size_t)rows * row, err);
}

lx_status lx_safetensors_read(const lx_safetensors *f, const lx_tensor *t, void *data,
                              lx_error *err)
{
    const entry *e = &f->entries[t->idx];
    if (f->source.read != NULL)
        return f->source.read(f->source.context, t->idx, data, err);
    return lx_file_read_at(&e->file->file, e->file->label, e->file->data_at + e->begin, data,
                           (size_t)(e->end - e->begin), err);
}

/* The values are read to the end of `data` and expanded there. */
lx_status lx_safetensors_numbers(const lx_safetensors *f, const lx_tensor *t, float *data,
                                 lx_error *err)
{
    int64_t n = t->t.rows * t->t.cols;
    size_t n_bytes = lx_safetensors_bytes(t);
    lx_host_tensor values = t->t;
    values.data = (char *)data + (size_t)n * sizeof *data - n_bytes;
    lx_status st = lx_safetensors_read(f, t, (void *)(uintptr_t)values.data, err);
    if (st == LX_OK && t->t.dtype != LX_F32)
        lx_host_tensor_expand(&values, 0, n, data);
    return st;
}

uint64_t lx_safetensors_hash(const lx_safetensors *f)
{
    return f->hash;
}

/* --- several files --- */

lx_status lx_safetensors_join(lx_safetensors *const *files, int32_t n, lx_safetensors **out,
                              lx_error *err)
{
    lx_safetensors *f = calloc(1, sizeof *f);
    int32_t total = 0;
    for (int32_t i = 0; i < n; i++)
        total += files[i]->n;
    if (f != NULL) {
        f->file.fd = -1;
        f->entries = calloc((size_t)total, sizeof *f->entries);
        f->joined = calloc((size_t)n, sizeof(lx_safetensors *));
    }
    if (f == NULL || f->entries == NULL || f->joined == NULL) {
        lx_safetensors_close(f);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d tensors", total);
    }
    for (int32_t i = 0; i < n; i++) {
        for (int32_t k = 0; k < files[i]->n; k++) {
            entry *e = &f->entries[f->n];
            *e = files[i]->entries[k];
            e->tensor.name = e->name;
            e->tensor.idx = f->n++;
        }
    }
    lx_status st = sort_names(f, err);
    if (st != LX_OK) { /* the files are still the caller's */
        lx_safetensors_close(f);
        return st;
    }
    f->hash = LX_HASH_SEED;
    for (int32_t i = 0; i < n; i++) {
        f->joined[f->n_joined++] = files[i];
        f->hash = lx_file_hash(f->hash, &files[i]->hash, sizeof f->hash);
    }
    *out = f;
    return LX_OK;
}

/* --- another reader's tensors --- */

lx_status lx_safetensors_from(const lx_tensor *tensors, int32_t n, const lx_tensor_source *source,
                              uint64_t hash, lx_safetensors **out, lx_error *err)
{
    lx_safetensors *f = calloc(1, sizeof *f);
    if (f != NULL)
        f->entries = calloc((size_t)n, sizeof *f->entries);
    if (f == NULL || f->entries == NULL) {
        free(f);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d tensors", n);
    }
    f->file.fd = -1;
    for (; f->n < n; f->n++) {
        entry *e = &f->entries[f->n];
        size_t length = strnlen(tensors[f->n].name, MAX_TENSOR_NAME);
        e->tensor = tensors[f->n];
        memcpy(e->name, tensors[f->n].name, length);
        e->tensor.name = e->name;
        e->tensor.idx = f->n;
    }
    lx_status st = sort_names(f, err);
    if (st != LX_OK) {
        lx_safetensors_close(f);
        return st;
    }
    f->source = *source;
    f->hash = hash;
    *out = f;
    return LX_OK;
}
