/*
 * Chats (see chat.h). The template's text and the messages are read as one text, as the models'
 * own tokenizers read it. So a message must not have the name of a special token in it, or it could
 * end itself and speak for another role. Only an answer may: a model can spell such a name in other
 * tokens, and the client must be able to send the answer back. Its name is then read as plain text.
 * A mark of the template that is no special token has no other reading, so no message may have it.
 *
 * Any other template is the model's own, in Jinja: model/jinja renders it and marks the text of
 * clients, and the tokenizer finds no special token there. Marks of the template that are no
 * special tokens (model/chat_marks.h) are refused.
 */
#include "server/api/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/random.h"
#include "model/chat.h"
#include "model/chat_borders.h"
#include "model/jinja/chat.h"
#include "model/tasks/text.h"
#include "server/api/chat_calls.h"

enum { AROUND = 256, MORE_TOKENS = 64, LONGER = 4, MORE_TEXT = 256 << 10, MARK_BYTES = 48 };

static bool has_tools(const lx_completion_params *p)
{
    return lx_json_has(p->variables, "tools");
}

/* The model's own template for this chat; NULL: the chat has a known one, or none. */
static const lx_jinja *find_jinja(const lx_model *model, const lx_completion_params *p)
{
    return has_tools(p) && model->has_tool_template ? model->tool_jinja : model->jinja;
}

/* The known template of this chat; NULL: it is of the model's own. */
static const lx_chat_template *find_known(const lx_model *model, const lx_completion_params *p)
{
    return has_tools(p) && model->has_tool_template ? NULL : model->chat;
}

static lx_status check_template(const lx_model *model, const lx_completion_params *p, lx_error *err)
{
    if (find_known(model, p) != NULL || find_jinja(model, p) != NULL)
        return LX_OK;
    if (!model->has_template && p->response)
        return lx_fail(err, LX_ERR_INVALID, p->instructions != NULL ? "instructions" : "input",
                       "model %s has no template for chats: input must be one text to go on with, "
                       "without instructions",
                       model->name);
    if (!model->has_template)
        return lx_fail(err, LX_ERR_INVALID, "model",
                       "model %s has no template for chats: use /v1/completions", model->name);
    return lx_fail(err, LX_ERR_INVALID, "model",
                   "model %s has a chat template that cannot be rendered (%s): use /v1/completions",
                   model->name, model->no_jinja);
}

/* --- names of messages --- */

/* The number of message i in its field; below 0: it is an item of the conversation. */
static int32_t place_of(const lx_completion_params *p, int32_t i)
{
    return p->message ? p->messages[i].at : i - (p->instructions != NULL) - p->n_earlier;
}

/* As the request names it. */
static const char *field_of(const lx_completion_params *p, int32_t i)
{
    if (p->has_system && i == 0)
        return "system";
    if (!p->response)
        return "messages";
    if (p->instructions != NULL && i == 0)
        return "instructions";
    return place_of(p, i) < 0 ? "conversation" : "input";
}

/* Where the text of message i stands in the request. */
static void name_message(const lx_completion_params *p, int32_t i, const char *member, char *out,
                         size_t size)
{
    const char *field = field_of(p, i);
    if (strcmp(field, "conversation") == 0)
        (void)snprintf(out, size, "the conversation");
    else if (strcmp(field, "instructions") == 0 || strcmp(field, "system") == 0 || p->input_is_text)
        (void)snprintf(out, size, "%s", field);
    else
        (void)snprintf(out, size, "%s[%d]%s", field, place_of(p, i), member);
}

/* --- fields that a template may not read --- */

/* Whether a variable, or a member of a message, changes the text of the template. */
static bool reads(const lx_model *model, const lx_completion_params *p, const char *name)
{
    const lx_jinja *t = find_jinja(model, p);
    return find_known(model, p) == NULL && t != NULL && lx_jinja_has_word(t, name);
}

static void note_unread(lx_completion_params *p, const char *field)
{
    lx_json_note(&p->notes, field, "the model's chat template does not read it", NULL);
}

