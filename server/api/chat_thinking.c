/* Thoughts, text and calls apart (see chat_thinking.h). */
#include "server/api/chat_thinking.h"

#include <stdlib.h>
#include <string.h>

static const char *const marks[] = {"<think>", "</think>"};

enum part {
    ANSWER, /* the rest is the answer */
    BEFORE, /* nothing came but line feeds and bytes of the first mark */
    THOUGHT,
    AFTER /* after the second mark, where line feeds are dropped */
};

void lx_thinking_init(lx_thinking *t, lx_thinking_begin begin, const lx_model *model,
                      const lx_calls *calls, size_t most)
{
    static const int parts[] = {
        [LX_THINKS_NOT] = ANSWER, [LX_THINKS_MARK] = BEFORE, [LX_THINKS_AT_ONCE] = THOUGHT};
    *t = (lx_thinking){.part = parts[begin], .calls = calls};
    t->model = t->part != ANSWER || calls != NULL ? model : NULL;
    lx_buffer_init(&t->thought, most + LX_THINKING_HELD + sizeof "</think>");
    lx_buffer_init(&t->answer, most + LX_THINKING_HELD + sizeof "</think>");
}

void lx_thinking_fini(lx_thinking *t)
{
    lx_call_reader_free(t->reader);
    free(t->pieces);
    lx_buffer_fini(&t->thought);
    lx_buffer_fini(&t->answer);
}

/* Writes the text that was held back: it is no mark. */
static void release(lx_thinking *t, const char *mark, lx_buffer *out)
{
    for (; t->breaks > 0; t->breaks--)
        lx_buffer_puts(out, "\n");
    lx_buffer_append(out, mark, (size_t)t->matched);
    t->matched = 0;
}

/* Whether the byte goes on with the mark; the whole mark leads to the next part. */
static bool match(lx_thinking *t, const char *mark, char c, int next)
{
    if (c != mark[t->matched])
        return false;
    if (mark[++t->matched] == '\0') {
        t->matched = t->breaks = 0;
        t->part = next;
    }
    return true;
}

static void put_before(lx_thinking *t, char c)
{
    bool held = t->matched == 0 && c == '\n' && t->breaks < LX_THINKING_HELD;
    if (held)
        t->breaks++;
    if (held || match(t, marks[0], c, THOUGHT))
        return;
    release(t, marks[0], &t->answer);
    lx_buffer_append(&t->answer, &c, 1);
    t->part = ANSWER;
}

static void put_thought(lx_thinking *t, char c)
{
    if (match(t, marks[1], c, AFTER))
        return;
    bool was_held = t->matched > 0;
    if (was_held) {
        release(t, marks[1], &t->thought);
        t->begun = true;
        if (match(t, marks[1], c, AFTER))
            return;
    }
    if (c == '\n' && !t->begun)
        return;
    if (c == '\n' && t->breaks < LX_THINKING_HELD) {
        t->breaks++;
        return;
    }
    release(t, marks[1], &t->thought);
    lx_buffer_append(&t->thought, &c, 1);
    t->begun = true;
}

static void put(lx_thinking *t, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (t->part == AFTER && text[i] != '\n')
            t->part = ANSWER;
        if (t->part == ANSWER) {
            lx_buffer_append(&t->answer, text + i, n - i);
            return;
        }
        if (t->part == BEFORE)
            put_before(t, text[i]);
        else if (t->part == THOUGHT)
            put_thought(t, text[i]);
    }
}

/* A mark that is a special token has no text, so its id stands for the text. */
static void put_token(lx_thinking *t, const lx_json_token *token)
{
    for (int i = 0; i < LX_CALL_MARKS; i++) {
        const char *mark = i == LX_MARK_THINK       ? marks[0]
                           : i == LX_MARK_THINK_END ? marks[1]
                           : t->calls != NULL ? lx_call_mark_text(t->model->calls, (lx_call_mark)i)
                                              : "";
        if (token->id >= 0 && token->id == t->model->mark_ids[i])
            put(t, mark, strlen(mark));
    }
    put(t, token->text, token->bytes);
}

static void end(lx_thinking *t)
{
    if (t->part == BEFORE)
        release(t, marks[0], &t->answer);
    else if (t->part == THOUGHT)
        release(t, marks[1], &t->thought);
}

/* --- calls --- */

/* The part of the call that was not handed out. */
static lx_json_call piece_of(lx_read_call *call, int32_t index)
{
    const char *arguments = call->arguments.data != NULL ? call->arguments.data : "";
    lx_json_call piece = {.index = index,
                          .is_new = !call->told,
                          .id = call->id,
                          .name = call->name.data,
                          .name_bytes = call->name.length,
                          .arguments = arguments + call->taken,
                          .bytes = call->arguments.length - call->taken,
                          .ended = call->ended};
    call->told = true;
    call->taken = call->arguments.length;
    return piece;
}

static lx_status list_pieces(lx_thinking *t, lx_json_choice *choice, lx_error *err)
{
    int32_t n = lx_call_reader_n(t->reader);
    lx_json_call *pieces = realloc(t->pieces, ((size_t)n + 1) * sizeof *pieces);
    if (pieces == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    t->pieces = pieces;
    for (int32_t i = 0; i < n; i++) {
        lx_read_call *call = lx_call_reader_call(t->reader, i);
        if (call->named && (!call->told || call->taken < call->arguments.length))
            pieces[choice->n_calls++] = piece_of(call, i);
    }
    choice->calls = pieces;
    return LX_OK;
}

static lx_status split_calls(lx_thinking *t, bool last, lx_json_choice *choice, lx_error *err)
{
    lx_status st = LX_OK;
    if (t->reader == NULL)
        st = lx_call_reader_new(t->calls, t->answer.max, &t->reader, err);
    if (st == LX_OK)
        st = lx_call_reader_put(t->reader, choice->text, choice->text_bytes, last, err);
    if (st != LX_OK)
        return st;
    const lx_buffer *text = lx_call_reader_text(t->reader);
    choice->text = text->length > 0 ? text->data : "";
    choice->text_bytes = text->length;
    return list_pieces(t, choice, err);
}

int32_t lx_thinking_n_calls(const lx_thinking *t, bool *whole)
{
    int32_t n = t->reader != NULL ? lx_call_reader_n(t->reader) : 0;
    *whole = n > 0 && lx_call_reader_call(t->reader, n - 1)->whole;
    return n;
}

lx_status lx_thinking_split(lx_thinking *t, bool last, lx_json_choice *choice, lx_error *err)
{
    if (t->model == NULL || (t->part == ANSWER && t->thought.length == 0 && t->calls == NULL))
        return LX_OK;
    t->thought.length = t->answer.length = 0;
    for (int32_t i = 0; i < choice->n_tokens; i++)
        put_token(t, &choice->tokens[i]);
    if (last)
        end(t);
    if (t->thought.status != LX_OK || t->answer.status != LX_OK)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    choice->thought = t->thought.data;
    choice->thought_bytes = t->thought.length;
    choice->text = t->answer.length > 0 ? t->answer.data : "";
    choice->text_bytes = t->answer.length;
    return t->calls != NULL ? split_calls(t, last, choice, err) : LX_OK;
}
