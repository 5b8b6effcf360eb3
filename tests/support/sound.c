#include "tests/support/sound.h"

#include "tests/support/scratch.h"

void sound_open(const char *folder, lx_backend **be, lx_model **model)
{
    lx_error err = {0};
    const lx_backend_options options = {.n_threads = 1};
    must(lx_backend_open("cpu", &options, be, &err), &err);
    must(lx_model_load(folder, model, &err), &err);
}

static void put(uint8_t *at, uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static void put_name(uint8_t *at, const char *name)
{
    for (; *name != '\0'; name++)
        *at++ = (uint8_t)*name;
}

size_t sound_write(uint8_t *file, const int16_t *samples, int32_t n)
{
    uint32_t bytes = 2 * (uint32_t)n;
    put_name(file, "RIFF    WAVEfmt ");
    put(file + 4, 36 + bytes, 4);
    put(file + 16, 16, 4);
    put(file + 20, 1, 2);
    put(file + 22, 1, 2);
    put(file + 24, SOUND_RATE, 4);
    put(file + 28, 2 * SOUND_RATE, 4);
    put(file + 32, 2, 2);
    put(file + 34, 16, 2);
    put_name(file + 36, "data");
    put(file + 40, bytes, 4);
    for (int32_t i = 0; i < n; i++)
        put(file + SOUND_HEAD + 2 * (size_t)i, (uint16_t)samples[i], 2);
    return SOUND_HEAD + bytes;
}
