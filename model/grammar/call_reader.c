/*
 * Calls out of an answer's text, byte by byte (see calls.h). The grammar of the answer allows one
 * spelling of all that stands around names and values, so the reader skips it by its length. Text
 * that may become a mark is held back, and so are the line feeds before it, which a call drops.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/grammar/calls.h"

enum { MOST_BREAKS = 64, MOST_CALLS = 4096, MOST_NAME = 512, OVERHEAD = 8 };

typedef enum place {
    THOUGHTS, /* up to </think>, no call begins */
    TEXT,
    PLAIN,  /* text in which no call begins any more */
    FIXED,  /* `fixed` is skipped, then `next` comes */
    BEGIN,  /* of the calls, after the first mark */
    BEFORE, /* of a call */
    NAME,
    ARGUMENTS,
    JSON,
    XML_NEXT, /* a parameter, or the end of the function */
    XML_NAME,
    XML_VALUE,
    PYTHON_NAME,
    PYTHON_VALUE,
    AFTER, /* of a call */
    END_MARK,
    MORE, /* another call, or the end */
    AGAIN,
    DONE
} place;

struct lx_call_reader {
    const lx_calls *calls;
    const lx_call_format *format;
    place place, next;
    const char *fixed;
    int32_t matched; /* bytes of a mark that are held back */
    int32_t breaks;  /* line feeds that are held back before it */
    bool begun;      /* the text has begun */
    lx_buffer text;
    lx_read_call *list; /* [n] */
    int32_t n, room;
    /* of the arguments */
    int32_t depth, n_values, n_word;
    bool quoted, escaped;
    lx_call_value value;
    lx_buffer name, held; /* of a parameter; a value that may be null */
    size_t most;
};

