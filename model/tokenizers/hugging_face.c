/*
 * A tokenizer.json at work (see hugging_face.h): the text is cut at added tokens, normalized, and
 * cut at the added tokens of normalized text. Then it is split into words, and BPE or Unigram makes
 * tokens of every word. All memory of a run is in one struct on the caller's stack.
 */
#include "model/tokenizers/hugging_face.h"

#include <string.h>

#include "model/tokenizers/letters.h"
#include "model/utf8.h"

enum { GROWTH = 4 }; /* a normalized text may have so many times the bytes of the longest text */

typedef struct run {
    const lx_hugging_face *h;
    lx_token_list *out;
    const char *marks; /* of the text; NULL: none */
    unsigned flags;
    lx_normalize_run normalize;
    lx_buffer text, text_marks; /* of a span with marks, normalized */
    lx_split_run split;
    lx_word word;
    lx_lattice lattice;
    lx_error *err;
} run;

/* --- byte-level --- */

/*
 * Byte-level BPE (Radford et al. 2019, GPT-2): the symbols of a word are its bytes, and a table
 * leads from a byte to its token. The file writes bytes as letters. Words are letters too where a
 * pre-tokenizer follows ByteLevel.
 */

static int32_t byte_level_find(const lx_hugging_face *h, const char *text, size_t n)
{
    char letters[2 * LX_TOKENIZER_MAX_TOKEN];
    size_t k = 0;
    if (h->splitter.gives_letters)
        return lx_texts_find(&h->names, text, n);
    if (n > LX_TOKENIZER_MAX_TOKEN)
        return -1;
    for (size_t i = 0; i < n; i++)
        k += lx_utf8_put(lx_byte_letter((unsigned char)text[i]), letters + k);
    return lx_texts_find(&h->names, letters, k);
}

/* The reader has seen to it that every byte has a token. */
static lx_status byte_level_symbols(const lx_hugging_face *h, const char *text, size_t n,
                                    lx_word *w, lx_error *err)
{
    (void)err;
    for (size_t at = 0; at < n;) {
        int byte = h->splitter.gives_letters ? lx_letter_byte((uint32_t)lx_utf8_next(text, n, &at))
                                             : (unsigned char)text[at++];
        lx_word_add(w, h->byte_ids[byte]);
    }
    return LX_OK;
}

/* --- fallback --- */

/*
 * BPE over characters with a fallback: a word's symbols are its characters. One that is no token
 * becomes byte tokens <0xNN>, where the file says so and has them, otherwise the unknown token,
 * neighbours as one where the file says so. (Llama, Mistral: SentencePiece's BPE.)
 */

/* Whether the text may become byte tokens: every byte has one. */
static bool has_bytes(const lx_hugging_face *h, const char *text, size_t n)
{
    bool all = h->byte_fallback;
    for (size_t i = 0; i < n && all; i++)
        all = h->byte_ids[(unsigned char)text[i]] >= 0;
    return all;
}

static lx_status fallback_symbols(const lx_hugging_face *h, const char *text, size_t n, lx_word *w,
                                  lx_error *err)
{
    int n_unknown = 0; /* 1 while an unknown token waits, which the next known character ends */
    for (size_t at = 0, start = 0; at < n; start = at) {
        int32_t c = lx_utf8_next(text, n, &at);
        int32_t id = lx_texts_find(&h->names, text + start, at - start);
        if (id < 0 && has_bytes(h, text + start, at - start)) {
            for (size_t i = start; i < at; i++)
                lx_word_add(w, h->byte_ids[(unsigned char)text[i]]);
            continue;
        }
        if (id < 0 && h->unknown < 0)
            return lx_fail(err, LX_ERR_INVALID, NULL, "the vocabulary has no token for U+%04X",
                           (unsigned)c);
        if (n_unknown > 0 && (id >= 0 || !h->fuse_unknown)) {
            lx_word_add(w, h->unknown);
            n_unknown = 0;
        }
        if (id >= 0)
            lx_word_add(w, id);
        else
            n_unknown = 1;
    }
    if (n_unknown > 0)
        lx_word_add(w, h->unknown);
    return LX_OK;
}