static void note_variables(const lx_model *model, lx_completion_params *p)
{
    const char *name;
    for (int32_t i = 0; (name = lx_json_name_at(p->variables, i)) != NULL; i++) {
        bool thinks = strcmp(name, "enable_thinking") == 0;
        bool own = strcmp(name, "tools") == 0 || thinks;
        char field[LX_NOTED_BYTES];
        (void)snprintf(field, sizeof field, "%s%s", own ? "" : "chat_template_kwargs.",
                       p->message && thinks ? "thinking" : name);
        if (!reads(model, p, name))
            note_unread(p, field);
    }
}

/* A part of messages is warned of once. */
static void note_members(const lx_model *model, lx_completion_params *p)
{
    static const char *const names[] = {"tool_calls", "reasoning_content"};
    static const char *const blocks[] = {"tool_use", "thinking"}; /* as Anthropic names them */
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        for (int32_t i = 0; i < p->n_messages && !reads(model, p, names[k]); i++) {
            char member[32], field[64];
            if (!lx_json_has(p->messages[i].more, names[k]))
                continue;
            (void)snprintf(member, sizeof member, ".%s", p->message ? blocks[k] : names[k]);
            name_message(p, i, member, field, sizeof field);
            note_unread(p, field);
            break;
        }
    }
}

/* A model whose template has no tools cannot call one. Without calls a warning says so. */
static lx_status check_tools(const lx_model *model, const lx_completion_params *p, lx_error *err)
{
    if (!has_tools(p) || p->tool_choice == LX_TOOLS_NONE || reads(model, p, "tools"))
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, "tools",
                   "the chat template of model %s has no tools: leave tools out", model->name);
}

/* The known templates have no tools, so a tool's answer would have no place. */
static lx_status check_roles(const lx_model *model, const lx_completion_params *p, lx_error *err)
{
    for (int32_t i = 0; i < p->n_messages; i++) {
        char name[64];
        if (p->messages[i].role != LX_CHAT_TOOL ||
            (model->task->ends != NULL && find_known(model, p) == NULL))
            continue;
        name_message(p, i, "", name, sizeof name);
        return lx_fail(err, LX_ERR_INVALID, field_of(p, i),
                       "%s has %s, which model %s does not know", name,
                       p->message    ? "a tool_result"
                       : p->response ? "a function_call_output"
                                     : "the role tool",
                       model->name);
    }
    return LX_OK;
}

/* --- messages --- */

/* Whether the tokenizer can read the template's mark as the mark and as plain text. */
static bool is_token(const lx_model *model, const char *mark)
{
    int32_t id = lx_tokenizer_find(model->tokenizer, mark);
    return id >= 0 && lx_tokenizer_is_special(model->tokenizer, id);
}

/* A mark of the template in the message that cannot be read as plain text. NULL: none. */
static const char *find_mark(const lx_model *model, const lx_chat_message *m)
{
    const char *const *marks = model->chat->marks;
    for (int i = 0; i < LX_CHAT_MARKS && marks[i] != NULL; i++)
        if (memmem(m->text, m->bytes, marks[i], strlen(marks[i])) != NULL &&
            !is_token(model, marks[i]))
            return marks[i];
    return NULL;
}

/* The name of a special token in the message, of *n bytes; NULL: none. */
static lx_status find_special(const lx_model *model, const lx_chat_message *m, const char *field,
                              const char **name, size_t *n, lx_error *err)
{
    lx_token_list list;
    lx_token_list_init(&list, m->bytes * LONGER + MORE_TOKENS);
    lx_status st = lx_text_encode(model, m->text, m->bytes, 0, field, &list, err);
    for (size_t k = 0; st == LX_OK && *name == NULL && k < list.n; k++)
        if (lx_tokenizer_is_special(model->tokenizer, list.ids[k]))
            *name = lx_tokenizer_token(model->tokenizer, list.ids[k], n);
    lx_token_list_fini(&list);
    return st;
}

/* *plain: the message is an answer with the name of a special token in it. */
static lx_status check_message(const lx_model *model, const lx_completion_params *p, int32_t i,
                               bool *plain, lx_error *err)
{
    const lx_chat_message *m = &p->messages[i];
    const char *field = field_of(p, i), *mark = find_mark(model, m), *name = NULL;
    char where[64];
    size_t n = 0;
    name_message(p, i, ".content", where, sizeof where);
    if (mark != NULL)
        return lx_fail(err, LX_ERR_INVALID, field,
                       "%s has %s in it, which separates the messages of a chat of model %s", where,
                       mark, model->name);
    lx_status st = find_special(model, m, field, &name, &n, err);
    *plain = name != NULL && m->role == LX_CHAT_ASSISTANT;
    if (st != LX_OK || name == NULL || *plain)
        return st;
    return lx_fail(err, LX_ERR_INVALID, field,
                   "%s has %.*s in it, which is a special token of the model", where, (int)n, name);
}

