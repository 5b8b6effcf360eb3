/* Requests for images and scores (see image_requests.h). Files come in a form (forms.h), in JSON as
 * data: URLs. */
#include "server/json/image_requests.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base64.h"
#include "server/json/answers.h"
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

lx_status lx_json_read_file(const json_t *root, const char *name, lx_upload *out, lx_error *err)
{
    const json_t *value = lx_json_field(root, name);
    return value != NULL ? read_data_url(value, name, out, err) : LX_OK;
}

/* {"image_url": "data:..."} */
static lx_status read_reference(const json_t *value, const char *param, lx_upload *out,
                                lx_error *err)
{
    if (!json_is_object(value))
        return lx_fail(err, LX_ERR_INVALID, param, "%s must hold an object with image_url", param);
    return read_data_url(json_object_get(value, "image_url"), param, out, err);
}

static lx_status read_references(const json_t *root, lx_image_params *p, lx_error *err)
{
    const json_t *images = lx_json_field(root, "images"), *mask = lx_json_field(root, "mask");
    if (images == NULL)
        return lx_fail(err, LX_ERR_INVALID, "images", "images is missing");
    if (!json_is_array(images) || json_array_size(images) != 1)
        return lx_fail(err, LX_ERR_INVALID, "images", "images must be a list of one");
    lx_status st = read_reference(json_array_get(images, 0), "images", &p->image, err);
    if (st == LX_OK && mask != NULL)
        st = read_reference(mask, "mask", &p->mask, err);
    return st;
}

/* --- forms --- */

