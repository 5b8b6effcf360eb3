/* Reading a body by the table of fields (see request_fields.h). */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "model/formats/json_memory.h"
#include "server/json/fields.h"
#include "server/json/request_fields.h"

static bool is_on(const lx_field *f, lx_json_route route)
{
    return (f->routes >> route & 1) != 0;
}

static bool is_form(lx_json_route route)
{
    return route == LX_JSON_EDITS_FORM || route == LX_JSON_SCORE_FORM ||
           route == LX_JSON_TRANSCRIPTIONS;
}

/* --- one value --- */

/* The number or bool that a form's text stands for; NULL: neither. Clients write bools as their
   languages do. The caller frees it. */
static json_t *scalar_of(const json_t *text, const lx_field *f)
{
    static const char *const bools[] = {"false", "true", "0", "1", "no", "yes", "off", "on"};
    const char *s = json_string_value(text);
    json_error_t e;
    bool is_bool =
        f->kind == LX_FIELD_BOOL || f->kind == LX_FIELD_NOT || f->read == lx_read_suspend;
    for (size_t i = 0; is_bool && i < sizeof bools / sizeof *bools; i++)
        if (strcasecmp(s, bools[i]) == 0)
            return json_boolean(i % 2);
    json_t *value = lx_json_load(s, json_string_length(text), JSON_DECODE_ANY, &e);
    if (json_is_number(value) || json_is_boolean(value) || json_is_null(value))
        return value;
    json_decref(value);
    return NULL;
}

static bool is_scalar(const lx_field *f)
{
    return f->kind <= LX_FIELD_REAL || f->read == lx_read_seed || f->read == lx_read_class ||
           f->read == lx_read_suspend;
}

static lx_status read_number(const json_t *value, const lx_field *f, const lx_json_reading *r,
                             lx_error *err)
{
    bool real = f->kind == LX_FIELD_REAL;
    double most = f->most == LX_FIELD_MAX_N ? r->max_n : f->most;
    double x = json_number_value(value);
    if (real ? !json_is_number(value) : !json_is_integer(value))
        return lx_fail(err, LX_ERR_INVALID, f->name, "%s must be %s", f->name,
                       real ? "a number" : "an integer");
    if (!(x >= f->least && x <= most))
        return lx_fail(err, LX_ERR_INVALID, f->name, "%s must be from %.*g to %.*g", f->name,
                       real ? 6 : 17, f->least, real ? 6 : 17, most);
    if (real)
        *(double *)r->to = x;
    else if (f->kind == LX_FIELD_INT64)
        *(int64_t *)r->to = json_integer_value(value);
    else
        *(int32_t *)r->to = (int32_t)json_integer_value(value);
    return LX_OK;
}

static lx_status read_text(const json_t *value, const lx_field *f, const lx_json_reading *r,
                           lx_error *err)
{
    size_t bytes = json_string_length(value);
    if (!json_is_string(value))
        return lx_fail(err, LX_ERR_INVALID, f->name, "%s must be a string", f->name);
    if ((double)bytes < f->least)
        return lx_fail(err, LX_ERR_INVALID, f->name, "%s is empty", f->name);
    if (f->most > 0 && (double)bytes > f->most)
        return lx_fail(err, LX_ERR_INVALID, f->name, "%s has more than %.0f bytes", f->name,
                       f->most);
    if (f->at_bytes == 0 && memchr(json_string_value(value), '\0', bytes) != NULL)
        return lx_json_fail_nul(f->name, err);
    char *copy = malloc(bytes + 1);
    if (copy == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, f->name, "no memory for %s", f->name);
    memcpy(copy, json_string_value(value), bytes + 1);
    *(char **)r->to = copy;
    if (f->at_bytes != 0)
        *(size_t *)((char *)r->params + f->at_bytes) = bytes;
    return LX_OK;
}

static lx_status read_bool(const json_t *value, const lx_field *f, const lx_json_reading *r,
                           lx_error *err)
{
    if (!json_is_boolean(value))
        return lx_fail(err, LX_ERR_INVALID, f->name, "%s must be true or false", f->name);
    *(bool *)r->to = json_is_true(value) == (f->kind == LX_FIELD_BOOL);
    return LX_OK;
}

static lx_status read_label(const json_t *value, const lx_field *f, lx_error *err)
{
    const char *text = NULL;
    size_t bytes = 0;
    return lx_json_take_string(value, f->name, &text, &bytes, err);
}

/* --- notes --- */

/* Whether one change of a letter, a missing one, one too many or a swap of neighbours makes `meant`
   of the name. */
static bool is_nearly(const char *name, const char *meant)
{
    size_t n = strlen(name), m = strlen(meant), head = 0, tail = 0;
    while (head < n && head < m && name[head] == meant[head])
        head++;
    while (tail < n - head && tail < m - head && name[n - 1 - tail] == meant[m - 1 - tail])
        tail++;
    size_t left = n - head - tail, wanted = m - head - tail; /* that differ between the two */
    bool swapped =
        left == 2 && wanted == 2 && name[head] == meant[head + 1] && name[head + 1] == meant[head];
    return swapped || (left <= 1 && wanted <= 1);
}

