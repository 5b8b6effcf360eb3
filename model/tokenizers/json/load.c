/*
 * tokenizer.json of Hugging Face, read with jansson: the parts in an order in which each finds what
 * it needs of those before (see parts.h). Truncation and padding are what a caller does with ids,
 * and are not read, as `transformers` does not.
 */
#include <stdio.h>
#include <stdlib.h>

#include "model/formats/file.h"
#include "model/formats/json_memory.h"
#include "model/tokenizers/json/parts.h"

#define ROOT_FIELDS                                                                                \
    "version|truncation|padding|added_tokens|normalizer|pre_tokenizer|post_processor|decoder|"     \
    "model"

static void read_parts(lx_json_reader *r, const lx_json_part *root, lx_hugging_face *h)
{
    lx_json_keys(r, root, ROOT_FIELDS);
    (void)lx_json_word(r, root, "version", "1.0");
    lx_json_normalizer(r, root, h);
    bool of_bytes = lx_json_pre_tokenizer(r, root, h);
    const lx_tokenizer_family *family = of_bytes ? &lx_byte_level_family : &lx_fallback_family;
    int32_t n = lx_json_highest_id(r, root) + 1;
    if (r->st == LX_OK)
        lx_json_keep(r, lx_tokenizer_init(&h->base, family, n, r->err));
    if (r->st == LX_OK)
        lx_json_keep(r, lx_texts_init(&h->names, n, r->err));
    if (r->st == LX_OK)
        lx_json_keep(r, lx_texts_init(&h->added_names, n, r->err));
    if (r->st == LX_OK)
        lx_json_keep(r, lx_texts_init(&h->added_texts, n, r->err));
    if (r->st == LX_OK)
        lx_json_model(r, root, h, family);
    if (r->st == LX_OK)
        lx_json_added_tokens(r, root, h);
    if (r->st == LX_OK)
        lx_json_template(r, root, h);
    if (r->st == LX_OK)
        lx_json_decoder(r, root, h);
}

/* The parsed file; text[n] is freed before anything else is built. */
static json_t *parse(lx_json_reader *r, const char *path)
{
    size_t n = 0;
    char *text = NULL;
    json_error_t fault = {.line = 0};
    r->st = lx_file_read(path, LX_TOKENIZER_MAX_FILE, &text, &n, r->err);
    if (r->st != LX_OK)
        return NULL;
    json_t *root = lx_json_load(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
    free(text);
    if (json_is_object(root))
        return root;
    if (root == NULL && fault.text[0] == '\0') { /* the parser has a text for every other fault */
        r->st = lx_fail(r->err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", r->label);
        return NULL;
    }
    char quoted[120];
    (void)lx_file_quote(root == NULL ? fault.text : "must be an object", quoted, sizeof quoted);
    json_decref(root);
    r->st = lx_fail(r->err, LX_ERR_FORMAT, NULL, "%s, line %d: %s", r->label, fault.line, quoted);
    return NULL;
}

lx_status lx_hugging_face_load(const char *path, lx_tokenizer **out, lx_error *err)
{
    lx_error own = {.status = LX_OK};
    lx_json_reader r = {.label = lx_file_label(path), .err = err != NULL ? err : &own};
    lx_hugging_face *h = calloc(1, sizeof *h);
    if (h == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory for a tokenizer", r.label);
    h->base.family = &lx_fallback_family;
    lx_json_part root = {.object = parse(&r, path)};
    if (r.st == LX_OK)
        read_parts(&r, &root, h);
    json_decref(root.object);
    if (r.st != LX_OK) {
        lx_tokenizer_free(&h->base);
        return r.st;
    }
    *out = &h->base;
    return LX_OK;
}
