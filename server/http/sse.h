/* Server-sent events: frames and headers. A frame's data must hold no line break. */
#ifndef LINNET_SERVER_HTTP_SSE_H
#define LINNET_SERVER_HTTP_SSE_H

#include "server/http/server.h"

#define LX_SSE_PING ": ping\n\n" /* a comment: ignored by clients, keeps a connection awake */

/* The end of a stream whose rest cannot be made: plain data for completions, a named event for
   images. */
#define LX_SSE_FAILURE                                                                             \
    "data: {\"error\":{\"message\":\"the rest of the answer could not be made\","                  \
    "\"type\":\"server_error\",\"param\":null,\"code\":\"internal_error\"}}\n\n"
#define LX_SSE_NAMED_FAILURE "event: error\n" LX_SSE_FAILURE

/* Status 200 and the headers that keep proxies from buffering or storing the stream. */
static inline void lx_sse_start(lx_response *rs)
{
    rs->status = 200;
    rs->content_type = "text/event-stream; charset=utf-8";
    lx_response_add(rs, "Cache-Control", "no-cache");
    lx_response_add(rs, "X-Accel-Buffering", "no");
}

/* One event: begin, append the data, end. */
static inline void lx_sse_begin(lx_buffer *out)
{
    lx_buffer_puts(out, "data: ");
}

/* Begins an event with a name, which must hold no line break. */
static inline void lx_sse_begin_named(lx_buffer *out, const char *name)
{
    lx_buffer_puts(out, "event: ");
    lx_buffer_puts(out, name);
    lx_buffer_puts(out, "\ndata: ");
}

static inline void lx_sse_end(lx_buffer *out)
{
    lx_buffer_puts(out, "\n\n");
}

static inline void lx_sse_done(lx_buffer *out) /* the last event */
{
    lx_buffer_puts(out, "data: [DONE]\n\n");
}

#endif
