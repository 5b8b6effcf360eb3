/*
 * The fields `normalizer` and `pre_tokenizer` (see parts.h). Digits and Punctuation are
 * expressions. Steps after ByteLevel see the letters that it writes for bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "model/tokenizers/json/parts.h"
#include "model/tokenizers/unicode.h"

/* --- the normalizer --- */

/* A copy of text[n] with a NUL after it. */
static char *copy(lx_json_reader *r, const char *text, size_t n)
{
    char *out = malloc(n + 1);
    if (out == NULL) {
        lx_json_keep(r, lx_fail(r->err, LX_ERR_NO_MEMORY, NULL, "no memory for a normalizer"));
        return NULL;
    }
    memcpy(out, text, n);
    out[n] = '\0';
    return out;
}

/* The next step, NULL when there are too many. */
static lx_normalize_step *next_step(lx_json_reader *r, const lx_json_part *p, lx_normalizer *out)
{
    if (out->n_steps == LX_NORMALIZE_MAX_STEPS)
        lx_json_wrong(r, p, NULL, "is one step too many");
    return r->st == LX_OK ? &out->steps[out->n_steps++] : NULL;
}

void lx_json_replace(lx_json_reader *r, const lx_json_part *p, lx_normalizer *out)
{
    bool is_regex;
    size_t n_pattern, n_content;
    lx_json_keys(r, p, "type|pattern|content");
    const char *pattern = lx_json_pattern(r, p, &n_pattern, &is_regex);
    const char *content = lx_json_text(r, p, "content", &n_content);
    lx_normalize_step *s = next_step(r, p, out);
    if (s == NULL)
        return;
    *s = (lx_normalize_step){.kind = LX_NORMALIZE_REPLACE,
                             .pattern = copy(r, pattern, n_pattern),
                             .content = copy(r, content, n_content),
                             .n_pattern = n_pattern,
                             .n_content = n_content};
    out->has_regex = out->has_regex || is_regex;
    out->drops_start = out->drops_start || n_content == 0;
    if (is_regex && r->st == LX_OK)
        lx_json_keep(r, lx_regex_new(pattern, n_pattern, false, p->path, &s->regex, r->err));
}

static void prepend(lx_json_reader *r, const lx_json_part *p, lx_normalizer *out)
{
    size_t n;
    lx_json_keys(r, p, "type|prepend");
    const char *text = lx_json_text(r, p, "prepend", &n);
    lx_normalize_step *s = next_step(r, p, out);
    if (s != NULL)
        *s = (lx_normalize_step){
            .kind = LX_NORMALIZE_PREPEND, .content = copy(r, text, n), .n_content = n};
}

/* SentencePiece's compiled rules, in base64. */
static void charsmap(lx_json_reader *r, const lx_json_part *p, lx_normalize_step *s)
{
    uint8_t *bytes = NULL;
    size_t n = 0;
    const json_t *value = json_object_get(p->object, "precompiled_charsmap");
    if (!json_is_string(value)) {
        lx_json_wrong(r, p, "precompiled_charsmap", "must be a text");
        return;
    }
    lx_status st = lx_base64_decode(json_string_value(value), json_string_length(value),
                                    "precompiled_charsmap", &bytes, &n, r->err);
    if (st == LX_ERR_INVALID)
        lx_json_wrong(r, p, "precompiled_charsmap", "must be base64");
    lx_json_keep(r, st);
    if (r->st == LX_OK)
        lx_json_keep(r, lx_charsmap_new(bytes, n, &s->charsmap, r->err));
}

static void read_step(lx_json_reader *r, const lx_json_part *p, lx_normalizer *out)
{
    static const lx_normalize_kind kinds[] = {
        LX_NORMALIZE_PREPEND,       LX_NORMALIZE_REPLACE,   LX_NORMALIZE_STRIP,
        LX_NORMALIZE_STRIP_ACCENTS, LX_NORMALIZE_LOWERCASE, LX_NORMALIZE_CHARSMAP,
        LX_NORMALIZE_NFC,           LX_NORMALIZE_NFD,       LX_NORMALIZE_NFKC,
        LX_NORMALIZE_NFKD,
    };
    lx_normalize_kind kind = kinds[lx_json_word(
        r, p, "type",
        "Prepend|Replace|Strip|StripAccents|Lowercase|Precompiled|NFC|NFD|NFKC|NFKD")];
    if (r->st != LX_OK)
        return;
    if (kind == LX_NORMALIZE_PREPEND) {
        prepend(r, p, out);
    } else if (kind == LX_NORMALIZE_REPLACE) {
        lx_json_replace(r, p, out);
    } else {
        lx_json_keep(r, lx_unicode_check("normalizer", r->err));
        lx_json_keys(r, p, "type|strip_left|strip_right|precompiled_charsmap");
        lx_normalize_step *s = next_step(r, p, out);
        if (s == NULL)
            return;
        *s = (lx_normalize_step){.kind = kind,
                                 .left = lx_json_bool(r, p, "strip_left", false),
                                 .right = lx_json_bool(r, p, "strip_right", false)};
        out->drops_start = out->drops_start || s->left || kind == LX_NORMALIZE_STRIP_ACCENTS;
        if (kind == LX_NORMALIZE_CHARSMAP)
            charsmap(r, p, s);
    }
}

