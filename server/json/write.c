/* Writing JSON (see write.h). Strings and numbers are the JSON library's. */
#include "server/json/write.h"

#include <jansson.h>

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

enum { WRITE_FLAGS = JSON_COMPACT | JSON_REAL_PRECISION(9) | JSON_ENCODE_ANY };

static int append_dumped(const char *text, size_t n, void *out)
{
    lx_buffer_append(out, text, n);
    return ((lx_buffer *)out)->status == LX_OK ? 0 : -1;
}

void lx_json_dump(json_t *root, lx_buffer *out)
{
    if (root == NULL || json_dump_callback(root, append_dumped, out, WRITE_FLAGS) != 0) {
        if (out->status == LX_OK)
            out->status = LX_ERR_NO_MEMORY;
    }
    json_decref(root);
}

json_t *lx_json_real_or_null(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* Writes the next argument by the conversion at `form`; returns the conversion's length. */
static size_t put_value(const char *form, va_list *args, lx_buffer *out)
{
    const char *text = NULL;
    int bytes = 0;
    switch (form[1]) {
    case 's':
        text = va_arg(*args, const char *);
        lx_json_dump(text != NULL ? json_string(text) : json_null(), out);
        return 2;
    case '.':
        bytes = va_arg(*args, int);
        lx_json_dump(json_stringn(va_arg(*args, const char *), (size_t)bytes), out);
        return 4;
    case 'd':
        lx_buffer_printf(out, "%d", va_arg(*args, int));
        return 2;
    case 'j':
        lx_buffer_printf(out, "%jd", va_arg(*args, intmax_t));
        return 3;
    case 'i':
        lx_buffer_puts(out, va_arg(*args, int) != 0 ? "true" : "false");
        return 2;
    default:
        assert(form[1] == 'f');
        lx_json_dump(lx_json_real_or_null(va_arg(*args, double)), out);
        return 2;
    }
}

void lx_json_put(lx_buffer *out, const char *form, ...)
{
    va_list args;
    va_start(args, form);
    while (*form != '\0') {
        size_t n = strcspn(form, "'%");
        lx_buffer_append(out, form, n);
        form += n;
        if (*form == '%') {
            form += put_value(form, &args, out);
        } else if (*form == '\'') {
            lx_buffer_puts(out, "\"");
            form++;
        }
    }
    va_end(args);
}

void lx_json_put_ids(const int32_t *ids, int64_t n, lx_buffer *out)
{
    for (int64_t i = 0; i < n; i++)
        lx_buffer_printf(out, i > 0 ? ",%d" : "[%d", ids[i]);
    lx_buffer_puts(out, n > 0 ? "]" : "[]");
}

void lx_json_put_bytes(const char *bytes, size_t n, lx_buffer *out)
{
    for (size_t i = 0; i < n; i++)
        lx_buffer_printf(out, i > 0 ? ",%d" : "[%d", (unsigned char)bytes[i]);
    lx_buffer_puts(out, n > 0 ? "]" : "[]");
}

/* A list is one piece: writing it number by number takes twice the time. */
void lx_json_put_reals(const float *x, int64_t n, lx_buffer *out)
{
    json_t *list = json_array();
    for (int64_t i = 0; list != NULL && i < n; i++) {
        if (json_array_append_new(list, json_real((double)x[i])) == 0)
            continue;
        json_decref(list);
        list = NULL;
    }
    lx_json_dump(list, out);
}
