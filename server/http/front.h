/*
 * Makes a client's bytes plain before the HTTP library reads them.
 *
 * The library (0.9.75) joins a folded line to the header's name, cuts values at NUL, takes bare
 * line feeds, and closes or hangs where its memory of a connection ends. Two parsers that read the
 * same bytes differently let one request hide inside another. So the front decides where a request
 * begins and ends, strictly (RFC 9112), and the library gets a plain spelling of it. That has one
 * line per header, only headers that this server uses, and chunks without extensions or trailers.
 * The library never sees a refused request: a stand-in takes its place, and the exchange of that
 * number gets the fault.
 *
 * Bytes in, bytes out; no sockets. Thread: one at a time.
 */
#ifndef LINNET_SERVER_HTTP_FRONT_H
#define LINNET_SERVER_HTTP_FRONT_H

#include "common/buffer.h"
#include "server/http/headers.h"

enum {
    LX_HTTP_HEAD_BYTES = 16000, /* request line and headers, with the empty line */
    LX_MAX_QUERY_ARGUMENTS = 32,
    LX_MAX_CHUNK_LINE = 1024, /* size and extensions */
    LX_MAX_ORIGIN = 512,      /* of a refused request; longer ones are left out */
    LX_MAX_EMPTY_LINES = 4,   /* before a request: without a limit they would be read for ever */
    LX_FRONT_BLOCK = 8192     /* most bytes of one lx_front_add */
};

typedef enum lx_front_state {
    LX_FRONT_HEAD,
    LX_FRONT_LENGTH, /* a body by Content-Length */
    LX_FRONT_CHUNK_LINE,
    LX_FRONT_CHUNK_DATA,
    LX_FRONT_CHUNK_END, /* the line end after its data */
    LX_FRONT_TRAILER,
    LX_FRONT_REFUSED /* for good: later bytes are dropped */
} lx_front_state;

typedef struct lx_front {
    const lx_body_limits *limits;
    bool within_tls; /* the caller's */
    lx_front_state state;
    lx_buffer in, out; /* not understood yet; not taken yet. Empty between requests */
    size_t in_read, out_read;
    size_t scanned;     /* bytes of `in` that were searched for the end of the head */
    int32_t n_lines;    /* of the head or trailer so far */
    int32_t n_empty;    /* lines before the head */
    size_t n_trailer;   /* bytes of it */
    uint64_t left;      /* of the body, or the chunk */
    int64_t n_requests; /* that have begun in `out`, the refused one included */
    int fault;          /* HTTP status that refuses the last of them, 0: none */
    lx_error error;
} lx_front;

/* The limits live as long. */
void lx_front_init(lx_front *f, const lx_body_limits *limits);
void lx_front_fini(lx_front *f);

/* Bytes from the client, at most LX_FRONT_BLOCK, after lx_front_take has taken all earlier ones.
   False: no memory. */
bool lx_front_add(lx_front *f, const char *bytes, size_t n) LX_MUST_USE;
/* Moves at most max bytes of the buffer from *read on; without more, the buffer is empty again. */
size_t lx_take_bytes(lx_buffer *from, size_t *read, char *to, size_t max);
/* Bytes for the library, at most max. */
size_t lx_front_take(lx_front *f, char *to, size_t max);

/* The HTTP status that refuses the connection's request of this number, counted from 0, with the
   reason; 0: none so far. A fault in a body is reported at the body's end. */
int lx_front_fault(const lx_front *f, int64_t request, lx_error *err);

/* front_head.c: one whole head, up to and with its empty line. Appends its plain spelling, or
   leaves check->fault. */
void lx_front_head(const char *head, size_t n, const lx_body_limits *limits, lx_buffer *out,
                   lx_header_check *check);
/* The head that stands for a refused one. Of `head` only the first line is used, if it is sound,
   and the Origin. */
void lx_front_stand_in(const char *head, size_t n, lx_buffer *out);
/* A header's line, without its end, is sound. */
bool lx_front_line_ok(const char *line, size_t n);

#endif
