/* Single fields of tokenizer.json (see parts.h). */
#include <stdio.h>
#include <string.h>

#include "model/formats/file.h"
#include "model/tokenizers/json/parts.h"
#include "model/utf8.h"

static void fault(lx_json_reader *r, lx_status st, const lx_json_part *p, const char *field,
                  const char *what)
{
    char quoted[64] = "";
    if (r->st != LX_OK)
        return;
    if (field != NULL)
        (void)lx_file_quote(field, quoted, sizeof quoted);
    r->st = lx_fail(r->err, st, NULL, "%s: %s%s%s %s", r->label, p->path,
                    p->path[0] != '\0' && field != NULL ? "." : "", quoted, what);
}

void lx_json_wrong(lx_json_reader *r, const lx_json_part *p, const char *field, const char *what)
{
    fault(r, LX_ERR_FORMAT, p, field, what);
}

void lx_json_refuse(lx_json_reader *r, const lx_json_part *p, const char *field, const char *value)
{
    char quoted[64], what[128];
    (void)snprintf(what, sizeof what, "\"%s\" is not implemented",
                   lx_file_quote(value, quoted, sizeof quoted));
    fault(r, LX_ERR_UNSUPPORTED, p, field, what);
}

void lx_json_keep(lx_json_reader *r, lx_status st)
{
    if (r->st != LX_OK || st == LX_OK)
        return;
    char text[160] = "";
    if (r->err != NULL)
        (void)snprintf(text, sizeof text, "%.159s", r->err->text);
    r->st = lx_fail(r->err, st, NULL, "%s: %s", r->label, text);
}

/* Whether a word is one of "a|b|c", and its place. */
static int place_in(const char *word, const char *choices)
{
    int place = 0;
    size_t n = strlen(word);
    for (const char *at = choices;; place++) {
        size_t k = strcspn(at, "|");
        if (k == n && memcmp(at, word, n) == 0)
            return place;
        if (at[k] == '\0')
            return -1;
        at += k + 1;
    }
}

void lx_json_keys(lx_json_reader *r, const lx_json_part *p, const char *known)
{
    const char *key;
    json_t *value;
    json_object_foreach(p->object, key, value)
    {
        if (place_in(key, known) < 0)
            fault(r, LX_ERR_UNSUPPORTED, p, key, "is not a field that is implemented");
    }
}

static json_t *look(lx_json_reader *r, const lx_json_part *p, const char *field)
{
    json_t *value = r->st == LX_OK ? json_object_get(p->object, field) : NULL;
    return json_is_null(value) ? NULL : value;
}

static lx_json_part below(lx_json_reader *r, const lx_json_part *p, const char *name, json_t *value)
{
    lx_json_part part = {.object = NULL};
    char quoted[28]; /* a name may be a file's, and errors go to a terminal */
    (void)snprintf(part.path, sizeof part.path, "%.50s%s%s", p->path, p->path[0] != '\0' ? "." : "",
                   lx_file_quote(name, quoted, sizeof quoted));
    if (value != NULL && !json_is_object(value))
        lx_json_wrong(r, &part, NULL, "must be an object");
    else
        part.object = value;
    return part;
}

lx_json_part lx_json_below(lx_json_reader *r, const lx_json_part *p, const char *field)
{
    return below(r, p, field, look(r, p, field));
}

lx_json_part lx_json_entry(lx_json_reader *r, const lx_json_part *p, const char *field, size_t i)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%.30s[%zu]", field, i);
    lx_json_part part = below(r, p, name, json_array_get(look(r, p, field), i));
    if (part.object == NULL)
        lx_json_wrong(r, &part, NULL, "must be an object");
    return part;
}

size_t lx_json_count(lx_json_reader *r, const lx_json_part *p, const char *field, size_t max)
{
    json_t *value = look(r, p, field);
    if (!json_is_array(value)) {
        lx_json_wrong(r, p, field, "must be a list");
        return 0;
    }
    if (json_array_size(value) > max) {
        lx_json_wrong(r, p, field, "has too many entries");
        return 0;
    }
    return json_array_size(value);
}

const char *lx_json_text(lx_json_reader *r, const lx_json_part *p, const char *field, size_t *n)
{
    json_t *value = look(r, p, field);
    *n = 0;
    if (!json_is_string(value)) {
        lx_json_wrong(r, p, field, "must be a text");
        return "";
    }
    *n = json_string_length(value);
    if (*n > LX_REGEX_MAX_PATTERN) {
        lx_json_wrong(r, p, field, "is too long");
        *n = 0;
    }
    return *n > 0 ? json_string_value(value) : "";
}

bool lx_json_bool(lx_json_reader *r, const lx_json_part *p, const char *field, bool fallback)
{
    json_t *value = look(r, p, field);
    if (value == NULL)
        return fallback;
    if (!json_is_boolean(value))
        lx_json_wrong(r, p, field, "must be true or false");
    return json_is_true(value);
}

int64_t lx_json_int(lx_json_reader *r, const lx_json_part *p, const char *field, int64_t min,
                    int64_t max)
{
    json_t *value = look(r, p, field);
    int64_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < min || n > max) {
        char what[96];
        (void)snprintf(what, sizeof what, "must be a whole number from %lld to %lld",
                       (long long)min, (long long)max);
        lx_json_wrong(r, p, field, what);
        return min;
    }
    return n;
}

int lx_json_word(lx_json_reader *r, const lx_json_part *p, const char *field, const char *choices)
{
    size_t n;
    const char *word = lx_json_text(r, p, field, &n);
    int place = strlen(word) == n ? place_in(word, choices) : -1;
    if (place < 0)
        lx_json_refuse(r, p, field, word);
    return place < 0 ? 0 : place;
}

void lx_json_character(lx_json_reader *r, const lx_json_part *p, const char *field, char out[5])
{
    size_t n, at = 0;
    const char *text = lx_json_text(r, p, field, &n);
    memset(out, 0, 5);
    if (n == 0 || text[0] == '\0' || lx_utf8_next(text, n, &at) < 0 || at != n)
        lx_json_wrong(r, p, field, "must be one character");
    else
        memcpy(out, text, n);
}

const char *lx_json_pattern(lx_json_reader *r, const lx_json_part *p, size_t *n, bool *is_regex)
{
    lx_json_part pattern = lx_json_below(r, p, "pattern");
    lx_json_keys(r, &pattern, "String|Regex");
    *is_regex = json_object_get(pattern.object, "Regex") != NULL;
    const char *text = lx_json_text(r, &pattern, *is_regex ? "Regex" : "String", n);
    if (*n == 0)
        lx_json_wrong(r, &pattern, NULL, "must not be empty");
    return text;
}
