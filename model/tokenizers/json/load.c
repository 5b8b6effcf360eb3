/*
 * tokenizer.json of Hugging Face, read with jansson: each part is read after the parts that it
 * needs (see parts.h). Truncation and padding are a caller's concern: they are not read here, nor
 * in `transformers`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/formats/file.h"
#include "model/formats/json_memory.h"
#include "model/tokenizers/json/parts.h"
#include "model/tokenizers/unicode.h"

#define ROOT_FIELDS                                                                                \
    "version|truncation|padding|added_tokens|normalizer|pre_tokenizer|post_processor|decoder|"     \
    "model"

/* --- added_tokens --- */

#define TOKEN_FIELDS "id|content|single_word|lstrip|rstrip|normalized|special"

/* A token of the model keeps its id, another one has an id of its own. */
static void check_id(lx_json_reader *r, const lx_json_part *p, const lx_hugging_face *h, int32_t id,
                     const char *text, size_t n)
{
    size_t known;
    int32_t in_model = lx_texts_find(&h->names, text, n);
    if (in_model >= 0 && in_model != id)
        lx_json_wrong(r, p, "id", "is not the id of this token in model.vocab");
    else if (in_model < 0 && lx_texts_get(&h->names, id, &known) != NULL)
        lx_json_wrong(r, p, "id", "is that of another token of model.vocab");
    else if (lx_texts_get(&h->added_names, id, &known) != NULL)
        lx_json_wrong(r, p, "id", "was given before");
}

/* The text that a search looks for, and the text of the decoded token: its content, normalized
 * where the search is in normalized text. */
static void set_text(lx_json_reader *r, lx_hugging_face *h, const lx_added_token *token,
                     bool normalized, const char *text, size_t n)
{
    lx_normalize_run run;
    lx_normalize_run_init(&run, 64 * (size_t)LX_TOKENIZER_MAX_TOKEN);
    if (normalized && h->normalizer.has_regex && r->st == LX_OK)
        lx_json_keep(r, lx_regex_run_new(n, &run.regex, r->err));
    if (normalized && r->st == LX_OK)
        lx_json_keep(r, lx_normalize(&h->normalizer, text, n, &run, &text, &n, r->err));
    if (r->st == LX_OK && n > LX_TOKENIZER_MAX_TOKEN)
        lx_json_keep(r, lx_fail(r->err, LX_ERR_FORMAT, NULL,
                                "added_tokens: a token has over %d bytes", LX_TOKENIZER_MAX_TOKEN));
    if (r->st == LX_OK)
        lx_json_keep(r, lx_texts_set(&h->added_texts, token->id, text, n, r->err));
    lx_regex_run_free(run.regex);
    lx_normalize_run_fini(&run);
}

static void read_token(lx_json_reader *r, const lx_json_part *p, lx_hugging_face *h)
{
    size_t n;
    lx_json_keys(r, p, TOKEN_FIELDS);
    lx_added_token token = {.id = (int32_t)lx_json_int(r, p, "id", 0, h->names.n - 1),
                            .special = lx_json_bool(r, p, "special", false),
                            .single_word = lx_json_bool(r, p, "single_word", false),
                            .lstrip = lx_json_bool(r, p, "lstrip", false),
                            .rstrip = lx_json_bool(r, p, "rstrip", false)};
    bool normalized = lx_json_bool(r, p, "normalized", !token.special);
    const char *text = lx_json_text(r, p, "content", &n);
    if (n == 0 || n > LX_TOKENIZER_MAX_TOKEN)
        lx_json_wrong(r, p, "content", "must have 1 to 1,024 bytes");
    if (r->st == LX_OK)
        check_id(r, p, h, token.id, text, n);
    if (r->st == LX_OK && (token.single_word || token.lstrip || token.rstrip))
        lx_json_keep(r, lx_unicode_check("added_tokens", r->err));
    if (r->st != LX_OK)
        return;
    h->base.specials[token.id] = token.special;
    lx_json_keep(r, lx_texts_set(&h->added_names, token.id, text, n, r->err));
    set_text(r, h, &token, normalized, text, n);
    lx_added *to = normalized ? &h->added_normalized : &h->added_raw;
    to->tokens[to->n++] = token;
    h->normalizes_specials |= normalized && token.special;
}

