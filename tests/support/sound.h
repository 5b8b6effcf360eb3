/*
 * Shared by tests of speech: a model that transcribes, and sounds. Every function fails the running
 * test when something goes wrong.
 */
#ifndef LINNET_TESTS_SUPPORT_SOUND_H
#define LINNET_TESTS_SUPPORT_SOUND_H

#include "model/model.h"

enum { SOUND_RATE = 8000, SOUND_HEAD = 44 }; /* samples per second; bytes before the samples */

/* The model of a folder on one thread of the cpu back end; the caller frees both. */
void sound_open(const char *folder, lx_backend **be, lx_model **model);
/* Writes a WAV file of one channel into `file`, SOUND_HEAD + 2 n bytes; returns that. */
size_t sound_write(uint8_t *file, const int16_t *samples, int32_t n);

#endif
