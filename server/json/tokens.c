/* Tokens and texts as JSON (see tokens.h). */
#include "server/json/tokens.h"

#include <stdlib.h>
#include <string.h>

#include "server/json/field_readers.h"
#include "server/json/fields.h"

/* --- requests --- */

LX_READER(tokens)
{
    lx_detokenize_params *p = r->params;
    return lx_json_keep_ids(value, r->name, &p->tokens, &p->n, err);
}

static lx_status read_request(const char *body, size_t bytes, lx_json_reading *r, lx_error *err)
{
    json_t *root = NULL;
    lx_status st = lx_json_parse(body, bytes, &root, err);
    r->root = root;
    if (st == LX_OK)
        st = lx_json_read_fields(r, err);
    json_decref(root);
    return st;
}

lx_status lx_json_read_tokenize(const char *body, size_t bytes, lx_tokenize_params *p,
                                lx_error *err)
{
    *p = (lx_tokenize_params){.parse_special = true};
    lx_json_reading r = {.route = LX_JSON_TOKENIZE, .params = p, .notes = &p->notes};
    lx_status st = read_request(body, bytes, &r, err);
    if (st == LX_OK && p->content == NULL)
        st = lx_fail(err, LX_ERR_INVALID, "content", "content is missing");
    return st;
}

lx_status lx_json_read_detokenize(const char *body, size_t bytes, lx_detokenize_params *p,
                                  lx_error *err)
{
    *p = (lx_detokenize_params){.n = 0};
    lx_json_reading r = {.route = LX_JSON_DETOKENIZE, .params = p, .notes = &p->notes};
    lx_status st = read_request(body, bytes, &r, err);
    if (st == LX_OK && p->tokens == NULL)
        st = lx_fail(err, LX_ERR_INVALID, "tokens", "tokens is missing: a list of tokens");
    return st;
}

void lx_tokenize_params_fini(lx_tokenize_params *p)
{
    free(p->content);
    p->content = NULL;
}

void lx_detokenize_params_fini(lx_detokenize_params *p)
{
    free(p->tokens);
    p->tokens = NULL;
}

/* --- answers --- */

static json_t *make_bytes(const char *text, size_t n)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < n; i++)
        ok = json_array_append_new(list, json_integer((unsigned char)text[i])) == 0;
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

static void write_piece(const lx_tokenizer *t, int32_t id, lx_buffer *out)
{
    size_t n = 0;
    const char *text = lx_tokenizer_token(t, id, &n);
    if (text == NULL) {
        text = "";
        n = 0;
    }
    json_t *piece = json_stringn(text, n); /* NULL when that is not UTF-8 */
    lx_json_dump(json_pack("{s:i, s:o}", "id", (int)id, "piece",
                           piece != NULL ? piece : make_bytes(text, n)),
                 out);
}

void lx_json_write_tokens(const lx_tokenizer *t, const lx_token_list *list, bool with_pieces,
                          lx_buffer *out)
{
    lx_buffer_puts(out, "{\"tokens\":[");
    for (size_t i = 0; i < list->n; i++) {
        lx_buffer_puts(out, i > 0 ? "," : "");
        if (with_pieces)
            write_piece(t, list->ids[i], out);
        else
            lx_buffer_printf(out, "%d", list->ids[i]);
    }
    lx_buffer_puts(out, "]}");
}

void lx_json_write_content(const lx_buffer *text, lx_buffer *out)
{
    lx_json_dump(json_pack("{s:s%}", "content", text->data != NULL ? text->data : "", text->length),
                 out);
}
