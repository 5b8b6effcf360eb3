/* Parts of answers (see parts.h), and the notes of requests that become warnings. */
#include "server/json/parts.h"

#include <jansson.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/tasks/task.h"
#include "model/utf8.h"

enum { MOST_TEXT = 192 };

/* --- timings --- */

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

void lx_json_write_timings(const lx_json_timings *t, lx_buffer *out)
{
    double prompt = (double)t->prompt_n, predicted = (double)t->predicted_n;
    lx_json_put(out,
                ",'timings':{'queue_ms':%f,'ttft_ms':%f,'total_ms':%f,'state_ms':%f,'cache_n':%jd,"
                "'queue_steps':%jd,'total_steps':%jd",
                t->queue_ms, t->ttft_ms, t->total_ms, t->state_ms, t->cache_n, t->queue_steps,
                t->total_steps);
    lx_json_put(
        out, ",'prompt_n':%jd,'prompt_ms':%f,'prompt_per_token_ms':%f,'prompt_per_second':%f",
        t->prompt_n, t->prompt_ms, ratio(t->prompt_ms, prompt), ratio(prompt * 1e3, t->prompt_ms));
    lx_json_put(out,
                ",'predicted_n':%jd,'predicted_ms':%f,'predicted_per_token_ms':%f,"
                "'predicted_per_second':%f",
                t->predicted_n, t->predicted_ms, ratio(t->predicted_ms, predicted),
                ratio(predicted * 1e3, t->predicted_ms));
    if (t->draft_n != 0) /* by llama.cpp's names */
        lx_json_put(out, ",'draft_n':%jd,'draft_n_accepted':%jd", t->draft_n, t->draft_n_accepted);
    lx_buffer_puts(out, "}");
}

/* --- notes --- */

/* As much of the name as has room, without a character that JSON or a header would escape. */
static void copy_name(const char *name, char *out)
{
    size_t n = strlen(name);
    size_t kept = n < LX_NOTED_BYTES - 1 ? n : LX_NOTED_BYTES - 1;
    while (kept < n && kept > 0 && ((unsigned char)name[kept] & 0xc0) == 0x80)
        kept--; /* to the end of a character */
    for (size_t i = 0; i < kept; i++)
        out[i] = name[i];
    for (size_t i = 0; i < kept; i++)
        if ((unsigned char)name[i] < 0x20 || strchr("\"\\\x7f", name[i]) != NULL)
            out[i] = '?';
    out[kept] = '\0';
}

void lx_json_note(lx_json_notes *notes, const char *name, const char *why, const char *meant)
{
    if (notes->n_fields == LX_MAX_NOTED) {
        notes->more++;
        return;
    }
    lx_json_noted *f = &notes->fields[notes->n_fields++];
    copy_name(name, f->name);
    f->why = why;
    f->meant = meant;
}

/* --- warnings --- */

/* Warning *n of the list that is open. */
static void warn(int32_t *n, const char *param, lx_buffer *out, const char *fmt, ...)
    LX_PRINTF(4, 5);

static void warn(int32_t *n, const char *param, lx_buffer *out, const char *fmt, ...)
{
    char text[MOST_TEXT];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    lx_buffer_puts(out, (*n)++ > 0 ? "," : "");
    lx_json_put(out, "{'param':%s,'message':%s}", param, text);
}

void lx_json_write_notes(const lx_json_notes *notes, lx_buffer *out)
{
    int32_t n = 0;
    if (notes == NULL || lx_json_count_notes(notes) == 0)
        return;
    lx_json_put(out, ",'warnings':[");
    for (const lx_json_noted *f = notes->fields; f < notes->fields + notes->n_fields; f++) {
        if (f->meant != NULL)
            warn(&n, f->name, out, "%s is no field here and changes nothing: %s?", f->name,
                 f->meant);
        else
            warn(&n, f->name, out, "%s changes nothing here%s%s", f->name,
                 f->why != NULL ? ": " : "", f->why != NULL ? f->why : "");
    }
    if (notes->more > 0)
        warn(&n, "body", out, "more fields that change nothing here: %lld", (long long)notes->more);
    if (notes->unknown > 0)
        warn(&n, "prompt", out, "characters that are not in the vocabulary, read as <unk>: %lld",
             (long long)notes->unknown);
    if (notes->simplified > 0)
        warn(&n, "prompt", out, "characters read as their simplified forms: %lld",
             (long long)notes->simplified);
    if (notes->unkept > 0)
        warn(&n, "return_state", out, "states that could not be kept: %d, see states",
             notes->unkept);
    if (notes->prompt != NULL)
        warn(&n, "prompt", out, "%s", notes->prompt);
    if (notes->backward > 0)
        warn(&n, "prompt", out,
             "lines that end with a level tone, as lower lines do, and got upper lines: %d; rank: "
             "false asks for lower lines",
             notes->backward);
    if (notes->pool > 0)
        warn(&n, "rank", out,
             "the answers were chosen from %d samples per prompt, not from %d: the server's slots "
             "or the key's limits have no room for more",
             notes->pool, notes->full_pool);
    lx_buffer_puts(out, "]");
}

