/* Thoughts and answer apart (see chat_thinking.h). */
#include "server/api/chat_thinking.h"

#include <string.h>

#include "model/tokenizers/tokenizer.h"

static const char *const marks[] = {"<think>", "</think>"};

enum part {
    ANSWER, /* the rest is the answer */
    BEFORE, /* nothing came but line feeds and bytes of the first mark */
    THOUGHT,
    AFTER /* after the second mark, where line feeds are dropped */
};

void lx_thinking_init(lx_thinking *t, lx_thinking_begin begin, const lx_model *model, size_t most)
{
    static const int parts[] = {
        [LX_THINKS_NOT] = ANSWER, [LX_THINKS_MARK] = BEFORE, [LX_THINKS_AT_ONCE] = THOUGHT};
    *t = (lx_thinking){.part = parts[begin], .mark_ids = {-1, -1}};
    for (int i = 0; i < 2 && t->part != ANSWER; i++) {
        int32_t id = lx_tokenizer_find(model->tokenizer, marks[i]);
        t->mark_ids[i] = id >= 0 && lx_tokenizer_is_special(model->tokenizer, id) ? id : -1;
    }
    lx_buffer_init(&t->thought, most + LX_THINKING_HELD + sizeof "</think>");
    lx_buffer_init(&t->answer, most + LX_THINKING_HELD + sizeof "</think>");
}

void lx_thinking_fini(lx_thinking *t)
{
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
    for (int i = 0; i < 2; i++)
        if (token->id >= 0 && token->id == t->mark_ids[i])
            put(t, marks[i], strlen(marks[i]));
    put(t, token->text, token->bytes);
}

static void end(lx_thinking *t)
{
    if (t->part == BEFORE)
        release(t, marks[0], &t->answer);
    else if (t->part == THOUGHT)
        release(t, marks[1], &t->thought);
}

lx_status lx_thinking_split(lx_thinking *t, bool last, lx_json_choice *choice, lx_error *err)
{
    if (t->part == ANSWER && t->thought.length == 0)
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
    return LX_OK;
}
