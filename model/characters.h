/* Kinds of characters, by their code points. Thread: any. */
#ifndef LINNET_MODEL_CHARACTERS_H
#define LINNET_MODEL_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool lx_char_is_punctuation(uint32_t codepoint);
bool lx_char_is_space(uint32_t codepoint);
/* White space that no line ends with. */
bool lx_char_is_blank(uint32_t codepoint);
bool lx_char_is_control(uint32_t codepoint);
/* Characters without a picture of their own: joiners, direction marks, variation selectors. */
bool lx_char_is_invisible(uint32_t codepoint);
bool lx_char_is_han(uint32_t codepoint);
/* White space that Python's str.strip() takes: that above, and four separators among the controls.
   False for -1, a malformed character. */
bool lx_char_is_stripped(int32_t codepoint);
/* UTF-8 text[*n] without such white space around it. */
const char *lx_char_strip(const char *text, size_t *n);
/* ASCII , ; : ? ! as their full-width forms, everything else as it is. */
uint32_t lx_char_widen(uint32_t codepoint);

/* The simplified form of a traditional character, by OpenCC's table, and today's form of an old
   form such as 遶, by Unihan. Any other character is its own form. So is a character that both
   scripts have with several meanings, such as 乾. */
uint32_t lx_simplified(uint32_t codepoint);

#endif
