/* Server-sent events (see sse.h). */
#include "server/http/sse.h"

void lx_sse_start(lx_response *rs)
{
    rs->status = 200;
    rs->content_type = "text/event-stream; charset=utf-8";
    lx_response_add(rs, "Cache-Control", "no-cache");
    lx_response_add(rs, "X-Accel-Buffering", "no");
}

void lx_sse_begin(lx_buffer *out)
{
    lx_buffer_puts(out, "data: ");
}

void lx_sse_begin_named(lx_buffer *out, const char *name)
{
    lx_buffer_puts(out, "event: ");
    lx_buffer_puts(out, name);
    lx_buffer_puts(out, "\ndata: ");
}

void lx_sse_end(lx_buffer *out)
{
    lx_buffer_puts(out, "\n\n");
}

void lx_sse_done(lx_buffer *out)
{
    lx_buffer_puts(out, "data: [DONE]\n\n");
}
