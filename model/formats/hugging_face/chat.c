/* tokenizer_config.json (see chat.h); everything else in it is for other programs. */
#include "model/formats/hugging_face/chat.h"

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

static lx_status copy_template(const char *bytes, size_t n, const char *path, char **out,
                               lx_error *err)
{
    json_error_t e;
    json_t *root = lx_json_load(bytes, n, 0, &e);
    if (root == NULL && json_error_code(&e) != json_error_out_of_memory)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s, line %d: %s", lx_file_label(path), e.line,
                       e.text);
    const char *text = find_template(root);
    if (text != NULL)
        *out = strdup(text);
    bool starved = root == NULL || (text != NULL && *out == NULL);
    json_decref(root);
    return starved ? lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a chat template") : LX_OK;
}

lx_status lx_hf_read_chat(const char *folder, char **out, lx_error *err)
{
    char path[MAX_PATH], *bytes = NULL;
    size_t n = 0;
    *out = NULL;
    int used = snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    if (used < 0 || (size_t)used >= sizeof path)
        return lx_fail(err, LX_ERR_INVALID, NULL, "%s: the path is too long",
                       lx_file_label(folder));
    lx_error why = {0};
    lx_status st = lx_file_read(path, MAX_FILE_BYTES, &bytes, &n, &why);
    if (st == LX_ERR_NOT_FOUND)
        return LX_OK;
    if (st != LX_OK)
        return lx_fail(err, st, why.param, "%s", why.text);
    st = copy_template(bytes, n, path, out, err);
    free(bytes);
    return st;
}
