/*
 * Numbers for what an answer may cost in memory next to its jobs (lx_job_bytes): known from the
 * request before any work, so that the bytes are reserved or the request is refused. All are upper
 * bounds. An answer is text that is written piece by piece (server/json/fields.h), so it costs its
 * text, and each route says how long that may be.
 */
#ifndef LINNET_SERVER_API_COST_H
#define LINNET_SERVER_API_COST_H

#include <stdint.h>

#include "server/json/parts.h"

enum {
    LX_COST_GROWN = 3,    /* a buffer that doubles: while it grows there are the old and the new */
    LX_COST_ESCAPED = 6,  /* a byte of a text in JSON */
    LX_COST_HEAD = 8192,  /* of a text: usage, timings, names; and a piece that is written */
    LX_COST_FIRST = 1024, /* that a buffer and a list begin with */
    LX_COST_WARNING = 320,
    LX_COST_STATE = 1024, /* lx_json_append_kept: facts, or an error's text */
    LX_COST_REAL = 24,    /* a number with its comma */
    LX_COST_STREAM =
        3 * 128 * 1024 /* what of a stream the client has not taken: OUT_BYTES of http */
};

/* The text of a list of the states that were kept. */
static inline int64_t lx_cost_states(int64_t n)
{
    return n > 0 ? LX_COST_HEAD + n * LX_COST_STATE : 0;
}

/* The notes of a request that waits, and their text. NULL: none. */
static inline int64_t lx_cost_notes(const lx_json_notes *notes)
{
    int64_t n = notes != NULL ? lx_json_count_notes(notes) : 0;
    return n > 0 ? (int64_t)sizeof *notes + n * LX_COST_GROWN * LX_COST_WARNING : 0;
}

#endif
