/*
 * See convert.h. The weights come first and config.json last, so that a folder whose writing was
 * interrupted cannot be loaded.
 */
#include "model/convert.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/formats/file.h"
#include "model/formats/hugging_face/chat.h"
#include "model/formats/hugging_face/names.h"
#include "model/model_files.h"
#include "model/tasks/task.h"
#include "model/tasks/text_config.h"
#include "model/tokenizers/tokenizer.h"

/* A tensor of the new file. */
typedef struct item {
    const lx_tensor *from;
    const char *name;
    lx_dtype to;
    bool is_matrix;
} item;

typedef struct conversion {
    const lx_model *m;
    const char *out;
    int32_t n;
    item *items; /* [n] */
    FILE *file;
    char path[LX_MODEL_PATH]; /* of that file */
} conversion;

/* --- the plan --- */

static bool can_pack(const lx_tensor *t, unsigned uses, lx_dtype to)
{
    return (uses & LX_TENSOR_MULTIPLIES) != 0 && (uses & LX_TENSOR_CUTS_BLOCKS) == 0 &&
           t->t.cols % LX_BLOCK == 0 && t->t.dtype != to;
}

static void add(conversion *c, const lx_tensor *t, const char *name, lx_dtype to, bool is_matrix)
{
    c->items[c->n++] = (item){t, name, to, is_matrix};
}

/* Lists the tensors. Returns how many of them change. */
static int32_t plan(conversion *c, lx_dtype to)
{
    const lx_model *m = c->m;
    int32_t n_packed = 0;
    for (int32_t i = 0; i < lx_safetensors_count(m->weights); i++) {
        const lx_tensor *t = lx_safetensors_at(m->weights, i);
        unsigned uses = m->tensor_uses[i];
        bool packs = can_pack(t, uses, to), is_matrix = (uses & LX_TENSOR_MULTIPLIES) != 0;
        bool is_tied = is_matrix && (uses & LX_TENSOR_IS_TABLE) != 0;
        if (uses == 0)
            continue;
        n_packed += packs;
        if (is_tied && packs && to != LX_Q8_0) {
            add(c, t, t->name, t->t.dtype, false);
            add(c, t, lx_hf_stored_head(&m->config), to, true);
        } else {
            add(c, t, t->name, packs ? to : t->t.dtype, is_matrix);
        }
    }
    return n_packed;
}

/* --- files of the new folder --- */

static lx_status fail_io(const char *path, lx_error *err)
{
    return lx_fail(err, LX_ERR_IO, NULL, "%s: %s", lx_file_label(path), strerror(errno));
}

static lx_status create(conversion *c, const char *name, lx_error *err)
{
    lx_status st = lx_model_path(c->path, c->out, "", name, err);
    if (st != LX_OK)
        return st;
    c->file = fopen(c->path, "wxe");
    return c->file != NULL ? LX_OK : fail_io(c->path, err);
}

static lx_status put(const conversion *c, const void *data, size_t n, lx_error *err)
{
    return fwrite(data, 1, n, c->file) == n ? LX_OK : fail_io(c->path, err);
}

/* Closes the file after an error, too. Its bytes are on the disk then, or it is an error. */
static lx_status finish(conversion *c, lx_status st, lx_error *err)
{
    if (c->file == NULL)
        return st;
    if (st == LX_OK && (fflush(c->file) != 0 || fsync(fileno(c->file)) != 0))
        st = fail_io(c->path, err);
    if (fclose(c->file) != 0 && st == LX_OK)
        st = fail_io(c->path, err);
    c->file = NULL;
    return st;
}

/* --- tensors --- */

static size_t bytes_of(const item *it)
{
    return lx_format_bytes(it->to, it->from->t.rows * it->from->t.cols);
}

/* Names have no characters that JSON escapes, as the reader has checked. */
static void print_header(const conversion *c, FILE *to)
{
    size_t at = 0;
    (void)fprintf(to, "{\"__metadata__\":{\"" LX_BLOCKS_KEY "\":\"" LX_BLOCKS_VERSION "\"}");
    for (int32_t i = 0; i < c->n; i++) {
        const item *it = &c->items[i];
        (void)fprintf(to, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", it->name,
                      lx_format_of(it->to)->name);
        if (it->from->n_dims > 1)
            (void)fprintf(to, "%lld,", (long long)it->from->t.rows);
        (void)fprintf(to, "%lld],\"data_offsets\":[%zu,%zu]}", (long long)it->from->t.cols, at,
                      at + bytes_of(it));
        at += bytes_of(it);
    }
    (void)fprintf(to, "}");
}

static lx_status put_header(const conversion *c, lx_error *err)
{
    char *text = NULL;
    size_t n = 0;
    unsigned char length[8];
    FILE *to = open_memstream(&text, &n);
    if (to != NULL)
        print_header(c, to);
    if (to == NULL || fclose(to) != 0 || text == NULL) {
        free(text);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a list of tensors");
    }
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)n >> 8 * i);
    lx_status st = put(c, length, sizeof length, err);
    if (st == LX_OK)
        st = put(c, text, n, err);
    free(text);
    return st;
}

