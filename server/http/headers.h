/*
 * Request framing, checked before the body is read.
 *
 * The HTTP library accepts heads by which two parsers in a row may disagree about a request's end:
 * two Content-Length, Content-Length with Transfer-Encoding, a space before the colon. So a request
 * could hide inside another. An ambiguous request is refused here, and its connection closed.
 */
#ifndef LINNET_SERVER_HTTP_HEADERS_H
#define LINNET_SERVER_HTTP_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum { LX_MAX_REQUEST_HEADERS = 64 };

#define LX_FORM_TYPE "multipart/form-data"

/* How large a body may be, and the flag that says so. */
typedef struct lx_body_limit {
    size_t bytes;
    const char *flag; /* without its --; static */
} lx_body_limit;

/* Forms that bring files may be larger than other bodies, where a route takes them. */
typedef struct lx_body_limits {
    lx_body_limit body, upload;
    /* Whether a request of this method and path takes them; any thread. NULL: none does. */
    bool (*takes_uploads)(const char *method, const char *path);
} lx_body_limits;

/* Of a request, whose body need not be there yet; path: without its query. */
lx_body_limit lx_body_limit_of(const lx_body_limits *l, const char *method, const char *path,
                               bool is_form);

/* Whether a Content-Type of n bytes is this media type, whatever its parameters. */
bool lx_is_media_type(const char *content_type, size_t n, const char *type);

/* How much an Accept header wants this media type, which it must name: 0 (not at all) to 1000. */
int lx_accept_quality(const char *accept, const char *type);

typedef struct lx_header_check {
    int32_t n_headers;
    unsigned seen;                 /* bits of the headers that come once; see headers.c */
    bool has_length, chunked, old; /* old: HTTP/1.0 */
    bool is_form;                  /* its Content-Type is multipart/form-data */
    uint64_t length;               /* of Content-Length */
    char coding[32];               /* of the body, by Content-Encoding; "": none */
    int fault;                     /* HTTP status of the first fault, 0 for none */
    lx_error error;
} lx_header_check;

void lx_header_check_begin(lx_header_check *c, const char *method, const char *version);
void lx_header_check_add(lx_header_check *c, const char *name, size_t name_bytes, const char *value,
                         size_t value_bytes);
/* Notes the first fault. */
void lx_header_fault(lx_header_check *c, int status, const char *param, const char *text);
/* Returns 0, or the HTTP status that refuses the request; c->error says why. */
int lx_header_check_end(lx_header_check *c, lx_body_limit most);

/* Whether the text has control characters other than tabs. */
bool lx_has_control(const char *s, size_t n);
/* True for a request id that is safe to repeat in a header and a log: [A-Za-z0-9._-]{1,64}. */
bool lx_request_id_ok(const char *id);

enum { LX_TRACE_ID = 32 }; /* hexadecimal digits */
/* The trace's id in a `traceparent` (W3C Trace Context, 2021): "00-TRACE-PARENT-FLAGS", or a later
   version that begins so. False, and nothing is set: it is malformed. */
bool lx_trace_id_read(const char *traceparent, char out[LX_TRACE_ID + 1]);

#endif
