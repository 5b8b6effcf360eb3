/* What kinds of characters the couplet task tells apart. Thread: any. */
#ifndef LINNET_MODEL_COUPLET_CHARS_H
#define LINNET_MODEL_COUPLET_CHARS_H

#include <stdbool.h>
#include <stdint.h>

bool lx_couplet_is_punctuation(uint32_t codepoint);
bool lx_couplet_is_space(uint32_t codepoint);
/* White space that no line ends with. */
bool lx_couplet_is_blank(uint32_t codepoint);
bool lx_couplet_is_control(uint32_t codepoint);
/* Characters without a picture of their own: joiners, direction marks, variation selectors. */
bool lx_couplet_is_invisible(uint32_t codepoint);
bool lx_couplet_is_han(uint32_t codepoint);
/* ASCII , ; : ? ! as their full-width forms, everything else as it is. */
uint32_t lx_couplet_widen(uint32_t codepoint);

#endif
