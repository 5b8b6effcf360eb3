/* See model_files.h. */
#include "model/model_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/formats/file.h"
#include "model/formats/gguf/gguf.h"
#include "model/tokenizers/tokenizer.h"

lx_status lx_model_path(char *path, const char *dir, const char *base, const char *file,
                        lx_error *err)
{
    int n = snprintf(path, LX_MODEL_PATH, "%s/%s%s%s", dir, base, base[0] != '\0' ? "/" : "", file);
    if (n < 0 || n >= LX_MODEL_PATH)
        return lx_fail(err, LX_ERR_INVALID, "model", "the path of %s is too long", file);
    return LX_OK;
}

lx_status lx_model_name(const char *dir, char *name, size_t *end, lx_error *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-";
    static const char gguf[] = ".gguf"; /* no part of a file's name */
    *end = strlen(dir);
    while (*end > 1 && dir[*end - 1] == '/')
        (*end)--;
    size_t start = *end;
    while (start > 0 && dir[start - 1] != '/')
        start--;
    size_t n = *end - start, n_gguf = sizeof gguf - 1;
    if (lx_gguf_is_file(dir) && n > n_gguf)
        n -= n_gguf;
    bool fits = n > 0 && n < LX_MODEL_NAME && dir[start] != '.';
    (void)snprintf(name, LX_MODEL_NAME, "%.*s", fits ? (int)n : 0, dir + start);
    if (!fits || strspn(name, allowed) != n)
        return lx_fail(err, LX_ERR_INVALID, "model",
                       "%s: a model folder's name has 1 to %d letters, digits, '.', '_' and '-', "
                       "and does not begin with '.'",
                       lx_file_label(dir), LX_MODEL_NAME - 1);
    return LX_OK;
}

lx_status lx_model_hash_file(lx_model *m, const char *path, lx_error *err)
{
    char *text = NULL;
    size_t n = 0;
    lx_status st = lx_file_read(path, LX_TOKENIZER_MAX_FILE, &text, &n, err);
    if (st == LX_OK)
        m->hash = lx_file_hash(m->hash, text, n);
    free(text);
    return st;
}

lx_status lx_model_check_hash(lx_model *m, uint64_t before, const char *path, lx_error *err)
{
    uint64_t hashed = m->hash;
    m->hash = before;
    lx_status st = lx_model_hash_file(m, path, err);
    return st == LX_OK && m->hash != hashed ? lx_file_fail_changed(lx_file_label(path), err) : st;
}

lx_status lx_model_read_tokenizer(lx_model *m, const char *file, lx_error *err)
{
    char path[LX_MODEL_PATH];
    if (m->gguf != NULL)
        return lx_gguf_tokenizer(m->gguf, &m->tokenizer, err);
    if (strcmp(file, "bytes") == 0)
        return lx_tokenizer_new_bytes(&m->tokenizer, err);
    uint64_t before = m->hash;
    lx_status st = lx_model_path(path, m->dir, m->config.base, file, err);
    if (st == LX_OK)
        st = lx_model_hash_file(m, path, err);
    if (st == LX_OK)
        st = lx_tokenizer_load_file(path, &m->tokenizer, err);
    return st == LX_OK ? lx_model_check_hash(m, before, path, err) : st;
}

lx_status lx_model_read_optional(lx_model *m, const char *file, size_t most, char *path,
                                 char **bytes, size_t *n, lx_error *err)
{
    lx_error why;
    *bytes = NULL;
    lx_status st = lx_model_path(path, m->dir, m->config.base, file, err);
    if (st != LX_OK)
        return st;
    st = lx_file_read(path, most, bytes, n, &why);
    if (st == LX_OK)
        m->hash = lx_file_hash(m->hash, *bytes, *n);
    return st == LX_OK || st == LX_ERR_NOT_FOUND ? LX_OK
                                                 : lx_fail(err, st, why.param, "%s", why.text);
}

lx_status lx_model_read_vocab(lx_model *m, lx_error *err)
{
    char path[LX_MODEL_PATH], *bytes = NULL;
    size_t n = 0;
    lx_status st = lx_model_read_optional(m, "vocab.txt", LX_VOCAB_MAX_FILE, path, &bytes, &n, err);
    if (st != LX_OK || bytes == NULL)
        return st;
    st = lx_vocab_read(bytes, n, lx_file_label(path), &m->vocab, err); /* which keeps the bytes */
    return st == LX_OK ? lx_tokenizer_new_characters(m->vocab, &m->tokenizer, err) : st;
}
