/* Forms (see forms.h). */
#include "server/json/forms.h"

#include <jansson.h>

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "model/formats/json_memory.h"

/* --- a form in memory --- */

enum { MAX_BOUNDARY = 70 };

typedef struct cursor {
    const char *at, *end;
    char delimiter[MAX_BOUNDARY + 5]; /* CRLF "--" boundary */
    size_t delimiter_bytes;
} cursor;

typedef struct span {
    const char *text;
    size_t n;
} span;

/* --- parameters of a header: name="value"; name=value --- */

static span skip_blank(span s)
{
    while (s.n > 0 && (s.text[0] == ' ' || s.text[0] == '\t')) {
        s.text++;
        s.n--;
    }
    return s;
}

static span after(span s, size_t n)
{
    return (span){s.text + n, s.n - n};
}

/* Cuts one value off *rest; quotes are removed. False when a quote is not closed. */
static bool take_value(span *rest, span *value)
{
    if (rest->n == 0 || rest->text[0] != '"') {
        size_t n = 0;
        while (n < rest->n && strchr("; \t", rest->text[n]) == NULL)
            n++;
        *value = (span){rest->text, n};
        *rest = after(*rest, n);
        return true;
    }
    const char *close = memchr(rest->text + 1, '"', rest->n - 1);
    if (close == NULL)
        return false;
    *value = (span){rest->text + 1, (size_t)(close - rest->text) - 1};
    *rest = after(*rest, value->n + 2);
    return true;
}

/* The value of `name` among "; name=value" pairs. *malformed when the pairs are not such. */
static bool find_parameter(span rest, const char *name, span *value, bool *malformed)
{
    size_t name_bytes = strlen(name);
    bool found = false;
    for (rest = skip_blank(rest); rest.n > 0; rest = skip_blank(rest)) {
        if (rest.text[0] != ';') {
            *malformed = true;
            return false;
        }
        rest = skip_blank(after(rest, 1));
        const char *equals = memchr(rest.text, '=', rest.n);
        if (equals == NULL) {
            *malformed = *malformed || rest.n > 0;
            return found;
        }
        size_t n = (size_t)(equals - rest.text);
        bool wanted = n == name_bytes && strncasecmp(rest.text, name, n) == 0;
        span v;
        rest = after(rest, n + 1);
        if (!take_value(&rest, &v) || (wanted && found)) {
            *malformed = true;
            return false;
        }
        if (wanted) {
            *value = v;
            found = true;
        }
    }
    return found;
}

static bool is_boundary_char(char c)
{
    return isalnum((unsigned char)c) || (c != '\0' && strchr("'()+_,-./:=? ", c) != NULL);
}

static lx_status read_boundary(const char *content_type, cursor *c, lx_error *err)
{
    span rest = {content_type, strlen(content_type)};
    size_t type = strcspn(content_type, "; \t");
    span b = {NULL, 0};
    bool malformed = false;
    bool ok = find_parameter(after(rest, type), "boundary", &b, &malformed) && !malformed &&
              b.n >= 1 && b.n <= MAX_BOUNDARY && b.text[b.n - 1] != ' ';
    for (size_t i = 0; ok && i < b.n; i++)
        ok = is_boundary_char(b.text[i]);
    if (!ok)
        return lx_fail(err, LX_ERR_INVALID, "Content-Type",
                       "Content-Type must name a boundary of 1 to %d characters", MAX_BOUNDARY);
    c->delimiter_bytes =
        (size_t)snprintf(c->delimiter, sizeof c->delimiter, "\r\n--%.*s", (int)b.n, b.text);
    return LX_OK;
}

/* --- the body --- */

static size_t left(const cursor *c)
{
    return (size_t)(c->end - c->at);
}

static bool take(cursor *c, const char *text, size_t n)
{
    if (left(c) < n || memcmp(c->at, text, n) != 0)
        return false;
    c->at += n;
    return true;
}

/* Names stand in error texts and become keys of JSON. */
static bool is_printable(span s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.text[i] < ' ' || s.text[i] > '~')
            return false;
    }
    return true;
}

