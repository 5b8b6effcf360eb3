/*
 * Regular expressions of tokenizer.json, found from left to right in a text.
 *
 * They are written for Oniguruma, and PCRE2 runs them. Syntax that both read alike is passed on.
 * \s, \w and \b are written as the properties that they stand for. Other syntax that the two
 * libraries read differently, or that only one has (\h, most sets in sets, anchors, back
 * references,
 * ...), is refused while loading. A match is never empty: an expression that can match nothing is
 * refused too.
 *
 * Thread: an lx_regex never changes; an lx_regex_run is one thread's.
 */
#ifndef LINNET_MODEL_TOKENIZERS_REGEX_H
#define LINNET_MODEL_TOKENIZERS_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

typedef struct lx_regex lx_regex;
typedef struct lx_regex_run lx_regex_run;

enum { LX_REGEX_MAX_PATTERN = 4096 }; /* bytes */

/* Compiles; `literal`: the pattern is the text itself. LX_ERR_UNSUPPORTED, LX_ERR_FORMAT. `field`
   is named in errors. */
lx_status lx_regex_new(const char *pattern, size_t n, bool literal, const char *field,
                       lx_regex **out, lx_error *err) LX_MUST_USE;
void lx_regex_free(lx_regex *r); /* NULL is allowed */

/* Memory for matching, any expression, one thread. It also bounds the processor's time that all
   finds in a text of n bytes may take together. An expression can be quadratic in its text: a find
   that is cheap by itself may look at all the rest of the text each time. */
lx_status lx_regex_run_new(size_t n, lx_regex_run **out, lx_error *err) LX_MUST_USE;
void lx_regex_run_free(lx_regex_run *run); /* NULL is allowed */

/*
 * The first match in text[n], which is UTF-8, at `from` or after it: *start and *end, or both n
 * when there is none. Look-behind sees the text before `from`. LX_ERR_TOO_LARGE: the match
 * takes more steps or memory than it may, or the run has had its time.
 */
lx_status lx_regex_find(const lx_regex *r, lx_regex_run *run, const char *text, size_t n,
                        size_t from, size_t *start, size_t *end, lx_error *err) LX_MUST_USE;

#endif
