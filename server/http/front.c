/* The states of reading a client's bytes (see front.h). */
#include "server/http/front.h"

#include <string.h>

#include "common/hex.h"

/* More than one call of lx_front_add can leave. */
enum { BUFFER_BYTES = 4 * LX_HTTP_HEAD_BYTES };

void lx_front_init(lx_front *f, const lx_body_limits *limits)
{
    *f = (lx_front){.limits = limits};
    lx_buffer_init(&f->in, BUFFER_BYTES);
    lx_buffer_init(&f->out, BUFFER_BYTES);
}

void lx_front_fini(lx_front *f)
{
    lx_buffer_fini(&f->in);
    lx_buffer_fini(&f->out);
}

static const char *rest(const lx_front *f, size_t *n)
{
    *n = f->in.length - f->in_read;
    return f->in.data + f->in_read;
}

/* Refuses the request that is being read. The part that the library has gets a proper end. */
static bool refuse(lx_front *f, int status, const char *param, const char *text)
{
    size_t n = 0;
    const char *head = rest(f, &n);
    if (f->state == LX_FRONT_HEAD) {
        lx_front_stand_in(head, n, &f->out);
        f->n_requests++;
    } else {
        lx_buffer_puts(&f->out, f->state == LX_FRONT_CHUNK_END ? "\r\n0\r\n\r\n" : "0\r\n\r\n");
    }
    f->fault = status;
    (void)lx_fail(&f->error, LX_ERR_INVALID, param, "%s", text);
    f->state = LX_FRONT_REFUSED;
    lx_buffer_fini(&f->in);
    f->in_read = 0;
    return false;
}

/* --- a head --- */

static bool refuse_long(lx_front *f)
{
    if (f->n_lines == 0)
        return refuse(f, 414, "url", "the URL is too long");
    (void)refuse(f, 431, "headers", "");
    (void)lx_fail(&f->error, LX_ERR_INVALID, "headers",
                  "the request's headers are larger than %d bytes", LX_HTTP_HEAD_BYTES);
    return false;
}

static bool end_head(lx_front *f, const char *head, size_t n)
{
    lx_header_check check;
    lx_front_head(head, n, f->limits, &f->out, &check);
    if (check.fault != 0) {
        (void)refuse(f, check.fault, check.error.param, check.error.text);
        f->error = check.error;
        return false;
    }
    f->n_requests++;
    f->in_read += n;
    f->scanned = 0;
    f->n_lines = 0;
    f->n_empty = 0;
    f->n_trailer = 0;
    f->left = check.length;
    if (check.chunked)
        f->state = LX_FRONT_CHUNK_LINE;
    else if (check.length > 0)
        f->state = LX_FRONT_LENGTH;
    return true;
}

/* Some clients send an empty line after a body. */
static bool skip_empty_line(lx_front *f)
{
    if (++f->n_empty > LX_MAX_EMPTY_LINES)
        return refuse(f, 400, "request", "there are too many empty lines before the request");
    f->in_read += 2;
    return true;
}

static bool read_head(lx_front *f)
{
    size_t n = 0;
    const char *s = rest(f, &n);
    if (f->scanned == 0 && n >= 2 && s[0] == '\r' && s[1] == '\n')
        return skip_empty_line(f);
    if (n == 1 && s[0] == '\r')
        return false; /* perhaps the half of an empty line */
    for (; f->scanned < n && f->scanned < LX_HTTP_HEAD_BYTES; f->scanned++) {
        size_t i = f->scanned;
        if (s[i] != '\n')
            continue;
        if (i == 0 || s[i - 1] != '\r')
            return refuse(f, 400, "request", "a line of the request's head ends without CR LF");
        f->n_lines++;
        if (i >= 3 && s[i - 2] == '\n')
            return end_head(f, s, i + 1);
    }
    return n >= LX_HTTP_HEAD_BYTES ? refuse_long(f) : false;
}

/* --- a body --- */

static bool pass_body(lx_front *f)
{
    size_t n = 0;
    const char *s = rest(f, &n);
    if (n > f->left)
        n = (size_t)f->left;
    lx_buffer_append(&f->out, s, n);
    f->in_read += n;
    f->left -= n;
    if (f->left == 0)
        f->state = f->state == LX_FRONT_LENGTH ? LX_FRONT_HEAD : LX_FRONT_CHUNK_END;
    return true;
}

