/* Reading config.json and what it changes (see config_file.h). */
#include "model/config_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/config_reader.h"
#include "model/formats/file.h"
#include "model/formats/json_memory.h"

enum { MAX_FILE_BYTES = 1 << 20, MAX_PATH = 4096 };

static lx_status parse(const char *label, const char *text, size_t n_bytes, json_t **out,
                       lx_error *err)
{
    json_error_t e;
    char what[JSON_ERROR_TEXT_LENGTH];
    json_t *root = lx_json_load(text, n_bytes, JSON_REJECT_DUPLICATES, &e);
    if (root == NULL && e.text[0] == '\0') /* the parser has a text for every other fault */
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", label);
    if (root == NULL)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s, line %d: %s", label, e.line,
                       lx_file_quote(e.text, what, sizeof what));
    if (!json_is_object(root)) {
        json_decref(root);
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: not a JSON object", label);
    }
    *out = root;
    return LX_OK;
}

static lx_status read_file(const char *path, json_t **out, lx_error *err)
{
    char *text = NULL;
    size_t n_bytes = 0;
    lx_status st = lx_file_read(path, MAX_FILE_BYTES, &text, &n_bytes, err);
    if (st == LX_OK)
        st = parse(lx_file_label(path), text, n_bytes, out, err);
    free(text);
    return st;
}

/* --- a config.json that changes another --- */

/* A relative path of plain characters; it may lead upwards. */
static void take_base(lx_config_reader *r, lx_config_object s, char *out)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-/";
    const char *text = json_string_value(json_object_get(s.object, "base"));
    size_t n = text != NULL ? strlen(text) : 0;
    if (n == 0 || n >= LX_MAX_BASE || text[0] == '/' || strspn(text, allowed) != n) {
        lx_config_wrong(r, s, "base",
                        "must be the path of a model's folder from this one on: 1 to 127 letters, "
                        "digits, '.', '_', '-' and '/'");
        return;
    }
    memcpy(out, text, n + 1);
    lx_config_release(s, "base");
}

/* The base's object with the keys of this one in place of its own; of `image` each key by itself.
 */
static lx_status change(json_t *base, json_t *own, const char *path, lx_error *err)
{
    json_t *image = json_object_get(base, "image"), *changed = json_object_get(own, "image");
    if (json_object_get(base, "base") != NULL)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: base: that folder has a base of its own",
                       lx_file_label(path));
    bool ok = true;
    if (json_is_object(image) && json_is_object(changed)) {
        ok = json_object_update(image, changed) == 0;
        (void)json_object_del(own, "image");
    }
    return ok && json_object_update(base, own) == 0
               ? LX_OK
               : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", lx_file_label(path));
}

/* *root becomes the whole, where it names a base. */
static lx_status add_base(const char *path, json_t **root, char *out, lx_error *err)
{
    char base_path[MAX_PATH];
    lx_config_reader r = {lx_file_label(path), LX_OK, err};
    if (json_object_get(*root, "base") == NULL)
        return LX_OK;
    take_base(&r, (lx_config_object){*root, ""}, out);
    if (r.st != LX_OK)
        return r.st;
    const char *slash = strrchr(path, '/');
    int n = snprintf(base_path, sizeof base_path, "%.*s%s/config.json",
                     slash != NULL ? (int)(slash + 1 - path) : 0, path, out);
    if (n < 0 || n >= (int)sizeof base_path)
        return lx_fail(err, LX_ERR_INVALID, "model", "the path of a base is too long");
    json_t *base = NULL;
    lx_status st = read_file(base_path, &base, err);
    if (st == LX_OK)
        st = change(base, *root, path, err);
    if (st != LX_OK) {
        json_decref(base);
        return st;
    }
    json_decref(*root);
    *root = base;
    return LX_OK;
}

lx_status lx_config_read_file(const char *path, json_t **root, char *base, lx_error *err)
{
    lx_status st = read_file(path, root, err);
    return st == LX_OK ? add_base(path, root, base, err) : st;
}
