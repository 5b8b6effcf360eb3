/*
 * Chats (see chat.h). The template's text and the messages are read as one text, as the models'
 * own tokenizers read it. So a message must not have the name of a special token in it, or it could
 * end itself and speak for another role. Only an answer may: a model can spell such a name in other
 * tokens, and what it said must be readable in the next turn. Its name is read as plain text.
 */
#include "server/api/chat.h"

#include <stdlib.h>
#include <string.h>

#include "model/chat.h"
#include "model/tasks/text.h"

enum { AROUND = 256, MORE_TOKENS = 64, LONGER = 4 };

static lx_status check_template(const lx_model *model, const lx_completion_params *p, lx_error *err)
{
    if (model->chat != NULL)
        return LX_OK;
    if (!model->has_template && p->response)
        return lx_fail(err, LX_ERR_INVALID, p->instructions != NULL ? "instructions" : "input",
                       "model %s has no template for chats: input must be one text to go on with, "
                       "without instructions",
                       model->name);
    if (!model->has_template)
        return lx_fail(err, LX_ERR_INVALID, "model",
                       "model %s has no template for chats: use /v1/completions", model->name);
    char names[160];
    lx_buffer list;
    lx_buffer_init(&list, sizeof names);
    lx_chat_list(&list);
    lx_status st = lx_fail(err, LX_ERR_INVALID, "model",
                           "model %s has a chat template that is none of %s: use /v1/completions",
                           model->name, list.data != NULL ? list.data : "");
    lx_buffer_fini(&list);
    return st;
}

/* As the request names it. */
static const char *field_of(const lx_completion_params *p, int32_t i)
{
    return !p->response ? "messages" : p->instructions != NULL && i == 0 ? "instructions" : "input";
}

/* The name of a special token in the message, of *n bytes; NULL: none. */
static lx_status find_special(const lx_model *model, const lx_chat_message *m, const char *field,
                              const char **name, size_t *n, lx_error *err)
{
    lx_token_list list;
    lx_token_list_init(&list, m->bytes * LONGER + MORE_TOKENS);
    lx_status st = lx_text_encode(model, m->text, m->bytes, 0, field, &list, err);
    *name = lx_chat_mark(model->chat, m->text, m->bytes);
    *n = *name != NULL ? strlen(*name) : 0;
    for (size_t k = 0; st == LX_OK && *name == NULL && k < list.n; k++)
        if (lx_tokenizer_is_special(model->tokenizer, list.ids[k]))
            *name = lx_tokenizer_token(model->tokenizer, list.ids[k], n);
    lx_token_list_fini(&list);
    return st;
}

/* *plain: the message is an answer with such a name in it. */
static lx_status check_message(const lx_model *model, const lx_completion_params *p, int32_t i,
                               bool *plain, lx_error *err)
{
    const lx_chat_message *m = &p->messages[i];
    const char *field = field_of(p, i), *name = NULL;
    size_t n = 0;
    lx_status st = find_special(model, m, field, &name, &n, err);
    *plain = name != NULL && m->role == LX_CHAT_ASSISTANT;
    if (st != LX_OK || name == NULL || *plain)
        return st;
    return lx_fail(err, LX_ERR_INVALID, field,
                   "%s[%d] has %.*s in it, which is a special token of the model", field,
                   i - (strcmp(field, "input") == 0 && p->instructions != NULL), (int)n, name);
}

/* The chat's text so far, and the tokens of what stands before it. */
typedef struct rendered {
    const lx_model *model;
    const char *field;
    lx_buffer text;
    lx_token_list list;
} rendered;

static lx_status encode(rendered *r, unsigned flags, lx_error *err)
{
    lx_status st = r->text.status;
    if (st != LX_OK)
        return lx_fail(err, st, NULL, "no memory for the chat");
    st = r->text.length > 0 ? lx_text_encode(r->model, r->text.data, r->text.length, flags,
                                             r->field, &r->list, err)
                            : LX_OK;
    r->text.length = 0;
    return st;
}

/* A message that is plain text is tokens of its own. */
static lx_status render_message(rendered *r, const lx_chat_message *m, bool plain, lx_error *err)
{
    const lx_chat_template *t = r->model->chat;
    lx_buffer_puts(&r->text, t->before[m->role]);
    lx_status st = plain ? encode(r, 0, err) : LX_OK;
    lx_chat_write(t, m->text, m->bytes, &r->text);
    if (st == LX_OK && plain)
        st = encode(r, LX_ENCODE_PLAIN_SPECIALS, err);
    return st;
}