static bool read_chunk_line(lx_front *f)
{
    size_t n = 0, digits = 0;
    const char *s = rest(f, &n);
    uint64_t size = 0;
    for (; digits < n && digits < 16 && lx_hex_digit(s[digits]) >= 0; digits++)
        size = size * 16 + (uint64_t)lx_hex_digit(s[digits]);
    if (digits == 16 || (digits < n && (digits == 0 || strchr("\r;", s[digits]) == NULL)))
        return refuse(f, 400, "body", "the size of a chunk is malformed");
    const char *end = memchr(s, '\n', n < LX_MAX_CHUNK_LINE ? n : LX_MAX_CHUNK_LINE);
    if (end == NULL && n < LX_MAX_CHUNK_LINE)
        return false;
    if (end == NULL)
        return refuse(f, 400, "body", "the line of a chunk's size is too long");
    size_t line = (size_t)(end - s);
    if (s[line - 1] != '\r' || lx_has_control(s, line - 1))
        return refuse(f, 400, "body", "the line of a chunk's size is malformed");
    f->in_read += line + 1;
    f->left = size;
    f->state = size > 0 ? LX_FRONT_CHUNK_DATA : LX_FRONT_TRAILER;
    if (size > 0)
        lx_buffer_printf(&f->out, "%llx\r\n", (unsigned long long)size);
    return true;
}

static bool read_chunk_end(lx_front *f)
{
    size_t n = 0;
    const char *s = rest(f, &n);
    if (s[0] != '\r' || (n > 1 && s[1] != '\n'))
        return refuse(f, 400, "body", "a chunk's data is longer than its size");
    if (n < 2)
        return false;
    f->in_read += 2;
    lx_buffer_puts(&f->out, "\r\n");
    f->state = LX_FRONT_CHUNK_LINE;
    return true;
}

/* Drops one line after the last chunk: the server uses no trailers. */
static bool read_trailer(lx_front *f)
{
    size_t n = 0;
    const char *s = rest(f, &n), *end = memchr(s, '\n', n);
    size_t line = end != NULL ? (size_t)(end - s) + 1 : n;
    if (f->n_trailer + line > LX_HTTP_HEAD_BYTES || f->n_lines > LX_MAX_REQUEST_HEADERS)
        return refuse(f, 431, "headers", "the trailer after the body is too long");
    if (end == NULL)
        return false;
    bool empty = line == 2;
    if (line < 2 || s[line - 2] != '\r' || (!empty && !lx_front_line_ok(s, line - 2)))
        return refuse(f, 400, "headers", "the trailer after the body is malformed");
    f->in_read += line;
    f->n_trailer += line;
    f->n_lines++;
    if (!empty)
        return true;
    lx_buffer_puts(&f->out, "0\r\n\r\n");
    f->n_lines = 0;
    f->state = LX_FRONT_HEAD;
    return true;
}

/* --- all --- */

/* By state; false: there is nothing to read yet. */
static bool (*const readers[])(lx_front *f) = {[LX_FRONT_HEAD] = read_head,
                                               [LX_FRONT_LENGTH] = pass_body,
                                               [LX_FRONT_CHUNK_LINE] = read_chunk_line,
                                               [LX_FRONT_CHUNK_DATA] = pass_body,
                                               [LX_FRONT_CHUNK_END] = read_chunk_end,
                                               [LX_FRONT_TRAILER] = read_trailer};

bool lx_front_add(lx_front *f, const char *bytes, size_t n)
{
    if (f->state == LX_FRONT_REFUSED)
        return true;
    lx_buffer_append(&f->in, bytes, n);
    while (f->in.status == LX_OK && f->in.length > f->in_read && f->state != LX_FRONT_REFUSED &&
           readers[f->state](f))
        continue;
    if (f->in_read > 0) {
        memmove(f->in.data, f->in.data + f->in_read, f->in.length - f->in_read);
        f->in.length -= f->in_read;
        f->in_read = 0;
    }
    return f->in.status == LX_OK && f->out.status == LX_OK;
}

size_t lx_take_bytes(lx_buffer *from, size_t *read, char *to, size_t max)
{
    size_t left = from->length - *read, n = left < max ? left : max;
    if (n > 0)
        memcpy(to, from->data + *read, n);
    *read += n;
    if (*read == from->length)
        from->length = *read = 0;
    return n;
}

size_t lx_front_take(lx_front *f, char *to, size_t max)
{
    size_t n = lx_take_bytes(&f->out, &f->out_read, to, max);
    if (f->out.length == 0 && f->in.length == 0 && f->state == LX_FRONT_HEAD)
        lx_front_fini(f); /* an idle connection holds nothing */
    return n;
}

int lx_front_fault(const lx_front *f, int64_t request, lx_error *err)
{
    if (f->fault == 0 || request != f->n_requests - 1)
        return 0;
    *err = f->error;
    return f->fault;
}
