/*
 * The thoughts of a chat's answer: the text between <think> and </think>. A reader puts the answer
 * in as it comes and gets thoughts and answer apart, without the marks and without the line feeds
 * around them. A part that may yet become a mark is held back.
 *
 * Thread: the reader's.
 */
#ifndef LINNET_SERVER_API_CHAT_THINKING_H
#define LINNET_SERVER_API_CHAT_THINKING_H

#include "model/model.h"
#include "server/json/answers.h"
#include "server/json/requests.h"

enum { LX_THINKING_HELD = 64 }; /* line feeds that are held back, at most */

typedef struct lx_thinking {
    int part;            /* where the text is: see chat_thinking.c */
    int32_t matched;     /* bytes of the mark that are held back */
    int32_t breaks;      /* line feeds that are held back, in front of these */
    bool begun;          /* some thought was written */
    int32_t mark_ids[2]; /* of marks that are special tokens, which have no text; else -1 */
    lx_buffer thought, answer;
} lx_thinking;

/* At most `most` bytes are read at once. Zeros are an answer without thoughts. */
void lx_thinking_init(lx_thinking *t, lx_thinking_begin begin, const lx_model *model, size_t most);
void lx_thinking_fini(lx_thinking *t);

/* Takes the thoughts out of the choice's text; `last`: it ends the answer. The choice's texts are
   valid until the next call. LX_ERR_NO_MEMORY. */
lx_status lx_thinking_split(lx_thinking *t, bool last, lx_json_choice *choice,
                            lx_error *err) LX_MUST_USE;

#endif
