#include "tests/support/sound_file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sndfile.h>

#include "tests/support/scratch.h"

enum { ROOM = 1 << 22 };

static const double TURN = 6.283185307179586;

static sf_count_t made_length(void *context)
{
    return ((sound_file_bytes *)context)->n;
}

static sf_count_t made_seek(sf_count_t offset, int whence, void *context)
{
    sound_file_bytes *m = context;
    m->at = offset + (whence == SEEK_SET ? 0 : whence == SEEK_CUR ? m->at : m->n);
    return m->at;
}

static sf_count_t made_read(void *to, sf_count_t n, void *context)
{
    sound_file_bytes *m = context;
    n = n < m->n - m->at ? n : m->n - m->at;
    memcpy(to, m->bytes + m->at, (size_t)n);
    m->at += n;
    return n;
}

static sf_count_t made_write(const void *from, sf_count_t n, void *context)
{
    sound_file_bytes *m = context;
    assert_true(m->at + n <= ROOM);
    memcpy(m->bytes + m->at, from, (size_t)n);
    m->at += n;
    m->n = m->n > m->at ? m->n : m->at;
    return n;
}

static sf_count_t made_tell(void *context)
{
    return ((sound_file_bytes *)context)->at;
}

sound_file_bytes sound_file;

int sound_file_new(void **state)
{
    (void)state;
    sound_file.bytes = malloc(ROOM);
    return sound_file.bytes == NULL ? -1 : 0;
}

int sound_file_free(void **state)
{
    (void)state;
    free(sound_file.bytes);
    return 0;
}

void sound_file_make(int format, int rate, int channels, int64_t n, double hertz)
{
    SF_VIRTUAL_IO calls = {made_length, made_seek, made_read, made_write, made_tell};
    SF_INFO info = {.samplerate = rate, .channels = channels, .format = format};
    sound_file.n = sound_file.at = 0;
    SNDFILE *f = sf_open_virtual(&calls, SFM_WRITE, &info, &sound_file);
    assert_non_null(f);
    for (int64_t i = 0; i < n; i++) {
        float frame[16];
        for (int c = 0; c < channels; c++)
            frame[c] = (float)((c == 1 ? 0.25 : 0.5) * sin(TURN * hertz * (double)i / rate));
        assert_int_equal(sf_writef_float(f, frame, 1), 1);
    }
    assert_int_equal(sf_close(f), 0);
}

lx_status sound_file_load(lx_sound *s, lx_error *err)
{
    return lx_sound_read(sound_file.bytes, (size_t)sound_file.n,
                         &(lx_sound_limits){SOUND_FILE_RATE, SOUND_FILE_MOST}, "file", s, err);
}

void sound_file_must_load(lx_sound *s)
{
    lx_error err = {0};
    if (sound_file_load(s, &err) != LX_OK)
        fail_msg("%s", err.text);
}

void sound_file_refused(const char *part)
{
    lx_sound s = {.n = 77};
    lx_error err = {0};
    lx_status st = sound_file_load(&s, &err);
    scratch_expect(st, &err, LX_ERR_INVALID, part);
    assert_string_equal(err.param, "file");
    assert_int_equal(s.n, 77);
}
