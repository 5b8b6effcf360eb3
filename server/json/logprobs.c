/*
 * Log-probabilities as OpenAI's clients read them: for completions parallel lists, for a chat one
 * list of objects.
 */
#include <math.h>
#include <string.h>

#include "model/tasks/task.h"
#include "server/json/answers.h"
#include "server/json/fields.h"
#include "server/json/parts.h"

/* Appends to a list that may be NULL, as every step after a failed one is; takes value. */
static bool append(json_t *list, json_t *value)
{
    return list != NULL ? json_array_append_new(list, value) == 0 : (json_decref(value), false);
}

static json_t *text_of(const lx_json_token *t)
{
    return json_stringn(t->text, t->bytes);
}

/* The name of one of the likeliest tokens, in a buffer that is used for all of them. */
static bool name_of(const lx_json_logprobs *l, const lx_sample *s, lx_buffer *name)
{
    name->length = 0;
    lx_buffer_puts(name, "");
    l->model->task->name_token(l->model, s->token, name);
    return name->status == LX_OK;
}

static void init_name(const lx_json_logprobs *l, lx_buffer *name)
{
    lx_buffer_init(name, (size_t)l->model->token_bytes + LX_MAX_NAME);
}

/* --- completions --- */

/* {"天": -0.1, ...}: the likeliest and the one that stands there. */
static json_t *make_map(const lx_json_logprobs *l, const lx_json_token *t)
{
    if (t->top == NULL || l->n_top <= 0)
        return json_null();
    json_t *map = json_object();
    bool ok = map != NULL;
    lx_buffer name;
    init_name(l, &name);
    for (int32_t i = 0; ok && i < l->n_top; i++)
        ok = name_of(l, &t->top[i], &name) &&
             json_object_setn_new(map, name.data, name.length,
                                  lx_json_real_or_null((double)t->top[i].logprob)) == 0;
    lx_buffer_fini(&name);
    if (ok && json_object_getn(map, t->text, t->bytes) == NULL)
        ok = json_object_setn_new(map, t->text, t->bytes, lx_json_real_or_null(t->logprob)) == 0;
    if (ok)
        return map;
    json_decref(map);
    return NULL;
}

static int64_t count_chars(const lx_json_token *t)
{
    int64_t n = 0;
    for (size_t i = 0; i < t->bytes; i++)
        n += ((unsigned char)t->text[i] & 0xc0) != 0x80;
    return n;
}

static json_t *make_lists(const lx_json_logprobs *l)
{
    json_t *tokens = json_array(), *logprobs = json_array(), *offsets = json_array();
    json_t *top = l->n_top > 0 ? json_array() : json_null();
    int64_t offset = l->offset;
    bool ok = true;
    for (int32_t i = 0; ok && i < l->n; i++) {
        const lx_json_token *t = &l->tokens[i];
        ok = append(tokens, text_of(t)) && append(logprobs, lx_json_real_or_null(t->logprob)) &&
             append(offsets, json_integer(offset)) &&
             (l->n_top == 0 || append(top, make_map(l, t)));
        offset += count_chars(t);
    }
    json_t *o = json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", logprobs,
                          "top_logprobs", top, "text_offset", offsets);
    if (ok)
        return o;
    json_decref(o);
    return NULL;
}

/* --- chat --- */

static json_t *make_bytes(const char *text, size_t bytes)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < bytes; i++)
        ok = append(list, json_integer((unsigned char)text[i]));
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *make_entry(const char *text, size_t bytes, double logprob)
{
    return json_pack("{s:s%, s:o, s:o}", "token", text, bytes, "logprob",
                     lx_json_real_or_null(logprob), "bytes", make_bytes(text, bytes));
}

static json_t *make_top(const lx_json_logprobs *l, const lx_json_token *t)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    lx_buffer name;
    init_name(l, &name);
    for (int32_t i = 0; ok && t->top != NULL && i < l->n_top; i++)
        ok = name_of(l, &t->top[i], &name) &&
             append(list, make_entry(name.data, name.length, (double)t->top[i].logprob));
    lx_buffer_fini(&name);
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

json_t *lx_json_make_entries(const lx_json_logprobs *l)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (int32_t i = 0; ok && i < l->n; i++) {
        const lx_json_token *t = &l->tokens[i];
        json_t *entry = make_entry(t->text, t->bytes, t->logprob);
        ok = entry != NULL && json_object_set_new(entry, "top_logprobs", make_top(l, t)) == 0;
        ok = append(list, entry) && ok;
    }
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *make_content(const lx_json_logprobs *l)
{
    return json_pack("{s:o, s:n}", "content", lx_json_make_entries(l), "refusal");
}

json_t *lx_json_make_logprobs(const lx_json_logprobs *l, bool chat)
{
    return chat ? make_content(l) : make_lists(l);
}