void lx_json_append_notes(const lx_json_notes *notes, lx_buffer *out)
{
    if (out->status != LX_OK || out->length == 0)
        return;
    out->length--; /* the object's brace */
    lx_json_write_notes(notes, out);
    lx_buffer_puts(out, "}");
}

void lx_json_list_noted(const lx_json_notes *notes, char *out, size_t bytes)
{
    enum { MORE_BYTES = sizeof " and 9223372036854775807 more" };
    size_t n = 0;
    int32_t i = 0;
    out[0] = '\0';
    for (; i < notes->n_fields; i++) {
        const char *name = notes->fields[i].name;
        if (n + strlen(name) + 2 + MORE_BYTES > bytes)
            break;
        n += (size_t)snprintf(out + n, bytes - n, "%s%s", i > 0 ? ", " : "", name);
    }
    long long left = notes->n_fields - i + notes->more;
    if (left > 0)
        (void)snprintf(out + n, bytes - n, "%sand %lld more", n > 0 ? " " : "", left);
    for (char *c = out; *c != '\0'; c++) /* a header is ASCII */
        *c = (unsigned char)*c < 0x80 ? *c : '?';
}

/* --- log-probabilities as OpenAI's clients read them: for completions parallel lists, for a chat
   one list of objects --- */

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
    lx_json_put(out, "{'tokens':[");
    for (int32_t i = 0; i < l->n; i++)
        lx_json_put(out, i > 0 ? ",%.*s" : "%.*s", (int)l->tokens[i].bytes, l->tokens[i].text);
    lx_json_put(out, "],'token_logprobs':[");
    for (int32_t i = 0; i < l->n; i++)
        lx_json_put(out, i > 0 ? ",%f" : "%f", l->tokens[i].logprob);
    lx_json_put(out, l->n_top > 0 ? "],'top_logprobs':[" : "],'top_logprobs':null");
    for (int32_t i = 0; l->n_top > 0 && i < l->n; i++) {
        lx_buffer_puts(out, i > 0 ? "," : "");
        lx_json_dump(make_map(l, &l->tokens[i]), out);
    }
    lx_json_put(out, l->n_top > 0 ? "],'text_offset':[" : ",'text_offset':[");
    for (int32_t i = 0; i < l->n; i++) {
        lx_json_put(out, i > 0 ? ",%jd" : "%jd", offset);
        offset += count_chars(&l->tokens[i]);
    }
    lx_buffer_puts(out, "]}");
}

/* --- chat --- */

/* An entry without its closing brace. `bytes` are the token's own, also where its text only names
   a part of a character. */
static void open_entry(const char *name, size_t name_bytes, double logprob, const char *bytes,
                       size_t n, lx_buffer *out)
{
    lx_json_put(out, "{'token':%.*s,'logprob':%f,'bytes':", (int)name_bytes, name, logprob);
    lx_json_put_bytes(bytes, n, out);
}

static void write_top(const lx_json_logprobs *l, const lx_json_token *t, lx_buffer *out)
{
    likely k;
    likely_init(&k, l);
    for (int32_t i = 0; t->top != NULL && i < l->n_top; i++) {
        lx_buffer_puts(out, i > 0 ? "," : "");
        if (likely_read(&k, l, &t->top[i]))
            open_entry(k.name.data, k.name.length, (double)t->top[i].logprob, k.bytes.data,
                       k.bytes.length, out);
        else
            out->status = LX_ERR_NO_MEMORY;
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
        open_entry(t->text, t->bytes, t->logprob, t->text, t->bytes, out);
        lx_json_put(out, ",'top_logprobs':[");
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
        lx_json_put(out, "{'content':");
        lx_json_write_entries(l, out);
        lx_json_put(out, ",'refusal':null}");
    } else {
        write_lists(l, out);
    }
}
