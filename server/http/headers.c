/* Request framing checks (see headers.h): a fold over the headers, no library types. */
#include "server/http/headers.h"

#include <string.h>
#include <strings.h>

static bool is_token_char(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_token(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_token_char((unsigned char)s[i]))
            return false;
    return n > 0;
}

void lx_header_fault(lx_header_check *c, int status, const char *param, const char *text)
{
    if (c->fault != 0)
        return;
    c->fault = status;
    (void)lx_fail(&c->error, LX_ERR_INVALID, param, "%s", text);
}

void lx_header_check_begin(lx_header_check *c, const char *method, const char *version)
{
    *c = (lx_header_check){0};
    if (!is_token(method, strlen(method)) || strlen(method) > 16)
        lx_header_fault(c, 400, "method", "the method is malformed");
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
        lx_header_fault(c, 505, "version", "only HTTP/1.0 and HTTP/1.1 are spoken here");
    c->old = strcmp(version, "HTTP/1.0") == 0;
}

bool lx_has_control(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)s[i] < 0x20 && s[i] != '\t') || s[i] == 0x7f)
            return true;
    return false;
}

static bool is_name(const char *name, size_t n, const char *wanted)
{
    return n == strlen(wanted) && strncasecmp(name, wanted, n) == 0;
}

/* Two parsers in a row may differ in which of two values counts, as an API key or as a type. */
enum { HOST };
static const char *const once[] = {
    [HOST] = "Host", "Anthropic-Version", "Authorization", "Content-Type",
    "Origin",        "Sec-Fetch-Site",    "X-Api-Key",
};

static void check_once(lx_header_check *c, const char *name, size_t name_bytes)
{
    for (size_t i = 0; i < sizeof once / sizeof *once; i++) {
        if (!is_name(name, name_bytes, once[i]))
            continue;
        if (c->fault == 0 && (c->seen & 1u << i) != 0) {
            c->fault = 400;
            (void)lx_fail(&c->error, LX_ERR_INVALID, once[i], "%s is given more than once",
                          once[i]);
        }
        c->seen |= 1u << i;
    }
}

static void check_length(lx_header_check *c, const char *value, size_t n)
{
    if (c->has_length)
        lx_header_fault(c, 400, "Content-Length", "Content-Length is given more than once");
    c->has_length = true;
    if (n == 0 || n > 18)
        lx_header_fault(c, 400, "Content-Length", "Content-Length is malformed");
    for (size_t i = 0; i < n && c->fault == 0; i++) {
        if (value[i] < '0' || value[i] > '9')
            lx_header_fault(c, 400, "Content-Length", "Content-Length is malformed");
        else
            c->length = c->length * 10 + (uint64_t)(value[i] - '0');
    }
}

static void check_encoding(lx_header_check *c, const char *value, size_t n)
{
    if (c->chunked || n != 7 || strncasecmp(value, "chunked", 7) != 0)
        lx_header_fault(c, 400, "Transfer-Encoding",
                        "Transfer-Encoding can only be \"chunked\", once");
    c->chunked = true;
}

static void copy_coding(lx_header_check *c, const char *value, size_t n)
{
    size_t kept = n < sizeof c->coding - 1 ? n : sizeof c->coding - 1;
    for (size_t i = 0; i < kept; i++)
        c->coding[i] = is_token_char((unsigned char)value[i]) || value[i] == ',' ? value[i] : ' ';
    c->coding[kept] = '\0';
}

/* The server decompresses no bodies. An empty body has no coding. */
static void check_coding(lx_header_check *c)
{
    if (c->fault != 0 || c->coding[0] == '\0' || (c->length == 0 && !c->chunked))
        return;
    c->fault = 415;
    (void)lx_fail(&c->error, LX_ERR_INVALID, "Content-Encoding",
                  "the body's Content-Encoding is %s: send it without one", c->coding);
}

bool lx_is_media_type(const char *content_type, size_t n, const char *type)
{
    size_t own = strlen(type);
    return n >= own && strncasecmp(content_type, type, own) == 0 &&
           strchr(" ;\t", n > own ? content_type[own] : '\0') != NULL;
}

/* Of the parameters of a type in Accept, which end with a comma or the text. */
static int read_quality(const char *s)
{
    int q = 1000, digit = 100;
    for (s += strcspn(s, ",;"); *s == ';'; s += strcspn(s, ",;")) {
        s += 1 + strspn(s + 1, " \t");
        if (strncasecmp(s, "q=", 2) != 0)
            continue;
        s += 2;
        q = *s == '1' ? 1000 : 0;
        if (q == 0 && *s == '0' && s[1] == '.')
            for (s += 2; *s >= '0' && *s <= '9'; s++, digit /= 10)
                q += (*s - '0') * digit;
        return q;
    }
    return q;
}

