/* The field `model` (see parts.h): BPE's vocabulary and merges, Unigram's pieces and scores. */
#include <stdio.h>
#include <string.h>

#include "model/tokenizers/json/parts.h"
#include "model/tokenizers/letters.h"
#include "model/utf8.h"

#define MODEL_FIELDS                                                                               \
    "type|dropout|unk_token|continuing_subword_prefix|end_of_word_suffix|fuse_unk|byte_fallback|"  \
    "ignore_merges|vocab|merges"
#define UNIGRAM_FIELDS "type|unk_id|byte_fallback|vocab"

/* --- ids --- */

int32_t lx_json_highest_id(lx_json_reader *r, const lx_json_part *root)
{
    int64_t highest = 0;
    const char *key;
    json_t *value;
    size_t i;
    lx_json_part model = lx_json_below(r, root, "model");
    json_t *vocab = json_object_get(model.object, "vocab");
    if (json_array_size(vocab) > 0) /* Unigram's */
        highest = (int64_t)json_array_size(vocab) - 1;
    json_object_foreach(vocab, key, value)
    {
        if (json_integer_value(value) > highest)
            highest = json_integer_value(value);
    }
    json_array_foreach(json_object_get(root->object, "added_tokens"), i, value)
    {
        if (json_integer_value(json_object_get(value, "id")) > highest)
            highest = json_integer_value(json_object_get(value, "id"));
    }
    if (highest >= LX_TOKENIZER_MAX_IDS) {
        lx_json_wrong(r, &model, "vocab", "has an id that is too high");
        return 0;
    }
    return (int32_t)highest;
}

/* --- vocabulary --- */

static void token(lx_json_reader *r, const lx_json_part *p, const char *key, json_t *value,
                  lx_texts *names)
{
    size_t n = strlen(key), known;
    json_int_t id = json_integer_value(value);
    if (!json_is_integer(value) || id < 0 || id >= names->n)
        lx_json_wrong(r, p, "vocab", "has an entry whose id is no number from 0");
    else if (n > LX_TOKENIZER_MAX_TOKEN)
        lx_json_wrong(r, p, "vocab", "has a token of more than 1,024 bytes");
    else if (lx_texts_get(names, (int32_t)id, &known) != NULL)
        lx_json_wrong(r, p, "vocab", "gives two tokens the same id");
    else
        lx_json_keep(r, lx_texts_set(names, (int32_t)id, key, n, r->err));
}

static void vocabulary(lx_json_reader *r, const lx_json_part *p, lx_texts *names)
{
    const char *key;
    json_t *value, *vocab = json_object_get(p->object, "vocab");
    if (!json_is_object(vocab) || json_object_size(vocab) == 0)
        lx_json_wrong(r, p, "vocab", "must be an object with tokens");
    if (r->st != LX_OK)
        return;
    json_object_foreach(vocab, key, value)
    {
        token(r, p, key, value, names);
        if (r->st != LX_OK)
            return;
    }
    lx_json_keep(r, lx_texts_index(names, r->err));
}

/* --- merges --- */

/* The two halves of ["a", "b"] or "a b"; false when it is neither. */
static bool halves(json_t *merge, const char *at[2], size_t n[2])
{
    if (json_is_string(merge)) {
        size_t length = json_string_length(merge);
        const char *text = json_string_value(merge), *blank = memchr(text, ' ', length);
        if (blank == NULL || memchr(blank + 1, ' ', length - (size_t)(blank + 1 - text)) != NULL)
            return false;
        at[0] = text;
        n[0] = (size_t)(blank - text);
        at[1] = blank + 1;
        n[1] = length - n[0] - 1;
        return true;
    }
    for (size_t i = 0; i < 2; i++) {
        json_t *half = json_array_get(merge, i);
        if (!json_is_string(half))
            return false;
        at[i] = json_string_value(half);
        n[i] = json_string_length(half);
    }
    return json_array_size(merge) == 2;
}

