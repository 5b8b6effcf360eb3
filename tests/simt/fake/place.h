/* Whose memory an address is in, for the fake runtime's own files and for the race checker. */
#ifndef LINNET_TESTS_FAKE_PLACE_H
#define LINNET_TESTS_FAKE_PLACE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
enum simt_place { SIMT_PAGEABLE, SIMT_PINNED, SIMT_DEVICE };
/* The place of n_bytes; ends the test when they begin in an allocation and end after it. */
enum simt_place simt_place_of(const void *p, size_t n_bytes);
#ifdef __cplusplus
}
#endif
#endif