/* --- Unigram --- */

/* Characters that are no piece, as one text: its token, its bytes or the unknown token. */
static void add_unknown(const lx_hugging_face *h, const char *text, size_t n, lx_token_list *out)
{
    int32_t id = lx_texts_find(&h->names, text, n);
    if (id >= 0 && h->base.specials[id] == 0)
        lx_token_list_add(out, id);
    else if (!has_bytes(h, text, n))
        lx_token_list_add(out, h->unknown);
    else
        for (size_t i = 0; i < n; i++)
            lx_token_list_add(out, h->byte_ids[(unsigned char)text[i]]);
}

static lx_status unigram_word(run *r, const char *text, size_t n, lx_error *err)
{
    const lx_hugging_face *h = r->h;
    const lx_lattice *l = &r->lattice;
    lx_status st =
        lx_unigram_apply(&h->unigram, h->base.specials, h->unknown, text, n, &r->lattice, err);
    for (int32_t at = l->first, start = 0; st == LX_OK && at >= 0; at = l->nodes[at].link) {
        int32_t id = l->nodes[at].id, next = l->nodes[at].link;
        if (id != h->unknown)
            lx_token_list_add(r->out, id);
        else if (next >= 0 && l->nodes[next].id == id)
            continue; /* neighbours that are unknown are one text */
        else
            add_unknown(h, text + start, (size_t)(at - start), r->out);
        start = at;
    }
    return st;
}

/* --- encoding --- */

static lx_status list_status(const lx_token_list *out)
{
    return out->status == LX_OK ? LX_OK : LX_ERR_CANCELLED; /* lx_tokenizer_encode says why */
}

/* --- words --- */

static lx_status encode_word(void *to, const char *text, size_t n, lx_error *err)
{
    run *r = to;
    const lx_hugging_face *h = r->h;
    bool byte_level = h->base.family == &lx_byte_level_family;
    int32_t whole = -1;
    if (h->base.family == &lx_unigram_family) {
        lx_status st = unigram_word(r, text, n, err);
        return st == LX_OK ? list_status(r->out) : st;
    }
    if (h->ignore_merges)
        whole = byte_level ? byte_level_find(h, text, n) : lx_texts_find(&h->names, text, n);
    if (whole >= 0) {
        lx_token_list_add(r->out, whole);
        return list_status(r->out);
    }
    lx_word_begin(&r->word);
    lx_status st = (byte_level ? byte_level_symbols : fallback_symbols)(h, text, n, &r->word, err);
    if (st != LX_OK)
        return st;
    lx_bpe_apply(&h->bpe, &r->word);
    if (r->word.status != LX_OK)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a word of %zu bytes", n);
    for (size_t i = 0; i < r->word.n; i++)
        if (r->word.symbols[i].id >= 0)
            lx_token_list_add(r->out, r->word.symbols[i].id);
    return list_status(r->out);
}

/* --- texts --- */

/* `marks` as those of a walk (added.h). */
static lx_status encode_normalized(run *r, const char *text, const char *marks, size_t n,
                                   bool at_start)
{
    lx_added_span span;
    lx_status st = LX_OK;
    lx_added_walk walk = {.text = text, .marks = marks, .n = n};
    walk.plain_specials = (r->flags & LX_ENCODE_PLAIN_SPECIALS) != 0;
    while (st == LX_OK && lx_added_next(&r->h->added_normalized, &walk, &span)) {
        if (span.id < 0)
            st = lx_split(&r->split, text + span.start, span.end - span.start,
                          at_start && span.start == 0);
        else
            lx_token_list_add(r->out, span.id);
    }
    return st == LX_OK ? list_status(r->out) : st;
}

