/*
 * See shards.h. The index is read first and names the files. When all are open, every entry is
 * compared with the file that it names. Their numbers are compared too, so that every tensor lies
 * in exactly one file.
 */
#include "model/formats/shards.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/formats/file.h"
#include "model/formats/json_memory.h"

/* Models with a file entry for each matrix of each expert have 70,000 tensors and more. */
enum { MAX_INDEX_BYTES = 32 << 20, MAX_FILES = 256, MAX_FILE_NAME = 128, MAX_TENSORS = 1 << 18 };
enum { MAX_HELPERS = 7 }; /* threads that open files, in addition to the caller's */

typedef struct shards {
    const char *dir, *path; /* of the index */
    int32_t n;
    char names[MAX_FILES][MAX_FILE_NAME];
    lx_safetensors *files[MAX_FILES];
    lx_error errors[MAX_FILES]; /* status LX_OK: the file is open, or was not tried */
    atomic_int next;            /* file to be opened */
    atomic_bool failed;         /* no other file need be opened */
} shards;

static lx_status bad(const shards *s, const char *tensor, const char *file, const char *what,
                     lx_error *err)
{
    char quoted_tensor[64], quoted_file[64];
    return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: tensor %s: \"%s\" %s", lx_file_label(s->path),
                   lx_file_quote(tensor, quoted_tensor, sizeof quoted_tensor),
                   lx_file_quote(file, quoted_file, sizeof quoted_file), what);
}

/* A plain name, so that no entry leads out of the folder or back to an index. */
static bool is_file_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-";
    static const char end[] = ".safetensors";
    size_t n = strlen(name), n_end = sizeof end - 1;
    return n > n_end && n < MAX_FILE_NAME && name[0] != '.' && strspn(name, allowed) == n &&
           strcmp(name + n - n_end, end) == 0;
}

/* Its place among the files; -1: it is not there. */
static int32_t find(const shards *s, const char *name)
{
    for (int32_t i = 0; i < s->n; i++) {
        if (strcmp(s->names[i], name) == 0)
            return i;
    }
    return -1;
}

/* The names of all files, in the order in which they are first named. */
static lx_status name_files(shards *s, json_t *map, lx_error *err)
{
    const char *tensor;
    json_t *value;
    if (!json_is_object(map) || json_object_size(map) < 1 || json_object_size(map) > MAX_TENSORS)
        return lx_fail(err, LX_ERR_FORMAT, NULL,
                       "%s: weight_map must be an object with 1 to %d tensors",
                       lx_file_label(s->path), MAX_TENSORS);
    json_object_foreach(map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (name == NULL || !is_file_name(name))
            return bad(s, tensor, name != NULL ? name : "a value that is no text",
                       "is not the name of a .safetensors file of the folder", err);
        if (find(s, name) >= 0)
            continue;
        if (s->n == MAX_FILES)
            return bad(s, tensor, name, "is one file too many: at most 256 are read", err);
        (void)snprintf(s->names[s->n++], MAX_FILE_NAME, "%s", name);
    }
    return LX_OK;
}

static lx_status open_file(shards *s, int32_t i, lx_error *err)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", s->dir, s->names[i]);
    if (n < 0 || (size_t)n >= sizeof path)
        return lx_fail(err, LX_ERR_INVALID, "model", "the path of %s is too long", s->names[i]);
    return lx_safetensors_open(path, &s->files[i], err);
}

/* A thread's part: file after file. They are taken in order, so all files before a faulty one are
 * read, and the first fault does not depend on the threads. */
static void *open_some(void *context)
{
    shards *s = context;
    int32_t i;
    while (!atomic_load(&s->failed) && (i = atomic_fetch_add(&s->next, 1)) < s->n) {
        if (open_file(s, i, &s->errors[i]) != LX_OK)
            atomic_store(&s->failed, true);
    }
    return NULL;
}

