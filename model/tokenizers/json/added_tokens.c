/* The field `added_tokens` (see parts.h). */
#include <stdlib.h>
#include <string.h>

#include "model/tokenizers/json/parts.h"
#include "model/tokenizers/unicode.h"

#define FIELDS "id|content|single_word|lstrip|rstrip|normalized|special"

/* A token of the model keeps its id, another one has an id of its own. */
static void check_id(lx_json_reader *r, const lx_json_part *p, const lx_hugging_face *h, int32_t id,
                     const char *text, size_t n)
{
    size_t known;
    int32_t in_model = lx_texts_find(&h->names, text, n);
    if (in_model >= 0 && in_model != id)
        lx_json_wrong(r, p, "id", "is not the one that model.vocab gives the token");
    else if (in_model < 0 && lx_texts_get(&h->names, id, &known) != NULL)
        lx_json_wrong(r, p, "id", "is that of another token of model.vocab");
    else if (lx_texts_get(&h->added_names, id, &known) != NULL)
        lx_json_wrong(r, p, "id", "was given before");
}

/* What is looked for in a text, and what the token says when it is decoded: its content, normalized
   where it is looked for in normalized text. */
static void set_text(lx_json_reader *r, lx_hugging_face *h, const lx_added_token *token,
                     bool normalized, const char *text, size_t n)
{
    lx_buffer buffers[2];
    for (int i = 0; i < 2; i++)
        lx_buffer_init(&buffers[i], 64 * (size_t)LX_TOKENIZER_MAX_TOKEN);
    if (normalized && r->st == LX_OK)
        lx_json_keep(r, lx_normalize(&h->normalizer, text, n, buffers, &text, &n, r->err));
    if (r->st == LX_OK && n > LX_TOKENIZER_MAX_TOKEN)
        lx_json_keep(r, lx_fail(r->err, LX_ERR_FORMAT, NULL,
                                "added_tokens: a token has over %d bytes", LX_TOKENIZER_MAX_TOKEN));
    if (r->st == LX_OK)
        lx_json_keep(r, lx_texts_set(&h->added_texts, token->id, text, n, r->err));
    for (int i = 0; i < 2; i++)
        lx_buffer_fini(&buffers[i]);
}

static void one(lx_json_reader *r, const lx_json_part *p, lx_hugging_face *h)
{
    size_t n;
    lx_json_keys(r, p, FIELDS);
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

void lx_json_added_tokens(lx_json_reader *r, const lx_json_part *root, lx_hugging_face *h)
{
    json_t *list = json_object_get(root->object, "added_tokens");
    bool absent = list == NULL || json_is_null(list);
    size_t n = absent ? 0 : lx_json_count(r, root, "added_tokens", LX_ADDED_MAX);
    if (!reserve(r, &h->added_raw, n) || !reserve(r, &h->added_normalized, n))
        return;
    for (size_t i = 0; i < n && r->st == LX_OK; i++) {
        lx_json_part p = lx_json_entry(r, root, "added_tokens", i);
        if (r->st == LX_OK)
            one(r, &p, h);
    }
    build(r, root, h, &h->added_raw);
    build(r, root, h, &h->added_normalized);
    if (r->st == LX_OK)
        lx_json_keep(r, lx_texts_index(&h->added_names, r->err));
}
