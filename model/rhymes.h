/*
 * A table of rhymes: rhymes.txt in the folder of a model of poems, or that of modern Mandarin. Each
 * line of the file is a group of characters that rhyme, in UTF-8; no character is in two groups.
 * Immutable once read; any thread may ask.
 */
#ifndef LINNET_MODEL_RHYMES_H
#define LINNET_MODEL_RHYMES_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "model/tokenizers/tokenizer.h"

enum { LX_MAX_RHYME_GROUPS = 64, LX_MAX_RHYMES_FILE = 1 << 18 };

typedef struct lx_rhymes lx_rhymes;

/* Reads the bytes of a file; `label` names it in errors. The tokens are those of t, which may go
   afterwards. The caller frees *out. */
lx_status lx_rhymes_read(const char *bytes, size_t n, const char *label, const lx_tokenizer *t,
                         lx_rhymes **out, lx_error *err) LX_MUST_USE;
/* Those of modern Mandarin: the 14 groups of 中华新韵, first for level tones, then for oblique
   tones, by the usual reading of each character. */
lx_status lx_rhymes_modern(const lx_tokenizer *t, lx_rhymes **out, lx_error *err) LX_MUST_USE;
void lx_rhymes_free(lx_rhymes *r); /* NULL is allowed */

int32_t lx_rhymes_groups(const lx_rhymes *r); /* 0 for NULL */
/* The group of the character that the token is, -1: it is none that is in a group. */
int32_t lx_rhymes_group(const lx_rhymes *r, int32_t token);

#endif