/* One header line of a part; only Content-Disposition and the encoding say anything to us. */
static bool read_header(span line, lx_part *part)
{
    static const char disposition[] = "Content-Disposition:", form_data[] = "form-data";
    static const char encoding[] = "Content-Transfer-Encoding:";
    bool malformed = false;
    if (line.n >= sizeof encoding - 1 &&
        strncasecmp(line.text, encoding, sizeof encoding - 1) == 0) {
        span v = skip_blank(after(line, sizeof encoding - 1));
        return (v.n == 6 && strncasecmp(v.text, "binary", 6) == 0) ||
               (v.n == 4 && strncasecmp(v.text, "8bit", 4) == 0) ||
               (v.n == 4 && strncasecmp(v.text, "7bit", 4) == 0);
    }
    if (line.n < sizeof disposition - 1 ||
        strncasecmp(line.text, disposition, sizeof disposition - 1) != 0)
        return memchr(line.text, ':', line.n) != NULL;
    span rest = skip_blank(after(line, sizeof disposition - 1));
    span name = {NULL, 0}, file = {NULL, 0};
    if (rest.n < sizeof form_data - 1 ||
        strncasecmp(rest.text, form_data, sizeof form_data - 1) != 0 || part->name[0] != '\0')
        return false;
    rest = after(rest, sizeof form_data - 1);
    bool named = find_parameter(rest, "name", &name, &malformed);
    part->is_file = find_parameter(rest, "filename", &file, &malformed) ||
                    find_parameter(rest, "filename*", &file, &malformed);
    if (!named || malformed || name.n < 1 || name.n > LX_MAX_PART_NAME)
        return false;
    memcpy(part->name, name.text, name.n);
    part->name[name.n] = '\0';
    return is_printable(name);
}

/* Header lines up to and including the empty one. */
static bool read_head(cursor *c, lx_part *part)
{
    size_t room = left(c) < LX_MAX_PART_HEAD ? left(c) : LX_MAX_PART_HEAD;
    const char *stop = c->at + room;
    for (;;) {
        const char *line_end = memmem(c->at, (size_t)(stop - c->at), "\r\n", 2);
        if (line_end == NULL)
            return false;
        span line = {c->at, (size_t)(line_end - c->at)};
        c->at = line_end + 2;
        if (line.n == 0)
            return part->name[0] != '\0';
        if (!read_header(line, part))
            return false;
    }
}

static lx_status read_part(cursor *c, int32_t number, lx_part *part, lx_error *err)
{
    *part = (lx_part){.data = NULL};
    if (!read_head(c, part))
        return lx_fail(err, LX_ERR_INVALID, "body", "part %d of the body has malformed headers",
                       number);
    part->data = c->at;
    const char *next = memmem(c->at, left(c), c->delimiter, c->delimiter_bytes);
    if (next == NULL)
        return lx_fail(err, LX_ERR_INVALID, "body", "part %d (%s) of the body has no end", number,
                       part->name);
    part->bytes = (size_t)(next - c->at);
    c->at = next + c->delimiter_bytes;
    return LX_OK;
}

lx_status lx_multipart_parse(const char *content_type, const char *body, size_t bytes,
                             lx_multipart *out, lx_error *err)
{
    cursor c = {.at = body, .end = body + bytes};
    lx_status st = read_boundary(content_type, &c, err);
    if (st != LX_OK)
        return st;
    out->n = 0;
    if (!take(&c, c.delimiter + 2, c.delimiter_bytes - 2))
        return lx_fail(err, LX_ERR_INVALID, "body", "the body does not begin with its boundary");
    while (!take(&c, "--", 2)) {
        if (!take(&c, "\r\n", 2))
            return lx_fail(err, LX_ERR_INVALID, "body",
                           "the body has text on the line of a boundary");
        if (out->n == LX_MAX_PARTS)
            return lx_fail(err, LX_ERR_INVALID, "body", "the body has more than %d parts",
                           LX_MAX_PARTS);
        st = read_part(&c, out->n + 1, &out->parts[out->n], err);
        if (st != LX_OK)
            return st;
        out->n++;
    }
    (void)take(&c, "\r\n", 2);
    if (left(&c) > 0)
        return lx_fail(err, LX_ERR_INVALID, "body", "the body has data after its last boundary");
    return LX_OK;
}

