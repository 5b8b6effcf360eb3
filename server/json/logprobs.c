/*
 * Log-probabilities as OpenAI's clients read them: for completions parallel lists, for a chat one
 * list of objects.
 */
#include <math.h>
#include <string.h>

#include "model/tasks/task.h"
#include "model/utf8.h"
#include "server/json/fields.h"
#include "server/json/parts.h"

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

static void write_lists(const lx_json_logprobs *l, lx_buffer *out)
{
    int64_t offset = l->offset;
    lx_buffer_puts(out, "{\"tokens\":[");
    for (int32_t i = 0; i < l->n; i++)
        lx_json_item(i, text_of(&l->tokens[i]), out);
    lx_buffer_puts(out, "],\"token_logprobs\":[");
    for (int32_t i = 0; i < l->n; i++)
        lx_json_item(i, lx_json_real_or_null(l->tokens[i].logprob), out);
    lx_buffer_puts(out, l->n_top > 0 ? "],\"top_logprobs\":[" : "],\"top_logprobs\":null");
    for (int32_t i = 0; l->n_top > 0 && i < l->n; i++)
        lx_json_item(i, make_map(l, &l->tokens[i]), out);
    lx_buffer_puts(out, l->n_top > 0 ? "],\"text_offset\":[" : ",\"text_offset\":[");
    for (int32_t i = 0; i < l->n; i++) {
        lx_buffer_printf(out, "%s%lld", i > 0 ? "," : "", (long long)offset);
        offset += count_chars(&l->tokens[i]);
    }
    lx_buffer_puts(out, "]}");
}

/* --- chat --- */

/* An entry without its closing brace. `bytes` are the token's own, also where its text only names
   a part of a character. */
static void open_entry(json_t *text, double logprob, const char *bytes, size_t n, lx_buffer *out)
{
    lx_json_open(json_pack("{s:o, s:o}", "token", text, "logprob", lx_json_real_or_null(logprob)),
                 out);
    lx_buffer_puts(out, ",\"bytes\":[");
    for (size_t i = 0; i < n; i++)
        lx_buffer_printf(out, "%s%d", i > 0 ? "," : "", (unsigned char)bytes[i]);
    lx_buffer_puts(out, "]");
}

static void write_top(const lx_json_logprobs *l, const lx_json_token *t, lx_buffer *out)
{
    likely k;
    likely_init(&k, l);
    for (int32_t i = 0; t->top != NULL && i < l->n_top; i++) {
        json_t *name =
            likely_read(&k, l, &t->top[i]) ? json_stringn(k.name.data, k.name.length) : NULL;
        lx_buffer_puts(out, i > 0 ? "," : "");
        open_entry(name, (double)t->top[i].logprob, k.bytes.data, k.bytes.length, out);
        lx_buffer_puts(out, "}");
    }
    likely_fini(&k);
}

void lx_json_write_entries(const lx_json_logprobs *l, lx_buffer *out)
{
    lx_buffer_puts(out, "[");
    for (int32_t i = 0; l != NULL && i < l->n; i++) {
        const lx_json_token *t = &l->tokens[i];
        lx_buffer_puts(out, i > 0 ? "," : "");
        open_entry(text_of(t), t->logprob, t->text, t->bytes, out);
        lx_buffer_puts(out, ",\"top_logprobs\":[");
        write_top(l, t, out);
        lx_buffer_puts(out, "]}");
    }
    lx_buffer_puts(out, "]");
}

void lx_json_write_logprobs(const lx_json_logprobs *l, bool chat, lx_buffer *out)
{
    if (l == NULL) {
        lx_buffer_puts(out, "null");
    } else if (chat) {
        lx_buffer_puts(out, "{\"content\":");
        lx_json_write_entries(l, out);
        lx_buffer_puts(out, ",\"refusal\":null}");
    } else {
        write_lists(l, out);
    }
}
