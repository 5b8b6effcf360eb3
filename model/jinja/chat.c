/* Messages as the variables that templates read (see chat.h). */
#include "model/jinja/chat.h"

#include <stdlib.h>
#include <string.h>

static lx_status no_memory(lx_error *err)
{
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the chat");
}

static json_t *make_messages(const lx_jinja_chat *chat)
{
    json_t *all = json_array();
    bool ok = all != NULL;
    for (int32_t i = 0; ok && i < chat->n; i++) {
        const lx_jinja_message *m = &chat->messages[i];
        json_t *message =
            json_pack("{s:s, s:o}", "role", m->role, "content", json_stringn(m->text, m->bytes));
        ok = message != NULL && json_array_append_new(all, message) == 0;
    }
    json_t *variables = ok ? json_pack("{s:O}", "messages", all) : NULL;
    json_decref(all);
    return variables;
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

/* Cuts what the template writes after the last message, whose text is the last that a client wrote.
   Templates leave out white space around it, so its end is looked for without any. */
static lx_status cut(const lx_jinja_chat *chat, lx_jinja_text *out, lx_error *err)
{
    const lx_jinja_message *m = &chat->messages[chat->n - 1];
    size_t last = m->bytes, first = 0;
    while (last > 0 &&
           (m->text[last - 1] == ' ' || (m->text[last - 1] >= '\t' && m->text[last - 1] <= '\r')))
        last--;
    while (first < last &&
           (m->text[first] == ' ' || (m->text[first] >= '\t' && m->text[first] <= '\r')))
        first++;
    size_t n = last - first, end = out->n;
    while (end >= n && (n == 0 || out->marks[end - 1] == 0 ||
                        memcmp(out->bytes + end - n, m->text + first, n) != 0)) {
        if (end == 0 || n == 0)
            break;
        end--;
    }
    if (n == 0 || end < n || end == 0)
        return lx_fail(err, LX_ERR_INVALID, NULL,
                       "the model's chat template does not write the last message as it is");
    out->n = end;
    out->bytes[end] = '\0';
    return LX_OK;
}

lx_status lx_jinja_render_chat(const lx_jinja *t, const lx_jinja_chat *chat, int64_t now,
                               size_t max_bytes, lx_jinja_text *out, lx_error *err)
{
    json_t *own = make_own(chat), *client = make_messages(chat);
    lx_status st = own != NULL && client != NULL
                       ? lx_jinja_render(t, own, client, now, max_bytes, out, err)
                       : no_memory(err);
    json_decref(own);
    json_decref(client);
    if (st == LX_OK && chat->continues)
        st = cut(chat, out, err);
    else
        return st;
    if (st != LX_OK) {
        free(out->bytes);
        free(out->marks);
    }
    return st;
}
