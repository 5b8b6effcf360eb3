/*
 * Text from outside (paths, arguments, environment, configuration) as a terminal or a log may show
 * it. Control characters (C0, DEL, C1), the characters that change the direction of text, and bytes
 * that are no UTF-8 are written as escapes: \x1b, \u202e.
 */
#ifndef LINNET_COMMON_VISIBLE_H
#define LINNET_COMMON_VISIBLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/status.h"

/* One character of a text. */
typedef struct lx_character {
    size_t bytes;  /* 0: the first byte begins no well-formed UTF-8 */
    uint32_t code; /* the byte, if bytes is 0 */
    bool visible;  /* a terminal shows it, and does nothing else */
} lx_character;

lx_character lx_character_at(const char *text);

/* Prints one line, with its end: the text of fmt, escaped. At most 8 KiB of text. */
void lx_visible_line(FILE *out, const char *fmt, ...) LX_PRINTF(2, 3);

enum { LX_VISIBLE_BYTES = 8 }; /* the most that a character becomes, with its NUL */

/* The escape of a character that is not visible. Returns its bytes. */
size_t lx_visible_escape(lx_character c, char out[LX_VISIBLE_BYTES]);

#endif