/* Rounds a row to blocks and adds its errors and squares. `numbers` has room for its values before
   and after. */
static lx_status pack_row(const item *it, const lx_host_tensor *t, int64_t row, float *numbers,
                          unsigned char *packed, double sums[2], lx_error *err)
{
    int64_t cols = t->cols;
    const lx_host_tensor after = {it->to, 1, cols, packed};
    lx_host_tensor_expand(t, row * cols, cols, numbers);
    for (int64_t k = 0; k < cols; k += LX_BLOCK) {
        lx_block block;
        lx_block_of(t, row, k, it->to, &block);
        lx_block_put(&block, it->to, packed + lx_format_bytes(it->to, k));
    }
    lx_host_tensor_expand(&after, 0, cols, numbers + cols);
    for (int64_t k = 0; k < cols; k++) {
        double x = (double)numbers[k], error = (double)numbers[cols + k] - x;
        if (!(fabs(x) <= (double)LX_BLOCK_MOST))
            return lx_fail(err, LX_ERR_UNSUPPORTED, NULL,
                           "tensor %s has a weight above %g, which a block cannot hold", it->name,
                           (double)LX_BLOCK_MOST);
        sums[0] += error * error;
        sums[1] += x * x;
    }
    return LX_OK;
}

static lx_status put_packed(const conversion *c, const item *it, const lx_host_tensor *t,
                            double *error, lx_error *err)
{
    size_t n = lx_format_bytes(it->to, t->cols);
    double sums[2] = {0, 0};
    float *numbers = malloc((size_t)t->cols * 2 * sizeof *numbers);
    unsigned char *packed = malloc(n);
    lx_status st = LX_OK;
    if (numbers == NULL || packed == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a row of %s", it->name);
    for (int64_t row = 0; row < t->rows && st == LX_OK; row++) {
        st = pack_row(it, t, row, numbers, packed, sums, err);
        if (st == LX_OK)
            st = put(c, packed, n, err);
    }
    free(numbers);
    free(packed);
    *error = sums[1] > 0 ? sqrt(sums[0] / sums[1]) : 0;
    return st;
}

static lx_status put_tensor(const conversion *c, const item *it, double *error, lx_error *err)
{
    lx_host_tensor t = it->from->t;
    size_t n = lx_safetensors_bytes(it->from);
    void *values = malloc(n);
    if (values == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for tensor %s", it->name);
    lx_status st = lx_safetensors_read(c->m->weights, it->from, values, err);
    t.data = values;
    *error = 0;
    if (st == LX_OK && it->to == t.dtype)
        st = put(c, values, n, err);
    else if (st == LX_OK)
        st = put_packed(c, it, &t, error, err);
    free(values);
    return st;
}

static lx_status write_weights(conversion *c, lx_convert_report *report, void *context,
                               lx_error *err)
{
    lx_status st = create(c, "model.safetensors", err);
    if (st == LX_OK)
        st = put_header(c, err);
    for (int32_t i = 0; i < c->n && st == LX_OK; i++) {
        const item *it = &c->items[i];
        double error = 0;
        st = put_tensor(c, it, &error, err);
        if (st == LX_OK)
            report(context, &(lx_converted){it->name, it->from->t, it->to, it->is_matrix, error});
    }
    return finish(c, st, err);
}

/* --- the other files --- */

static lx_status copy_file(conversion *c, const char *name, lx_error *err)
{
    char from[LX_MODEL_PATH], *bytes = NULL;
    size_t n = 0;
    lx_status st = lx_model_path(from, c->m->dir, "", name, err);
    if (st == LX_OK)
        st = lx_file_read(from, LX_TOKENIZER_MAX_FILE, &bytes, &n, err);
    if (st != LX_OK)
        return st;
    st = create(c, name, err);
    if (st == LX_OK)
        st = put(c, bytes, n, err);
    st = finish(c, st, err);
    free(bytes);
    return st;
}

/* The tokenizer's file, whatever its name; "" for a task that names none. */
static const char *tokenizer_of(const lx_model *m)
{
    return m->task->ends != NULL ? lx_text_of(&m->config)->tokenizer : "";
}

/* Whether a file of the folder belongs to the new one: the tokenizer, a text that some reader of
   models may read, or that says whose the model is. Empty and larger files are none that a reader
   takes. */
static bool is_text(const conversion *c, const char *name)
{
    static const char *const ends[] = {".json", ".txt", ".jinja", ".md"};
    static const char license[] = "LICENSE", index[] = "model.safetensors.index.json";
    char path[LX_MODEL_PATH];
    struct stat s;
    size_t n = strlen(name);
    bool fits = strncmp(name, license, sizeof license - 1) == 0;
    fits = fits || strcmp(name, tokenizer_of(c->m)) == 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && !fits; i++) {
        size_t n_end = strlen(ends[i]);
        fits = n > n_end && strcmp(name + n - n_end, ends[i]) == 0;
    }
    return fits && strcmp(name, index) != 0 && strcmp(name, "config.json") != 0 &&
           lx_model_path(path, c->m->dir, "", name, NULL) == LX_OK && stat(path, &s) == 0 &&
           S_ISREG(s.st_mode) && s.st_size > 0 && s.st_size <= LX_TOKENIZER_MAX_FILE;
}

/* The one file of a folder within the model's that is read. */
static lx_status copy_template(conversion *c, lx_error *err)
{
    static const char name[] = LX_HF_TEMPLATES "/" LX_HF_TOOL_TEMPLATE;
    char path[LX_MODEL_PATH];
    if (!is_text(c, name))
        return LX_OK;
    lx_status st = lx_model_path(path, c->out, "", LX_HF_TEMPLATES, err);
    if (st == LX_OK && mkdir(path, 0777) != 0)
        st = fail_io(path, err);
    return st == LX_OK ? copy_file(c, name, err) : st;
}

static lx_status copy_files(conversion *c, lx_error *err)
{
    DIR *dir = opendir(c->m->dir);
    const struct dirent *entry;
    lx_status st = dir != NULL ? copy_template(c, err) : fail_io(c->m->dir, err);
    while (st == LX_OK && (entry = readdir(dir)) != NULL) {
        if (is_text(c, entry->d_name))
            st = copy_file(c, entry->d_name, err);
    }
    if (dir != NULL)
        (void)closedir(dir);
    return st == LX_OK ? copy_file(c, "config.json", err) : st;
}

/* Removes a folder within the new one, "" for that itself; all their files are ours. */
static void remove_folder(const conversion *c, const char *sub)
{
    char path[LX_MODEL_PATH], file[LX_MODEL_PATH];
    const struct dirent *entry;
    if (lx_model_path(path, c->out, "", sub, NULL) != LX_OK)
        return;
    DIR *dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (lx_model_path(file, path, "", entry->d_name, NULL) == LX_OK)
            (void)unlink(file); /* "." and ".." stay */
    }
    if (dir != NULL)
        (void)closedir(dir);
    (void)rmdir(path);
}