/* The trie over the texts of the tokens that were read. */
static void build(lx_json_reader *r, const lx_json_part *root, const lx_hugging_face *h,
                  lx_added *a)
{
    size_t n, n_bytes = 0;
    for (int32_t i = 0; i < a->n; i++) {
        (void)lx_texts_get(&h->added_texts, a->tokens[i].id, &n);
        n_bytes += n;
    }
    if (r->st == LX_OK)
        lx_json_keep(r, lx_trie_init(&a->trie, n_bytes, r->err));
    for (int32_t i = 0; i < a->n && r->st == LX_OK; i++) {
        const char *text = lx_texts_get(&h->added_texts, a->tokens[i].id, &n);
        if (n > 0 && lx_trie_add(&a->trie, text, n, i) >= 0)
            lx_json_wrong(r, root, "added_tokens", "has two tokens of the same text");
    }
}

static bool reserve(lx_json_reader *r, lx_added *a, size_t n)
{
    a->tokens = calloc(n + 1, sizeof *a->tokens);
    if (a->tokens == NULL)
        lx_json_keep(r, lx_fail(r->err, LX_ERR_NO_MEMORY, NULL, "no memory for added tokens"));
    return a->tokens != NULL;
}

static void read_added_tokens(lx_json_reader *r, const lx_json_part *root, lx_hugging_face *h)
{
    json_t *list = json_object_get(root->object, "added_tokens");
    bool absent = list == NULL || json_is_null(list);
    size_t n = absent ? 0 : lx_json_count(r, root, "added_tokens", LX_ADDED_MAX);
    if (!reserve(r, &h->added_raw, n) || !reserve(r, &h->added_normalized, n))
        return;
    for (size_t i = 0; i < n && r->st == LX_OK; i++) {
        lx_json_part p = lx_json_entry(r, root, "added_tokens", i);
        if (r->st == LX_OK)
            read_token(r, &p, h);
    }
    build(r, root, h, &h->added_raw);
    build(r, root, h, &h->added_normalized);
    if (r->st == LX_OK)
        lx_json_keep(r, lx_texts_index(&h->added_names, r->err));
}

/*
 * --- post_processor ---
 *
 * It says what stands before and after every text. ByteLevel only moves offsets, which are not read
 * here.
 */

enum { MAX_PARTS = 2 * LX_TEMPLATE_MAX + 1 };

/* The ids of a special token of the template, to the end of `to`. */
static void special(lx_json_reader *r, const lx_json_part *p, const lx_json_part *piece,
                    int32_t n_ids, lx_template *to)
{
    size_t n;
    lx_json_part all = lx_json_below(r, p, "special_tokens");
    lx_json_part named = lx_json_below(r, piece, "SpecialToken");
    const char *name = lx_json_text(r, &named, "id", &n);
    lx_json_part token = lx_json_below(r, &all, name);
    size_t n_entries = lx_json_count(r, &token, "ids", LX_TEMPLATE_MAX);
    json_t *ids = json_object_get(token.object, "ids");
    for (size_t i = 0; i < n_entries && r->st == LX_OK; i++) {
        json_t *id = json_array_get(ids, i);
        json_int_t value = json_integer_value(id);
        if (!json_is_integer(id) || value < 0 || value >= n_ids || to->n == LX_TEMPLATE_MAX)
            lx_json_wrong(r, p, "special_tokens", "has an id that is not in the vocabulary");
        else
            to->ids[to->n++] = (int32_t)value;
    }
}

static void template(lx_json_reader *r, const lx_json_part *p, lx_hugging_face *h)
{
    bool behind = false;
    lx_json_keys(r, p, "type|single|pair|special_tokens");
    if (h->before.n + h->behind.n > 0)
        lx_json_refuse(r, p, NULL, "a second template");
    size_t n = lx_json_count(r, p, "single", MAX_PARTS);
    for (size_t i = 0; i < n && r->st == LX_OK; i++) {
        lx_json_part piece = lx_json_entry(r, p, "single", i);
        if (json_object_get(piece.object, "SpecialToken") != NULL) {
            special(r, p, &piece, h->base.pieces.n, behind ? &h->behind : &h->before);
            continue;
        }
        lx_json_part text = lx_json_below(r, &piece, "Sequence");
        if (text.object == NULL || behind)
            lx_json_wrong(r, p, "single", "must hold the text A once, and special tokens");
        else
            (void)lx_json_word(r, &text, "id", "A");
        behind = true;
    }
    if (!behind)
        lx_json_wrong(r, p, "single", "must hold the text A once, and special tokens");
}

