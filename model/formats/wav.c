/* The sizes in a WAV file (see wav.h). */
#include "model/formats/wav.h"

#include <string.h>

/* UNKNOWN: from here on a size stands for one that the writer did not know. */
enum { FIRST_CHUNK = 12, CHUNK_HEAD = 8, UNKNOWN = 0x7fff0000 };

static uint32_t size_at(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static bool is_name(const uint8_t *p)
{
    for (int i = 0; i < 4; i++)
        if (p[i] < 0x20 || p[i] > 0x7e)
            return false;
    return true;
}

/* The position after the chunk at `at`, whose size may be odd; `bytes` at most. */
static size_t after_chunk(const uint8_t *file, size_t bytes, size_t at)
{
    uint64_t size = size_at(file + at + 4), end = at + CHUNK_HEAD + size + (size & 1);
    return end < bytes ? (size_t)end : bytes;
}

/* Whether the file's rest is whole chunks, so that an empty data chunk before them is true. */
static bool are_chunks(const uint8_t *file, size_t bytes, size_t at)
{
    while (at + CHUNK_HEAD <= bytes && is_name(file + at)) {
        uint64_t size = size_at(file + at + 4);
        if (size > bytes - at - CHUNK_HEAD)
            return false;
        at = after_chunk(file, bytes, at);
    }
    return at == bytes;
}

static bool begins_sound(const uint8_t *p)
{
    static const char names[][5] = {"data", "RIFF", "RIFX", "RF64", "OggS", "fLaC"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (memcmp(p, names[i], 4) == 0)
            return true;
    return false;
}

/* Whether other bytes than metadata and zeros follow the data chunk that ends before `at`. */
static bool is_followed(const uint8_t *file, size_t bytes, size_t at)
{
    while (bytes - at >= CHUNK_HEAD && is_name(file + at) && !begins_sound(file + at))
        at = after_chunk(file, bytes, at);
    while (at < bytes && file[at] == 0)
        at++;
    return bytes - at >= CHUNK_HEAD;
}

static void measure_data(const uint8_t *file, size_t bytes, size_t at, lx_wav_sizes *s)
{
    uint32_t size = size_at(file + at + 4);
    size_t rest = bytes - at - CHUNK_HEAD;
    bool unknown = size >= UNKNOWN || (size == 0 && !are_chunks(file, bytes, at + CHUNK_HEAD));
    s->data_at = at + 4;
    s->data = unknown ? (uint32_t)rest : size;
    s->cut = !unknown && size > rest;
    s->followed = !unknown && is_followed(file, bytes, after_chunk(file, bytes, at));
}

lx_wav_sizes lx_wav_measure(const uint8_t *file, size_t bytes)
{
    lx_wav_sizes s = {.riff = (uint32_t)(bytes - CHUNK_HEAD)};
    for (size_t at = FIRST_CHUNK; at + CHUNK_HEAD <= bytes; at = after_chunk(file, bytes, at)) {
        if (memcmp(file + at, "data", 4) != 0)
            continue;
        measure_data(file, bytes, at, &s);
        break;
    }
    return s;
}
