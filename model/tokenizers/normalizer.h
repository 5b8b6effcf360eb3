/*
 * Normalizers: changes of a text before it is cut. Steps in order: text put before it, text
 * replaced by other text, white space or marks left out, lower case, tables of characters, the
 * normal forms of Unicode.
 */
#ifndef LINNET_MODEL_TOKENIZERS_NORMALIZER_H
#define LINNET_MODEL_TOKENIZERS_NORMALIZER_H

#include "model/tokenizers/charsmap.h"
#include "model/tokenizers/regex.h"

typedef enum lx_normalize_kind {
    LX_NORMALIZE_PREPEND, /* `content`, unless the text is empty */
    LX_NORMALIZE_REPLACE, /* every `pattern` or match of `regex` by `content`, from the left */
    LX_NORMALIZE_STRIP,   /* white space at the sides that `left` and `right` name */
    LX_NORMALIZE_STRIP_ACCENTS, /* all marks */
    LX_NORMALIZE_LOWERCASE,
    LX_NORMALIZE_CHARSMAP,
    LX_NORMALIZE_NFC, /* from here on in the order of lx_unicode_form */
    LX_NORMALIZE_NFD,
    LX_NORMALIZE_NFKC,
    LX_NORMALIZE_NFKD,
} lx_normalize_kind;

typedef struct lx_normalize_step {
    lx_normalize_kind kind;
    char *pattern, *content; /* owned; NULL where the kind has none */
    size_t n_pattern, n_content;
    lx_regex *regex;       /* owned; NULL: `pattern` */
    lx_charsmap *charsmap; /* owned; NULL where the kind has none */
    bool left, right;
} lx_normalize_step;

enum { LX_NORMALIZE_MAX_STEPS = 16 };

typedef struct lx_normalizer {
    lx_normalize_step steps[LX_NORMALIZE_MAX_STEPS];
    int n_steps;
    bool has_regex;
    bool drops_start; /* a step may leave out the first characters of a text */
} lx_normalizer;

void lx_normalizer_fini(lx_normalizer *n);

/* Appends text[n] with every `pattern` replaced. */
void lx_replace_all(const char *text, size_t n, const lx_normalize_step *s, lx_buffer *out);

/* The memory of a run. */
typedef struct lx_normalize_run {
    lx_buffer buffers[2]; /* their maximum bounds the text */
    lx_regex_run *regex;  /* borrowed; needed with has_regex */
    /* The text is a piece, with more before or after it: nothing is put or left out there. */
    bool begins_inside, ends_inside;
} lx_normalize_run;

void lx_normalize_run_init(lx_normalize_run *run, size_t max);
void lx_normalize_run_fini(lx_normalize_run *run);

/* *out is text[n] or lies in one of the two buffers, whose content is lost. LX_ERR_TOO_LARGE: the
   text grows over the buffers' maximum, or an expression takes too long. */
lx_status lx_normalize(const lx_normalizer *nz, const char *text, size_t n, lx_normalize_run *run,
                       const char **out, size_t *n_out, lx_error *err) LX_MUST_USE;

#endif
