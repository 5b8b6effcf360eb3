/* See token_settings.h. */
#include "model/formats/hugging_face/token_settings.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/formats/file.h"
#include "model/formats/hugging_face/chat.h"
#include "model/formats/json_memory.h"
#include "model/tokenizers/hugging_face.h"

enum { NAME_BYTES = 48 };

#define CONFIG "tokenizer_config.json"
#define ADDED "added_tokens.json"

typedef struct check {
    const lx_tokenizer *t;
    char *note;
    size_t size;
} check;

/* The first difference is kept. */
static void say(const check *c, const char *file, const char *key, const char *name)
{
    char quoted[NAME_BYTES];
    if (c->note[0] == '\0')
        (void)snprintf(c->note, c->size,
                       "%s: %s: \"%s\" is not so in tokenizer.json, which alone is read", file, key,
                       lx_file_quote(name, quoted, sizeof quoted));
}

/* A token: a text, or an object that has it as "content". */
static const char *content_of(const json_t *token)
{
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

/* Whether a flag of an object is as it is here, or not said. */
static bool agrees(const json_t *object, const char *flag, bool here)
{
    const json_t *value = json_object_get(object, flag);
    return !json_is_boolean(value) || json_is_true(value) == here;
}

/* added_tokens_decoder: id to token. */
static void check_tokens(const check *c, const json_t *tokens)
{
    const char *key;
    json_t *token;
    json_object_foreach((json_t *)(uintptr_t)tokens, key, token)
    {
        const char *name = content_of(token);
        int32_t id = name != NULL ? lx_tokenizer_find(c->t, name) : -1;
        const lx_added_token *here = id >= 0 ? lx_hugging_face_added(c->t, id) : NULL;
        bool same = here != NULL && strtol(key, NULL, 10) == id &&
                    agrees(token, "special", here->special) &&
                    agrees(token, "lstrip", here->lstrip) &&
                    agrees(token, "rstrip", here->rstrip) &&
                    agrees(token, "single_word", here->single_word);
        if (name != NULL && !same)
            say(c, CONFIG, "added_tokens_decoder", name);
    }
}

/* Special tokens: a list, or an object of them by other names. */
static void check_specials(const check *c, const char *key, json_t *tokens)
{
    const char *unused;
    size_t i;
    json_t *token, *values = json_is_array(tokens) ? json_incref(tokens) : json_array();
    json_object_foreach(tokens, unused, token)(void) json_array_append(values, token);
    json_array_foreach(values, i, token)
    {
        const char *name = content_of(token);
        if (name != NULL && !lx_tokenizer_is_special(c->t, lx_tokenizer_find(c->t, name)))
            say(c, CONFIG, key, name);
    }
    json_decref(values);
}

static void check_config(const check *c, const json_t *root)
{
    static const char *const specials[] = {"additional_special_tokens", "extra_special_tokens"};
    if (json_is_true(json_object_get(root, "split_special_tokens")))
        say(c, CONFIG, "split_special_tokens", "true");
    if (json_is_true(json_object_get(root, "add_prefix_space")) && lx_hugging_face_is_gpt2(c->t))
        say(c, CONFIG, "add_prefix_space", "true");
    check_tokens(c, json_object_get(root, "added_tokens_decoder"));
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        check_specials(c, specials[i], json_object_get(root, specials[i]));
}

/* added_tokens.json: token to id. */
static void check_added(const check *c, const json_t *root)
{
    const char *name;
    json_t *id;
    json_object_foreach((json_t *)(uintptr_t)root, name, id)
    {
        if (json_is_number(id) && json_number_value(id) != (double)lx_tokenizer_find(c->t, name))
            say(c, ADDED, "id", name);
    }
}

/* *out is NULL where there is no such file, or no JSON in it, which is another reader's fault. */
static lx_status read_object(const char *folder, const char *name, json_t **out, lx_error *err)
{
    char *bytes = NULL;
    size_t n = 0;
    json_error_t e;
    *out = NULL;
    lx_status st = lx_hf_read_part(folder, name, &bytes, &n, err);
    if (st != LX_OK || bytes == NULL)
        return st;
    *out = lx_json_load_file(bytes, n, JSON_DECODE_INT_AS_REAL, &e);
    free(bytes);
    if (*out == NULL && json_error_code(&e) == json_error_out_of_memory)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %s", name);
    return LX_OK;
}

lx_status lx_hf_check_tokens(const char *folder, const lx_tokenizer *t, char *note, size_t size,
                             lx_error *err)
{
    check c = {.t = t, .note = note, .size = size};
    json_t *config = NULL, *added = NULL;
    note[0] = '\0';
    lx_status st = read_object(folder, CONFIG, &config, err);
    if (st == LX_OK && json_object_get(config, "added_tokens_decoder") == NULL)
        st = read_object(folder, ADDED, &added, err); /* transformers reads one of the two */
    check_config(&c, config);
    check_added(&c, added);
    json_decref(config);
    json_decref(added);
    return st;
}