/* --- the whole --- */

static lx_status check(const lx_model *m, const char *out, lx_error *err)
{
    char name[LX_MODEL_NAME];
    size_t end;
    if (lx_model_is_file(m->dir))
        return lx_fail(err, LX_ERR_INVALID, NULL,
                       "%s is a GGUF file: a server reads its blocks as they are",
                       lx_file_label(m->dir));
    if (m->config.base[0] != '\0')
        return lx_fail(err, LX_ERR_INVALID, NULL,
                       "%s has most weights of its base, %s: convert that folder",
                       lx_file_label(m->dir), m->config.base);
    return lx_model_name(out, name, &end, err); /* a model that nothing could load */
}

static lx_status make_folder(const char *out, lx_error *err)
{
    if (mkdir(out, 0777) == 0)
        return LX_OK;
    if (errno == EEXIST)
        return lx_fail(err, LX_ERR_INVALID, NULL,
                       "%s exists: give the name of a folder that does not exist yet",
                       lx_file_label(out));
    return fail_io(out, err);
}

lx_status lx_model_convert(const lx_model *m, lx_dtype to, const char *out,
                           lx_convert_report *report, void *context, lx_error *err)
{
    lx_status st = check(m, out, err);
    if (st != LX_OK)
        return st;
    conversion c = {.m = m, .out = out};
    c.items = calloc((size_t)lx_safetensors_count(m->weights) + 1, sizeof *c.items);
    if (c.items == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a list of tensors");
    if (plan(&c, to) == 0)
        st = lx_fail(err, LX_ERR_INVALID, NULL,
                     "%s has no matrix that can become %s: they have this type, or rows that are "
                     "not whole blocks of %d",
                     lx_file_label(m->dir), lx_format_of(to)->name, LX_BLOCK);
    else if (c.n > LX_MAX_FILE_TENSORS)
        st = lx_fail(err, LX_ERR_UNSUPPORTED, NULL,
                     "%s has %d tensors, and convert writes one file, which holds at most %d",
                     lx_file_label(m->dir), c.n, LX_MAX_FILE_TENSORS);
    if (st == LX_OK)
        st = make_folder(out, err);
    if (st == LX_OK) {
        st = write_weights(&c, report, context, err);
        if (st == LX_OK)
            st = copy_files(&c, err);
        if (st != LX_OK) {
            remove_folder(&c, LX_HF_TEMPLATES);
            remove_folder(&c, "");
        }
    }
    free(c.items);
    return st;
}
