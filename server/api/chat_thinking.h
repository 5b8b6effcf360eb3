/*
 * The parts of a chat's answer: its thoughts, which stand between <think> and </think>, its text
 * and its calls of tools. A reader puts the answer in as it comes and gets the parts, without the
 * marks and without the line feeds around them. A text that may yet become a mark is held back.
 *
 * Thread: the reader's.
 */
#ifndef LINNET_SERVER_API_CHAT_THINKING_H
#define LINNET_SERVER_API_CHAT_THINKING_H

#include "model/grammar/calls.h"
#include "model/model.h"
#include "server/json/answers.h"
#include "server/json/requests.h"

enum { LX_THINKING_HELD = 64 }; /* line feeds that are held back, at most */

typedef struct lx_thinking {
    int part;               /* where the text is: see chat_thinking.c */
    int32_t matched;        /* bytes of the mark that are held back */
    int32_t breaks;         /* line feeds that are held back, in front of these */
    bool begun;             /* some thought was written */
    const lx_model *model;  /* NULL: the answer has one part */
    const lx_calls *calls;  /* NULL: none can be in it */
    lx_call_reader *reader; /* of the calls, from the first text on */
    lx_json_call *pieces;   /* of calls, that the last choice was given */
    lx_buffer thought, answer;
} lx_thinking;

/* At most `most` bytes are read at once. Zeros are an answer of one part. The calls outlive it. */
void lx_thinking_init(lx_thinking *t, lx_thinking_begin begin, const lx_model *model,
                      const lx_calls *calls, size_t most);
void lx_thinking_fini(lx_thinking *t);

/* Takes thoughts and calls out of the choice's text; `last`: it ends the answer. What the choice
   points to is valid until the next call. LX_ERR_NO_MEMORY. */
lx_status lx_thinking_split(lx_thinking *t, bool last, lx_json_choice *choice,
                            lx_error *err) LX_MUST_USE;

/* How many calls the answer has so far, and whether the last of them is complete. */
int32_t lx_thinking_n_calls(const lx_thinking *t, bool *whole);

#endif
