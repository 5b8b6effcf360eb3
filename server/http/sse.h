/* Server-sent events: frames and headers. A frame's data must hold no line break. */
#ifndef LINNET_SERVER_HTTP_SSE_H
#define LINNET_SERVER_HTTP_SSE_H

#include "server/http/server.h"

#define LX_SSE_PING ": ping\n\n" /* a comment: ignored by clients, keeps a connection awake */

/* What a stream ends with whose rest cannot be made: plain data of completions, a named event of
 * images. */
#define LX_SSE_FAILURE                                                                             \
    "data: {\"error\":{\"message\":\"the rest of the answer could not be made\","                  \
    "\"type\":\"server_error\",\"param\":null,\"code\":\"internal_error\"}}\n\n"
#define LX_SSE_NAMED_FAILURE "event: error\n" LX_SSE_FAILURE

/* Status 200 and the headers that keep proxies from buffering or storing the stream. */
void lx_sse_start(lx_response *rs);
void lx_sse_begin(lx_buffer *out); /* one event: begin, append the data, end */
/* The same for an event with a name, which must hold no line break. */
void lx_sse_begin_named(lx_buffer *out, const char *name);
void lx_sse_end(lx_buffer *out);
void lx_sse_done(lx_buffer *out); /* the last event, data: [DONE] */

#endif