/* The text fields as a JSON object, and the files. mask may be NULL: not a field of this route. */
static lx_status read_form(const char *content_type, const char *body, size_t bytes, json_t *root,
                           lx_upload *image, lx_upload *mask, lx_error *err)
{
    const lx_form_file files[] = {{"image", image}, {"mask", mask}};
    lx_status st =
        lx_json_read_form(content_type, body, bytes, files, mask != NULL ? 2 : 1, root, err);
    if (st == LX_OK && image->data == NULL)
        st = lx_fail(err, LX_ERR_INVALID, "image", "image is missing");
    return st;
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

/* A string that must be `only`, when it is there. */
static lx_status read_only(const json_t *root, const char *name, const char *only, lx_error *err)
{
    const char *value = NULL;
    size_t bytes = 0;
    lx_status st = lx_json_read_string(root, name, false, &value, &bytes, err);
    if (st == LX_OK && value != NULL && strcmp(value, only) != 0)
        st = lx_fail(err, LX_ERR_INVALID, name, "%s must be \"%s\"", name, only);
    return st;
}

static lx_status read_size(const json_t *root, lx_image_params *p, lx_error *err)
{
    const char *value = NULL;
    size_t bytes = 0;
    lx_status st = lx_json_read_string(root, "size", false, &value, &bytes, err);
    if (st != LX_OK || value == NULL || strcmp(value, "auto") == 0)
        return st;
    if (bytes == 0 || bytes >= sizeof p->size)
        return lx_fail(err, LX_ERR_INVALID, "size", "size must be WIDTHxHEIGHT or \"auto\"");
    memcpy(p->size, value, bytes + 1);
    return LX_OK;
}

/* What is to be seen. */
static lx_status read_subject(const json_t *root, lx_image_params *p, lx_error *err)
{
    lx_status st = lx_json_copy_string(root, "prompt", &p->prompt, &p->prompt_bytes, err);
    if (st == LX_OK && p->prompt_bytes > LX_MAX_IMAGE_PROMPT)
        st = lx_fail(err, LX_ERR_INVALID, "prompt", "prompt has more than %d bytes",
                     LX_MAX_IMAGE_PROMPT);
    if (st == LX_OK)
        st = lx_json_read_class(root, &p->class_number, err);
    return st;
}

static lx_status read_form_of_answer(const json_t *root, lx_image_params *p, lx_error *err)
{
    lx_status st = read_size(root, p, err);
    if (st == LX_OK)
        st = read_only(root, "response_format", "b64_json", err);
    if (st == LX_OK)
        st = read_only(root, "output_format", "png", err);
    if (st == LX_OK)
        st = lx_json_read_bool(root, "contact_sheet", &p->contact_sheet, err);
    return st;
}

static lx_status read_unit(const json_t *root, lx_image_params *p, lx_error *err)
{
    const char *unit = NULL;
    size_t bytes = 0;
    lx_status st = lx_json_read_string(root, "stream_unit", false, &unit, &bytes, err);
    if (st != LX_OK || unit == NULL)
        return st;
    if (strcmp(unit, "pixel") == 0)
        p->stream_unit = LX_STREAM_PIXELS;
    else if (strcmp(unit, "row") == 0)
        p->stream_unit = LX_STREAM_ROWS;
    else
        return lx_fail(err, LX_ERR_INVALID, "stream_unit",
                       "stream_unit must be \"pixel\" or \"row\"");
    return LX_OK;
}

static lx_status read_stream(const json_t *root, lx_image_params *p, lx_error *err)
{
    lx_status st = lx_json_read_bool(root, "stream", &p->stream, err);
    if (st == LX_OK)
        st = lx_json_read_int32(root, "partial_images", 0, LX_MAX_PARTIAL_IMAGES,
                                &p->partial_images, err);
    if (st == LX_OK)
        st = read_unit(root, p, err);
    if (st != LX_OK)
        return st;
    if (p->stream && p->contact_sheet)
        return lx_fail(err, LX_ERR_INVALID, "contact_sheet",
                       "contact_sheet is not allowed with stream: true");
    if (!p->stream && p->partial_images > 0)
        return lx_fail(err, LX_ERR_INVALID, "partial_images",
                       "partial_images is only allowed with stream: true");
    if (!p->stream && p->stream_unit != LX_STREAM_NO_VALUES)
        return lx_fail(err, LX_ERR_INVALID, "stream_unit",
                       "stream_unit is only allowed with stream: true");
    return LX_OK;
}

/* Where to go on, where to stop, and whether to keep the state. */
static lx_status read_states(const json_t *root, lx_image_params *p, lx_error *err)
{
    lx_status st = lx_json_read_state(root, &p->state, err);
    if (st == LX_OK)
        st = lx_json_read_bool(root, "return_state", &p->return_state, err);
    if (st == LX_OK)
        st = lx_json_read_suspend(root, &p->suspend, err);
    if (st == LX_OK)
        st = lx_json_read_int32(root, "max_tokens", 1, LX_MAX_JOB_VALUES, &p->max_tokens, err);
    if (st == LX_OK && p->stream && p->return_state && p->n > 1)
        st = lx_fail(err, LX_ERR_INVALID, "return_state",
                     "return_state with stream: true is for one picture: n must be 1");
    if (st == LX_OK && p->contact_sheet && p->max_tokens > 0)
        st = lx_fail(err, LX_ERR_INVALID, "max_tokens", "a contact sheet shows whole images");
    return st;
}

static lx_status read_fields(const json_t *root, int32_t max_n, lx_image_params *p, lx_error *err)
{
    lx_status st = lx_json_read_model(root, false, p->model, err);
    if (st == LX_OK)
        st = lx_json_read_int32(root, "n", 1, max_n, &p->n, err);
    if (st == LX_OK)
        st = lx_json_read_seed(root, &p->sampling, err);
    if (st == LX_OK)
        st = lx_json_read_draft(root, &p->sampling, err);
    if (st == LX_OK)
        st = lx_json_read_real(root, "temperature", 0, 10, &p->sampling.temperature, err);
    if (st == LX_OK)
        st = lx_json_read_timeout(root, &p->timeout_ms, err);
    if (st == LX_OK)
        st = read_subject(root, p, err);
    if (st == LX_OK)
        st = read_form_of_answer(root, p, err);
    if (st == LX_OK)
        st = read_stream(root, p, err);
    if (st == LX_OK)
        st = read_states(root, p, err);
    if (st == LX_OK)
        lx_json_note_image_fields(root, &p->notes);
    return st;
}

lx_status lx_json_read_generation(const char *body, size_t bytes, int32_t max_n, lx_image_params *p,
                                  lx_error *err)
{
    lx_image_params_init(p);
    json_t *root = NULL;
    lx_status st = lx_json_parse(body, bytes, &root, err);
    if (st == LX_OK)
        st = read_fields(root, max_n, p, err);
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
        st = read_fields(root, max_n, p, err);
    if (st == LX_OK)
        st = read_references(root, p, err);
    json_decref(root);
    return st;
}

lx_status lx_form_read_edit(const char *content_type, const char *body, size_t bytes, int32_t max_n,
                            lx_image_params *p, lx_error *err)
{
    lx_image_params_init(p);
    json_t *root = json_object();
    lx_status st = read_form(content_type, body, bytes, root, &p->image, &p->mask, err);
    if (st == LX_OK)
        st = read_fields(root, max_n, p, err);
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

static lx_status read_score_fields(const json_t *root, lx_score_params *p, lx_error *err)
{
    lx_status st = lx_json_read_model(root, false, p->model, err);
    if (st == LX_OK)
        st = lx_json_read_timeout(root, &p->timeout_ms, err);
    if (st == LX_OK)
        st = lx_json_copy_string(root, "prompt", &p->prompt, &p->prompt_bytes, err);
    if (st == LX_OK)
        st = lx_json_copy_string(root, "completion", &p->completion, &p->completion_bytes, err);
    return st;
}

lx_status lx_json_read_score(const char *body, size_t bytes, lx_score_params *p, lx_error *err)
{
    *p = (lx_score_params){.timeout_ms = 0};
    json_t *root = NULL;
    lx_status st = lx_json_parse(body, bytes, &root, err);
    if (st == LX_OK)
        st = read_score_fields(root, p, err);
    const json_t *image = lx_json_field(root, "image");
    if (st == LX_OK && image != NULL)
        st = read_data_url(image, "image", &p->image, err);
    json_decref(root);
    return st;
}

lx_status lx_form_read_score(const char *content_type, const char *body, size_t bytes,
                             lx_score_params *p, lx_error *err)
{
    *p = (lx_score_params){.timeout_ms = 0};
    json_t *root = json_object();
    lx_status st = read_form(content_type, body, bytes, root, &p->image, NULL, err);
    if (st == LX_OK)
        st = read_score_fields(root, p, err);
    json_decref(root);
    return st;
}