/* The template's own beginning, or the model's where that has another name for it. */
static int32_t first_token(const lx_model *model)
{
    int32_t id =
        model->chat->begin != NULL ? lx_tokenizer_find(model->tokenizer, model->chat->begin) : -1;
    return id >= 0 || model->chat->begin == NULL ? id : lx_text_of(&model->config)->begin;
}

/* An answer that has not begun: the template has nothing of it yet. */
static bool is_unbegun(const lx_completion_params *p)
{
    const lx_chat_message *last = &p->messages[p->n_messages - 1];
    return p->continues && last->role == LX_CHAT_ASSISTANT && last->bytes == 0;
}

static lx_status render(rendered *r, lx_completion_params *p, lx_error *err)
{
    const lx_chat_template *t = r->model->chat;
    int32_t n = p->n_messages - is_unbegun(p);
    lx_status st = LX_OK;
    for (int32_t i = 0; st == LX_OK && i < n; i++) {
        bool plain = false;
        st = check_message(r->model, p, i, &plain, err);
        if (st == LX_OK)
            st = render_message(r, &p->messages[i], plain, err);
        if (!p->continues || i + 1 < p->n_messages)
            lx_buffer_puts(&r->text, t->behind);
    }
    bool begins = is_unbegun(p) || (p->begins_answer && !p->continues);
    lx_buffer_puts(&r->text, begins ? t->answer : "");
    p->leading = begins ? lx_chat_leading(t) : "";
    return st == LX_OK ? encode(r, 0, err) : st;
}

/* The tokens of the rendered messages become the one prompt. */
static lx_status set_prompt(const lx_model *model, size_t bytes, lx_completion_params *p,
                            lx_error *err)
{
    rendered r = {.model = model, .field = p->response ? "input" : "messages"};
    lx_buffer_init(&r.text, bytes);
    lx_token_list_init(&r.list, bytes * LONGER + MORE_TOKENS);
    if (first_token(model) >= 0)
        lx_token_list_add(&r.list, first_token(model));
    lx_status st = render(&r, p, err);
    if (st == LX_OK && r.list.status != LX_OK)
        st = lx_fail(err, r.list.status, NULL, "no memory for the chat");
    lx_buffer_fini(&r.text);
    if (st != LX_OK) {
        lx_token_list_fini(&r.list);
        return st;
    }
    free(p->prompts[0].text);
    p->prompts[0] = (lx_prompt){.ids = r.list.ids, .n_ids = (int32_t)r.list.n};
    return LX_OK;
}

static lx_status add_stop(const lx_chat_template *t, lx_stops *stops, lx_error *err)
{
    if (t->stop == NULL)
        return LX_OK;
    if (stops->n == LX_MAX_STOPS)
        return lx_fail(err, LX_ERR_INVALID, "stop",
                       "stop: at most %d strings in chats of this model, whose template needs one",
                       LX_MAX_STOPS - 1);
    struct lx_stop *stop = &stops->stop[stops->n++];
    stop->bytes = strlen(t->stop);
    memcpy(stop->text, t->stop, stop->bytes);
    return LX_OK;
}

/* One text for a model that knows no chats: it goes on with the text, as completions do. */
static bool is_plain(const lx_model *model, const lx_completion_params *p)
{
    return p->response && !model->has_template && model->chat == NULL && p->n_messages == 1;
}

/* Without a template the last message alone is answered. */
static lx_status check_last(const lx_completion_params *p, lx_error *err)
{
    if (p->messages[p->n_messages - 1].role == LX_CHAT_USER && !p->continues)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, p->response ? "input" : "messages",
                   "the last message must be the user's: this model has no template for chats and "
                   "answers it alone");
}

lx_status lx_chat_prompt(const lx_model *model, lx_completion_params *p, lx_error *err)
{
    if (model->task->ends == NULL || is_plain(model, p))
        return check_last(p, err);
    size_t bytes = AROUND;
    lx_status st = check_template(model, p, err);
    for (int32_t i = 0; i < p->n_messages; i++)
        bytes += p->messages[i].bytes + AROUND;
    if (st == LX_OK)
        st = set_prompt(model, bytes, p, err);
    return st == LX_OK ? add_stop(model->chat, &p->stops, err) : st;
}
