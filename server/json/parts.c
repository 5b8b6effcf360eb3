/* Parts of answers (see parts.h), and the notes of requests that become warnings. */
#include "server/json/parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