lx_status lx_call_reader_new(const lx_calls *c, size_t most, lx_call_reader **out, lx_error *err)
{
    lx_call_reader *r = calloc(1, sizeof *r);
    if (r == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    r->calls = c;
    r->format = lx_calls_format(c);
    r->place = lx_calls_inside(c) ? THOUGHTS : TEXT;
    r->most = OVERHEAD * (most + MOST_NAME);
    lx_buffer_init(&r->text, r->most);
    lx_buffer_init(&r->name, r->most);
    lx_buffer_init(&r->held, r->most);
    *out = r;
    return LX_OK;
}

void lx_call_reader_free(lx_call_reader *r)
{
    if (r == NULL)
        return;
    for (int32_t i = 0; i < r->n; i++) {
        lx_buffer_fini(&r->list[i].name);
        lx_buffer_fini(&r->list[i].arguments);
    }
    lx_buffer_fini(&r->text);
    lx_buffer_fini(&r->name);
    lx_buffer_fini(&r->held);
    free(r->list);
    free(r);
}

/* The call that is being read; NULL: there was no memory for it. */
static lx_read_call *newest(const lx_call_reader *r)
{
    return r->n > 0 ? &r->list[r->n - 1] : NULL;
}

static void begin_call(lx_call_reader *r)
{
    if (r->n == r->room) {
        int32_t room = r->room > 0 ? 2 * r->room : 4;
        lx_read_call *list = realloc(r->list, (size_t)room * sizeof *list);
        if (list == NULL || room > MOST_CALLS) {
            r->list = list != NULL ? list : r->list;
            r->text.status = LX_ERR_NO_MEMORY;
            return;
        }
        r->list = list;
        r->room = room;
    }
    lx_read_call *call = &r->list[r->n++];
    *call = (lx_read_call){.taken = 0};
    (void)snprintf(call->id, sizeof call->id, "call_%016llx",
                   (unsigned long long)lx_calls_id(r->calls, r->n));
    lx_buffer_init(&call->name, r->most);
    lx_buffer_init(&call->arguments, r->most);
}

static void add(lx_call_reader *r, const char *text, size_t n)
{
    lx_buffer_append(&newest(r)->arguments, text, n);
}

static void add_word(lx_call_reader *r, const char *text)
{
    add(r, text, strlen(text));
}

/* A character of a JSON string. */
static void add_escaped(lx_call_reader *r, char c)
{
    static const char from[] = "\"\\\n\t\r\b\f", to[] = "\"\\ntrbf";
    const char *at = c != '\0' ? strchr(from, c) : NULL;
    if (at != NULL)
        add(r, (const char[]){'\\', to[at - from]}, 2);
    else if ((unsigned char)c < ' ')
        lx_buffer_printf(&newest(r)->arguments, "\\u%04x", (unsigned)(unsigned char)c);
    else
        add(r, &c, 1);
}

/* --- from place to place --- */

static void go(lx_call_reader *r, place to);

static void skip(lx_call_reader *r, const char *text, place next)
{
    r->place = FIXED;
    r->fixed = text;
    r->next = next;
    if (text[0] == '\0')
        go(r, next);
}

static void end_call(lx_call_reader *r)
{
    newest(r)->whole = true;
    if (r->format->each)
        skip(r, r->format->end, END_MARK);
    else
        r->place = MORE;
}

static void begin_arguments(lx_call_reader *r)
{
    newest(r)->named = true;
    r->depth = r->n_values = r->n_word = 0;
    r->quoted = r->escaped = false;
    r->place = r->format->spelling == LX_CALL_JSON  ? JSON
               : r->format->spelling == LX_CALL_XML ? XML_NEXT
                                                    : PYTHON_NAME;
    if (r->place != JSON)
        add_word(r, "{");
}

static void begin_value(lx_call_reader *r)
{
    r->matched = 0;
    r->held.length = 0;
    if (r->value == LX_VALUE_TEXT)
        add_word(r, "\"");
    r->place = XML_VALUE;
}

/* Circular lists of texts end here: every way on waits for a byte. */
static void go(lx_call_reader *r, place to)
{
    const lx_call_format *f = r->format;
    switch (to) {
    case BEGIN:
        skip(r, f->head, BEFORE);
        break;
    case BEFORE:
        begin_call(r);
        skip(r, f->before_name, NAME);
        break;
    case ARGUMENTS:
        begin_arguments(r);
        break;
    case XML_VALUE:
        begin_value(r);
        break;
    case AFTER:
        end_call(r);
        break;
    case END_MARK:
        skip(r, f->end_mark, f->each ? MORE : DONE);
        break;
    case MORE:
        skip(r, f->between, AGAIN);
        break;
    case AGAIN:
        skip(r, f->mark, BEFORE);
        break;
    default:
        r->place = to;
        break;
    }
}

/* --- text --- */

static void release(lx_call_reader *r, const char *mark, int32_t n)
{
    for (; r->breaks > 0; r->breaks--)
        lx_buffer_puts(&r->text, "\n");
    lx_buffer_append(&r->text, mark, (size_t)n);
    r->begun |= n > 0;
}

/* How many bytes of the mark the text ends with, where it ended with `matched` before the byte. */
static int32_t match(const char *mark, int32_t matched, char c)
{
    if (mark[matched] == c)
        return matched + 1;
    for (int32_t n = matched; n > 0; n--) {
        if (mark[n - 1] == c && memcmp(mark, mark + matched - (n - 1), (size_t)(n - 1)) == 0)
            return n;
    }
    return 0;
}

/* Takes a byte of a text that a mark ends. Bytes that are no part of the mark go to `out`; true:
   the mark is complete. */
static bool take(const char *mark, int32_t *matched, char c, char *out, int32_t *n)
{
    int32_t now = match(mark, *matched, c), all = *matched + 1;
    *n = all - now;
    for (int32_t i = 0; i < *n; i++)
        out[i] = i < *matched ? mark[i] : c;
    *matched = mark[now] == '\0' ? 0 : now;
    return mark[now] == '\0';
}

static void read_text(lx_call_reader *r, char c)
{
    char free_bytes[64];
    int32_t n = 0;
    bool may = !r->format->first || !r->begun;
    bool marked = may && take(r->format->mark, &r->matched, c, free_bytes, &n);
    if (marked) {
        r->breaks = 0;
        go(r, BEGIN);
        return;
    }
    if (!may) {
        release(r, &c, 1);
        return;
    }
    bool line = n == 1 && free_bytes[0] == '\n' && r->matched == 0 && r->breaks < MOST_BREAKS;
    if (line)
        r->breaks++;
    else if (n > 0)
        release(r, free_bytes, n);
}

static void read_thoughts(lx_call_reader *r, char c)
{
    static const char mark[] = "</think>";
    lx_buffer_append(&r->text, &c, 1);
    r->matched = match(mark, r->matched, c);
    if (mark[r->matched] == '\0') {
        r->matched = 0;
        r->place = TEXT;
    }
}

/* --- arguments --- */

static void end_arguments(lx_call_reader *r, int32_t n_read)
{
    newest(r)->ended = true;
    skip(r, r->format->after_arguments + n_read, AFTER);
}

static void read_json(lx_call_reader *r, char c)
{
    add(r, &c, 1);
    if (r->quoted) {
        r->quoted = r->escaped || c != '"';
        r->escaped = !r->escaped && c == '\\';
    } else if (c == '"') {
        r->quoted = true;
    } else if (c == '{' || c == '[') {
        r->depth++;
    } else if ((c == '}' || c == ']') && --r->depth == 0) {
        end_arguments(r, 0);
    }
}

static void read_xml_next(lx_call_reader *r, char c)
{
    static const char parameter[] = "<parameter=";
    if (c == '<')
        return;
    if (c == parameter[1]) {
        r->name.length = 0;
        skip(r, parameter + 2, XML_NAME);
        return;
    }
    add_word(r, "}");
    end_arguments(r, 2);
}

static void add_key(lx_call_reader *r)
{
    add_word(r, r->n_values++ > 0 ? ", \"" : "\"");
    add(r, r->name.data != NULL ? r->name.data : "", r->name.length);
    add_word(r, "\": ");
}

static void read_xml_name(lx_call_reader *r, char c)
{
    if (c != '>') {
        lx_buffer_append(&r->name, &c, 1);
        return;
    }
    const lx_buffer *tool = &newest(r)->name;
    r->value = lx_calls_value(r->calls, tool->data != NULL ? tool->data : "",
                              r->name.data != NULL ? r->name.data : "");
    add_key(r);
    skip(r, "\n", XML_VALUE);
}

static void end_xml_value(lx_call_reader *r)
{
    bool null = r->held.length == 4 && memcmp(r->held.data, "null", 4) == 0;
    if (r->value == LX_VALUE_TEXT_OR_NULL && !null) {
        add_word(r, "\"");
        for (size_t i = 0; i < r->held.length; i++)
            add_escaped(r, r->held.data[i]);
    } else if (null) {
        add_word(r, "null");
    }
    if (r->value != LX_VALUE_JSON && !null)
        add_word(r, "\"");
    skip(r, "\n", XML_NEXT);
}

static void read_xml_value(lx_call_reader *r, char c)
{
    char free_bytes[64];
    int32_t n = 0;
    bool ended = take("\n</parameter>", &r->matched, c, free_bytes, &n);
    for (int32_t i = 0; i < n; i++) {
        if (r->value == LX_VALUE_TEXT)
            add_escaped(r, free_bytes[i]);
        else if (r->value == LX_VALUE_JSON)
            add(r, &free_bytes[i], 1);
        else
            lx_buffer_append(&r->held, &free_bytes[i], 1);
    }
    if (ended)
        end_xml_value(r);
}

static void end_python(lx_call_reader *r)
{
    add_word(r, "}");
    end_arguments(r, 1);
}

static void read_python_name(lx_call_reader *r, char c)
{
    if (c == ')') {
        end_python(r);
    } else if (c == '=') {
        add_key(r);
        r->name.length = 0;
        r->place = PYTHON_VALUE;
    } else if (c != ',' && c != ' ') {
        lx_buffer_append(&r->name, &c, 1);
    }
}

/* Python's words have as many letters as JSON's; only None has others than the first. */
static void add_python(lx_call_reader *r, char c)
{
    static const char null[] = "null";
    if (c == 'N' || r->n_word > 0) {
        add(r, &null[r->n_word], 1);
        r->n_word = (r->n_word + 1) % 4;
        return;
    }
    char json = c == 'T' ? 't' : c == 'F' ? 'f' : c;
    add(r, &json, 1);
}

static void read_python_value(lx_call_reader *r, char c)
{
    if (r->quoted) {
        add(r, &c, 1);
        r->quoted = r->escaped || c != '"';
        r->escaped = !r->escaped && c == '\\';
        return;
    }
    bool ends = r->depth == 0 && r->n_word == 0 && (c == ',' || c == ')');
    r->quoted = c == '"';
    r->depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (!ends)
        add_python(r, c);
    else if (c == ')')
        end_python(r);
    else
        r->place = PYTHON_NAME;
}

/* --- a byte --- */

static void read_name(lx_call_reader *r, char c)
{
    if (c != r->format->after_name[0])
        lx_buffer_append(&newest(r)->name, &c, 1);
    else
        skip(r, r->format->after_name + 1, ARGUMENTS);
}

static void read_more(lx_call_reader *r, char c)
{
    const lx_call_format *f = r->format;
    if (c == f->between[0])
        skip(r, f->between + 1, BEFORE);
    else
        skip(r, f->end + 1, END_MARK);
}

static void read_fixed(lx_call_reader *r)
{
    if (*++r->fixed == '\0')
        go(r, r->next);
}

static void read_byte(lx_call_reader *r, char c)
{
    switch (r->place) {
    case THOUGHTS:
        read_thoughts(r, c);
        break;
    case TEXT:
        read_text(r, c);
        break;
    case FIXED:
        read_fixed(r);
        break;
    case NAME:
        read_name(r, c);
        break;
    case JSON:
        read_json(r, c);
        break;
    case XML_NEXT:
        read_xml_next(r, c);
        break;
    case XML_NAME:
        read_xml_name(r, c);
        break;
    case XML_VALUE:
        read_xml_value(r, c);
        break;
    case PYTHON_NAME:
        read_python_name(r, c);
        break;
    case PYTHON_VALUE:
        read_python_value(r, c);
        break;
    case MORE:
        read_more(r, c);
        break;
    default: /* nothing comes after the last call */
        break;
    }
}

static lx_status status_of(const lx_call_reader *r)
{
    lx_status st = r->text.status != LX_OK   ? r->text.status
                   : r->name.status != LX_OK ? r->name.status
                                             : r->held.status;
    for (int32_t i = 0; st == LX_OK && i < r->n; i++)
        st = r->list[i].name.status != LX_OK ? r->list[i].name.status : r->list[i].arguments.status;
    return st;
}

lx_status lx_call_reader_put(lx_call_reader *r, const char *text, size_t n, bool last,
                             lx_error *err)
{
    r->text.length = 0;
    for (size_t i = 0; i < n && r->text.status == LX_OK; i++)
        read_byte(r, text[i]);
    if (last && r->place == TEXT) {
        release(r, r->format->mark, r->matched);
        r->matched = 0;
    }
    lx_status st = status_of(r);
    return st == LX_OK ? st : lx_fail(err, st, NULL, "no memory for the answer");
}

const lx_buffer *lx_call_reader_text(const lx_call_reader *r)
{
    return &r->text;
}

int32_t lx_call_reader_n(const lx_call_reader *r)
{
    return r->n;
}

lx_read_call *lx_call_reader_call(lx_call_reader *r, int32_t i)
{
    return &r->list[i];
}