static void merge(lx_json_reader *r, const lx_json_part *p, size_t rank, json_t *entry,
                  lx_hugging_face *h)
{
    char joined[2 * LX_TOKENIZER_MAX_TOKEN], where[64];
    const char *at[2];
    size_t n[2];
    (void)snprintf(where, sizeof where, "merges[%zu]", rank);
    if (!halves(entry, at, n)) {
        lx_json_wrong(r, p, where, "must be two tokens");
        return;
    }
    int32_t left = lx_texts_find(&h->names, at[0], n[0]);
    int32_t right = lx_texts_find(&h->names, at[1], n[1]);
    if (left < 0 || right < 0) {
        lx_json_wrong(r, p, where, "has a token that is not in vocab");
        return;
    }
    memcpy(joined, at[0], n[0]);
    memcpy(joined + n[0], at[1], n[1]);
    int32_t id = lx_texts_find(&h->names, joined, n[0] + n[1]);
    if (id < 0)
        lx_json_wrong(r, p, where, "makes a token that is not in vocab");
    else
        lx_bpe_add(&h->bpe, left, right, (int32_t)rank, id);
}

static void merges(lx_json_reader *r, const lx_json_part *p, lx_hugging_face *h)
{
    size_t n = lx_json_count(r, p, "merges", LX_TOKENIZER_MAX_MERGES);
    json_t *list = json_object_get(p->object, "merges");
    if (r->st == LX_OK)
        lx_json_keep(r, lx_bpe_init(&h->bpe, n, r->err));
    for (size_t i = 0; i < n && r->st == LX_OK; i++)
        merge(r, p, i, json_array_get(list, i), h);
}

/* --- the rest --- */

static void unknown(lx_json_reader *r, const lx_json_part *p, lx_hugging_face *h)
{
    size_t n = 0;
    json_t *value = json_object_get(p->object, "unk_token");
    const char *name = "";
    if (value != NULL && !json_is_null(value))
        name = lx_json_text(r, p, "unk_token", &n);
    h->unknown = n > 0 ? lx_texts_find(&h->names, name, n) : -1;
    if (n > 0 && h->unknown < 0)
        lx_json_wrong(r, p, "unk_token", "is not in vocab");
}

/* The tokens of single bytes. Bytes that UTF-8 never has need none. */
static void bytes(lx_json_reader *r, const lx_json_part *p, lx_hugging_face *h, bool byte_level)
{
    for (int byte = 0; byte < 256 && r->st == LX_OK; byte++) {
        char name[8];
        size_t n = byte_level ? lx_utf8_put(lx_byte_letter((unsigned char)byte), name)
                              : (size_t)snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        bool in_utf8 = byte < 0xc0 || (byte >= 0xc2 && byte <= 0xf4);
        h->byte_ids[byte] = lx_texts_find(&h->names, name, n);
        if (byte_level && in_utf8 && h->byte_ids[byte] < 0) {
            char what[64];
            (void)snprintf(what, sizeof what, "has no token for the byte 0x%02x", (unsigned)byte);
            lx_json_wrong(r, p, "vocab", what);
        }
    }
}

/* --- Unigram --- */

static void piece(lx_json_reader *r, const lx_json_part *p, int32_t id, const json_t *entry,
                  lx_hugging_face *h)
{
    char where[32], what[64];
    const json_t *text = json_array_get(entry, 0), *score = json_array_get(entry, 1);
    size_t n = json_string_length(text);
    (void)snprintf(where, sizeof where, "vocab[%d]", id);
    if (json_array_size(entry) != 2 || !json_is_string(text) || !json_is_number(score))
        lx_json_wrong(r, p, where, "must be a piece and its score");
    else if (n > LX_TOKENIZER_MAX_TOKEN)
        lx_json_wrong(r, p, where, "has more than 1,024 bytes");
    else
        lx_json_keep(r, lx_texts_set(&h->names, id, json_string_value(text), n, r->err));
    if (r->st != LX_OK)
        return;
    int32_t same =
        lx_unigram_add(&h->unigram, id, json_string_value(text), n, json_number_value(score));
    (void)snprintf(what, sizeof what, "is the same piece as vocab[%d]", same);
    if (same >= 0)
        lx_json_wrong(r, p, where, what);
}

