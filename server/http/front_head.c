/* One request's head: taken apart, checked, and written anew (see front.h). */
#include <string.h>
#include <strings.h>

#include "server/http/front.h"

typedef struct span {
    const char *at;
    size_t n;
} span;

typedef struct request_line {
    span method, authority, target, version; /* authority: of an absolute target, else empty */
} request_line;

/* The headers that the server or the library reads. */
static const char *const used[] = {
    "Accept",
    "Accept-Encoding",
    "Access-Control-Request-Method",
    "Anthropic-Version",
    "Authorization",
    "Connection",
    "Content-Length",
    "Content-Type",
    "Expect",
    "Host",
    "If-None-Match",
    "Origin",
    "Sec-Fetch-Site",
    "Traceparent",
    "Transfer-Encoding",
    "X-Api-Key",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "X-Request-Id",
};

static void put(lx_buffer *out, span s)
{
    lx_buffer_append(out, s.at, s.n);
}

static bool is(span s, const char *word)
{
    return s.n == strlen(word) && strncasecmp(s.at, word, s.n) == 0;
}

/* Takes the part before the character, and the character, from *rest; without one, all of *rest. */
static span cut(span *rest, char c)
{
    const char *end = rest->n > 0 ? memchr(rest->at, c, rest->n) : NULL;
    span part = {rest->at, end != NULL ? (size_t)(end - rest->at) : rest->n};
    size_t used_up = end != NULL ? part.n + 1 : part.n;
    rest->at += used_up;
    rest->n -= used_up;
    return part;
}

static span trim(span s)
{
    while (s.n > 0 && (s.at[0] == ' ' || s.at[0] == '\t')) {
        s.at++;
        s.n--;
    }
    while (s.n > 0 && (s.at[s.n - 1] == ' ' || s.at[s.n - 1] == '\t'))
        s.n--;
    return s;
}

/* http://authority/path?query becomes its parts. The authority is what counts, not Host. */
static bool split_target(request_line *l)
{
    span t = l->target;
    if (t.at[0] == '/' || (is(t, "*") && is(l->method, "OPTIONS")))
        return true;
    size_t scheme = t.n > 7 && strncasecmp(t.at, "http://", 7) == 0    ? 7
                    : t.n > 8 && strncasecmp(t.at, "https://", 8) == 0 ? 8
                                                                       : 0;
    size_t end = scheme;
    while (end < t.n && t.at[end] != '/' && t.at[end] != '?')
        end++;
    l->authority = (span){t.at + scheme, end - scheme};
    l->target = (span){t.at + end, t.n - end};
    return scheme > 0 && l->authority.n > 0 && memchr(l->authority.at, '@', l->authority.n) == NULL;
}

static bool split_line(span line, request_line *l)
{
    *l = (request_line){0};
    if (lx_has_control(line.at, line.n) || memchr(line.at, '\t', line.n) != NULL)
        return false;
    l->method = cut(&line, ' ');
    l->target = cut(&line, ' ');
    l->version = line;
    return l->method.n > 0 && l->target.n > 0 && line.n > 0 &&
           memchr(line.at, ' ', line.n) == NULL && split_target(l);
}

/* The span as text, or "" if it is too long. */
static void copy(span s, char *to, size_t size)
{
    size_t n = s.n < size ? s.n : 0;
    memcpy(to, s.at, n);
    to[n] = '\0';
}

static void check_line(const request_line *l, lx_header_check *check)
{
    char method[32], version[16];
    copy(l->method, method, sizeof method);
    copy(l->version, version, sizeof version);
    lx_header_check_begin(check, method, version);
    span query = l->target;
    (void)cut(&query, '?'); /* a path may have as many as it likes */
    int32_t arguments = 1;
    for (size_t i = 0; i < query.n; i++)
        arguments += query.at[i] == '&';
    if (arguments > LX_MAX_QUERY_ARGUMENTS)
        lx_header_fault(check, 414, "url", "the URL has too many arguments");
}

static bool is_used(span name)
{
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        if (is(name, used[i]))
            return true;
    return false;
}

static void put_line(const request_line *l, const char *version, lx_buffer *out)
{
    put(out, l->method);
    lx_buffer_puts(out,
                   l->authority.n > 0 && (l->target.n == 0 || l->target.at[0] != '/') ? " /" : " ");
    put(out, l->target);
    lx_buffer_puts(out, " ");
    lx_buffer_puts(out, version);
    lx_buffer_puts(out, "\r\n");
}