/* The chat's text so far, and the tokens of what stands before it. */
typedef struct rendered {
    const lx_model *model;
    const char *field;
    lx_buffer text;
    lx_token_list list;
    lx_buffer *whole;      /* gets all of the text; NULL: the tokens are wanted */
    lx_token_list offsets; /* in the text, where messages begin */
    lx_token_list borders; /* tokens of the list at which they begin */
} rendered;

static void init_rendered(rendered *r, size_t bytes, int32_t n_messages)
{
    lx_buffer_init(&r->text, bytes);
    lx_token_list_init(&r->list, bytes * LONGER + MORE_TOKENS);
    lx_token_list_init(&r->offsets, (size_t)n_messages + 1);
    lx_token_list_init(&r->borders, (size_t)n_messages + 1);
}

static void note_border(rendered *r)
{
    lx_token_list_add(&r->offsets, (int32_t)r->text.length);
}

static void take_borders(rendered *r, size_t first)
{
    lx_chat_tokens c = {.tokenizer = r->model->tokenizer,
                        .text = r->text.data,
                        .n = r->text.length,
                        .ids = r->list.ids,
                        .first = first,
                        .end = r->list.n};
    if (r->list.status == LX_OK)
        lx_chat_borders_at(&c, r->offsets.ids, r->offsets.n, &r->borders);
    r->offsets.n = 0;
}

static lx_status encode(rendered *r, unsigned flags, lx_error *err)
{
    lx_status st = r->text.status;
    size_t first = r->list.n;
    if (st != LX_OK)
        return lx_fail(err, st, NULL, "no memory for the chat");
    if (r->whole != NULL)
        lx_buffer_append(r->whole, r->text.data, r->text.length);
    st = r->text.length > 0 ? lx_text_encode(r->model, r->text.data, r->text.length, flags,
                                             r->field, &r->list, err)
                            : LX_OK;
    take_borders(r, first);
    r->text.length = 0;
    return st;
}

