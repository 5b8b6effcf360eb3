/*
 * vocab.txt: one entry a line, line number = token id. Entries are single characters (one Unicode
 * code point in UTF-8) or specials written <name>. Every entry is there once. For the couplet task
 * <unk>, <s>, <sep> and <none> must be there.
 */
#ifndef LINNET_MODEL_VOCAB_H
#define LINNET_MODEL_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

typedef struct lx_vocab lx_vocab;

enum { LX_VOCAB_MAX_FILE = 16 << 20 };

lx_status lx_vocab_load(const char *path, lx_vocab **out, lx_error *err) LX_MUST_USE;
/* As lx_vocab_load, from a file's n bytes, one or more, which it takes and frees; label names it in
 * errors. */
lx_status lx_vocab_read(char *bytes, size_t n, const char *label, lx_vocab **out,
                        lx_error *err) LX_MUST_USE;
void lx_vocab_free(lx_vocab *v); /* NULL is allowed */
int32_t lx_vocab_size(const lx_vocab *v);
const char *lx_vocab_text(const lx_vocab *v, int32_t id);      /* UTF-8, NUL-terminated */
int32_t lx_vocab_char(const lx_vocab *v, uint32_t codepoint);  /* -1 when absent */
int32_t lx_vocab_special(const lx_vocab *v, const char *name); /* "<sep>"; -1 when absent */
int lx_vocab_is_special(const lx_vocab *v, int32_t id);
/* The code point of a character entry, 0 for a special. */
uint32_t lx_vocab_codepoint(const lx_vocab *v, int32_t id);

#endif
