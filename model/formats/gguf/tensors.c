/*
 * The tensors of a GGUF file as a weights file's list (see reader.h). A tensor of the list is one
 * of the file, or some of its rows. Reading a tensor unpacks its blocks to f32
 * and undoes the converter's changes. Plain values keep their type unless their numbers change.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/formats/gguf/reader.h"
#include "model/formats/gguf/values.h"
#include "model/formats/safetensors.h"

/* Bytes that are read and unpacked at once. */
enum { PART_BYTES = 1 << 18, SLICES = 5 };

/* A tensor of the list. */
typedef struct part {
    const lx_gguf_tensor *from;
    char name[LX_GGUF_NAME];
    int64_t first_row, n_rows, cols; /* of the file's tensor, its last dimensions as one */
    lx_tensor as;
    unsigned flags;
    /* The heads of values: `repeat` for each of `groups` heads of keys, of `unit` rows (columns)
       each, after `skip` rows. PAIRS: `groups` heads of `unit` rows. */
    int64_t groups, repeat, unit, skip;
    float factor;
} part;

typedef struct list {
    lx_gguf *f;
    int32_t n;
    part *parts;     /* [n] */
    int32_t n_extra; /* layers after the model's own, which guess further tokens */
} list;

static lx_status bad(const list *l, const char *name, const char *what, lx_error *err)
{
    return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: tensor %s: %s", l->f->label, name, what);
}

/* --- reading: undoing the converter --- */

static size_t bytes_of(const part *p, int64_t n)
{
    return lx_format_bytes(p->as.t.dtype, n);
}

/* Puts n items of `size` bytes each in another order: item i is the old item place(p, i). */
static void reorder(const part *p, char *data, const char *copy, int64_t n, size_t size,
                    int64_t (*place)(const part *p, int64_t i))
{
    for (int64_t i = 0; i < n; i++)
        memcpy(data + (size_t)i * size, copy + (size_t)place(p, i) * size, size);
}

/* Head `g repeat + k` of the values stood at place `k groups + g`. */
static int64_t tiled_place(const part *p, int64_t i)
{
    int64_t head = i / p->unit, g = head / p->repeat, k = head % p->repeat;
    return (k * p->groups + g) * p->unit + i % p->unit;
}

/* Row `h unit + half + i` of a head stood at `h unit + 2 i + half`. */
static int64_t pairs_place(const part *p, int64_t i)
{
    int64_t row = i % p->unit, half = p->unit / 2;
    return i - row + row % half * 2 + row / half;
}

/* The parts r, w, k, v, g stood in the order w, k, v, r, g. */
static int64_t slice_place(const part *p, int64_t i)
{
    static const int64_t places[SLICES] = {3, 0, 1, 2, 4};
    return places[i / p->unit] * p->unit + i % p->unit;
}

/* Item (j, c, k) of [rows, 5, unit] stood at (c, j, k), c as for slice_place. */
static int64_t slice_column_place(const part *p, int64_t i)
{
    int64_t k = i % p->unit, c = i / p->unit % SLICES, j = i / p->unit / SLICES;
    return (slice_place(p, c * p->unit) * p->groups) + j * p->unit + k;
}

/* Columns move in whole blocks. */
static void undo_columns(const part *p, char *data, const char *copy)
{
    const lx_format *format = lx_format_of(p->as.t.dtype);
    size_t row = bytes_of(p, p->cols);
    part blocks = *p;
    blocks.unit /= format->block;
    for (int64_t i = 0; i < p->n_rows; i++)
        reorder(&blocks, data + (size_t)i * row, copy + (size_t)i * row, p->cols / format->block,
                (size_t)format->n_bytes, tiled_place);
}

