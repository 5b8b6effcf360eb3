/* Requests for images and scores (see image_requests.h). Files come in a form (forms.h), in JSON as
 * data: URLs. */
#include "server/json/image_requests.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base64.h"
#include "server/json/field_readers.h"
#include "server/json/fields.h"

/* --- files --- */

static void upload_fini(lx_upload *u)
{
    free(u->owned);
    *u = (lx_upload){.data = NULL};
}

/* The content of "data:TYPE;base64,TEXT". The type is not looked at: the content says what it is.
 */
static lx_status read_data_url(const json_t *value, const char *param, lx_upload *out,
                               lx_error *err)
{
    static const char scheme[] = "data:", mark[] = ";base64,";
    if (!json_is_string(value))
        return lx_fail(err, LX_ERR_INVALID, param, "%s must be a data: URL", param);
    const char *url = json_string_value(value);
    const char *comma = strncasecmp(url, scheme, sizeof scheme - 1) == 0 ? strchr(url, ',') : NULL;
    size_t head = comma != NULL ? (size_t)(comma - url) + 1 : 0;
    if (head < sizeof scheme + sizeof mark - 2 ||
        strncasecmp(url + head - (sizeof mark - 1), mark, sizeof mark - 1) != 0)
        return lx_fail(err, LX_ERR_INVALID, param,
                       "%s must be a data: URL with base64, as data:image/png;base64,...", param);
    lx_status st = lx_base64_decode(url + head, json_string_length(value) - head, param,
                                    &out->owned, &out->bytes, err);
    if (st == LX_OK)
        out->data = out->owned;
    return st;
}

LX_READER(file)
{
    return read_data_url(value, r->name, r->to, err);
}

/* {"image_url": "data:..."} */
LX_READER(mask)
{
    static const char *const known[] = {"image_url", NULL};
    if (!json_is_object(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s must hold an object with image_url",
                       r->name);
    lx_json_note_members(value, r->name, known, r->notes);
    return read_data_url(json_object_get(value, known[0]), r->name, r->to, err);
}

LX_READER(images)
{
    if (!json_is_array(value) || json_array_size(value) != 1)
        return lx_fail(err, LX_ERR_INVALID, r->name, "images must be a list of one");
    return lx_read_mask(json_array_get(value, 0), r, err);
}

/* --- images --- */

void lx_image_params_init(lx_image_params *p)
{
    *p = (lx_image_params){.n = 1, .sampling = {.temperature = 1, .top_p = 1}};
}

void lx_image_params_fini(lx_image_params *p)
{
    upload_fini(&p->image);
    upload_fini(&p->mask);
    free(p->state);
    free(p->prompt);
    p->state = p->prompt = NULL;
}

static lx_status check_only(const json_t *value, const char *only, const lx_json_reading *r,
                            lx_error *err)
{
    if (lx_json_is(value, only))
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, r->name, "%s must be \"%s\"", r->name, only);
}

LX_READER(only_b64)
{
    return check_only(value, "b64_json", r, err);
}

LX_READER(only_png)
{
    return check_only(value, "png", r, err);
}

LX_READER(size)
{
    lx_image_params *p = r->params;
    const char *text = NULL;
    size_t bytes = 0;
    lx_status st = lx_json_take_string(value, r->name, &text, &bytes, err);
    if (st != LX_OK || strcmp(text, "auto") == 0)
        return st;
    if (bytes == 0 || bytes >= sizeof p->size)
        return lx_fail(err, LX_ERR_INVALID, "size", "size must be WIDTHxHEIGHT or \"auto\"");
    memcpy(p->size, text, bytes + 1);
    return LX_OK;
}

LX_READER(stream_unit)
{
    bool pixels = lx_json_is(value, "pixel");
    if (!pixels && !lx_json_is(value, "row"))
        return lx_fail(err, LX_ERR_INVALID, r->name, "stream_unit must be \"pixel\" or \"row\"");
    *(lx_stream_unit *)r->to = pixels ? LX_STREAM_PIXELS : LX_STREAM_ROWS;
    return LX_OK;
}

