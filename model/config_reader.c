/* Taking the keys of config.json (see config_reader.h). */
#include "model/config_reader.h"

#include <stdio.h>
#include <string.h>

#include "model/formats/file.h"

void lx_config_wrong(lx_config_reader *r, lx_config_object s, const char *key, const char *what)
{
    if (r->st == LX_OK)
        r->st = lx_fail(r->err, LX_ERR_FORMAT, NULL, "%s: %s%s%s%s", r->label, s.prefix, key,
                        what[0] != '\0' ? " " : "", what);
}

json_t *lx_config_look(lx_config_reader *r, lx_config_object s, const char *key)
{
    json_t *value = r->st == LX_OK ? json_object_get(s.object, key) : NULL;
    if (value == NULL)
        lx_config_wrong(r, s, key, "is missing");
    return value;
}

bool lx_config_has(const lx_config_reader *r, lx_config_object s, const char *key)
{
    return r->st == LX_OK && json_object_get(s.object, key) != NULL;
}

void lx_config_release(lx_config_object s, const char *key)
{
    (void)json_object_del(s.object, key);
}

int32_t lx_config_int(lx_config_reader *r, lx_config_object s, const char *key, int32_t min,
                      int32_t max)
{
    json_t *value = lx_config_look(r, s, key);
    if (value == NULL)
        return 0;
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < min || n > max) {
        char what[64];
        (void)snprintf(what, sizeof what, "must be a whole number from %d to %d", min, max);
        lx_config_wrong(r, s, key, what);
        return 0;
    }
    lx_config_release(s, key);
    return (int32_t)n;
}

float lx_config_number(lx_config_reader *r, lx_config_object s, const char *key, float min,
                       float max)
{
    json_t *value = lx_config_look(r, s, key);
    if (value == NULL)
        return 0;
    float f = (float)json_number_value(value);
    if (!json_is_number(value) || !(f >= min && f <= max)) {
        char what[64];
        (void)snprintf(what, sizeof what, "must be a number from %g to %g", (double)min,
                       (double)max);
        lx_config_wrong(r, s, key, what);
        return 0;
    }
    lx_config_release(s, key);
    return f;
}

float lx_config_eps(lx_config_reader *r, lx_config_object s, const char *key)
{
    return lx_config_number(r, s, key, 1e-30f, 1.0f);
}

bool lx_config_flag(lx_config_reader *r, lx_config_object s, const char *key)
{
    const json_t *value = lx_config_look(r, s, key);
    bool flag = json_is_true(value);
    if (value != NULL && !json_is_boolean(value))
        lx_config_wrong(r, s, key, "must be true or false");
    else if (value != NULL)
        lx_config_release(s, key);
    return flag;
}

void lx_config_text(lx_config_reader *r, lx_config_object s, const char *key,
                    const lx_config_form *form, char *out)
{
    json_t *value = lx_config_look(r, s, key);
    if (value == NULL)
        return;
    const char *text = json_string_value(value);
    size_t n = text != NULL ? strlen(text) : 0;
    if (n == 0 || n >= form->size || strspn(text, form->allowed) != n) {
        lx_config_wrong(r, s, key, form->what);
        return;
    }
    memcpy(out, text, n + 1);
    lx_config_release(s, key);
}

void lx_config_name(lx_config_reader *r, lx_config_object s, const char *key, char *out)
{
    static const lx_config_form name = {"abcdefghijklmnopqrstuvwxyz0123456789_", LX_CONFIG_NAME,
                                        "must be a name of 1 to 31 letters a-z, digits and '_'"};
    lx_config_text(r, s, key, &name, out);
}

int32_t lx_config_ints(lx_config_reader *r, lx_config_object s, const char *key,
                       const lx_config_list *list, int32_t *out)
{
    const json_t *values = lx_config_look(r, s, key);
    size_t n = json_array_size(values); /* 0 for another type */
    bool ok = json_is_array(values) && n >= list->least && n <= list->most;
    for (size_t i = 0; ok && i < n; i++) {
        json_int_t x = json_integer_value(json_array_get(values, i));
        ok = json_is_integer(json_array_get(values, i)) && x >= list->min && x <= list->max &&
             (!list->rises || i == 0 || x > out[i - 1]);
        out[i] = ok ? (int32_t)x : 0;
    }
    if (!ok) {
        lx_config_wrong(r, s, key, list->what); /* or it is missing, which stays the first fault */
        return 0;
    }
    lx_config_release(s, key);
    return (int32_t)n;
}

size_t lx_config_count(lx_config_reader *r, lx_config_object s, const char *key)
{
    return json_array_size(lx_config_look(r, s, key));
}

const char *lx_config_text_at(lx_config_object s, const char *key, size_t i)
{
    return json_string_value(json_array_get(json_object_get(s.object, key), i));
}

int32_t lx_config_word(lx_config_reader *r, lx_config_object s, const char *key,
                       const char *const *words)
{
    char what[128] = "must be ";
    json_t *value = lx_config_look(r, s, key);
    if (value == NULL)
        return 0;
    const char *text = json_string_value(value);
    for (int32_t i = 0; words[i] != NULL; i++) {
        if (text != NULL && strcmp(text, words[i]) == 0) {
            lx_config_release(s, key);
            return i;
        }
        size_t n = strlen(what);
        (void)snprintf(what + n, sizeof what - n, "%s\"%s\"", i > 0 ? " or " : "", words[i]);
    }
    lx_config_wrong(r, s, key, what);
    return 0;
}

lx_config_object lx_config_section(lx_config_reader *r, lx_config_object s, const char *key,
                                   const char *prefix)
{
    json_t *value = lx_config_look(r, s, key);
    if (value != NULL && !json_is_object(value))
        lx_config_wrong(r, s, key, "must be an object");
    return (lx_config_object){value, prefix};
}

void lx_config_finish(lx_config_reader *r, lx_config_object s)
{
    char name[LX_CONFIG_NAME];
    void *left = r->st == LX_OK ? json_object_iter(s.object) : NULL;
    if (left != NULL)
        lx_config_wrong(r, s, lx_file_quote(json_object_iter_key(left), name, sizeof name),
                        "is not a known key");
}
