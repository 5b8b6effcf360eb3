/* Parts of answers (see parts.h), and the notes of requests that become warnings. */
#include "server/json/parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/tasks/task.h"
#include "model/utf8.h"
#include "server/json/fields.h"

enum { MOST_TEXT = 192 };

/* --- timings --- */

/* "prompt_ms", "prompt_per_token_ms", "prompt_per_second" and the like. */
static void write_rates(const char *what, int64_t n, double ms, lx_buffer *out)
{
    static const char *const suffixes[] = {"n", "ms", "per_token_ms", "per_second"};
    char names[4][32];
    for (size_t i = 0; i < 4; i++)
        (void)snprintf(names[i], sizeof names[i], "%s_%s", what, suffixes[i]);
    lx_json_members(json_pack("{s:I, s:o, s:o, s:o}", names[0], (json_int_t)n, names[1],
                              lx_json_real_or_null(ms), names[2],
                              lx_json_real_or_null(n > 0 ? ms / (double)n : 0), names[3],
                              lx_json_real_or_null(ms > 0 ? (double)n * 1e3 / ms : 0)),
                    out);
}

void lx_json_write_timings(const lx_json_timings *t, lx_buffer *out)
{
    lx_buffer_puts(out, ",\"timings\":");
    lx_json_open(json_pack("{s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "queue_ms",
                           lx_json_real_or_null(t->queue_ms), "ttft_ms",
                           lx_json_real_or_null(t->ttft_ms), "total_ms",
                           lx_json_real_or_null(t->total_ms), "state_ms",
                           lx_json_real_or_null(t->state_ms), "cache_n", (json_int_t)t->cache_n,
                           "queue_steps", (json_int_t)t->queue_steps, "total_steps",
                           (json_int_t)t->total_steps),
                 out);
    write_rates("prompt", t->prompt_n, t->prompt_ms, out);
    write_rates("predicted", t->predicted_n, t->predicted_ms, out);
    if (t->draft_n != 0) /* by llama.cpp's names */
        lx_json_members(json_pack("{s:I, s:I}", "draft_n", (json_int_t)t->draft_n,
                                  "draft_n_accepted", (json_int_t)t->draft_n_accepted),
                        out);
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
    lx_json_item((*n)++, json_pack("{s:s, s:s}", "param", param, "message", text), out);
}

void lx_json_write_notes(const lx_json_notes *notes, lx_buffer *out)
{
    int32_t n = 0;
    if (notes == NULL || lx_json_count_notes(notes) == 0)
        return;
    lx_buffer_puts(out, ",\"warnings\":[");
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
             "the answers were chosen from %d samples per prompt, not from %d: the server or the "
             "key is busy",
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