static void undo_places(const part *p, char *data, const char *copy)
{
    bool single = (p->flags & LX_GGUF_VECTOR) != 0; /* its items are its rows */
    size_t size = bytes_of(p, single ? 1 : p->cols);
    int64_t n = single ? p->n_rows * p->cols : p->n_rows;
    size_t skipped = (size_t)p->skip * size;
    if ((p->flags & LX_GGUF_TILED_COLUMNS) != 0) {
        undo_columns(p, data, copy);
    } else if ((p->flags & LX_GGUF_SLICE_COLUMNS) != 0) {
        reorder(p, data, copy, p->n_rows * p->cols, bytes_of(p, 1), slice_column_place);
    } else {
        reorder(p, data + skipped, copy + skipped, n - p->skip, size,
                (p->flags & LX_GGUF_PAIRS) != 0    ? pairs_place
                : (p->flags & LX_GGUF_SLICES) != 0 ? slice_place
                                                   : tiled_place);
    }
}

static bool moves(const part *p)
{
    return (p->flags & (LX_GGUF_TILED | LX_GGUF_TILED_SINGLE | LX_GGUF_TILED_COLUMNS |
                        LX_GGUF_PAIRS | LX_GGUF_SLICES | LX_GGUF_SLICE_COLUMNS)) != 0;
}

