/* Messages as the variables that templates read (see chat.h). */
#include "model/jinja/chat.h"

#include <stdlib.h>
#include <string.h>

#include "model/characters.h"
#include "model/jinja/internal.h"

enum { LATER_TEXTS = 4 };

static json_t *make_client(const lx_jinja_chat *chat)
{
    json_t *all = json_array();
    bool ok = all != NULL;
    for (int32_t i = 0; ok && i < chat->n; i++) {
        const lx_jinja_message *m = &chat->messages[i];
        json_t *message = json_pack("{s:s, s:s%}", "role", m->role, "content", m->text, m->bytes);
        ok = (m->more == NULL ||
              json_object_update_missing(message, (json_t *)(uintptr_t)m->more) == 0) &&
             json_array_append_new(all, message) == 0;
    }
    /* In transformers the variables tools and documents are none where a chat has none. */
    json_t *variables =
        ok ? json_pack("{s:O, s:n, s:n}", "messages", all, "tools", "documents") : NULL;
    json_decref(all);
    if (variables == NULL || chat->variables == NULL ||
        json_object_update(variables, (json_t *)(uintptr_t)chat->variables) == 0)
        return variables;
    json_decref(variables);
    return NULL;
}

static bool has_word(const node *n, const char *word)
{
    for (; n != NULL; n = n->next) {
        bool here = (n->text.bytes != NULL && lx_jinja_is_word(n->text, word)) ||
                    (n->kind == N_CONSTANT && n->constant.kind == TEXT &&
                     lx_jinja_is_word(n->constant.text, word));
        if (here || has_word(n->a, word) || has_word(n->b, word) || has_word(n->c, word) ||
            has_word(n->d, word) || has_word(n->e, word) || has_word(n->list, word))
            return true;
    }
    return false;
}

bool lx_jinja_has_word(const lx_jinja *t, const char *word)
{
    return has_word(t->body, word);
}

static json_t *make_own(const lx_jinja_chat *chat)
{
    json_t *own = json_pack("{s:b}", "add_generation_prompt", (int)chat->answers);
    bool ok = own != NULL;
    if (ok && chat->begin != NULL)
        ok = json_object_set_new(own, "bos_token", json_string(chat->begin)) == 0;
    if (ok && chat->end != NULL)
        ok = json_object_set_new(own, "eos_token", json_string(chat->end)) == 0;
    if (ok)
        return own;
    json_decref(own);
    return NULL;
}

/* The end of the last text of a client before `end`; 0: there is none. */
static size_t marked_before(const lx_jinja_text *t, size_t end)
{
    while (end > 0 && t->marks[end - 1] == 0)
        end--;
    return end;
}

/* Cuts the template's text after the last message. Only few texts of a client may follow it: the
   names of roles. Templates strip messages, so white space around it does not count. */
static lx_status cut(const lx_jinja_chat *chat, lx_jinja_text *out, lx_error *err)
{
    const lx_jinja_message *m = &chat->messages[chat->n - 1];
    size_t n = m->bytes, end = marked_before(out, out->n);
    const char *text = lx_char_strip(m->text, &n);
    for (int i = 0; i < LATER_TEXTS && n > 0 && end > 0; i++) {
        size_t first = end;
        while (first > 0 && out->marks[first - 1] == 1)
            first--;
        size_t length = end - first;
        const char *written = lx_char_strip(out->bytes + first, &length);
        if (length >= n && memcmp(written + length - n, text, n) == 0) {
            out->n = (size_t)(written - out->bytes) + length;
            out->bytes[out->n] = '\0';
            return LX_OK;
        }
        end = marked_before(out, first);
    }
    return lx_fail(err, LX_ERR_INVALID, NULL,
                   "the model's chat template does not write the last message as it is");
}

lx_status lx_jinja_render_chat(const lx_jinja *t, const lx_jinja_chat *chat, int64_t now,
                               size_t max_bytes, lx_jinja_text *out, lx_error *err)
{
    json_t *own = make_own(chat), *client = make_client(chat);
    lx_status st = own != NULL && client != NULL
                       ? lx_jinja_render(t, own, client, now, max_bytes, out, err)
                       : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the chat");
    json_decref(own);
    json_decref(client);
    if (st != LX_OK || !chat->continues)
        return st;
    st = cut(chat, out, err);
    if (st != LX_OK) {
        free(out->bytes);
        free(out->marks);
    }
    return st;
}
