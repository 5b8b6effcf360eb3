/*
 * A table of characters and their replacements, as SentencePiece compiles its normalization rules
 * (the normalizer Precompiled of tokenizer.json). Its bytes are
 *
 *     u32 size of the trie; the trie, a double array of u32 (darts-clone); texts, each with a NUL
 *
 * where all numbers are little-endian. The trie leads from a text to the place of its replacement.
 *
 * A cluster of characters (extended grapheme cluster of Unicode) of at most 5 bytes is replaced as
 * a whole by the replacement of its shortest beginning in the table. Without one, and in longer
 * clusters, the table is asked for each character. This is the rule of the `tokenizers` library.
 *
 * A table that leads out of its bounds, or to a text that is not UTF-8, replaces nothing there.
 * Thread: a table never changes.
 */
#ifndef LINNET_MODEL_TOKENIZERS_CHARSMAP_H
#define LINNET_MODEL_TOKENIZERS_CHARSMAP_H

#include <stdint.h>

#include "common/buffer.h"

typedef struct lx_charsmap lx_charsmap;

/* Takes bytes[n], which malloc made, also when it fails. LX_ERR_FORMAT. */
lx_status lx_charsmap_new(uint8_t *bytes, size_t n, lx_charsmap **out, lx_error *err) LX_MUST_USE;
void lx_charsmap_free(lx_charsmap *m); /* NULL is allowed */

/* Appends text[n], UTF-8, with its replacements. */
void lx_charsmap_replace(const lx_charsmap *m, const char *text, size_t n, lx_buffer *out);

#endif
