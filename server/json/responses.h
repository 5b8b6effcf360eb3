/* Answers of POST /v1/responses: one object, and the events of its stream. Owns nothing; thread:
 * any. */
#ifndef LINNET_SERVER_JSON_RESPONSES_H
#define LINNET_SERVER_JSON_RESPONSES_H

#include "server/json/answers.h"

typedef struct lx_json_response {
    const char *id, *item_id; /* of the response, and of the one message that it puts out */
    const char *model, *fingerprint;
    int64_t created, seed;
    const char *instructions; /* NULL: none */
    size_t instructions_bytes;
    int32_t max_output_tokens; /* 0: not given */
    int32_t n_logprobs;        /* as in lx_completion_params */
    double temperature, top_p;
    const lx_json_choice *choice; /* with its finish_reason: the whole answer. NULL: in progress */
    const lx_json_usage *usage;   /* these two with the whole answer */
    const lx_json_timings *timings;
    const lx_json_notes *notes;
} lx_json_response;

/* The events in the order of a stream. */
typedef enum lx_response_event {
    LX_RESPONSE_CREATED,
    LX_RESPONSE_IN_PROGRESS,
    LX_RESPONSE_ITEM_ADDED,
    LX_RESPONSE_PART_ADDED,
    LX_RESPONSE_DELTA, /* any number of them; choice is what is new */
    LX_RESPONSE_TEXT_DONE,
    LX_RESPONSE_PART_DONE,
    LX_RESPONSE_ITEM_DONE,
    LX_RESPONSE_ENDED /* "response.completed", or "response.incomplete" */
} lx_response_event;

void lx_json_write_response(const lx_json_response *r, lx_buffer *out);
/* The event's type, and its data, which has that number in the stream, from 0 on. */
const char *lx_json_response_event_name(const lx_json_response *r, lx_response_event event);
void lx_json_write_response_event(const lx_json_response *r, lx_response_event event,
                                  int64_t number, lx_buffer *out);

#endif
