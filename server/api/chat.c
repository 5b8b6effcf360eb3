/*
 * Chats (see chat.h). The template's text and the messages are read as one text, as the models'
 * own tokenizers read it; so a message must not have the name of a special token in it, or it could
 * end itself and speak for another role.
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
        return lx_fail(err, LX_ERR_INVALID, p->instructions ? "instructions" : "input",
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
    return !p->response ? "messages" : p->instructions && i == 0 ? "instructions" : "input";
}

static lx_status check_message(const lx_model *model, const lx_completion_params *p, int32_t i,
                               lx_error *err)
{
    const lx_chat_message *m = &p->messages[i];
    const char *field = field_of(p, i);
    lx_token_list list;
    lx_token_list_init(&list, m->bytes * LONGER + MORE_TOKENS);
    lx_status st = lx_text_encode(model, m->text, m->bytes, 0, field, &list, err);
    for (size_t k = 0; st == LX_OK && k < list.n; k++) {
        size_t n = 0;
        const char *name = lx_tokenizer_token(model->tokenizer, list.ids[k], &n);
        if (lx_tokenizer_is_special(model->tokenizer, list.ids[k]))
            st = lx_fail(err, LX_ERR_INVALID, field,
                         "%s[%d] has %.*s in it, which is a special token of the model", field,
                         i - (strcmp(field, "input") == 0 && p->instructions), (int)n,
                         name != NULL ? name : "");
    }
    lx_token_list_fini(&list);
    return st;
}

static void render(const lx_chat_template *t, const lx_completion_params *p, lx_buffer *out)
{
    for (int32_t i = 0; i < p->n_messages; i++) {
        const lx_chat_message *m = &p->messages[i];
        lx_buffer_puts(out, t->before[m->role]);
        size_t bytes = m->bytes;
        const char *words = lx_chat_words(t, m->text, &bytes);
        lx_buffer_append(out, words, bytes);
        lx_buffer_puts(out, t->behind);
    }
    lx_buffer_puts(out, t->answer);
}

/* The template's own beginning, or the model's where that has another name for it. */
static int32_t first_token(const lx_model *model)
{
    int32_t id =
        model->chat->begin != NULL ? lx_tokenizer_find(model->tokenizer, model->chat->begin) : -1;
    return id >= 0 || model->chat->begin == NULL ? id : model->config.begin;
}

static lx_status set_prompt(const lx_model *model, const lx_buffer *text, lx_completion_params *p,
                            lx_error *err)
{
    lx_prompt *prompt = &p->prompts[0];
    lx_token_list list;
    lx_token_list_init(&list, text->length * LONGER + MORE_TOKENS);
    if (first_token(model) >= 0)
        lx_token_list_add(&list, first_token(model));
    lx_status st = lx_text_encode(model, text->data, text->length, 0,
                                  p->response ? "input" : "messages", &list, err);
    if (st != LX_OK) {
        lx_token_list_fini(&list);
        return st;
    }
    free(prompt->text);
    *prompt = (lx_prompt){.ids = list.ids, .n_ids = (int32_t)list.n};
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

lx_status lx_chat_prompt(const lx_model *model, lx_completion_params *p, lx_error *err)
{
    if (model->task->ends == NULL || is_plain(model, p))
        return LX_OK;
    size_t bytes = AROUND;
    lx_status st = check_template(model, p, err);
    for (int32_t i = 0; st == LX_OK && i < p->n_messages; i++) {
        st = check_message(model, p, i, err);
        bytes += p->messages[i].bytes + AROUND;
    }
    if (st == LX_OK)
        st = add_stop(model->chat, &p->stops, err);
    if (st != LX_OK)
        return st;
    lx_buffer text;
    lx_buffer_init(&text, bytes);
    render(model->chat, p, &text);
    st = text.status == LX_OK ? set_prompt(model, &text, p, err)
                              : lx_fail(err, text.status, NULL, "no memory for the chat");
    lx_buffer_fini(&text);
    return st;
}