/* A message that is plain text is tokens of its own. */
static lx_status render_message(rendered *r, const lx_chat_message *m, bool plain, lx_error *err)
{
    const lx_chat_template *t = r->model->chat;
    note_border(r);
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

static void write_token(const lx_model *model, int32_t id, lx_buffer *out)
{
    size_t n = 0;
    const char *name = id >= 0 ? lx_tokenizer_token(model->tokenizer, id, &n) : NULL;
    if (name != NULL)
        lx_buffer_append(out, name, n);
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
    if (begins)
        note_border(r);
    lx_buffer_puts(&r->text, begins ? t->answer : "");
    p->leading = begins ? lx_chat_leading(t) : "";
    return st == LX_OK ? encode(r, 0, err) : st;
}

/* The tokens of the prompt and its borders, which replace the request's text. NULL: no borders. */
static void take_tokens(lx_completion_params *p, const lx_token_list *list,
                        const lx_token_list *borders)
{
    free(p->prompts[0].text);
    p->prompts[0] = (lx_prompt){.ids = list->ids, .n_ids = (int32_t)list->n};
    if (borders != NULL) {
        p->prompts[0].borders = borders->ids;
        p->prompts[0].n_borders = (int32_t)borders->n;
    }
}

/* Whether there was memory for all lists. */
static lx_status check_lists(const lx_token_list *list, const lx_token_list *borders, lx_error *err)
{
    if (list->status != LX_OK)
        return lx_fail(err, list->status, NULL, "no memory for the chat");
    if (borders->status != LX_OK)
        return lx_fail(err, borders->status, NULL, "no memory for the chat");
    return LX_OK;
}

/* The rendered messages become the one prompt, or text in *whole. */
static lx_status set_prompt(const lx_model *model, size_t bytes, lx_completion_params *p,
                            lx_buffer *whole, lx_error *err)
{
    rendered r = {.model = model, .field = p->response ? "input" : "messages", .whole = whole};
    init_rendered(&r, bytes, p->n_messages);
    if (p->follows) {
        lx_buffer_append(&r.text, p->tail, p->tail_bytes);
        lx_buffer_puts(&r.text, model->chat->behind);
    } else if (first_token(model) >= 0)
        lx_token_list_add(&r.list, first_token(model));
    if (whole != NULL)
        write_token(model, first_token(model), whole);
    lx_status st = render(&r, p, err);
    if (st == LX_OK)
        st = check_lists(&r.list, &r.borders, err);
    lx_buffer_fini(&r.text);
    lx_token_list_fini(&r.offsets);
    if (st == LX_OK && whole == NULL) {
        take_tokens(p, &r.list, &r.borders);
        return st;
    }
    lx_token_list_fini(&r.list);
    lx_token_list_fini(&r.borders);
    return st;
}

static const char *role_name(lx_chat_role role)
{
    static const char *const names[] = {"system", "user", "assistant", "tool"};
    return names[role];
}

/* --- the text after an answer: a chat whose earlier answer is a mark, up to which it is cut --- */

enum { EARLIER = 2 }; /* messages before those of the request: a question and the mark */

static void make_mark(char mark[MARK_BYTES])
{
    (void)snprintf(mark, MARK_BYTES, "answer%016llx%016llx", (unsigned long long)lx_random_bits(),
                   (unsigned long long)lx_random_bits());
}

/* The tail of the answer in place of all up to the mark. A client may have written the tail's bytes
   as well as the model, so no special token is read in them. */
static lx_status cut_at_mark(const lx_model *model, const lx_completion_params *p, const char *mark,
                             lx_jinja_text *text, lx_error *err)
{
    char *at = memmem(text->bytes, text->n, mark, strlen(mark));
    size_t begin = at != NULL ? (size_t)(at - text->bytes) + strlen(mark) : 0, n = text->n - begin;
    if (at == NULL || begin < p->tail_bytes ||
        memmem(text->bytes + begin, n, mark, strlen(mark)) != NULL)
        return lx_fail(err, LX_ERR_INVALID, "previous_response_id",
                       "the chat template of model %s does not write an earlier answer as it is: "
                       "send the conversation as input",
                       model->name);
    begin -= p->tail_bytes;
    n += p->tail_bytes;
    memcpy(text->bytes + begin, p->tail, p->tail_bytes);
    memset(text->marks + begin, 1, p->tail_bytes);
    memmove(text->bytes, text->bytes + begin, n);
    memmove(text->marks, text->marks + begin, n);
    text->n = n;
    return LX_OK;
}

/* The messages of the request, after the two earlier ones where it follows an answer. */
static int32_t list_messages(const lx_completion_params *p, const char *mark, lx_jinja_message *out)
{
    int32_t n = 0;
    if (p->follows) {
        out[n++] = (lx_jinja_message){role_name(LX_CHAT_USER), "?", 1, NULL};
        out[n++] = (lx_jinja_message){role_name(LX_CHAT_ASSISTANT), mark, strlen(mark), NULL};
    }
    for (int32_t i = 0; i < p->n_messages - is_unbegun(p); i++)
        out[n++] = (lx_jinja_message){role_name(p->messages[i].role), p->messages[i].text,
                                      p->messages[i].bytes, p->messages[i].more};
    return n;
}

/* The chat through the model's own template: its text, with marks where a client wrote it. */
static lx_status render_jinja(const lx_model *model, const lx_completion_params *p, size_t bytes,
                              lx_jinja_text *out, lx_error *err)
{
    lx_error why = {0};
    char mark[MARK_BYTES];
    lx_jinja_message *messages = calloc((size_t)p->n_messages + EARLIER + 1, sizeof *messages);
    if (messages == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the chat");
    make_mark(mark);
    lx_jinja_chat chat = {.messages = messages,
                          .n = list_messages(p, mark, messages),
                          .begin = model->begin_name,
                          .end = model->end_name,
                          .answers = is_unbegun(p) || (p->begins_answer && !p->continues),
                          .continues = p->continues && !is_unbegun(p),
                          .variables = p->variables};
    lx_status st = lx_jinja_render_chat(find_jinja(model, p), &chat, (int64_t)time(NULL),
                                        bytes + MORE_TEXT, out, &why);
    free(messages);
    if (st == LX_OK && p->follows && (st = cut_at_mark(model, p, mark, out, err)) != LX_OK) {
        free(out->bytes);
        free(out->marks);
        return st;
    }
    if (st == LX_OK)
        return st;
    /* The template's own errors are of the messages that it was given. */
    bool theirs = st == LX_ERR_INVALID || st == LX_ERR_TOO_LARGE || st == LX_ERR_UNSUPPORTED;
    return lx_fail(err, theirs ? LX_ERR_INVALID : st, theirs ? field_of(p, 1) : NULL, "%s",
                   why.text);
}

/* Where thoughts begin in the answer to a chat that was rendered to text[n]. */
static lx_thinking_begin find_thoughts(const lx_model *model, const lx_completion_params *p,
                                       const char *text, size_t n)
{
    static const char mark[] = "<think>", end[] = "</think>";
    const lx_chat_message *last = &p->messages[p->n_messages - 1];
    if (!model->thinks)
        return LX_THINKS_NOT;
    if (p->continues && !is_unbegun(p)) /* within the message's thoughts, or after them */
        return memmem(last->text, last->bytes, mark, sizeof mark - 1) != NULL &&
                       memmem(last->text, last->bytes, end, sizeof end - 1) == NULL
                   ? LX_THINKS_AT_ONCE
                   : LX_THINKS_NOT;
    while (n > 0 && strchr(" \n", text[n - 1]) != NULL)
        n--;
    bool begun =
        n >= sizeof mark - 1 && memcmp(text + n - (sizeof mark - 1), mark, sizeof mark - 1) == 0;
    return begun ? LX_THINKS_AT_ONCE : LX_THINKS_MARK;
}

/* Whether the first token stands before the text: the template did not write it. */
static bool is_before(const lx_model *model, const lx_jinja_text *text, const lx_token_list *list)
{
    size_t n = 0;
    if (list->n == 0 || list->ids[0] != lx_text_of(&model->config)->begin)
        return false;
    const char *name = lx_tokenizer_token(model->tokenizer, list->ids[0], &n);
    return name == NULL || n > text->n || memcmp(text->bytes, name, n) != 0;
}

static lx_status encode_jinja(const lx_model *model, const lx_jinja_text *text,
                              lx_completion_params *p, lx_error *err)
{
    lx_token_list list, borders;
    lx_token_list_init(&list, text->n * LONGER + MORE_TOKENS);
    lx_token_list_init(&borders, list.max);
    lx_status st =
        lx_text_encode_marked(model, text->bytes, text->marks, text->n, field_of(p, 1), &list, err);
    if (st == LX_OK) {
        lx_chat_tokens c = {.tokenizer = model->tokenizer,
                            .text = text->bytes,
                            .n = text->n,
                            .ids = list.ids,
                            .first = is_before(model, text, &list),
                            .end = list.n};
        lx_chat_borders_of(&c, &model->marks, &borders);
        st = check_lists(&list, &borders, err);
    }
    if (st == LX_OK) {
        take_tokens(p, &list, &borders);
        return st;
    }
    lx_token_list_fini(&list);
    lx_token_list_fini(&borders);
    return st;
}

/* --- marks of a template of the model's own --- */

/* Whether a client wrote a part of the mark, other than the line feeds that it may begin with. */
static bool is_written_by_client(const lx_jinja_text *text, size_t at, const char *mark)
{
    size_t feeds = strspn(mark, "\n"), n = strlen(mark + feeds);
    return memchr(text->marks + at + feeds, 1, n) != NULL;
}

/* Whether the rendered text has the mark from a client. */
static bool has_mark(const lx_jinja_text *text, const char *mark)
{
    const char *at = text->bytes, *end = text->bytes + text->n;
    while ((at = memmem(at, (size_t)(end - at), mark, strlen(mark))) != NULL) {
        if (is_written_by_client(text, (size_t)(at - text->bytes), mark))
            return true;
        at++;
    }
    return false;
}

/* An assistant's message may have a mark that an answer may have. */
static lx_status refuse_mark(const lx_model *model, const lx_completion_params *p,
                             const lx_chat_mark *mark, lx_error *err)
{
    char where[64] = "a field of the chat";
    size_t feeds = strspn(mark->text, "\n");
    bool said = false;
    for (int32_t i = p->n_messages; i-- > 0;) {
        const lx_chat_message *m = &p->messages[i];
        if (memmem(m->text, m->bytes, mark->text, strlen(mark->text)) == NULL)
            continue;
        if (m->role == LX_CHAT_ASSISTANT && !mark->ends)
            said = true;
        else
            name_message(p, i, ".content", where, sizeof where);
    }
    if (said && strchr(where, '.') == NULL)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, field_of(p, 1),
                   "%s has %s%s in it, which separates the messages of a chat of model %s", where,
                   feeds > 0 ? "a line that begins with " : "", mark->text + feeds, model->name);
}

static lx_status check_marks(const lx_model *model, const lx_completion_params *p,
                             const lx_jinja_text *text, lx_error *err)
{
    for (int32_t i = 0; i < model->marks.n; i++) {
        const lx_chat_mark *mark = &model->marks.mark[i];
        lx_status st = has_mark(text, mark->text) ? refuse_mark(model, p, mark, err) : LX_OK;
        if (st != LX_OK)
            return st;
    }
    return LX_OK;
}

static void add_stop(const char *text, lx_stops *stops)
{
    struct lx_stop *stop = &stops->stop[stops->n++];
    stop->bytes = strlen(text);
    memcpy(stop->text, text, stop->bytes + 1);
}

/* Whether the mark is one of the calls that the answer may have. */
static bool marks_call(const lx_model *model, const lx_completion_params *p, const char *mark)
{
    return p->calls != NULL &&
           (strcmp(mark, model->calls->mark) == 0 || strcmp(mark, model->calls->end_mark) == 0);
}

/* An answer ends where the model begins to speak for another role, as far as there is room. */
static void add_marks(const lx_model *model, lx_completion_params *p)
{
    for (int32_t i = 0; i < model->marks.n && p->stops.n < LX_MAX_ALL_STOPS; i++) {
        const lx_chat_mark *mark = &model->marks.mark[i];
        if (mark->ends && !marks_call(model, p, mark->text))
            add_stop(mark->text, &p->stops);
    }
}

static lx_status set_jinja_prompt(const lx_model *model, size_t bytes, lx_completion_params *p,
                                  lx_buffer *whole, lx_error *err)
{
    lx_jinja_text text;
    lx_status st = render_jinja(model, p, bytes, &text, err);
    if (st != LX_OK)
        return st;
    lx_thinking_begin thinks = find_thoughts(model, p, text.bytes, text.n);
    p->leading = "";
    st = whole == NULL && reads(model, p, "tools") ? lx_chat_set_calls(model, thinks, p, err)
                                                   : LX_OK;
    /* A shape is that of the whole answer, and ends it. One of calls knows the other parts. */
    bool shaped = p->shape.kind != LX_SHAPE_NONE && p->calls == NULL;
    p->thinks = shaped || p->response ? LX_THINKS_NOT : thinks;
    if (!shaped && p->tool_choice != LX_TOOLS_REQUIRED)
        add_marks(model, p);
    if (st == LX_OK)
        st = check_marks(model, p, &text, err);
    if (st == LX_OK && whole != NULL)
        lx_buffer_append(whole, text.bytes, text.n);
    else if (st == LX_OK)
        st = encode_jinja(model, &text, p, err);
    free(text.bytes);
    free(text.marks);
    return st;
}

/* An answer ends where the model writes what separates messages, and does not have it in it: sent
   back, it would be refused. Marks that are special tokens are no text of an answer. */
static void add_stops(const lx_model *model, lx_stops *stops)
{
    const lx_chat_template *t = model->chat;
    if (t->stop != NULL)
        add_stop(t->stop, stops);
    for (int i = 0; i < LX_CHAT_MARKS && t->marks[i] != NULL; i++)
        if (!is_token(model, t->marks[i]))
            add_stop(t->marks[i], stops);
}

/* One text for a model that knows no chats: it goes on with the text, as completions do. */
static bool is_plain(const lx_model *model, const lx_completion_params *p)
{
    return p->response && !model->has_template && model->chat == NULL && p->n_messages == 1;
}

/* Without a template the last message alone is answered. */
static lx_status check_last(const lx_model *model, const lx_completion_params *p, lx_error *err)
{
    if (p->messages[p->n_messages - 1].role != LX_CHAT_USER)
        return lx_fail(err, LX_ERR_INVALID, p->response ? "input" : "messages",
                       "the last message must be the user's: model %s has no template for chats "
                       "and answers the last message alone",
                       model->name);
    if (p->continues)
        return lx_fail(err, LX_ERR_INVALID, "continue_final_message",
                       "continue_final_message must not be true: model %s has no template for "
                       "chats and answers the last message with a text of its own",
                       model->name);
    return LX_OK;
}

static void note_others(const lx_model *model, lx_completion_params *p)
{
    note_variables(model, p);
    for (int32_t i = 0; i + 1 < p->n_messages; i++) {
        char name[64];
        name_message(p, i, "", name, sizeof name);
        lx_json_note(&p->notes, name, "this model answers the last message alone", NULL);
    }
    if (!p->begins_answer)
        lx_json_note(&p->notes, "add_generation_prompt", "this model has no template for chats",
                     NULL);
}

/* Of the chat's text without that of tools and variables. */
static size_t most_message_bytes(const lx_completion_params *p)
{
    size_t bytes = AROUND;
    for (int32_t i = 0; i < p->n_messages; i++)
        bytes += p->messages[i].bytes + AROUND;
    return bytes;
}

/* Templates write tools and calls as JSON, some of them with an indent and some of them twice. */
static size_t most_bytes(const lx_completion_params *p)
{
    size_t bytes = lx_json_indented_bytes(p->variables);
    for (int32_t i = 0; i < p->n_messages; i++)
        bytes += lx_json_indented_bytes(p->messages[i].more);
    return most_message_bytes(p) + 2 * bytes;
}

size_t lx_chat_most_bytes(const lx_completion_params *p)
{
    return most_bytes(p) + MORE_TEXT;
}

/* The prompt, or its text in *whole. */
static lx_status make_prompt(const lx_model *model, lx_completion_params *p, lx_buffer *whole,
                             lx_error *err)
{
    lx_status st = check_template(model, p, err);
    if (st == LX_OK)
        st = check_roles(model, p, err);
    if (st == LX_OK)
        st = check_tools(model, p, err);
    if (st != LX_OK)
        return st;
    note_variables(model, p);
    note_members(model, p);
    if (find_known(model, p) == NULL)
        return set_jinja_prompt(model, most_bytes(p), p, whole, err);
    st = set_prompt(model, most_message_bytes(p), p, whole, err);
    if (st == LX_OK)
        add_stops(model, &p->stops);
    return st;
}

/* A text without a template, after an answer. */
static lx_status encode_plain(const lx_model *model, lx_completion_params *p, lx_error *err)
{
    size_t bytes = p->tail_bytes + p->prompts[0].bytes;
    rendered r = {.model = model, .field = "input"};
    init_rendered(&r, bytes + 1, 0);
    lx_buffer_append(&r.text, p->tail, p->tail_bytes);
    lx_buffer_append(&r.text, p->prompts[0].text, p->prompts[0].bytes);
    lx_status st = encode(&r, 0, err);
    lx_buffer_fini(&r.text);
    if (st == LX_OK)
        take_tokens(p, &r.list, NULL);
    else
        lx_token_list_fini(&r.list);
    return st;
}

lx_status lx_chat_prompt(const lx_model *model, lx_completion_params *p, lx_error *err)
{
    bool plain = is_plain(model, p);
    if (model->task->ends != NULL && !plain)
        return make_prompt(model, p, NULL, err);
    if (plain && p->follows)
        return encode_plain(model, p, err);
    lx_status st = check_tools(model, p, err);
    note_others(model, p);
    return st == LX_OK ? check_last(model, p, err) : st;
}

lx_status lx_chat_text(const lx_model *model, lx_completion_params *p, lx_buffer *out,
                       lx_error *err)
{
    if (model->task->ends != NULL)
        return make_prompt(model, p, out, err);
    note_others(model, p);
    lx_buffer_append(out, p->prompts[0].text, p->prompts[0].bytes);
    return check_last(model, p, err);
}