/* Fields that do not go together. */
static lx_status check_together(const lx_image_params *p, lx_error *err)
{
    if (p->stream && p->contact_sheet)
        return lx_fail(err, LX_ERR_INVALID, "contact_sheet",
                       "contact_sheet is not allowed with stream: true");
    if (!p->stream && p->partial_images > 0)
        return lx_fail(err, LX_ERR_INVALID, "partial_images",
                       "partial_images is only allowed with stream: true");
    if (!p->stream && p->stream_unit != LX_STREAM_NO_VALUES)
        return lx_fail(err, LX_ERR_INVALID, "stream_unit",
                       "stream_unit is only allowed with stream: true");
    if (p->stream && p->return_state && p->n > 1)
        return lx_fail(err, LX_ERR_INVALID, "return_state",
                       "return_state with stream: true is for one picture: n must be 1");
    if (p->contact_sheet && p->max_tokens > 0)
        return lx_fail(err, LX_ERR_INVALID, "max_tokens", "a contact sheet shows whole images");
    return LX_OK;
}

static lx_status read_fields(const json_t *root, lx_json_route route, int32_t max_n,
                             lx_image_params *p, lx_error *err)
{
    lx_json_reading r = {
        .root = root, .route = route, .max_n = max_n, .params = p, .notes = &p->notes};
    lx_status st = lx_json_read_fields(&r, err);
    return st == LX_OK ? check_together(p, err) : st;
}

lx_status lx_json_read_generation(const char *body, size_t bytes, int32_t max_n, lx_image_params *p,
                                  lx_error *err)
{
    lx_image_params_init(p);
    json_t *root = NULL;
    lx_status st = lx_json_parse(body, bytes, &root, err);
    if (st == LX_OK)
        st = read_fields(root, LX_JSON_GENERATIONS, max_n, p, err);
    json_decref(root);
    return st;
}

lx_status lx_json_read_edit(const char *body, size_t bytes, int32_t max_n, lx_image_params *p,
                            lx_error *err)
{
    lx_image_params_init(p);
    json_t *root = NULL;
    lx_status st = lx_json_parse(body, bytes, &root, err);
    if (st == LX_OK)
        st = read_fields(root, LX_JSON_EDITS, max_n, p, err);
    if (st == LX_OK && p->image.data == NULL)
        st = lx_fail(err, LX_ERR_INVALID, "images", "images is missing");
    json_decref(root);
    return st;
}

/* A form's files stay in the body. */
static lx_status check_image(const lx_upload *image, lx_error *err)
{
    return image->data != NULL ? LX_OK : lx_fail(err, LX_ERR_INVALID, "image", "image is missing");
}

lx_status lx_form_read_edit(const char *content_type, const char *body, size_t bytes, int32_t max_n,
                            lx_image_params *p, lx_error *err)
{
    lx_image_params_init(p);
    const lx_form_file files[] = {{"image", &p->image}, {"mask", &p->mask}};
    json_t *root = json_object();
    lx_status st = lx_json_read_form(content_type, body, bytes, files, 2, root, err);
    if (st == LX_OK)
        st = check_image(&p->image, err);
    if (st == LX_OK)
        st = read_fields(root, LX_JSON_EDITS_FORM, max_n, p, err);
    json_decref(root);
    return st;
}

/* --- scores --- */

void lx_score_params_fini(lx_score_params *p)
{
    upload_fini(&p->image);
    free(p->prompt);
    free(p->completion);
    p->prompt = p->completion = NULL;
}

static lx_status read_score_fields(const json_t *root, lx_json_route route, lx_score_params *p,
                                   lx_error *err)
{
    lx_json_reading r = {.root = root, .route = route, .params = p, .notes = &p->notes};
    return lx_json_read_fields(&r, err);
}

lx_status lx_json_read_score(const char *body, size_t bytes, lx_score_params *p, lx_error *err)
{
    *p = (lx_score_params){.timeout_ms = 0};
    json_t *root = NULL;
    lx_status st = lx_json_parse(body, bytes, &root, err);
    if (st == LX_OK)
        st = read_score_fields(root, LX_JSON_SCORE, p, err);
    json_decref(root);
    return st;
}

lx_status lx_form_read_score(const char *content_type, const char *body, size_t bytes,
                             lx_score_params *p, lx_error *err)
{
    *p = (lx_score_params){.timeout_ms = 0};
    const lx_form_file file = {"image", &p->image};
    json_t *root = json_object();
    lx_status st = lx_json_read_form(content_type, body, bytes, &file, 1, root, err);
    if (st == LX_OK)
        st = check_image(&p->image, err);
    if (st == LX_OK)
        st = read_score_fields(root, LX_JSON_SCORE_FORM, p, err);
    json_decref(root);
    return st;
}