/* Every byte of a file is read to be checked and hashed, which several threads do sooner. */
static lx_status open_files(shards *s, lx_error *err)
{
    pthread_t helpers[MAX_HELPERS];
    int32_t n = 0;
    while (n < MAX_HELPERS && n + 1 < s->n && pthread_create(&helpers[n], NULL, open_some, s) == 0)
        n++;
    (void)open_some(s);
    while (n > 0)
        (void)pthread_join(helpers[--n], NULL);
    for (int32_t i = 0; i < s->n; i++) {
        if (s->errors[i].status != LX_OK) {
            *err = s->errors[i];
            return err->status;
        }
    }
    return LX_OK;
}

/* Every tensor of the index lies where it says, and no file has others. */
static lx_status compare(const shards *s, json_t *map, lx_error *err)
{
    const char *tensor;
    json_t *value;
    json_object_foreach(map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (lx_safetensors_find(s->files[find(s, name)], tensor) == NULL)
            return bad(s, tensor, name, "has no such tensor", err);
    }
    for (int32_t i = 0; i < s->n; i++) {
        for (int32_t k = 0; k < lx_safetensors_count(s->files[i]); k++) {
            const char *found = lx_safetensors_at(s->files[i], k)->name;
            const char *name = json_string_value(json_object_get(map, found));
            if (name == NULL)
                return bad(s, found, s->names[i], "has it, but weight_map does not list it", err);
            if (strcmp(name, s->names[i]) != 0)
                return bad(s, found, s->names[i], "has it, too", err);
        }
    }
    return LX_OK;
}

static lx_status open_index(shards *s, json_t *root, lx_safetensors **out, lx_error *err)
{
    json_t *map = json_object_get(root, "weight_map");
    lx_status st = name_files(s, map, err);
    if (st == LX_OK)
        st = open_files(s, err);
    if (st == LX_OK)
        st = compare(s, map, err);
    if (st == LX_OK)
        st = lx_safetensors_join(s->files, s->n, out, err);
    for (int32_t i = 0; st != LX_OK && i < s->n; i++)
        lx_safetensors_close(s->files[i]);
    return st;
}

static lx_status read_index(shards *s, lx_safetensors **out, lx_error *err)
{
    char *text = NULL;
    size_t n = 0;
    json_error_t e;
    char what[JSON_ERROR_TEXT_LENGTH];
    lx_status st = lx_file_read(s->path, MAX_INDEX_BYTES, &text, &n, err);
    if (st != LX_OK)
        return st;
    json_t *root = lx_json_load_file(text, n, JSON_REJECT_DUPLICATES, &e);
    free(text);
    if (root != NULL)
        st = open_index(s, root, out, err);
    else if (e.text[0] == '\0') /* the parser has a text for every other fault */
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", lx_file_label(s->path));
    else
        st = lx_fail(err, LX_ERR_FORMAT, NULL, "%s, line %d: %s", lx_file_label(s->path), e.line,
                     lx_file_quote(e.text, what, sizeof what));
    json_decref(root);
    return st;
}

lx_status lx_shards_open(const char *dir, char *path, size_t size, lx_safetensors **out,
                         lx_error *err)
{
    static const char whole[] = "model.safetensors", index[] = "model.safetensors.index.json";
    int n = snprintf(path, size, "%s/%s", dir, index);
    if (n < 0 || (size_t)n >= size)
        return lx_fail(err, LX_ERR_INVALID, "model", "the path of %s is too long", index);
    bool has_index = access(path, F_OK) == 0;
    (void)snprintf(path, size, "%s/%s", dir, whole);
    if (!has_index || access(path, F_OK) == 0)
        return lx_safetensors_open(path, out, err);
    (void)snprintf(path, size, "%s/%s", dir, index);
    shards *s = calloc(1, sizeof *s);
    if (s == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", index);
    s->dir = dir;
    s->path = path;
    lx_status st = read_index(s, out, err);
    free(s);
    return st;
}
