/* Traditional Chinese characters and what simplified Chinese writes for them. Thread: any. */
#ifndef LINNET_MODEL_TRADITIONAL_H
#define LINNET_MODEL_TRADITIONAL_H

#include <stdint.h>

/* The simplified form of a traditional character, by OpenCC's table; any other character itself,
   and one that both scripts have with several meanings, such as 乾. */
uint32_t lx_simplified(uint32_t codepoint);

#endif
