/*
 * Log-probabilities as OpenAI's clients read them: for completions parallel lists, for a chat one
 * list of objects.
 */
#include <math.h>
#include <string.h>

#include "model/tasks/task.h"
#include "model/utf8.h"
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

/* One of the likeliest tokens, in buffers that are used for all of them. */
typedef struct likely {
    lx_buffer bytes, name;
} likely;

static void likely_init(likely *k, const lx_json_logprobs *l)
{
    lx_buffer_init(&k->bytes, (size_t)l->model->token_bytes + LX_MAX_NAME);
    lx_buffer_init(&k->name, (size_t)l->model->token_bytes + LX_MAX_NAME);
}

static void likely_fini(likely *k)
{
    lx_buffer_fini(&k->bytes);
    lx_buffer_fini(&k->name);
}

static bool is_utf8(const lx_buffer *text)
{
    for (size_t at = 0; at < text->length;) {
        if (lx_utf8_next(text->data, text->length, &at) < 0)
            return false;
    }
    return true;
}

/* A part of a character is named as OpenAI writes it: bytes:\xe4\xbd. */
static bool likely_read(likely *k, const lx_json_logprobs *l, const lx_sample *s)
{
    k->bytes.length = k->name.length = 0;
    lx_buffer_puts(&k->bytes, "");
    l->model->task->spell(l->model, s->token, &k->bytes);
    if (k->bytes.status != LX_OK)
        return false;
    bool whole = k->bytes.length > 0 && is_utf8(&k->bytes);
    if (whole)
        lx_buffer_append(&k->name, k->bytes.data, k->bytes.length);
    else
        lx_buffer_puts(&k->name, "bytes:");
    for (size_t i = 0; !whole && i < k->bytes.length; i++)
        lx_buffer_printf(&k->name, "\\x%02x", (unsigned char)k->bytes.data[i]);
    return k->name.status == LX_OK;
}

/* --- completions --- */

/* {"天": -0.1, ...}: the likeliest and the one that stands there. */
static json_t *make_map(const lx_json_logprobs *l, const lx_json_token *t)
{
    if (t->top == NULL || l->n_top <= 0)
        return json_null();
    json_t *map = json_object();
    bool ok = map != NULL;
    likely k;
    likely_init(&k, l);
    for (int32_t i = 0; ok && i < l->n_top; i++)
        ok = likely_read(&k, l, &t->top[i]) &&
             json_object_setn_new(map, k.name.data, k.name.length,
                                  lx_json_real_or_null((double)t->top[i].logprob)) == 0;
    likely_fini(&k);
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

/* `bytes` are the token's own, also where its text only names a part of a character. */
static json_t *make_entry(const char *text, size_t n, json_t *bytes, double logprob)
{
    return json_pack("{s:s%, s:o, s:o}", "token", text, n, "logprob", lx_json_real_or_null(logprob),
                     "bytes", bytes);
}

static json_t *make_top(const lx_json_logprobs *l, const lx_json_token *t)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    likely k;
    likely_init(&k, l);
    for (int32_t i = 0; ok && t->top != NULL && i < l->n_top; i++)
        ok = likely_read(&k, l, &t->top[i]) &&
             append(list,
                    make_entry(k.name.data, k.name.length, make_bytes(k.bytes.data, k.bytes.length),
                               (double)t->top[i].logprob));
    likely_fini(&k);
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
        json_t *entry = make_entry(t->text, t->bytes, make_bytes(t->text, t->bytes), t->logprob);
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
