/*
 * chat_template.jinja and additional_chat_templates/tool_use.jinja, as newer programs write them,
 * and tokenizer_config.json, as older ones do (see chat.h); everything else in that is for other
 * programs.
 */
#include "model/formats/hugging_face/chat.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/formats/file.h"
#include "model/formats/json_memory.h"

enum { MAX_FILE_BYTES = 4 << 20, MAX_PATH = 4096 };

/* The template of a list that has the name; NULL: there is none. */
static const char *find_template(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const char *its = json_string_value(json_object_get(one, "name"));
        if (its != NULL && strcmp(its, name) == 0)
            return json_string_value(json_object_get(one, "template"));
    }
    return NULL;
}

void lx_hf_chat_fini(lx_hf_chat *chat)
{
    free(chat->text);
    free(chat->tool_text);
    free(chat->begin);
    free(chat->end);
    *chat = (lx_hf_chat){0};
}

/* A token's name: a text, or an object that has it as "content". */
static const char *find_name(const json_t *root, const char *key)
{
    const json_t *value = json_object_get(root, key);
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

static bool copy(const char *text, char **out)
{
    if (text == NULL || *out != NULL)
        return true;
    *out = strdup(text);
    return *out != NULL;
}

static lx_status no_json(const char *folder, const char *name, const json_error_t *e, lx_error *err)
{
    if (json_error_code(e) == json_error_out_of_memory)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a chat template");
    return lx_fail(err, LX_ERR_FORMAT, NULL, "%s/%s, line %d: %s", lx_file_label(folder), name,
                   e->line, e->text);
}

static lx_status copy_texts(const char *bytes, size_t n, const char *folder, lx_hf_chat *out,
                            lx_error *err)
{
    json_error_t e;
    /* transformers writes a model_max_length of 1e30, in digits, where a tokenizer has no limit. */
    json_t *root = lx_json_load_file(bytes, n, JSON_DECODE_INT_AS_REAL, &e);
    if (root == NULL)
        return no_json(folder, "tokenizer_config.json", &e, err);
    const json_t *templates = json_object_get(root, "chat_template");
    if (out->text != NULL || out->named) /* files of templates take the place of all */
        templates = NULL;
    out->named |= json_is_array(templates);
    const char *text = json_is_array(templates) ? find_template(templates, "default")
                                                : json_string_value(templates);
    bool ok = copy(text, &out->text) &&
              copy(find_template(templates, "tool_use"), &out->tool_text) &&
              copy(find_name(root, "bos_token"), &out->begin) &&
              copy(find_name(root, "eos_token"), &out->end);
    json_decref(root);
    return ok ? LX_OK : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a chat template");
}

lx_status lx_hf_read_part(const char *folder, const char *name, char **bytes, size_t *n,
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

/* A file with a template, without the line feed at its end, of which Jinja makes nothing either;
 *out stays NULL where there is no such file. */
static lx_status read_template(const char *folder, const char *name, char **out, lx_error *err)
{
    char *bytes = NULL;
    size_t n = 0;
    lx_status st = lx_hf_read_part(folder, name, &bytes, &n, err);
    if (st != LX_OK || bytes == NULL)
        return st;
    if (strlen(bytes) != n) {
        free(bytes);
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s/%s: a NUL is no text", lx_file_label(folder),
                       name);
    }
    if (bytes[n - 1] == '\n')
        bytes[n - 1] = '\0';
    *out = bytes;
    return LX_OK;
}

lx_status lx_hf_read_chat(const char *folder, lx_hf_chat *out, lx_error *err)
{
    char *bytes = NULL;
    size_t n = 0;
    *out = (lx_hf_chat){0};
    lx_status st = read_template(folder, "chat_template.jinja", &out->text, err);
    if (st == LX_OK)
        st = read_template(folder, LX_HF_TEMPLATES "/" LX_HF_TOOL_TEMPLATE, &out->tool_text, err);
    out->named = out->tool_text != NULL;
    if (st == LX_OK)
        st = lx_hf_read_part(folder, "tokenizer_config.json", &bytes, &n, err);
    if (st == LX_OK && bytes != NULL) {
        st = copy_texts(bytes, n, folder, out, err);
        free(bytes);
    }
    if (st != LX_OK)
        lx_hf_chat_fini(out);
    return st;
}

static lx_status read_ends(const json_t *root, const char *folder, lx_hf_generation *out,
                           lx_error *err)
{
    const json_t *value = json_object_get(root, "eos_token_id");
    size_t count = json_is_integer(value) ? 1 : json_array_size(value);
    bool ok = value == NULL || json_is_null(value) || count > 0;
    for (size_t i = 0; ok && i < count; i++) {
        const json_t *id = json_is_integer(value) ? value : json_array_get(value, i);
        ok = out->n_ends < LX_MAX_ENDS && json_is_integer(id) && json_integer_value(id) >= 0 &&
             json_integer_value(id) <= INT32_MAX;
        if (ok)
            out->ends[out->n_ends++] = (int32_t)json_integer_value(id);
    }
    return ok ? LX_OK
              : lx_fail(err, LX_ERR_FORMAT, "eos_token_id",
                        "%s/generation_config.json: eos_token_id must be a token or a list of at "
                        "most %d of them",
                        lx_file_label(folder), LX_MAX_ENDS);
}

static lx_status read_sampling(const json_t *root, const char *folder, lx_text_sampling *s,
                               lx_error *err)
{
    const struct {
        const char *name;
        double least, most;
        double *to;
    } values[] = {{"temperature", 0, 10, &s->temperature},
                  {"top_p", 0, 1, &s->top_p},
                  {"top_k", -1, 1e6, &s->top_k},
                  {"min_p", 0, 1, &s->min_p},
                  {"repetition_penalty", 0.01, 10, &s->repetition_penalty}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const json_t *value = json_object_get(root, values[i].name);
        double x = json_number_value(value);
        *values[i].to = (double)NAN;
        if (value == NULL || json_is_null(value))
            continue;
        if (!json_is_number(value) || !(x >= values[i].least && x <= values[i].most))
            return lx_fail(err, LX_ERR_FORMAT, values[i].name,
                           "%s/generation_config.json: %s must be a number from %g to %g",
                           lx_file_label(folder), values[i].name, values[i].least, values[i].most);
        *values[i].to = x;
    }
    return LX_OK;
}

lx_status lx_hf_read_generation(const char *folder, lx_hf_generation *out, lx_error *err)
{
    char *bytes = NULL;
    size_t length = 0;
    json_error_t e;
    *out = (lx_hf_generation){.n_ends = 0};
    lx_status st = lx_hf_read_part(folder, "generation_config.json", &bytes, &length, err);
    if (st != LX_OK || bytes == NULL)
        return st == LX_OK ? read_sampling(NULL, folder, &out->sampling, err) : st;
    json_t *root = lx_json_load_file(bytes, length, 0, &e);
    free(bytes);
    if (root == NULL)
        return no_json(folder, "generation_config.json", &e, err);
    st = read_ends(root, folder, out, err);
    if (st == LX_OK)
        st = read_sampling(root, folder, &out->sampling, err);
    json_decref(root);
    return st;
}