static void pieces(lx_json_reader *r, const lx_json_part *p, lx_hugging_face *h)
{
    size_t n = lx_json_count(r, p, "vocab", LX_TOKENIZER_MAX_IDS), n_bytes = 0, i;
    json_t *entry, *vocab = json_object_get(p->object, "vocab");
    json_array_foreach(vocab, i, entry) n_bytes += json_string_length(json_array_get(entry, 0));
    if (r->st == LX_OK && n == 0)
        lx_json_wrong(r, p, "vocab", "must have pieces");
    if (r->st == LX_OK)
        lx_json_keep(r, lx_unigram_init(&h->unigram, h->names.n, n_bytes, r->err));
    for (i = 0; i < n && r->st == LX_OK; i++)
        piece(r, p, (int32_t)i, json_array_get(vocab, i), h);
    if (r->st == LX_OK)
        lx_json_keep(r, lx_texts_index(&h->names, r->err));
    const json_t *unknown = json_object_get(p->object, "unk_id");
    h->unknown = -1;
    if (r->st == LX_OK && unknown != NULL && !json_is_null(unknown))
        h->unknown = (int32_t)lx_json_int(r, p, "unk_id", 0, (int64_t)n - 1);
}

/* --- the model --- */

const lx_tokenizer_family *lx_json_family(lx_json_reader *r, const lx_json_part *root,
                                          bool of_bytes)
{
    lx_json_part p = lx_json_below(r, root, "model");
    bool unigram = json_object_get(p.object, "type") != NULL && /* the first files had none */
                   lx_json_word(r, &p, "type", "BPE|Unigram") == 1;
    if (unigram && of_bytes)
        lx_json_refuse(r, &p, "type", "Unigram after ByteLevel");
    return unigram ? &lx_unigram_family : of_bytes ? &lx_byte_level_family : &lx_fallback_family;
}

static void must_be_empty(lx_json_reader *r, const lx_json_part *p, const char *field)
{
    json_t *value = json_object_get(p->object, field);
    bool empty = value == NULL || json_is_null(value) ||
                 (json_is_string(value) && json_string_length(value) == 0) ||
                 (json_is_number(value) && json_number_value(value) == 0.0);
    if (!empty)
        lx_json_refuse(r, p, field, json_is_string(value) ? json_string_value(value) : "a value");
}

void lx_json_model(lx_json_reader *r, const lx_json_part *root, lx_hugging_face *h,
                   const lx_tokenizer_family *family)
{
    bool byte_level = family == &lx_byte_level_family;
    lx_json_part p = lx_json_below(r, root, "model");
    if (p.object == NULL)
        lx_json_wrong(r, root, "model", "is missing");
    h->byte_fallback = lx_json_bool(r, &p, "byte_fallback", false);
    if (family == &lx_unigram_family) {
        lx_json_keys(r, &p, UNIGRAM_FIELDS);
        pieces(r, &p, h);
        if (r->st == LX_OK)
            bytes(r, &p, h, false);
        return;
    }
    lx_json_keys(r, &p, MODEL_FIELDS);
    must_be_empty(r, &p, "dropout");
    must_be_empty(r, &p, "continuing_subword_prefix");
    must_be_empty(r, &p, "end_of_word_suffix");
    h->fuse_unknown = lx_json_bool(r, &p, "fuse_unk", false);
    h->ignore_merges = lx_json_bool(r, &p, "ignore_merges", false);
    vocabulary(r, &p, &h->names);
    if (r->st != LX_OK)
        return;
    unknown(r, &p, h);
    bytes(r, &p, h, byte_level);
    merges(r, &p, h);
}