/* The id of a pair such as ["</s>", 2]. */
static void pair(lx_json_reader *r, const lx_json_part *p, const char *field, int32_t n_ids,
                 lx_template *to)
{
    const json_t *value = json_object_get(p->object, field), *id = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= n_ids)
        lx_json_wrong(r, p, field, "must be a token and its id in the vocabulary");
    else
        to->ids[to->n++] = (int32_t)json_integer_value(id);
}

/* BertProcessing and RobertaProcessing: cls before every text and sep after it. Their other fields
 * move offsets. */
static void surround(lx_json_reader *r, const lx_json_part *p, lx_hugging_face *h)
{
    lx_json_keys(r, p, "type|sep|cls|trim_offsets|add_prefix_space");
    if (h->before.n + h->behind.n > 0)
        lx_json_refuse(r, p, NULL, "a second template");
    if (r->st == LX_OK)
        pair(r, p, "cls", h->base.pieces.n, &h->before);
    if (r->st == LX_OK)
        pair(r, p, "sep", h->base.pieces.n, &h->behind);
}

static void read_sequence(lx_json_reader *r, const lx_json_part *p, lx_hugging_face *h)
{
    int which =
        lx_json_word(r, p, "type", "ByteLevel|TemplateProcessing|BertProcessing|RobertaProcessing");
    if (r->st == LX_OK && which == 1)
        template(r, p, h);
    else if (r->st == LX_OK && which > 1)
        surround(r, p, h);
}

static void read_template(lx_json_reader *r, const lx_json_part *root, lx_hugging_face *h)
{
    lx_json_part p = lx_json_below(r, root, "post_processor");
    const char *type = json_string_value(json_object_get(p.object, "type"));
    if (r->st != LX_OK || p.object == NULL)
        return;
    if (type == NULL || strcmp(type, "Sequence") != 0) {
        read_sequence(r, &p, h);
        return;
    }
    lx_json_keys(r, &p, "type|processors");
    size_t n = lx_json_count(r, &p, "processors", LX_TEMPLATE_MAX);
    for (size_t i = 0; i < n && r->st == LX_OK; i++) {
        lx_json_part entry = lx_json_entry(r, &p, "processors", i);
        read_sequence(r, &entry, h);
    }
}

/* --- the file --- */

static void read_parts(lx_json_reader *r, const lx_json_part *root, lx_hugging_face *h)
{
    lx_json_keys(r, root, ROOT_FIELDS);
    (void)lx_json_word(r, root, "version", "1.0");
    lx_json_normalizer(r, root, h);
    bool of_bytes = lx_json_pre_tokenizer(r, root, h);
    const lx_tokenizer_family *family = lx_json_family(r, root, of_bytes);
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
        read_added_tokens(r, root, h);
    if (r->st == LX_OK)
        read_template(r, root, h);
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
    json_t *root = lx_json_load_file(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
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
    json_t *root = parse(&r, path);
    lx_status st = r.st == LX_OK ? lx_tokenizer_from_json(root, r.label, out, err) : r.st;
    json_decref(root);
    return st;
}

lx_status lx_tokenizer_from_json(json_t *object, const char *label, lx_tokenizer **out,
                                 lx_error *err)
{
    lx_error own = {.status = LX_OK};
    lx_json_reader r = {.label = label, .err = err != NULL ? err : &own};
    lx_json_part root = {.object = object};
    lx_hugging_face *h = calloc(1, sizeof *h);
    if (h == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory for a tokenizer", r.label);
    h->base.family = &lx_fallback_family;
    read_parts(&r, &root, h);
    if (r.st != LX_OK) {
        lx_tokenizer_free(&h->base);
        return r.st;
    }
    *out = &h->base;
    return LX_OK;
}