void lx_json_normalizer(lx_json_reader *r, const lx_json_part *root, lx_hugging_face *h)
{
    lx_json_part p = lx_json_below(r, root, "normalizer");
    const char *type = json_string_value(json_object_get(p.object, "type"));
    if (r->st != LX_OK || p.object == NULL)
        return;
    if (type == NULL || strcmp(type, "Sequence") != 0) {
        read_step(r, &p, &h->normalizer);
        return;
    }
    lx_json_keys(r, &p, "type|normalizers");
    size_t n = lx_json_count(r, &p, "normalizers", LX_NORMALIZE_MAX_STEPS);
    for (size_t i = 0; i < n && r->st == LX_OK; i++) {
        lx_json_part entry = lx_json_entry(r, &p, "normalizers", i);
        read_step(r, &entry, &h->normalizer);
    }
}

/* --- the pre-tokenizer --- */

/* The expression by which ByteLevel splits when it is to split (GPT-2's). */
#define GPT2_PATTERN                                                                               \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define DIGITS_PATTERN "\\p{N}"
#define PUNCTUATION_PATTERN "[!-/:-@\\[-`{-~\\p{P}]"
/* \w of Rust's expressions, which these stages are written in. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}"
#define WORDS_PATTERN "[" WORD "]+|[^" WORD "\\s]+"
#define BEHAVIORS "Removed|Isolated|MergedWithPrevious|MergedWithNext|Contiguous"

static void set_regex(lx_json_reader *r, const lx_json_part *p, lx_split_stage *s,
                      const char *pattern, size_t n, bool literal)
{
    if (r->st == LX_OK)
        lx_json_keep(r, lx_regex_new(pattern, n, literal, p->path, &s->regex, r->err));
}

static lx_split_behavior behavior(lx_json_reader *r, const lx_json_part *p)
{
    static const lx_split_behavior behaviors[] = {LX_SPLIT_REMOVED, LX_SPLIT_ISOLATED,
                                                  LX_SPLIT_MERGED_WITH_PREVIOUS,
                                                  LX_SPLIT_MERGED_WITH_NEXT, LX_SPLIT_CONTIGUOUS};
    return behaviors[lx_json_word(r, p, "behavior", BEHAVIORS)];
}

static void split(lx_json_reader *r, const lx_json_part *p, lx_split_stage *s)
{
    size_t n;
    bool is_regex;
    lx_json_keys(r, p, "type|pattern|behavior|invert");
    const char *pattern = lx_json_pattern(r, p, &n, &is_regex);
    s->behavior = behavior(r, p);
    s->invert = lx_json_bool(r, p, "invert", false);
    set_regex(r, p, s, pattern, n, !is_regex);
}

static void byte_level(lx_json_reader *r, const lx_json_part *p, lx_split_stage *s)
{
    lx_json_keys(r, p, "type|add_prefix_space|trim_offsets|use_regex");
    if (lx_json_bool(r, p, "add_prefix_space", true)) {
        s->mark[0] = ' ';
        s->prepend = LX_PREPEND_ALWAYS;
    }
    s->behavior = LX_SPLIT_ISOLATED;
    if (lx_json_bool(r, p, "use_regex", true))
        set_regex(r, p, s, GPT2_PATTERN, strlen(GPT2_PATTERN), false);
}

/* Older files say add_prefix_space, newer ones prepend_scheme. */
static void metaspace(lx_json_reader *r, const lx_json_part *p, lx_split_stage *s)
{
    static const lx_prepend_scheme schemes[] = {LX_PREPEND_ALWAYS, LX_PREPEND_FIRST,
                                                LX_PREPEND_NEVER};
    lx_json_keys(r, p, "type|replacement|prepend_scheme|split|add_prefix_space|str_rep");
    lx_json_character(r, p, "replacement", s->mark);
    bool has_scheme = json_object_get(p->object, "prepend_scheme") != NULL;
    s->prepend = LX_PREPEND_ALWAYS;
    if (has_scheme)
        s->prepend = schemes[lx_json_word(r, p, "prepend_scheme", "always|first|never")];
    if (!lx_json_bool(r, p, "add_prefix_space", true)) {
        if (has_scheme && s->prepend != LX_PREPEND_NEVER)
            lx_json_wrong(r, p, "add_prefix_space", "does not agree with prepend_scheme");
        s->prepend = LX_PREPEND_NEVER;
    }
    s->replaces_blanks = true;
    s->behavior = LX_SPLIT_MERGED_WITH_NEXT;
    if (lx_json_bool(r, p, "split", true))
        set_regex(r, p, s, s->mark, strlen(s->mark), true);
}

