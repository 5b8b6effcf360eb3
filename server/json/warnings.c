/* Warnings (see parts.h). */
#include <stdio.h>
#include <string.h>

#include "server/json/fields.h"
#include "server/json/parts.h"

enum { MOST_TEXT = 192, N_OTHERS = 5 };

static void say_of_field(const lx_json_noted *f, char *text)
{
    if (f->meant != NULL)
        (void)snprintf(text, MOST_TEXT, "%s is no field here and changes nothing: %s?", f->name,
                       f->meant);
    else
        (void)snprintf(text, MOST_TEXT, "%s changes nothing here%s%s", f->name,
                       f->why != NULL ? ": " : "", f->why != NULL ? f->why : "");
}

/* What is said of other things than fields: of those there are, param and text. */
static int32_t say_of_others(const lx_json_notes *notes, const char **params,
                             char (*texts)[MOST_TEXT])
{
    const struct {
        int64_t n;
        const char *param, *text;
    } counts[] = {
        {notes->more, "body", "more fields that change nothing here: %lld"},
        {notes->unknown, "prompt",
         "characters that are not in the vocabulary, read as <unk>: %lld"},
        {notes->simplified, "prompt", "characters read as their simplified forms: %lld"},
        {notes->unkept, "return_state", "states that could not be kept: %lld, see states"},
    };
    int32_t n = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (counts[i].n == 0)
            continue;
        params[n] = counts[i].param;
        (void)snprintf(texts[n++], MOST_TEXT, counts[i].text, (long long)counts[i].n);
    }
    if (notes->prompt != NULL) {
        params[n] = "prompt";
        (void)snprintf(texts[n++], MOST_TEXT, "%s", notes->prompt);
    }
    return n;
}

json_t *lx_json_make_notes(const lx_json_notes *notes)
{
    lx_json_warning list[LX_MAX_NOTED + N_OTHERS];
    char texts[LX_MAX_NOTED + N_OTHERS][MOST_TEXT]; /* 3 KB */
    const char *params[N_OTHERS];
    int32_t n = notes->n_fields;
    for (int32_t i = 0; i < n; i++) {
        say_of_field(&notes->fields[i], texts[i]);
        list[i] = (lx_json_warning){notes->fields[i].name, texts[i]};
    }
    int32_t others = say_of_others(notes, params, texts + n);
    for (int32_t i = 0; i < others; i++)
        list[n + i] = (lx_json_warning){params[i], texts[n + i]};
    return lx_json_make_warnings(list, n + others);
}

void lx_json_append_notes(const lx_json_notes *notes, lx_buffer *out)
{
    if (lx_json_count_notes(notes) == 0 || out->status != LX_OK || out->length == 0)
        return;
    out->length--; /* the object's brace */
    lx_buffer_puts(out, ",\"warnings\":");
    lx_json_dump(lx_json_make_notes(notes), out);
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
