/* See reader.h. */
#include "model/formats/hugging_face/reader.h"

#include <stdio.h>
#include <string.h>

#include "model/formats/file.h"

void lx_hf_wrong(lx_hf_reader *r, const char *key, const char *what)
{
    char full[96], quoted[64];
    lx_error fault = {0};
    if (r->st != LX_OK)
        return;
    (void)snprintf(full, sizeof full, "%s%s", r->prefix != NULL ? r->prefix : "", key);
    lx_status st =
        lx_fail(r->report != NULL ? &fault : r->err, LX_ERR_FORMAT, NULL, "%s: %s %s",
                lx_file_label(r->path), lx_file_quote(full, quoted, sizeof quoted), what);
    if (r->report != NULL)
        r->report(r->context, &fault);
    else
        r->st = st;
}

/* The value; NULL where it is missing or null, and after a fault. */
static const json_t *look(const lx_hf_reader *r, const char *key)
{
    const json_t *value = r->st == LX_OK ? json_object_get(r->root, key) : NULL;
    return json_is_null(value) ? NULL : value;
}

/* After the last use of its value. */
static void take(lx_hf_reader *r, const char *key)
{
    if (r->st == LX_OK)
        (void)json_object_del(r->root, key);
}

int32_t lx_hf_int(lx_hf_reader *r, const char *key, int32_t min, int32_t max, int32_t fallback)
{
    const json_t *value = look(r, key);
    json_int_t n = value != NULL ? json_integer_value(value) : fallback;
    if (value != NULL && (!json_is_integer(value) || n < min || n > max)) {
        char what[64];
        (void)snprintf(what, sizeof what, "must be a whole number from %d to %d", min, max);
        lx_hf_wrong(r, key, what);
        n = fallback;
    }
    take(r, key);
    return (int32_t)n;
}

bool lx_hf_flag(lx_hf_reader *r, const char *key, bool fallback)
{
    const json_t *value = look(r, key);
    bool flag = value != NULL ? json_is_true(value) : fallback;
    if (value != NULL && !json_is_boolean(value))
        lx_hf_wrong(r, key, "must be true or false");
    take(r, key);
    return flag;
}

double lx_hf_number(lx_hf_reader *r, const char *key, double min, double max, double fallback)
{
    const json_t *value = look(r, key);
    double x = value != NULL ? json_number_value(value) : fallback;
    if (value != NULL && (!json_is_number(value) || !(x >= min && x <= max))) {
        char what[64];
        (void)snprintf(what, sizeof what, "must be a number from %g to %g", min, max);
        lx_hf_wrong(r, key, what);
        x = fallback;
    }
    take(r, key);
    return x;
}

void lx_hf_only_flag(lx_hf_reader *r, const char *key, bool value)
{
    if (lx_hf_flag(r, key, value) != value)
        lx_hf_wrong(r, key,
                    value ? "must be true: false is not supported"
                          : "must be false: true is not supported");
}

/* "swish" and "silu" are two names of one function. */
static bool is_silu(const char *word)
{
    return strcmp(word, "swish") == 0 || strcmp(word, "silu") == 0;
}

void lx_hf_only_word(lx_hf_reader *r, const char *key, const char *value)
{
    const json_t *given = look(r, key);
    const char *text = json_string_value(given);
    char what[96];
    (void)snprintf(what, sizeof what, "must be \"%s\": nothing else is supported", value);
    bool known = text != NULL && (strcmp(text, value) == 0 || (is_silu(text) && is_silu(value)));
    if (given != NULL && !known)
        lx_hf_wrong(r, key, what);
    take(r, key);
}

void lx_hf_only_number(lx_hf_reader *r, const char *key, double value, const char *other)
{
    char what[64];
    if (lx_hf_number(r, key, 0, 1e30, value) == value)
        return;
    (void)snprintf(what, sizeof what, "must be equal to %s", other);
    lx_hf_wrong(r, key, what);
}

const char *lx_hf_either(lx_hf_reader *r, const char *key, const char *other)
{
    const json_t *value = look(r, key), *second = look(r, other);
    char what[64];
    if (value == NULL && second != NULL) {
        take(r, key);
        return other;
    }
    (void)snprintf(what, sizeof what, "differs from %s", key);
    if (second != NULL && !json_equal(value, second))
        lx_hf_wrong(r, other, what);
    take(r, other);
    return key;
}

void lx_hf_only_null(lx_hf_reader *r, const char *key)
{
    if (look(r, key) != NULL)
        lx_hf_wrong(r, key, "must be null: nothing else is supported");
    take(r, key);
}

/* A number, or how Python's libraries write that there is no bound. */
static bool is_infinite(const json_t *value)
{
    const json_t *tagged = json_object_get(value, "__float__");
    const char *text = json_string_value(tagged != NULL ? tagged : value);
    return (text != NULL && strcmp(text, "Infinity") == 0) || json_number_value(value) >= 1e30;
}

/* Steps are 0 or more by themselves, so a range from there on without an end changes nothing. */
void lx_hf_only_unbounded(lx_hf_reader *r, const char *key)
{
    const json_t *range = r->st == LX_OK ? json_object_get(r->root, key) : NULL;
    const json_t *from = json_array_get(range, 0);
    if (range != NULL && !json_is_null(range) &&
        (json_array_size(range) != 2 || !json_is_number(from) || json_number_value(from) > 0 ||
         !is_infinite(json_array_get(range, 1))))
        lx_hf_wrong(r, key, "must be [0, Infinity]: nothing else is supported");
    lx_hf_ignore(r, key);
}

void lx_hf_refuse_rest(lx_hf_reader *r)
{
    const char *key;
    json_t *value;
    if (r->st != LX_OK)
        return;
    json_object_foreach(r->root, key, value)
    {
        if (!json_is_null(value)) /* null says nothing */
            lx_hf_wrong(r, key, "is not a known key: it may change results");
    }
}

void lx_hf_ignore(lx_hf_reader *r, const char *keys)
{
    char key[64];
    for (size_t n; keys[0] != '\0'; keys += n + (keys[n] == ' ')) {
        n = strcspn(keys, " ");
        (void)snprintf(key, sizeof key, "%.*s", (int)n, keys);
        take(r, key);
    }
}