static lx_status undo(const list *l, const part *p, char *data, lx_error *err)
{
    int64_t n = p->n_rows * p->cols;
    float *numbers = (float *)(void *)data;
    for (int64_t i = 0; (p->flags & LX_GGUF_MINUS_EXP) != 0 && i < n; i++) {
        if (!(numbers[i] < 0))
            return bad(l, p->name, "its numbers must be below 0", err);
        numbers[i] = (float)log(-(double)numbers[i]);
    }
    for (int64_t i = 0; (p->flags & LX_GGUF_RESCALED) != 0 && i < n; i++) {
        numbers[i] *= p->factor;
        if (!isfinite(numbers[i]))
            return bad(l, p->name, "its numbers are too large for rescale_every_n_layers", err);
    }
    if (!moves(p))
        return LX_OK;
    size_t n_bytes = bytes_of(p, n);
    char *copy = malloc(n_bytes);
    if (copy == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %s", p->name);
    memcpy(copy, data, n_bytes);
    undo_places(p, data, copy);
    free(copy);
    return LX_OK;
}

/* --- reading: values --- */

/* Whole blocks, of at most PART_BYTES. */
static size_t part_bytes(const lx_gguf_type *t)
{
    return PART_BYTES / t->bytes * t->bytes;
}

/* Values that are not as the file has them, through memory of a part's size: blocks of the kernels'
   type, or numbers. */
static lx_status read_converted(const list *l, const part *p, uint64_t at, uint64_t n_bytes,
                                char *to, lx_error *err)
{
    const lx_gguf_type *t = p->from->type;
    size_t most = part_bytes(t);
    unsigned char *bytes = malloc(most);
    lx_status st =
        bytes != NULL ? LX_OK : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %s", p->name);
    for (uint64_t done = 0; done < n_bytes && st == LX_OK;) {
        size_t n = n_bytes - done < most ? (size_t)(n_bytes - done) : most;
        st = lx_file_read_at(&l->f->file, l->f->label, at + done, bytes, n, err);
        if (st == LX_OK && t->repack != NULL && t->dtype == p->as.t.dtype)
            lx_gguf_repack(t, bytes, n, (unsigned char *)to);
        else if (st == LX_OK)
            lx_gguf_numbers(t, bytes, n, (float *)(void *)to);
        to += bytes_of(p, (int64_t)(n / t->bytes * t->block));
        done += n;
    }
    free(bytes);
    return st;
}

static lx_status read_part(void *context, int32_t i, void *data, lx_error *err)
{
    const list *l = context;
    const part *p = &l->parts[i];
    const lx_gguf_type *t = p->from->type;
    uint64_t row = (uint64_t)p->cols / t->block * t->bytes;
    if ((p->flags & LX_GGUF_SLICE_COLUMNS) != 0) /* its columns are another tensor's shape */
        row = p->from->n_bytes / (uint64_t)p->n_rows;
    uint64_t at = l->f->data_at + p->from->at + (uint64_t)p->first_row * row;
    uint64_t n_bytes = (uint64_t)p->n_rows * row;
    bool plain = t->repack == NULL && t->unpack == NULL && t->dtype == p->as.t.dtype;
    lx_status st = plain ? lx_file_read_at(&l->f->file, l->f->label, at, data, (size_t)n_bytes, err)
                         : read_converted(l, p, at, n_bytes, data, err);
    return st == LX_OK ? undo(l, p, data, err) : st;
}

static void end(void *context)
{
    lx_file_end(&((list *)context)->f->file);
}

static void free_list(void *context)
{
    list *l = context;
    lx_gguf_close(l->f);
    free(l->parts);
    free(l);
}

/* --- the list --- */

/* The layer of a tensor's name and the name after "blk.I."; -1: of no layer. */
static int32_t layer_of(const char *name, const char **rest)
{
    char *after = NULL;
    *rest = name;
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9')
        return -1;
    long layer = strtol(name + 4, &after, 10);
    if (*after != '.' || layer > LX_MAX_LAYERS)
        return -1;
    *rest = after + 1;
    return (int32_t)layer;
}

/* The order of heads, from the layer's mixer. */
static void set_places(const lx_config *c, int32_t layer, part *p)
{
    lx_mixer_config m = *lx_config_mixer(c, layer);
    bool keys =
        strcmp(m.mixer->name, "gated_deltanet") == 0 || strcmp(m.mixer->name, "grouped_query") == 0;
    int32_t key_heads = keys ? lx_mixer_value(&m, "key_heads")->i : m.n_heads;
    unsigned tiled = LX_GGUF_TILED | LX_GGUF_TILED_SINGLE | LX_GGUF_TILED_COLUMNS;
    p->groups = key_heads;
    p->repeat = m.n_heads / key_heads;
    p->unit = (p->flags & LX_GGUF_TILED_SINGLE) != 0 ? 1 : m.d_value;
    if ((p->flags & LX_GGUF_AFTER_KEYS) != 0)
        p->skip = 2 * (int64_t)key_heads * m.d_key;
    if ((p->flags & LX_GGUF_PAIRS) != 0)
        p->unit = m.d_key;
    if (p->repeat == 1 || key_heads == 1) /* the order was not changed */
        p->flags &= ~tiled;
}

/* Shapes for which the order of heads means something; others are refused by the config's. */
static bool fits(const part *p)
{
    int64_t n = (p->flags & LX_GGUF_VECTOR) != 0 ? p->n_rows * p->cols : p->n_rows;
    if ((p->flags & LX_GGUF_TILED_COLUMNS) != 0)
        n = p->cols;
    if ((p->flags & LX_GGUF_PAIRS) != 0)
        return n % p->unit == 0 && p->unit % 2 == 0;
    if ((p->flags & LX_GGUF_SLICES) != 0)
        return n % SLICES == 0;
    return !moves(p) || n - p->skip == p->groups * p->repeat * p->unit;
}

/* Blocks stay as they are where rows move whole, or columns in whole blocks. */
static void set_type(const lx_gguf_tensor *t, part *p)
{
    unsigned numbers = LX_GGUF_MINUS_EXP | LX_GGUF_RESCALED,
             divides = LX_GGUF_VECTOR | LX_GGUF_HEADS | LX_GGUF_SLICE_COLUMNS;
    int64_t block = lx_format_of(t->type->dtype)->block;
    bool columns = (p->flags & LX_GGUF_TILED_COLUMNS) != 0 && p->unit % block != 0;
    bool changes =
        (p->flags & numbers) != 0 || (block > 1 && ((p->flags & divides) != 0 || columns));
    p->as.t.dtype = !changes ? t->type->dtype : t->type->block > 1 ? LX_F32_OF_BLOCKS : LX_F32;
}

/* A tensor's shape in the list, once its flags are known. */
static lx_status set_shape(const list *l, const lx_config *c, int32_t layer, part *p, lx_error *err)
{
    int64_t n = p->n_rows * p->cols;
    if (layer >= 0 && (p->flags & ~(unsigned)LX_GGUF_VECTOR) != 0)
        set_places(c, layer, p);
    if ((p->flags & LX_GGUF_SLICES) != 0)
        p->unit = p->n_rows / SLICES;
    if ((p->flags & LX_GGUF_SLICE_COLUMNS) != 0) { /* [5, rows, unit] becomes [rows, 5 unit] */
        p->unit = p->cols;
        p->groups = p->n_rows / SLICES;
        if (p->n_rows % SLICES != 0)
            return bad(l, p->name, "it must have five parts", err);
        p->n_rows = p->groups;
        p->cols = SLICES * p->unit;
    } else if (!fits(p)) {
        return bad(l, p->name, "its shape is not the one that the heads need", err);
    }
    bool vector = (p->flags & LX_GGUF_VECTOR) != 0;
    bool heads = (p->flags & LX_GGUF_HEADS) != 0 && n % c->n_heads == 0;
    p->as.n_dims = heads || (!vector && p->from->n_dims > 1) ? 2 : 1;
    p->as.t.rows = heads ? c->n_heads : vector ? 1 : p->n_rows;
    p->as.t.cols = n / p->as.t.rows;
    return LX_OK;
}

static unsigned flags_of(const lx_gguf_arch *arch, const char *rest)
{
    for (const lx_gguf_undo *u = arch->undo; u->name != NULL; u++) {
        if (strcmp(u->name, rest) == 0)
            return u->flags;
    }
    return 0;
}

static int64_t rows_of(const lx_gguf_tensor *t)
{
    return t->dims[1] * t->dims[2] * t->dims[3];
}

static lx_status add_fused(list *l, const lx_gguf_arch *arch, const lx_gguf_tensor *t,
                           int32_t layer, lx_error *err)
{
    int32_t n = 0;
    while (arch->fused_parts[n] != NULL)
        n++;
    if (rows_of(t) != n)
        return bad(l, t->name, "it has another number of rows than the architecture needs", err);
    for (int32_t i = 0; i < n; i++) {
        part *p = &l->parts[l->n++];
        *p = (part){.from = t, .first_row = i, .n_rows = 1, .cols = t->dims[0]};
        (void)snprintf(p->name, sizeof p->name, "blk.%d.%s", layer, arch->fused_parts[i]);
        p->as = (lx_tensor){.n_dims = 1, .t = {t->type->dtype, 1, p->cols, NULL}};
    }
    return LX_OK;
}

static lx_status add(list *l, const lx_gguf_arch *arch, const lx_config *c, const lx_gguf_tensor *t,
                     lx_error *err)
{
    const char *rest;
    int32_t layer = layer_of(t->name, &rest);
    if (layer >= c->n_layers && layer - c->n_layers < l->n_extra)
        return LX_OK;
    bool own = layer >= 0 && layer < c->n_layers;
    if (own && arch->fused != NULL && strcmp(arch->fused, rest) == 0)
        return add_fused(l, arch, t, layer, err);
    part *p = &l->parts[l->n];
    *p = (part){.from = t, .n_rows = rows_of(t), .cols = t->dims[0]};
    (void)snprintf(p->name, sizeof p->name, "%s", t->name);
    p->flags = own ? flags_of(arch, rest) : 0;
    lx_gguf_reader r = {.f = l->f, .arch = arch->name, .err = err};
    if ((p->flags & LX_GGUF_RESCALED) != 0) {
        int32_t every = lx_gguf_int(&r, "rescale_every_n_layers", 0, LX_MAX_LAYERS, 0);
        p->factor = every > 0 ? ldexpf(1.0f, layer / every) : 1.0f;
        if (p->factor == 1.0f)
            p->flags &= ~(unsigned)LX_GGUF_RESCALED;
    }
    lx_status st = r.st == LX_OK ? set_shape(l, c, layer, p, err) : r.st;
    set_type(t, p);
    l->n += st == LX_OK;
    return st;
}

/* --- checking all values once --- */

static lx_status check_values(const lx_gguf *f, const lx_gguf_tensor *t, unsigned char *bytes,
                              lx_hasher *hasher, lx_error *err)
{
    size_t most = part_bytes(t->type);
    for (uint64_t done = 0; done < t->n_bytes;) {
        size_t n = t->n_bytes - done < most ? (size_t)(t->n_bytes - done) : most;
        lx_status st =
            lx_file_read_at(&f->file, f->label, f->data_at + t->at + done, bytes, n, err);
        if (st != LX_OK)
            return st;
        lx_hasher_add_quarters(hasher, bytes, n);
        bool finite = t->type->n_scales > 0 ? lx_gguf_scales_are_finite(t->type, bytes, n)
                                            : lx_safetensors_is_finite(bytes, n, t->type->dtype);
        if (!finite)
            return lx_fail(err, LX_ERR_FORMAT, NULL,
                           "%s: tensor %s has a value that is NaN or infinite", f->label, t->name);
        done += n;
    }
    return LX_OK;
}

static lx_status check_data(const lx_gguf *f, uint64_t *hash, lx_error *err)
{
    lx_hasher hasher = {.hash = f->hash};
    unsigned char *bytes = malloc(PART_BYTES);
    lx_status st = bytes != NULL
                       ? LX_OK
                       : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory to read it", f->label);
    for (int32_t i = 0; i < f->n_tensors && st == LX_OK; i++)
        st = check_values(f, &f->tensors[i], bytes, &hasher, err);
    free(bytes);
    *hash = lx_hasher_end(&hasher);
    return st;
}

static lx_status make_list(list *l, const lx_gguf_arch *arch, const lx_config *c,
                           lx_safetensors **out, lx_error *err)
{
    uint64_t hash = 0;
    lx_gguf_reader r = {.f = l->f, .arch = arch->name, .err = err};
    l->n_extra = lx_gguf_int(&r, "nextn_predict_layers", 0, LX_MAX_LAYERS, 0);
    lx_status st = r.st;
    for (int32_t i = 0; i < l->f->n_tensors && st == LX_OK; i++)
        st = add(l, arch, c, &l->f->tensors[i], err);
    if (st == LX_OK)
        st = check_data(l->f, &hash, err);
    lx_tensor *all = st == LX_OK ? calloc((size_t)l->n, sizeof *all) : NULL;
    if (st == LX_OK && all == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", l->f->label);
    for (int32_t i = 0; st == LX_OK && i < l->n; i++) {
        all[i] = l->parts[i].as;
        all[i].name = l->parts[i].name;
    }
    const lx_tensor_source source = {l, read_part, end, free_list};
    if (st == LX_OK)
        st = lx_safetensors_from(all, l->n, &source, hash, out, err);
    free(all);
    return st;
}

lx_status lx_gguf_weights(lx_gguf *f, const lx_gguf_arch *arch, const lx_config *config,
                          lx_safetensors **out, lx_error *err)
{
    int32_t more = 1;
    while (arch->fused != NULL && arch->fused_parts[more] != NULL)
        more++;
    list *l = calloc(1, sizeof *l);
    if (l != NULL)
        l->parts = calloc((size_t)f->n_tensors * (size_t)more, sizeof *l->parts);
    if (l == NULL || l->parts == NULL) {
        free(l);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", f->label);
    }
    l->f = f;
    lx_status st = make_list(l, arch, config, out, err);
    if (st != LX_OK) {
        free(l->parts);
        free(l);
        return st;
    }
    lx_gguf_drop_values(f);
    return LX_OK;
}
