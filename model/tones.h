/* Level (平) and oblique (仄) tones of Chinese characters, by Unicode's table of readings. Thread:
 * any. */
#ifndef LINNET_MODEL_TONES_H
#define LINNET_MODEL_TONES_H

#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"

/* BOTH: the character has readings of both kinds, or its modern reading differs from its classical
   one. UNKNOWN: it is no Chinese character, or the table has no reading of it. */
typedef enum lx_tone { LX_TONE_UNKNOWN, LX_TONE_LEVEL, LX_TONE_OBLIQUE, LX_TONE_BOTH } lx_tone;

lx_tone lx_tone_of(uint32_t codepoint);

/* Appends a mark per character of valid UTF-8: 平 level, 仄 oblique, 中 both. A character without a
   known tone, such as punctuation, stands for itself. */
void lx_tones_write(const char *text, size_t bytes, lx_buffer *out);

#endif
