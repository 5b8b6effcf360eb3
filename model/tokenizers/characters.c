/*
 * Characters as tokens, from vocab.txt (model/vocab.h): one lookup a code point. A character that
 * is not there becomes <unk> where the file has it, and is an error where it has not. Names of
 * specials in a text are text; the file puts nothing around it.
 */
#include <stdlib.h>
#include <string.h>

#include "model/tokenizers/internal.h"
#include "model/utf8.h"
#include "model/vocab.h"

typedef struct characters {
    lx_tokenizer base;
    const lx_vocab *vocab;
    lx_vocab *owned; /* the owned copy, or NULL when it is borrowed */
    int32_t unknown; /* -1 for none */
} characters;

static lx_status encode(const lx_tokenizer *t, const char *text, const char *marks, size_t n,
                        unsigned flags, lx_token_list *out, lx_error *err)
{
    const characters *c = (const characters *)t;
    (void)flags, (void)marks;
    for (size_t at = 0; at < n && out->status == LX_OK;) {
        size_t start = at;
        uint32_t codepoint = (uint32_t)lx_utf8_next(text, n, &at);
        int32_t id = lx_vocab_char(c->vocab, codepoint);
        if (id < 0)
            id = c->unknown;
        if (id < 0)
            return lx_fail(err, LX_ERR_INVALID, NULL,
                           "the vocabulary has no token for U+%04X at byte %zu", codepoint, start);
        lx_token_list_add(out, id);
    }
    return LX_OK;
}

static void fini(lx_tokenizer *t)
{
    lx_vocab_free(((characters *)t)->owned);
}

static const lx_tokenizer_family family = {.name = "characters", .encode = encode, .fini = fini};

static lx_status fill(characters *c, lx_error *err)
{
    int32_t n = lx_vocab_size(c->vocab);
    lx_status st = lx_tokenizer_init(&c->base, &family, n, err);
    for (int32_t id = 0; st == LX_OK && id < n; id++) {
        const char *text = lx_vocab_text(c->vocab, id);
        c->base.specials[id] = lx_vocab_is_special(c->vocab, id) != 0;
        st = lx_texts_set(&c->base.pieces, id, text, strlen(text), err);
    }
    if (st == LX_OK)
        st = lx_texts_index(&c->base.pieces, err);
    c->unknown = lx_vocab_special(c->vocab, "<unk>");
    return st;
}

lx_status lx_tokenizer_new_characters(const lx_vocab *vocab, lx_tokenizer **out, lx_error *err)
{
    characters *c = calloc(1, sizeof *c);
    if (c == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a tokenizer");
    c->base.family = &family;
    c->vocab = vocab;
    lx_status st = fill(c, err);
    if (st != LX_OK) {
        lx_tokenizer_free(&c->base);
        return st;
    }
    *out = &c->base;
    return LX_OK;
}

lx_status lx_characters_load(const char *path, lx_tokenizer **out, lx_error *err)
{
    lx_vocab *vocab = NULL;
    lx_status st = lx_vocab_load(path, &vocab, err);
    if (st == LX_OK)
        st = lx_tokenizer_new_characters(vocab, out, err);
    if (st == LX_OK)
        ((characters *)*out)->owned = vocab;
    else
        lx_vocab_free(vocab);
    return st;
}
