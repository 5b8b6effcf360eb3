/*
 * Status codes and error texts, the one way every fallible function reports.
 *
 * A fallible function returns lx_status, sets its outputs only on LX_OK, and takes an `lx_error *`
 * last. That pointer may be NULL. The text is complete and fit to be shown to the user: it names
 * the file, tensor or field and the offending value.
 */
#ifndef LINNET_COMMON_STATUS_H
#define LINNET_COMMON_STATUS_H

/* name, text, HTTP status */
#define LX_STATUS_TABLE(X)                                                                         \
    X(OK, "ok", 200)                                                                               \
    X(ERR_INVALID, "invalid value", 400)           /* a value from outside is wrong */             \
    X(ERR_NOT_FOUND, "not found", 404)             /* no such model, file, route */                \
    X(ERR_TOO_LARGE, "too large", 413)             /* over a configured limit */                   \
    X(ERR_BUSY, "server is busy", 429)             /* a bounded queue is full */                   \
    X(ERR_LIMIT, "over a limit", 429)              /* a limit of a client */                       \
    X(ERR_UNAVAILABLE, "service unavailable", 503) /* loading or draining */                       \
    X(ERR_TIMEOUT, "deadline passed", 504)         /* the request's time is over */                \
    X(ERR_CANCELLED, "request was cancelled", 499) /* the client left */                           \
    X(ERR_FORMAT, "malformed file", 500)           /* a weights file breaks its format */          \
    X(ERR_IO, "input/output error", 500)           /* open or read failed */                       \
    X(ERR_NO_MEMORY, "out of memory", 503)         /* an allocation failed */                      \
    X(ERR_UNSUPPORTED, "not supported", 501)       /* well-formed, but not built in */             \
    X(ERR_DEVICE, "device failure", 503)           /* the back end's device is lost */             \
    X(ERR_INTERNAL, "internal error", 500)         /* our own bug */                               \
    X(ERR_CONFLICT, "conflict", 409)               /* a file changes while it is read */

typedef enum lx_status {
#define X(name, text, http) LX_##name,
    LX_STATUS_TABLE(X)
#undef X
} lx_status;

typedef struct lx_error {
    lx_status status;
    char param[48]; /* the request field or flag at fault, "" when none */
    char text[240]; /* one line, no newline at its end */
} lx_error;

#define LX_MUST_USE __attribute__((warn_unused_result))
#define LX_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/* The fixed text of a status, for example "invalid value". Never NULL. */
const char *lx_status_text(lx_status status);

/* The HTTP status code that answers a request which ended with `status`. */
int lx_status_http(lx_status status);

/*
 * Fills *err (when not NULL) and is `status`, so that `return lx_fail(err, ...)` is one line.
 * `param` may be NULL. The text is cut, never overrun. A macro, so that a reader of the calling
 * file, person or analyser, sees which status comes back.
 */
#define lx_fail(err, status, param, ...)                                                           \
    (lx_error_set((err), (lx_status)(status), (param), __VA_ARGS__), (lx_status)(status))

void lx_error_set(lx_error *err, lx_status status, const char *param, const char *fmt, ...)
    LX_PRINTF(4, 5);

#endif
