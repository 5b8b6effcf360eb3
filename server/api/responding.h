/* What answers POST /v1/responses (responses.c), and how its JSON is written (responding.c). */
#ifndef LINNET_SERVER_API_RESPONDING_H
#define LINNET_SERVER_API_RESPONDING_H

#include "server/api/chat.h"
#include "server/api/conversation.h"
#include "server/json/answers.h"

/* The events in the order of a stream. */
typedef enum response_event {
    CREATED,
    IN_PROGRESS,
    ITEM_ADDED,
    PART_ADDED,
    CALL_ADDED, /* a call, as soon as its name is known */
    CALL_DELTA, /* a new part of its arguments */
    DELTA,      /* any number of these three, each with a new part of the answer */
    TEXT_DONE,
    PART_DONE,
    ITEM_DONE,
    CALL_DONE, /* these two for each call */
    CALL_ITEM_DONE,
    ENDED /* "response.completed", or "response.incomplete" */
} response_event;

typedef struct lx_responding {
    lx_completion *c; /* first: see lx_completion_held_advance */
    char item_id[32];
    char *instructions; /* owned; NULL: none */
    size_t instructions_bytes;
    char *metadata; /* owned; NULL: none */
    char *format;   /* owned, of text: JSON; NULL: that of a plain text */
    int32_t max_output_tokens;
    char previous[LX_STATE_ID_MAX + 1]; /* the response that it follows; "": none */
    lx_conversation talk;               /* that it belongs to; without an id: none */
    bool store, truncates;
    bool ended;           /* no more tokens come, and the answer was read */
    lx_input_items items; /* stored with it, as the next two are */
    uint32_t instructions_sum, instructions_kept;
    lx_store_call *call;        /* NULL: it is not being stored */
    lx_store_call *talk_call;   /* NULL: the conversation is not being stored */
    lx_tool_choice tool_choice; /* see lx_completion_params, as are the next two */
    char *tool_name;
    bool serial_calls;
    lx_buffer tools;  /* JSON */
    lx_status status; /* of the end */
    lx_error err;
    /* of a stream */
    response_event next; /* the event that comes now */
    int32_t at_call;     /* of the last events: the call that they are about */
    bool has_message;    /* the message was begun: calls come after it */
    bool over;           /* no more events come */
    int64_t number;      /* of events so far */
    lx_buffer pending;   /* events that were made, from byte `sent` on not sent yet */
    size_t sent;
    lx_answer whole;   /* the answer at the end, read when the text is complete */
    lx_thinking parts; /* of that answer */
    lx_json_choice choice;
} lx_responding;

/* The answer as an object; c is the answer so far, or NULL before its first token. */
void lx_responding_write(const lx_responding *r, const lx_json_choice *c, lx_buffer *out);

/* Whether the output has a message: a text, or nothing else. */
bool lx_responding_has_message(const lx_json_choice *c);

/* The items of the answer, a message and then calls, and returns their number. With a comma between
   them if item_bytes is NULL; otherwise without, and item_bytes [n_calls + 1] gets the bytes of
   each. */
uint32_t lx_responding_write_items(const lx_responding *r, const lx_json_choice *c,
                                   uint32_t *item_bytes, lx_buffer *out);

/* Appends an event of a stream to r->pending. */
void lx_responding_write_event(lx_responding *r, response_event event, const lx_json_choice *c);

#endif
