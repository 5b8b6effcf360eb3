/*
 * POST /tokenize, /detokenize and /apply-template, as in llama.cpp's server: text to tokens and
 * back by the tokenizer of a model, and the text of a chat by its template. No model computes
 * anything. The memory of an answer is reserved until the client has it, as for other routes.
 */
#include <stdlib.h>

#include "common/clock.h"
#include "model/tasks/text.h"
#include "server/api/chat.h"
#include "server/api/generation.h"
#include "server/json/answers.h"
#include "server/json/requests.h"

/* A normalizer of a tokenizer may make a text longer, by so much (model/tokenizers). */
enum { LONGER = 4, MORE_TOKENS = 64, READ_S = 60 };
/* Of an answer: a token's number, a token with its piece but for that. */
enum { ID_TEXT = 8, PIECE_TEXT = 40, REPLACEMENT = 3 };

typedef struct made {
    lx_reserve *reserve;
    lx_buffer body;
} made;

static bool is_done(const void *context)
{
    (void)context;
    return true;
}

static void finish(void *context, lx_response *rs)
{
    lx_response_take(rs, 200, "application/json", &((made *)context)->body);
}

static void release(void *context)
{
    made *m = context;
    lx_buffer_fini(&m->body);
    lx_reserve_unref(m->reserve);
    free(m);
}

/* Of the texts of all tokens. */
static int64_t bytes_of(const lx_tokenizer *t, const int32_t *tokens, size_t n)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        size_t length = 0;
        (void)lx_tokenizer_token(t, tokens[i], &length);
        bytes += (int64_t)length;
    }
    return bytes;
}

