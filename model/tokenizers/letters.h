/* Byte-level BPE writes bytes as letters: the code point of a byte, all below 0x180. */
#ifndef LINNET_MODEL_TOKENIZERS_LETTERS_H
#define LINNET_MODEL_TOKENIZERS_LETTERS_H

#include <stdint.h>

uint32_t lx_byte_letter(unsigned char byte);
/* The byte of a letter, -1 for another character. */
int lx_letter_byte(uint32_t codepoint);

#endif