static void put_header(span name, span value, lx_buffer *out)
{
    put(out, name);
    lx_buffer_puts(out, ": ");
    put(out, value);
    lx_buffer_puts(out, "\r\n");
}

static void take_header(span line, bool has_authority, lx_header_check *check, lx_buffer *out)
{
    if (line.at[0] == ' ' || line.at[0] == '\t')
        lx_header_fault(check, 400, "headers", "a header is folded over two lines");
    if (memchr(line.at, ':', line.n) == NULL)
        lx_header_fault(check, 400, "headers", "a line of the headers has no colon");
    span name = cut(&line, ':'), value = trim(line);
    lx_header_check_add(check, name.at, name.n, value.at, value.n);
    if (check->fault == 0 && is_used(name) && !(has_authority && is(name, "Host")))
        put_header(name, value, out);
}

static lx_body_limit body_limit(const request_line *l, bool is_form, const lx_body_limits *limits)
{
    char method[8], path[64]; /* no route is longer */
    span target = l->target;
    copy(l->method, method, sizeof method);
    copy(cut(&target, '?'), path, sizeof path);
    return lx_body_limit_of(limits, method, path, is_form);
}

void lx_front_head(const char *head, size_t n, const lx_body_limits *limits, lx_buffer *out,
                   lx_header_check *check)
{
    size_t before = out->length;
    span rest = {head, n}, first = cut(&rest, '\n');
    first.n--; /* the CR, which the caller has seen before each LF */
    request_line l;
    *check = (lx_header_check){0};
    if (!split_line(first, &l)) {
        lx_header_fault(check, 400, "request", "the request's first line is malformed");
        return;
    }
    check_line(&l, check);
    put_line(&l, check->old ? "HTTP/1.0" : "HTTP/1.1", out);
    if (l.authority.n > 0)
        put_header((span){"Host", 4}, l.authority, out);
    for (span line = cut(&rest, '\n'); line.n > 1; line = cut(&rest, '\n')) {
        line.n--;
        take_header(line, l.authority.n > 0, check, out);
    }
    lx_buffer_puts(out, "\r\n");
    lx_body_limit most = body_limit(&l, check->is_form, limits);
    if (lx_header_check_end(check, most) != 0 && out->status == LX_OK)
        out->length = before;
}

/* The value of a header that the lines have once, up to an empty line; with none, or a strange one,
   it is empty. The lines may be malformed. */
static span find_once(span lines, const char *wanted)
{
    span found = {NULL, 0};
    int32_t n = 0;
    while (lines.n > 0) {
        span value = cut(&lines, '\n');
        if (value.n > 0 && value.at[value.n - 1] == '\r')
            value.n--;
        if (value.n == 0)
            break;
        if (!is(cut(&value, ':'), wanted))
            continue;
        found = trim(value);
        n++;
    }
    bool is_plain = n == 1 && found.n <= LX_MAX_ORIGIN && !lx_has_control(found.at, found.n);
    return is_plain ? found : (span){NULL, 0};
}

void lx_front_stand_in(const char *head, size_t n, lx_buffer *out)
{
    static const request_line plain = {.method = {"GET", 3}, .target = {"/", 1}};
    span rest = {head, n}, first = cut(&rest, '\n');
    request_line l = plain;
    lx_header_check check = {0};
    if (first.n < n && first.n > 1 && first.n < LX_HTTP_HEAD_BYTES / 2) {
        first.n--;
        bool sound = split_line(first, &l);
        if (sound)
            check_line(&l, &check);
        if (!sound || check.fault == 400)
            l = plain;
        l.target = cut(&(span){l.target.at, l.target.n}, '?');
        l.target = l.target.n > 0 && l.target.at[0] == '/' ? l.target : plain.target;
    }
    put_line(&l, "HTTP/1.1", out);
    span origin = find_once(rest, "Origin");
    if (origin.n > 0)
        put_header((span){"Origin", 6}, origin, out);
    lx_buffer_puts(out, "Host: -\r\nConnection: close\r\n\r\n");
}

bool lx_front_line_ok(const char *line, size_t n)
{
    lx_header_check check = {0};
    lx_buffer none;
    lx_buffer_init(&none, 0);
    take_header((span){line, n}, true, &check, &none);
    lx_buffer_fini(&none);
    return check.fault == 0;
}
