/* The arguments of calls in messages. */
#include <string.h>

#include "model/formats/json_memory.h"
#include "server/json/chat_fields.h"
#include "server/json/fields.h"
#include "server/json/scan.h"

/* Arguments that no body could hold, but answers can: a key twice, of which the last counts; a call
   that was cut, or is nested too deep, which the template sees without arguments. */
static lx_status read_answered(const char *text, size_t n, const char *where, lx_json_notes *notes,
                               json_t **out)
{
    static const char why[] = "as of a call that was cut or is nested too deep: the model reads {}";
    lx_json_extent extent;
    json_error_t e;
    lx_json_scan(text, n, &extent);
    if (text[strspn(text, " \t\r\n")] != '{')
        return LX_ERR_INVALID;
    bool lost = extent.depth > LX_JSON_MAX_DEPTH;
    *out = lost ? NULL : lx_json_load(text, n, JSON_ALLOW_NUL, &e);
    if (*out != NULL)
        return LX_OK;
    if (!lost && json_error_code(&e) == json_error_out_of_memory)
        return LX_ERR_NO_MEMORY;
    if (!lost && json_error_code(&e) != json_error_premature_end_of_input)
        return LX_ERR_INVALID;
    lx_json_note(notes, where, why, NULL);
    *out = json_object();
    return *out != NULL ? LX_OK : LX_ERR_NO_MEMORY;
}

lx_status lx_chat_read_arguments(const json_t *value, const char *where, const lx_json_reading *r,
                                 json_t **out, lx_error *err)
{
    lx_completion_params *p = r->params;
    lx_json_extent extent;
    lx_error why = {0};
    bool none = value == NULL || lx_json_is(value, "");
    const char *text = none ? "{}" : json_string_value(value);
    size_t n = none ? 2 : json_string_length(value);
    if (json_is_object(value)) {
        *out = json_incref((json_t *)(uintptr_t)value);
        return LX_OK;
    }
    if (text != NULL) {
        lx_json_scan(text, n, &extent);
        p->call_bytes += lx_json_tree_bytes(&extent);
    }
    if (p->call_bytes > LX_JSON_TREE_BYTES)
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s: the calls' arguments are too large",
                       where);
    lx_status st = text != NULL ? lx_json_parse(text, n, out, &why) : LX_ERR_INVALID;
    if (st == LX_ERR_INVALID && text != NULL)
        st = read_answered(text, n, where, r->notes, out);
    if (st == LX_ERR_INVALID)
        return lx_fail(err, st, r->name, "%s must be an object, or a text with an object in JSON",
                       where);
    return st == LX_OK ? st : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %s", where);
}
