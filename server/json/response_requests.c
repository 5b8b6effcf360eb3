/*
 * Requests for responses (see answers.h): a chat by other names. Fields of OpenAI's API that would
 * make another answer are refused by the table of fields.
 */
#include "server/json/completion_fields.h"
#include "server/json/field_readers.h"

LX_READER(truncation)
{
    if (lx_json_is(value, "disabled"))
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, r->name,
                   "truncation must be disabled: nothing of the input is dropped");
}

LX_READER(response_text)
{
    static const char *const known[] = {"format", NULL};
    const json_t *format = lx_json_field(value, "format");
    if (!json_is_object(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "text must be an object");
    lx_json_note_members(value, r->name, known, r->notes);
    return format != NULL ? lx_json_check_format(format, "text.format", r, err) : LX_OK;
}

LX_READER(include)
{
    if (!json_is_array(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "include must be a list");
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (!lx_json_is(json_array_get(value, i), "message.output_text.logprobs"))
            return lx_fail(err, LX_ERR_INVALID, r->name,
                           "include[%zu] must be message.output_text.logprobs: there is nothing "
                           "else to include",
                           i);
        *(bool *)r->to = true;
    }
    return LX_OK;
}

/* OpenAI's streams may be padded against those who watch their lengths; these are not. */
LX_READER(padded_stream)
{
    static const char *const known[] = {"include_obfuscation", NULL};
    const json_t *obfuscation = lx_json_field(value, known[0]);
    if (!json_is_object(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "stream_options must be an object");
    if (obfuscation != NULL && !json_is_false(obfuscation))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "stream_options.include_obfuscation must be false");
    lx_json_note_members(value, r->name, known, r->notes);
    return LX_OK;
}

lx_status lx_json_read_response(const char *body, size_t bytes, lx_completion_params *p,
                                lx_error *err)
{
    json_t *root = NULL;
    lx_status st = lx_json_read_text_request(body, bytes, LX_JSON_RESPONSES, 1, p, &root, err);
    p->chat = p->response = true;
    if (st == LX_OK && p->n_messages == 0)
        st = lx_fail(err, LX_ERR_INVALID, "input", "input is missing");
    if (st == LX_OK)
        p->continues = p->messages[p->n_messages - 1].role == LX_CHAT_ASSISTANT;
    if (st == LX_OK)
        st = lx_json_check_top(p, "include: [\"message.output_text.logprobs\"]", err);
    json_decref(root);
    return st;
}