/* --- a form as JSON --- */

static lx_status no_memory(const char *name, lx_error *err)
{
    return lx_fail(err, LX_ERR_NO_MEMORY, name, "no memory to read %s", name);
}

/* The field's text, which the caller has from then on. A file stands for a field that is no text:
   an object with a member, which no field of a form is, and which says something. */
static lx_status read_value(const lx_part *part, const char *name, json_t **out, lx_error *err)
{
    (void)lx_json_starved();
    *out = part->is_file ? json_pack("{sb}", "file", 1) : json_stringn(part->data, part->bytes);
    if (lx_json_starved())
        return no_memory(name, err);
    return *out != NULL ? LX_OK
                        : lx_fail(err, LX_ERR_INVALID, name, "%s is not text in UTF-8", name);
}

/* Both take the value. */
static lx_status add_member(json_t *root, const char *name, json_t *value, lx_error *err)
{
    if (json_object_get(root, name) != NULL) {
        json_decref(value);
        return lx_fail(err, LX_ERR_INVALID, name, "%s comes twice", name);
    }
    bool added = json_object_set_new(root, name, value) == 0;
    if (lx_json_starved())
        return no_memory(name, err);
    return added ? LX_OK
                 : lx_fail(err, LX_ERR_INVALID, "body", "a field of the form has no proper name");
}

static lx_status add_to_list(json_t *root, const char *name, json_t *value, lx_error *err)
{
    json_t *list = json_object_get(root, name);
    if (list == NULL) {
        list = json_array();
        lx_status st = list != NULL ? add_member(root, name, list, err) : no_memory(name, err);
        if (st != LX_OK) {
            json_decref(value);
            return st;
        }
    }
    bool is_list = json_is_array(list);
    bool added = json_array_append_new(list, value) == 0;
    if (is_list && !added)
        return no_memory(name, err);
    return is_list ? LX_OK : lx_fail(err, LX_ERR_INVALID, name, "%s comes twice", name);
}

/* NAME of a field NAME[]; false: the field has no such name, and *name is all of it. */
static bool take_name(const lx_part *part, char *name)
{
    size_t n = strlen(part->name);
    bool is_list = n > 2 && strcmp(part->name + n - 2, "[]") == 0;
    memcpy(name, part->name, n + 1);
    if (is_list)
        name[n - 2] = '\0';
    return is_list;
}

static lx_status add_file(const lx_part *part, const lx_form_file *file, lx_error *err)
{
    if (file->out->data != NULL)
        return lx_fail(err, LX_ERR_INVALID, file->name, "%s comes twice; one is expected",
                       file->name);
    *file->out = (lx_upload){.data = (const uint8_t *)part->data, .bytes = part->bytes};
    return LX_OK;
}

static lx_status add_part(const lx_part *part, const lx_form_file *files, int32_t n_files,
                          json_t *root, lx_error *err)
{
    char name[LX_MAX_PART_NAME + 1];
    bool is_list = take_name(part, name);
    for (int32_t i = 0; i < n_files; i++)
        if (strcmp(files[i].name, name) == 0)
            return add_file(part, &files[i], err);
    json_t *value = NULL;
    lx_status st = read_value(part, name, &value, err);
    if (st != LX_OK)
        return st;
    return is_list ? add_to_list(root, name, value, err) : add_member(root, name, value, err);
}

lx_status lx_json_read_form(const char *content_type, const char *body, size_t bytes,
                            const lx_form_file *files, int32_t n_files, json_t *root, lx_error *err)
{
    lx_multipart form;
    lx_status st = lx_multipart_parse(content_type, body, bytes, &form, err);
    if (st == LX_OK && root == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory to read the form");
    for (int32_t i = 0; st == LX_OK && i < form.n; i++)
        st = add_part(&form.parts[i], files, n_files, root, err);
    return st;
}