static void digits(lx_json_reader *r, const lx_json_part *p, lx_split_stage *s)
{
    lx_json_keys(r, p, "type|individual_digits");
    bool single = lx_json_bool(r, p, "individual_digits", false);
    s->behavior = single ? LX_SPLIT_ISOLATED : LX_SPLIT_CONTIGUOUS;
    set_regex(r, p, s, DIGITS_PATTERN, strlen(DIGITS_PATTERN), false);
}

static void punctuation(lx_json_reader *r, const lx_json_part *p, lx_split_stage *s)
{
    lx_json_keys(r, p, "type|behavior");
    s->behavior = behavior(r, p);
    set_regex(r, p, s, PUNCTUATION_PATTERN, strlen(PUNCTUATION_PATTERN), false);
}

/* Words and runs of other characters, without the white space between them. */
static void whitespace(lx_json_reader *r, const lx_json_part *p, lx_split_stage *s)
{
    lx_json_keys(r, p, "type");
    s->behavior = LX_SPLIT_REMOVED;
    s->invert = true;
    set_regex(r, p, s, WORDS_PATTERN, strlen(WORDS_PATTERN), false);
}

static void whitespace_split(lx_json_reader *r, const lx_json_part *p, lx_split_stage *s)
{
    lx_json_keys(r, p, "type");
    s->behavior = LX_SPLIT_REMOVED;
    set_regex(r, p, s, "\\s", 2, false);
}

/* One stage; *of_bytes says whether ByteLevel was there. */
static void read_stage(lx_json_reader *r, const lx_json_part *p, lx_splitter *out, bool *of_bytes)
{
    static void (*const readers[])(lx_json_reader *, const lx_json_part *, lx_split_stage *) = {
        split, digits, punctuation, whitespace, whitespace_split, byte_level, metaspace};
    enum { BYTE_LEVEL = 5 };
    int which = lx_json_word(r, p, "type",
                             "Split|Digits|Punctuation|Whitespace|WhitespaceSplit|ByteLevel|"
                             "Metaspace");
    if (*of_bytes && which >= BYTE_LEVEL)
        lx_json_refuse(r, p, NULL, "ByteLevel or Metaspace after ByteLevel");
    if (r->st != LX_OK)
        return;
    lx_split_stage *s = &out->stages[out->n_stages++];
    *s = (lx_split_stage){.behavior = LX_SPLIT_ISOLATED,
                          .writes_letters = *of_bytes && !out->gives_letters};
    out->gives_letters = *of_bytes;
    *of_bytes = *of_bytes || which == BYTE_LEVEL;
    readers[which](r, p, s);
}

/* For the library a text whose first characters were left out does not begin there. */
static void check_first(lx_json_reader *r, const lx_json_part *p, const lx_hugging_face *h)
{
    for (int i = 0; i < h->splitter.n_stages && h->normalizer.drops_start; i++)
        if (h->splitter.stages[i].prepend == LX_PREPEND_FIRST)
            lx_json_refuse(r, p, "prepend_scheme", "first after a normalizer that leaves out text");
}

bool lx_json_pre_tokenizer(lx_json_reader *r, const lx_json_part *root, lx_hugging_face *h)
{
    lx_json_part p = lx_json_below(r, root, "pre_tokenizer");
    const char *type = json_string_value(json_object_get(p.object, "type"));
    bool of_bytes = false;
    if (r->st != LX_OK || p.object == NULL)
        return false;
    if (type == NULL || strcmp(type, "Sequence") != 0) {
        read_stage(r, &p, &h->splitter, &of_bytes);
        check_first(r, &p, h);
        return of_bytes;
    }
    lx_json_keys(r, &p, "type|pretokenizers");
    size_t n = lx_json_count(r, &p, "pretokenizers", LX_SPLIT_MAX_STAGES);
    for (size_t i = 0; i < n && r->st == LX_OK; i++) {
        lx_json_part entry = lx_json_entry(r, &p, "pretokenizers", i);
        if (r->st == LX_OK)
            read_stage(r, &entry, &h->splitter, &of_bytes);
    }
    check_first(r, &p, h);
    return of_bytes;
}
