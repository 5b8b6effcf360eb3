/* Parts that several answers have. */
#ifndef LINNET_SERVER_JSON_PARTS_H
#define LINNET_SERVER_JSON_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "server/json/write.h"

struct lx_model;

/* A token of an answer, and the likeliest alternatives to it. */
typedef struct lx_json_token {
    const char *text; /* not NUL-terminated */
    size_t bytes;
    int32_t id;           /* -1: of the prompt */
    double logprob;       /* NAN: null, as the model does not predict the prompt */
    const lx_sample *top; /* [n_top of the list]; NULL: null */
} lx_json_token;

typedef struct lx_json_logprobs {
    const lx_json_token *tokens; /* [n] */
    int32_t n, n_top;
    int64_t offset;               /* characters of the choice's text before the first token */
    const struct lx_model *model; /* which names its tokens */
} lx_json_logprobs;

typedef struct lx_json_usage {
    int64_t prompt_tokens, completion_tokens;
    int64_t cached_tokens; /* of the prompt's: not computed, as a state was there */
    int64_t kept_tokens;   /* of the prompt's, after the cached ones: their state is kept now */
} lx_json_usage;

typedef struct lx_json_timings { /* milliseconds */
    double queue_ms, ttft_ms, prompt_ms, predicted_ms, total_ms;
    double state_ms; /* of predicted_ms: saving states, after the last token */
    int64_t cache_n, prompt_n, predicted_n;
    int64_t queue_steps, total_steps; /* of the engine, before the first slot and in all */
    int64_t draft_n,
        draft_n_accepted; /* tokens guessed, and of those drawn; sent if there are any */
} lx_json_timings;

/* At most so many fields are warned of by name, with so many bytes of its name. */
enum { LX_MAX_NOTED = 12, LX_NOTED_BYTES = 64 };

/* A field that changes nothing. */
typedef struct lx_json_noted {
    char name[LX_NOTED_BYTES]; /* without characters that a header or JSON would escape */
    const char *why;           /* static: what to do instead; NULL: nothing to say */
    const char *meant;         /* static: the field that it may be a misspelling of; NULL: none */
} lx_json_noted;

/* The warnings of a request: fields that change nothing, characters that were lost, a prompt that
   could not be followed. */
typedef struct lx_json_notes {
    lx_json_noted fields[LX_MAX_NOTED]; /* [n_fields] */
    int32_t n_fields;
    int64_t more;            /* fields that change nothing and have no room in the list */
    int64_t unknown;         /* characters of the prompts that were read as <unk> */
    int64_t simplified;      /* and as their simplified forms */
    const char *prompt;      /* static: why a prompt may not be followed; NULL: it is */
    int32_t unkept;          /* states that the request wanted and the store did not take */
    int32_t pool, full_pool; /* samples of a pool that is smaller than usual; 0: it is full */
    int32_t backward;        /* prompts that were read as lower lines, and got upper ones */
} lx_json_notes;

/* Notes that the field changes nothing; see lx_json_noted. */
void lx_json_note(lx_json_notes *notes, const char *name, const char *why, const char *meant);
/* How many warnings they make. */
static inline int32_t lx_json_count_notes(const lx_json_notes *n)
{
    return n->n_fields + (n->more > 0) + (n->unknown > 0) + (n->simplified > 0) +
           (n->prompt != NULL) + (n->unkept > 0) + (n->pool > 0) + (n->backward > 0);
}

/* ,"warnings":[...] as a member of the object that is open, if there are any. NULL: none. */
void lx_json_write_notes(const lx_json_notes *notes, lx_buffer *out);
/* Puts "warnings" at the end of the object that is in *out, if there are any. */
void lx_json_append_notes(const lx_json_notes *notes, lx_buffer *out);
/* The names of the fields that change nothing, "a, b and 3 more", for answers that are no JSON; ""
   without any. Names without room are among the more. */
void lx_json_list_noted(const lx_json_notes *notes, char *out, size_t bytes);
/* ,"timings":{...} as a member of the object that is open. */
void lx_json_write_timings(const lx_json_timings *t, lx_buffer *out);
/* In the form of completions, or in that of a chat; NULL: null. */
void lx_json_write_logprobs(const lx_json_logprobs *l, bool chat, lx_buffer *out);
/* The list of a chat's entries alone, for responses; NULL: an empty one. */
void lx_json_write_entries(const lx_json_logprobs *l, lx_buffer *out);

#endif