/* Room for an answer of so many bytes and the notes; `param` is what makes it large. */
static lx_status reserve(lx_api *api, int64_t bytes, const lx_json_notes *notes, const char *param,
                         made **out, lx_error *err)
{
    bytes += lx_cost_notes(notes);
    made *m = calloc(1, sizeof *m);
    if (m == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    /* the text, its source, and its tree */
    int64_t all = LX_COST_HEAD + 3 * LX_COST_GROWN * bytes;
    lx_status st = lx_reserve_new(&api->answers, all, param, &m->reserve, err);
    if (st != LX_OK) {
        free(m);
        return st;
    }
    lx_buffer_init(&m->body, (size_t)bytes);
    *out = m;
    return LX_OK;
}

/* The answer of a request to the model `name`; `make` appends it to *out, which it makes, or fails.
   `st` is the status of reading the request. */
static void answer(lx_api *api, const char *name, const void *params, lx_status st, lx_error *err,
                   lx_status (*make)(lx_api *api, const lx_model *model, const void *params,
                                     made **out, lx_error *err),
                   lx_response *rs)
{
    made *m = NULL;
    lx_served_model *served = NULL;
    if (st == LX_OK)
        st = lx_serving_find_model(api->serving, name, LX_TEXT, &served, err);
    if (st == LX_OK)
        st = make(api, served->model, params, &m, err);
    if (st == LX_OK)
        rs->deferred = (lx_deferred){.context = m,
                                     .is_done = is_done,
                                     .finish = finish,
                                     .release = release,
                                     .deadline_ns = lx_now_ns() + READ_S * LX_NS_PER_S};
    else if (st == LX_ERR_BUSY && served != NULL)
        lx_respond_unstarted(rs, st, err, lx_served_retry_after_s(served));
    else if (served == NULL && st == LX_ERR_NOT_FOUND)
        lx_respond_error(rs, 404, "model_not_found", "model", err->text);
    else
        lx_respond_status(rs, st, err);
}

/* --- text to tokens --- */

static lx_status encode(const lx_model *model, const lx_tokenize_params *p, lx_token_list *list,
                        lx_error *err)
{
    unsigned flags = p->parse_special ? 0 : LX_ENCODE_PLAIN_SPECIALS;
    if (p->add_special)
        flags |= LX_ENCODE_TEMPLATE;
    lx_token_list_init(list, p->bytes * LONGER + MORE_TOKENS);
    return lx_text_encode(model, p->content, p->bytes, flags, "content", list, err);
}

static int64_t tokens_bytes(const lx_tokenizer *t, const lx_token_list *list, bool with_pieces)
{
    int64_t pieces = with_pieces ? bytes_of(t, list->ids, list->n) : 0;
    return LX_COST_FIRST + (int64_t)list->n * (with_pieces ? PIECE_TEXT : ID_TEXT) +
           pieces * LX_COST_ESCAPED;
}

static lx_status tokenize(lx_api *api, const lx_model *model, const void *params, made **out,
                          lx_error *err)
{
    const lx_tokenize_params *p = params;
    lx_token_list list;
    lx_status st = encode(model, p, &list, err);
    if (st == LX_OK)
        st = reserve(api, tokens_bytes(model->tokenizer, &list, p->with_pieces), &p->notes,
                     "content", out, err);
    if (st == LX_OK) {
        lx_json_write_tokens(model->tokenizer, &list, p->with_pieces, &(*out)->body);
        lx_json_append_notes(&p->notes, &(*out)->body);
    }
    lx_token_list_fini(&list);
    return st;
}

void lx_handle_tokenize(lx_api *api, const lx_request *rq, lx_response *rs)
{
    if (!lx_request_begins(api, rq, "application/json", rs))
        return;
    lx_error err = {0};
    lx_tokenize_params p = {.bytes = 0};
    lx_status st = lx_json_read_tokenize(rq->body, rq->body_bytes, &p, &err);
    answer(api, p.model, &p, st, &err, tokenize, rs);
    free(p.content);
}

/* --- the text of a chat --- */

static lx_status apply_template(lx_api *api, const lx_model *model, const void *params, made **out,
                                lx_error *err)
{
    lx_completion_params *p = (lx_completion_params *)(uintptr_t)params; /* notes are added */
    lx_buffer text;
    lx_buffer_init(&text, lx_chat_most_bytes(p));
    lx_status st = lx_chat_text(model, p, &text, err);
    if (st == LX_OK && text.status != LX_OK)
        st = lx_fail(err, text.status, "messages", "no memory for the chat");
    if (st == LX_OK)
        st = reserve(api, LX_COST_FIRST + (int64_t)text.length * LX_COST_ESCAPED, &p->notes,
                     "messages", out, err);
    if (st == LX_OK) {
        lx_json_write_prompt(&text, &(*out)->body);
        lx_json_append_notes(&p->notes, &(*out)->body);
    }
    lx_buffer_fini(&text);
    return st;
}

void lx_handle_apply_template(lx_api *api, const lx_request *rq, lx_response *rs)
{
    if (!lx_request_begins(api, rq, "application/json", rs))
        return;
    lx_error err = {0};
    lx_completion_params p;
    lx_status st = lx_json_read_template(rq->body, rq->body_bytes, &p, &err);
    answer(api, p.model, &p, st, &err, apply_template, rs);
    lx_completion_params_fini(&p);
}

/* --- tokens to text --- */

static lx_status decode(const lx_tokenizer *t, const lx_detokenize_params *p, lx_buffer *text,
                        lx_error *err)
{
    lx_error why = {0};
    lx_detokenizer d;
    lx_detokenizer_init(&d, t, LX_DECODE_SPECIALS);
    for (size_t i = 0; i < p->n; i++) {
        if (lx_detokenizer_push(&d, p->tokens[i], text, &why) != LX_OK)
            return lx_fail(err, LX_ERR_INVALID, "tokens", "tokens[%zu]: %s", i, why.text);
    }
    lx_detokenizer_finish(&d, text);
    return text->status == LX_OK ? LX_OK
                                 : lx_fail(err, text->status, NULL, "no memory for the text");
}

/* The text's own bytes are reserved with those of the answer. */
static lx_status detokenize(lx_api *api, const lx_model *model, const void *params, made **out,
                            lx_error *err)
{
    const lx_detokenize_params *p = params;
    lx_buffer text;
    int64_t most = LX_COST_FIRST +
                   (REPLACEMENT + bytes_of(model->tokenizer, p->tokens, p->n)) * LX_COST_ESCAPED;
    lx_status st = reserve(api, most, &p->notes, "tokens", out, err);
    if (st != LX_OK)
        return st;
    lx_buffer_init(&text, (size_t)most);
    st = decode(model->tokenizer, p, &text, err);
    if (st == LX_OK) {
        lx_json_put(&(*out)->body, "{'content':%.*s}", (int)text.length,
                    text.data != NULL ? text.data : "");
        lx_json_append_notes(&p->notes, &(*out)->body);
    } else {
        release(*out);
        *out = NULL;
    }
    lx_buffer_fini(&text);
    return st;
}

void lx_handle_detokenize(lx_api *api, const lx_request *rq, lx_response *rs)
{
    if (!lx_request_begins(api, rq, "application/json", rs))
        return;
    lx_error err = {0};
    lx_detokenize_params p = {.n = 0};
    lx_status st = lx_json_read_detokenize(rq->body, rq->body_bytes, &p, &err);
    answer(api, p.model, &p, st, &err, detokenize, rs);
    free(p.tokens);
}
