/*
 * Calls of tools in answers: the grammar of answers with calls, and a reader that takes the calls
 * out of an answer's text.
 *
 * An answer has thoughts, where the model writes them, then a text, then calls, and ends after the
 * last call. The grammar allows exactly the spelling that the templates of the family have, so the
 * reader meets no other one.
 */
#ifndef LINNET_MODEL_GRAMMAR_CALLS_H
#define LINNET_MODEL_GRAMMAR_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/status.h"
#include "model/grammar/call_formats.h"

struct json_t;

/* A request's fields about calls. */
typedef struct lx_call_rules {
    const lx_call_format *format;
    unsigned special;           /* bit i: mark i is a special token of the model */
    const struct json_t *tools; /* as a chat has them; the reader of requests has checked them */
    const char *only;           /* the one tool that is called; NULL: any */
    bool required;              /* the answer has a call */
    bool never;                 /* it has none; the tools are not read */
    bool parallel;              /* it may have several */
    int thinks;         /* 0: it has no thoughts, 1: with a mark, 2: it begins within them */
    bool inside;        /* then the thoughts are in the text that the reader of calls gets */
    const char *schema; /* [schema_bytes] an answer without calls keeps it; NULL: any text */
    size_t schema_bytes;
    const char *field; /* of the request: errors name it */
} lx_call_rules;

/* The tools of a request. Immutable; any thread. */
typedef struct lx_calls lx_calls;

/* LX_ERR_INVALID with param "tools" or the field: a name that the format cannot write, or, with
   strict: true, a schema that is not supported. */
lx_status lx_calls_new(const lx_call_rules *rules, lx_calls **out, lx_error *err) LX_MUST_USE;
/* One more owner, and one fewer: the last one frees the calls. NULL is allowed. */
lx_calls *lx_calls_ref(lx_calls *c);
void lx_calls_unref(lx_calls *c);
/* The source of the grammar, an LX_SHAPE_CALLS. */
const char *lx_calls_source(const lx_calls *c, size_t *bytes);
/* Tools whose schema is not supported as a whole: their arguments keep the names and types of the
   properties only. The place of the i-th of them in the request's list; -1: no more. */
int32_t lx_calls_loose(const lx_calls *c, int32_t i);

/* --- for the reader --- */

const lx_call_format *lx_calls_format(const lx_calls *c);
/* Bits that tell call i of an answer from others. All readers of an answer get equal bits. */
uint64_t lx_calls_id(const lx_calls *c, int32_t i);
bool lx_calls_inside(const lx_calls *c); /* see lx_call_rules */
/* How the value of the parameter is written. */
lx_call_value lx_calls_value(const lx_calls *c, const char *tool, const char *parameter);

/* --- reading --- */

/* A call that was read. */
typedef struct lx_read_call {
    char id[32];
    lx_buffer name, arguments; /* arguments: JSON, as far as it was read */
    size_t taken;              /* bytes of the arguments that were handed out */
    bool named, ended, whole;  /* its name is complete, its arguments are, all of it is */
    bool told;                 /* its name was handed out */
} lx_read_call;

typedef struct lx_call_reader lx_call_reader;

/* At most `most` bytes are read in all. The calls outlive it. */
lx_status lx_call_reader_new(const lx_calls *c, size_t most, lx_call_reader **out,
                             lx_error *err) LX_MUST_USE;
void lx_call_reader_free(lx_call_reader *r); /* NULL is allowed */

/* Reads a further part of the answer; `last`: the text ends with it. */
lx_status lx_call_reader_put(lx_call_reader *r, const char *text, size_t n, bool last,
                             lx_error *err) LX_MUST_USE;
/* The text outside of calls that is new since the last put. */
const lx_buffer *lx_call_reader_text(const lx_call_reader *r);
int32_t lx_call_reader_n(const lx_call_reader *r);
lx_read_call *lx_call_reader_call(lx_call_reader *r, int32_t i);

#endif