static lx_status normalize(run *r, const char *text, size_t n, const char **out, size_t *n_out)
{
    return lx_normalize(&r->h->normalizer, text, n, &r->normalize, out, n_out, r->err);
}

/* Normalizes text[n] into r->text, with its marks: piece by piece, of characters that are all ours
   or all a client's, because a normalizer does not say where a character went. */
static lx_status normalize_pieces(run *r, const char *text, const char *marks, size_t n)
{
    const char *piece;
    size_t n_piece;
    lx_status st = LX_OK;
    r->text.length = r->text_marks.length = 0;
    for (size_t at = 0, end = 0; st == LX_OK && at < n; at = end) {
        for (end = at + 1; end < n && (marks[end] == marks[at] || (text[end] & 0xc0) == 0x80);)
            end++;
        r->normalize.begins_inside = at > 0;
        r->normalize.ends_inside = end < n;
        st = normalize(r, text + at, end - at, &piece, &n_piece);
        if (st != LX_OK)
            break;
        size_t done = r->text_marks.length;
        lx_buffer_append(&r->text, piece, n_piece);
        lx_buffer_append(&r->text_marks, piece, n_piece);
        if (r->text_marks.status == LX_OK && n_piece > 0)
            memset(r->text_marks.data + done, marks[at], n_piece);
        else if (r->text_marks.status != LX_OK)
            st = lx_fail(r->err, r->text_marks.status, NULL, "the normalized text: %s",
                         lx_status_text(r->text_marks.status));
    }
    r->normalize.begins_inside = r->normalize.ends_inside = false;
    return st;
}

/* Text between the added tokens that are found before the normalizer. */
static lx_status encode_span(run *r, const char *text, const char *marks, size_t n, bool at_start)
{
    const char *normalized;
    size_t n_normalized;
    lx_status st;
    if (r->h->normalizes_specials && marks != NULL && memchr(marks, 1, n) != NULL) {
        st = normalize_pieces(r, text, marks, n);
        return st == LX_OK ? encode_normalized(r, r->text.data, r->text_marks.data, r->text.length,
                                               at_start)
                           : st;
    }
    st = normalize(r, text, n, &normalized, &n_normalized);
    return st == LX_OK ? encode_normalized(r, normalized, NULL, n_normalized, at_start) : st;
}

static lx_status encode_text(run *r, const char *text, size_t n)
{
    lx_added_span span;
    lx_status st = LX_OK;
    lx_added_walk walk = {.text = text, .marks = r->marks, .n = n};
    walk.plain_specials = (r->flags & LX_ENCODE_PLAIN_SPECIALS) != 0;
    while (st == LX_OK && lx_added_next(&r->h->added_raw, &walk, &span)) {
        if (span.id >= 0)
            lx_token_list_add(r->out, span.id);
        else
            st = encode_span(r, text + span.start, r->marks != NULL ? r->marks + span.start : NULL,
                             span.end - span.start, span.start == 0);
    }
    return st == LX_OK ? list_status(r->out) : st;
}

static void add_template(const lx_template *t, unsigned flags, lx_token_list *out)
{
    for (int32_t i = 0; (flags & LX_ENCODE_TEMPLATE) != 0 && i < t->n; i++)
        lx_token_list_add(out, t->ids[i]);
}

