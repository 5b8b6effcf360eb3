/*
 * A sound file in memory, as libsndfile writes it, and the reader's result. Every function fails
 * the running test when something goes wrong.
 */
#ifndef LINNET_TESTS_SUPPORT_SOUND_FILE_H
#define LINNET_TESTS_SUPPORT_SOUND_FILE_H

#include "model/formats/sound.h"

/* The rate that the reader returns, in samples per second, and its most samples. */
enum { SOUND_FILE_RATE = 8000, SOUND_FILE_MOST = 2 * SOUND_FILE_RATE };

typedef struct sound_file_bytes {
    uint8_t *bytes;
    int64_t n, at;
} sound_file_bytes;

/* The file; a test may change it. */
extern sound_file_bytes sound_file;

/* Set-up and tear-down of a group. */
int sound_file_new(void **state);
int sound_file_free(void **state);
/* n frames of a tone of `hertz` in a format of libsndfile; in the second channel, if any, it is
   half as loud. */
void sound_file_make(int format, int rate, int channels, int64_t n, double hertz);
lx_status sound_file_load(lx_sound *s, lx_error *err);
void sound_file_must_load(lx_sound *s);
/* It is refused with a text that has this part. */
void sound_file_refused(const char *part);

#endif
