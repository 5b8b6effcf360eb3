/* Forms (see forms.h). */
#include "server/json/forms.h"

#include <jansson.h>

#include <stdbool.h>
#include <string.h>

#include "model/formats/json_memory.h"
#include "server/json/multipart.h"

static lx_status no_memory(const char *name, lx_error *err)
{
    return lx_fail(err, LX_ERR_NO_MEMORY, name, "no memory to read %s", name);
}

/* The field's text, which the caller has from then on. A file stands for a field that is no text:
   an object with a member, which no field of a form is, and which says something. */
static lx_status read_value(const lx_part *part, const char *name, json_t **out, lx_error *err)
{
    (void)lx_json_starved();
    *out = part->is_file ? json_pack("{sb}", "file", 1) : json_stringn(part->data, part->bytes);
    if (lx_json_starved())
        return no_memory(name, err);
    return *out != NULL ? LX_OK
                        : lx_fail(err, LX_ERR_INVALID, name, "%s is not text in UTF-8", name);
}

/* Both take the value. */
static lx_status add_member(json_t *root, const char *name, json_t *value, lx_error *err)
{
    if (json_object_get(root, name) != NULL) {
        json_decref(value);
        return lx_fail(err, LX_ERR_INVALID, name, "%s comes twice", name);
    }
    bool added = json_object_set_new(root, name, value) == 0;
    if (lx_json_starved())
        return no_memory(name, err);
    return added ? LX_OK
                 : lx_fail(err, LX_ERR_INVALID, "body", "a field of the form has no proper name");
}

static lx_status add_to_list(json_t *root, const char *name, json_t *value, lx_error *err)
{
    json_t *list = json_object_get(root, name);
    if (list == NULL) {
        list = json_array();
        lx_status st = list != NULL ? add_member(root, name, list, err) : no_memory(name, err);
        if (st != LX_OK) {
            json_decref(value);
            return st;
        }
    }
    bool is_list = json_is_array(list);
    bool added = json_array_append_new(list, value) == 0;
    if (is_list && !added)
        return no_memory(name, err);
    return is_list ? LX_OK : lx_fail(err, LX_ERR_INVALID, name, "%s comes twice", name);
}

/* NAME of a field NAME[]; false: the field has no such name, and *name is all of it. */
static bool take_name(const lx_part *part, char *name)
{
    size_t n = strlen(part->name);
    bool is_list = n > 2 && strcmp(part->name + n - 2, "[]") == 0;
    memcpy(name, part->name, n + 1);
    if (is_list)
        name[n - 2] = '\0';
    return is_list;
}

static lx_status add_file(const lx_part *part, const lx_form_file *file, lx_error *err)
{
    if (file->out->data != NULL)
        return lx_fail(err, LX_ERR_INVALID, file->name, "%s comes twice; one is expected",
                       file->name);
    *file->out = (lx_upload){.data = (const uint8_t *)part->data, .bytes = part->bytes};
    return LX_OK;
}

static lx_status add_part(const lx_part *part, const lx_form_file *files, int32_t n_files,
                          json_t *root, lx_error *err)
{
    char name[LX_MAX_PART_NAME + 1];
    bool is_list = take_name(part, name);
    for (int32_t i = 0; i < n_files; i++)
        if (strcmp(files[i].name, name) == 0)
            return add_file(part, &files[i], err);
    json_t *value = NULL;
    lx_status st = read_value(part, name, &value, err);
    if (st != LX_OK)
        return st;
    return is_list ? add_to_list(root, name, value, err) : add_member(root, name, value, err);
}

lx_status lx_json_read_form(const char *content_type, const char *body, size_t bytes,
                            const lx_form_file *files, int32_t n_files, json_t *root, lx_error *err)
{
    lx_multipart form;
    lx_status st = lx_multipart_parse(content_type, body, bytes, &form, err);
    if (st == LX_OK && root == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory to read the form");
    for (int32_t i = 0; st == LX_OK && i < form.n; i++)
        st = add_part(&form.parts[i], files, n_files, root, err);
    return st;
}
