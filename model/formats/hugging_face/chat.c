/*
 * chat_template.jinja, as newer programs write it, and tokenizer_config.json, as older ones do (see
 * chat.h); everything else in that is for other programs.
 */
#include "model/formats/hugging_face/folder.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/formats/file.h"
#include "model/formats/json_memory.h"

enum { MAX_FILE_BYTES = 4 << 20, MAX_PATH = 4096 };

static const char *find_template(const json_t *root)
{
    const json_t *value = json_object_get(root, "chat_template");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *one = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name != NULL && strcmp(name, "default") == 0)
            return json_string_value(json_object_get(one, "template"));
    }
    return json_string_value(value);
}

static lx_status copy_template(const char *bytes, size_t n, const char *folder, char **out,
                               lx_error *err)
{
    json_error_t e;
    json_t *root = lx_json_load(bytes, n, 0, &e);
    if (root == NULL && json_error_code(&e) != json_error_out_of_memory)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s/tokenizer_config.json, line %d: %s",
                       lx_file_label(folder), e.line, e.text);
    const char *text = find_template(root);
    if (text != NULL)
        *out = strdup(text);
    bool starved = root == NULL || (text != NULL && *out == NULL);
    json_decref(root);
    return starved ? lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a chat template") : LX_OK;
}

/* A file of the folder; *bytes is NULL where there is none of that name. */
static lx_status read_part(const char *folder, const char *name, char **bytes, size_t *n,
                           lx_error *err)
{
    char path[MAX_PATH];
    int used = snprintf(path, sizeof path, "%s/%s", folder, name);
    *bytes = NULL;
    if (used < 0 || (size_t)used >= sizeof path)
        return lx_fail(err, LX_ERR_INVALID, NULL, "%s: the path is too long",
                       lx_file_label(folder));
    lx_error why = {0};
    lx_status st = lx_file_read(path, MAX_FILE_BYTES, bytes, n, &why);
    if (st == LX_OK || st == LX_ERR_NOT_FOUND)
        return LX_OK;
    return lx_fail(err, st, why.param, "%s", why.text);
}

/* The file's text, without the line feed at its end, of which Jinja makes nothing either. */
static lx_status take_text(const char *folder, char *bytes, size_t n, char **out, lx_error *err)
{
    if (strlen(bytes) != n) {
        free(bytes);
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s/chat_template.jinja: a NUL is no text",
                       lx_file_label(folder));
    }
    if (bytes[n - 1] == '\n')
        bytes[n - 1] = '\0';
    *out = bytes;
    return LX_OK;
}

lx_status lx_hf_read_chat(const char *folder, char **out, lx_error *err)
{
    char *bytes = NULL;
    size_t n = 0;
    *out = NULL;
    lx_status st = read_part(folder, "chat_template.jinja", &bytes, &n, err);
    if (st == LX_OK && bytes != NULL)
        return take_text(folder, bytes, n, out, err);
    if (st == LX_OK)
        st = read_part(folder, "tokenizer_config.json", &bytes, &n, err);
    if (st != LX_OK || bytes == NULL)
        return st;
    st = copy_template(bytes, n, folder, out, err);
    free(bytes);
    return st;
}