int lx_accept_quality(const char *accept, const char *type)
{
    for (const char *s = accept; *s != '\0'; s += *s == ',') {
        s += strspn(s, " \t");
        if (lx_is_media_type(s, strcspn(s, ",;"), type))
            return read_quality(s);
        s += strcspn(s, ",");
    }
    return 0;
}

void lx_header_check_add(lx_header_check *c, const char *name, size_t name_bytes, const char *value,
                         size_t value_bytes)
{
    if (++c->n_headers > LX_MAX_REQUEST_HEADERS)
        lx_header_fault(c, 431, "headers", "the request has too many headers");
    if (!is_token(name, name_bytes))
        lx_header_fault(c, 400, "headers", "a header's name is malformed");
    if (lx_has_control(value, value_bytes))
        lx_header_fault(c, 400, "headers", "a header's value holds a control character");
    check_once(c, name, name_bytes);
    if (is_name(name, name_bytes, "Content-Length"))
        check_length(c, value, value_bytes);
    else if (is_name(name, name_bytes, "Transfer-Encoding"))
        check_encoding(c, value, value_bytes);
    else if (is_name(name, name_bytes, "Content-Encoding") &&
             !is_name(value, value_bytes, "identity"))
        copy_coding(c, value, value_bytes);
    else if (is_name(name, name_bytes, "Content-Type"))
        c->is_form = lx_is_media_type(value, value_bytes, LX_FORM_TYPE);
}

lx_body_limit lx_body_limit_of(const lx_body_limits *l, const char *method, const char *path,
                               bool is_form)
{
    bool larger = is_form && l->takes_uploads != NULL && l->takes_uploads(method, path);
    return larger ? l->upload : l->body;
}

int lx_header_check_end(lx_header_check *c, lx_body_limit most)
{
    if (c->has_length && c->chunked)
        lx_header_fault(c, 400, "Content-Length",
                        "Content-Length and Transfer-Encoding exclude each other");
    if (c->old && c->chunked)
        lx_header_fault(c, 400, "Transfer-Encoding", "HTTP/1.0 has no Transfer-Encoding");
    if (!c->old && (c->seen & 1u << HOST) == 0)
        lx_header_fault(c, 400, "Host", "the Host header is missing");
    check_coding(c);
    if (c->fault == 0 && c->length > most.bytes) {
        c->fault = 413;
        (void)lx_fail(&c->error, LX_ERR_TOO_LARGE, "body",
                      "the body has %llu bytes, more than the %zu allowed (--%s)",
                      (unsigned long long)c->length, most.bytes, most.flag);
    }
    return c->fault;
}

bool lx_request_id_ok(const char *id)
{
    size_t n = strlen(id);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)id[i];
        if (!is_token_char(c) || strchr("!#$%&'*+^`|~", c) != NULL)
            return false;
    }
    return n >= 1 && n <= 64;
}

/* Whether n lower-case hexadecimal digits stand there, one of them not 0. */
static bool is_hex_id(const char *text, size_t n)
{
    return strspn(text, "0123456789abcdef") >= n && strspn(text, "0") < n;
}

bool lx_trace_id_read(const char *traceparent, char out[LX_TRACE_ID + 1])
{
    enum { TRACE = 3, PARENT = 36, FLAGS = 53, LENGTH = 55 };
    size_t n = strlen(traceparent);
    bool first = strncmp(traceparent, "00", 2) == 0;
    if (n < LENGTH || (first && n != LENGTH) || (n > LENGTH && traceparent[LENGTH] != '-'))
        return false;
    if (traceparent[TRACE - 1] != '-' || traceparent[PARENT - 1] != '-' ||
        traceparent[FLAGS - 1] != '-')
        return false;
    const char *digits = "0123456789abcdef";
    if (strncmp(traceparent, "ff", 2) == 0 || strspn(traceparent, digits) != 2 ||
        strspn(traceparent + FLAGS, digits) != 2)
        return false;
    if (!is_hex_id(traceparent + TRACE, LX_TRACE_ID) || !is_hex_id(traceparent + PARENT, 16))
        return false;
    memcpy(out, traceparent + TRACE, LX_TRACE_ID);
    out[LX_TRACE_ID] = '\0';
    return true;
}