static lx_status hugging_face_encode(const lx_tokenizer *t, const char *text, const char *marks,
                                     size_t n, unsigned flags, lx_token_list *out, lx_error *err)
{
    const lx_hugging_face *h = (const lx_hugging_face *)t;
    run r = {.h = h, .out = out, .marks = marks, .flags = flags, .err = err};
    r.split = (lx_split_run){.splitter = &h->splitter, .piece = encode_word, .err = err};
    r.split.to = &r;
    size_t max = GROWTH * (size_t)LX_TOKENIZER_MAX_TEXT;
    lx_normalize_run_init(&r.normalize, max);
    lx_buffer_init(&r.text, max);
    lx_buffer_init(&r.text_marks, max);
    for (int i = 0; i < LX_SPLIT_MAX_STAGES; i++)
        lx_buffer_init(&r.split.texts[i], max);
    lx_status st = lx_regex_run_new(n, &r.split.regex_run, err);
    r.normalize.regex = r.split.regex_run;
    add_template(&h->before, flags, out);
    if (st == LX_OK)
        st = encode_text(&r, text, n);
    add_template(&h->behind, flags, out);
    lx_regex_run_free(r.split.regex_run);
    lx_word_fini(&r.word);
    lx_lattice_fini(&r.lattice);
    lx_normalize_run_fini(&r.normalize);
    lx_buffer_fini(&r.text);
    lx_buffer_fini(&r.text_marks);
    for (int i = 0; i < LX_SPLIT_MAX_STAGES; i++)
        lx_buffer_fini(&r.split.texts[i]);
    return st == LX_ERR_CANCELLED ? LX_OK : st;
}

/* --- the rest of a family --- */

static int32_t hugging_face_find(const lx_tokenizer *t, const char *name)
{
    const lx_hugging_face *h = (const lx_hugging_face *)t;
    int32_t id = lx_texts_find(&h->added_names, name, strlen(name));
    return id >= 0 ? id : lx_texts_find(&h->names, name, strlen(name));
}

const lx_added_token *lx_hugging_face_added(const lx_tokenizer *t, int32_t id)
{
    const lx_hugging_face *h = (const lx_hugging_face *)t;
    if (t->family->find != hugging_face_find)
        return NULL;
    const lx_added *lists[] = {&h->added_raw, &h->added_normalized};
    for (int i = 0; i < 2; i++) {
        for (int32_t k = 0; k < lists[i]->n; k++) {
            if (lists[i]->tokens[k].id == id)
                return &lists[i]->tokens[k];
        }
    }
    return NULL;
}

bool lx_hugging_face_is_gpt2(const lx_tokenizer *t)
{
    const lx_splitter *s = &((const lx_hugging_face *)t)->splitter;
    return t->family == &lx_byte_level_family && s->n_stages == 1 && s->stages[0].mark[0] == '\0';
}

static const char *hugging_face_first(const lx_tokenizer *t, int32_t id, size_t *n)
{
    const lx_hugging_face *h = (const lx_hugging_face *)t;
    return lx_texts_get(h->first_without_marks ? &h->first_pieces : &t->pieces, id, n);
}

static void hugging_face_fini(lx_tokenizer *t)
{
    lx_hugging_face *h = (lx_hugging_face *)t;
    lx_texts_fini(&h->names);
    lx_texts_fini(&h->added_names);
    lx_texts_fini(&h->added_texts);
    lx_texts_fini(&h->first_pieces);
    lx_added_fini(&h->added_raw);
    lx_added_fini(&h->added_normalized);
    lx_normalizer_fini(&h->normalizer);
    lx_splitter_fini(&h->splitter);
    lx_bpe_fini(&h->bpe);
    lx_unigram_fini(&h->unigram);
}

const lx_tokenizer_family lx_byte_level_family = {.name = "byte-level",
                                                  .encode = hugging_face_encode,
                                                  .find = hugging_face_find,
                                                  .fini = hugging_face_fini};
const lx_tokenizer_family lx_fallback_family = {.name = "fallback",
                                                .encode = hugging_face_encode,
                                                .find = hugging_face_find,
                                                .first = hugging_face_first,
                                                .fini = hugging_face_fini};
const lx_tokenizer_family lx_unigram_family = {.name = "unigram",
                                               .encode = hugging_face_encode,
                                               .find = hugging_face_find,
                                               .first = hugging_face_first,
                                               .fini = hugging_face_fini};