/* The route's field that the name may be a misspelling of; of short names nothing is guessed. */
static const char *meant_by(const char *name, lx_json_route route)
{
    enum { LEAST_LETTERS = 4 };
    size_t n = strlen(name);
    const lx_field *f = NULL;
    for (int32_t i = 0; n >= LEAST_LETTERS && n < LX_NOTED_BYTES && (f = lx_json_field_row(i)); i++)
        if (is_on(f, route) && f->kind < LX_FIELD_REFUSED && is_nearly(name, f->name))
            return f->name;
    return NULL;
}

static bool is_known(const char *name, lx_json_route route)
{
    const lx_field *f = NULL;
    for (int32_t i = 0; (f = lx_json_field_row(i)) != NULL; i++)
        if (is_on(f, route) && strcmp(f->name, name) == 0)
            return true;
    return false;
}

/* Of the body's members n_known are fields of the route. Of very many others the first are named
   and the rest counted. */
static void note_unknown(const lx_json_reading *r, int64_t n_known)
{
    const char *name;
    json_t *value;
    int64_t n = -n_known;
    json_object_foreach(r->root, name, value)
    {
        if (json_is_null(value))
            continue;
        n++;
        if (r->notes->n_fields == LX_MAX_NOTED || is_known(name, r->route))
            continue;
        lx_json_note(r->notes, name, NULL, meant_by(name, r->route));
        n--;
    }
    r->notes->more += n;
}

/* --- a body --- */

static lx_status read_value(const json_t *value, const lx_field *f, const lx_json_reading *r,
                            lx_error *err)
{
    switch (f->kind) {
    case LX_FIELD_BOOL:
    case LX_FIELD_NOT:
        return read_bool(value, f, r, err);
    case LX_FIELD_INT32:
    case LX_FIELD_INT64:
    case LX_FIELD_REAL:
        return read_number(value, f, r, err);
    case LX_FIELD_TEXT:
        return read_text(value, f, r, err);
    case LX_FIELD_OWN:
        return f->read(value, r, err);
    case LX_FIELD_LABEL:
        return read_label(value, f, err);
    case LX_FIELD_REFUSED:
        if (!lx_json_is_neutral(value, f->neutral))
            return lx_fail(err, LX_ERR_INVALID, f->name, "%s is no field of this route: %s",
                           f->name, f->why);
        return LX_OK;
    case LX_FIELD_IGNORED:
        break;
    }
    if (!lx_json_is_neutral(value, f->neutral))
        lx_json_note(r->notes, f->name, f->why, NULL);
    return LX_OK;
}

static lx_status read_row(const json_t *value, const lx_field *f, lx_json_reading *r, lx_error *err)
{
    json_t *scalar = NULL;
    if (is_form(r->route) && is_scalar(f) && json_is_string(value)) {
        (void)lx_json_starved();
        scalar = scalar_of(value, f);
        if (scalar == NULL && lx_json_starved())
            return lx_fail(err, LX_ERR_NO_MEMORY, f->name, "no memory to read %s", f->name);
        if (json_is_null(scalar))
            return LX_OK; /* which is no object that counts references */
    }
    r->name = f->name;
    r->to = (char *)r->params + f->at;
    lx_status st = read_value(scalar != NULL ? scalar : value, f, r, err);
    json_decref(scalar);
    if (st == LX_OK && f->at_name != 0)
        *(const char **)((char *)r->params + f->at_name) = f->name;
    if (st == LX_OK && f->noted)
        lx_json_note(r->notes, f->name, f->why, NULL);
    return st;
}

/* Whether a later name of the field of row i has another value. A form's null is absent, too. */
static bool is_overruled(const json_t *value, int32_t i, const lx_json_reading *r)
{
    const lx_field *f = lx_json_field_row(i), *other = NULL;
    while (f->kind < LX_FIELD_LABEL && (other = lx_json_field_row(++i)) != NULL) {
        if (!is_on(other, r->route) || other->at != f->at || other->kind != f->kind ||
            other->read != f->read)
            continue;
        const json_t *theirs = lx_json_field(r->root, other->name);
        if (theirs != NULL && !lx_json_is(theirs, "null") && !json_equal(theirs, value))
            return true;
    }
    return false;
}

lx_status lx_json_read_fields(lx_json_reading *r, lx_error *err)
{
    int64_t n_known = 0;
    const lx_field *f = NULL;
    for (int32_t i = 0; (f = lx_json_field_row(i)) != NULL; i++) {
        const json_t *value = is_on(f, r->route) ? lx_json_field(r->root, f->name) : NULL;
        lx_status st = value != NULL ? read_row(value, f, r, err) : LX_OK;
        if (st != LX_OK)
            return st;
        if (value != NULL && is_overruled(value, i, r))
            lx_json_note(r->notes, f->name, "another name of it has another value", NULL);
        n_known += value != NULL;
    }
    note_unknown(r, n_known);
    return LX_OK;
}
