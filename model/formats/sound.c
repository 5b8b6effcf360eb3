/*
 * Sound files (see sound.h). Of the many kinds that libsndfile opens those are let through whose
 * readers are common and simple; the first bytes decide before the library sees a file.
 */
#include "model/formats/sound.h"

#include "model/formats/ogg.h"

#include <math.h>
#include <samplerate.h>
#include <sndfile.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096, RIFF_HEAD = 12, STREAMED = 0x7fff0000 };

/* The file as the library reads it. */
typedef struct bytes_of_file {
    const uint8_t *data;
    sf_count_t n, at;
} bytes_of_file;

typedef struct reader {
    const lx_sound_limits *limits;
    const char *param;
    bytes_of_file file;
    SNDFILE *sndfile;
    SF_INFO info;
    SRC_STATE *resampler; /* NULL where the rates are one */
    float *block;         /* [BLOCK, channels] */
    float *samples;       /* [n_samples + 1] */
    int64_t n;
} reader;

/* --- the library's view of the bytes --- */

static sf_count_t file_length(void *context)
{
    const bytes_of_file *f = context;
    return f->n;
}

static sf_count_t file_seek(sf_count_t offset, int whence, void *context)
{
    bytes_of_file *f = context;
    sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? f->at : f->n;
    if (offset < -base || offset > f->n - base)
        return -1;
    f->at = base + offset;
    return f->at;
}

static sf_count_t file_read(void *to, sf_count_t count, void *context)
{
    bytes_of_file *f = context;
    sf_count_t n = count < f->n - f->at ? count : f->n - f->at;
    if (n <= 0)
        return 0;
    memcpy(to, f->data + f->at, (size_t)n);
    f->at += n;
    return n;
}

static sf_count_t file_tell(void *context)
{
    const bytes_of_file *f = context;
    return f->at;
}

/* --- what is let through --- */

static uint32_t little_endian(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static const char *kind_of(const uint8_t *p, size_t n)
{
    if (n >= RIFF_HEAD && memcmp(p, "RIFF", 4) == 0 && memcmp(p + 8, "WAVE", 4) == 0)
        return "WAV";
    if (n >= 4 && memcmp(p, "fLaC", 4) == 0)
        return "FLAC";
    return n >= 4 && memcmp(p, "OggS", 4) == 0 ? "Ogg" : NULL;
}

/* A WAV file that ends before its size says so: the library would take what is there. Writers of
   streams, who do not know it, write nothing or the largest size. */
static bool is_cut(const uint8_t *p, size_t n)
{
    uint32_t size = little_endian(p + 4);
    return size < STREAMED && size > n - 8;
}

/* The library is shown no other stream than these two, none whose beginning it would keep, and
   none that has it make room for what is not there. */
static lx_status check_ogg(const reader *r, lx_error *err)
{
    const uint8_t *data = r->file.data;
    size_t n = (size_t)r->file.n;
    lx_ogg_head head = lx_ogg_head_of(data, n);
    if (head == LX_OGG_OTHER)
        return lx_fail(err, LX_ERR_INVALID, r->param, "the Ogg file's coding is not read");
    if (head == LX_OGG_DAMAGED || lx_ogg_goes_back(data, n))
        return lx_fail(err, LX_ERR_INVALID, r->param, "the Ogg file is damaged");
    return LX_OK;
}

static bool is_read(int format)
{
    int coding = format & SF_FORMAT_SUBMASK;
    switch (format & SF_FORMAT_TYPEMASK) {
    case SF_FORMAT_WAV:
    case SF_FORMAT_WAVEX:
        return coding == SF_FORMAT_PCM_U8 || coding == SF_FORMAT_PCM_16 ||
               coding == SF_FORMAT_PCM_24 || coding == SF_FORMAT_PCM_32 ||
               coding == SF_FORMAT_FLOAT || coding == SF_FORMAT_DOUBLE ||
               coding == SF_FORMAT_ULAW || coding == SF_FORMAT_ALAW;
    case SF_FORMAT_FLAC:
        return true;
    case SF_FORMAT_OGG:
        return coding == SF_FORMAT_VORBIS || coding == SF_FORMAT_OPUS;
    default:
        return false;
    }
}

static lx_status fail_long(const reader *r, lx_error *err)
{
    return lx_fail(err, LX_ERR_INVALID, r->param, "the sound is longer than %.1f s",
                   (double)r->limits->n_samples / r->limits->rate);
}

static lx_status check_info(const reader *r, const char *kind, lx_error *err)
{
    const SF_INFO *i = &r->info;
    if (!is_read(i->format))
        return lx_fail(err, LX_ERR_INVALID, r->param, "the %s file's coding is not read", kind);
    if (i->channels < 1 || i->channels > LX_SOUND_MAX_CHANNELS)
        return lx_fail(err, LX_ERR_INVALID, r->param, "the sound has %d channels, not 1 or 2",
                       i->channels);
    if (i->samplerate < LX_SOUND_MIN_RATE || i->samplerate > LX_SOUND_MAX_RATE)
        return lx_fail(err, LX_ERR_INVALID, r->param,
                       "the sound has %d samples a second, not %d to %d", i->samplerate,
                       LX_SOUND_MIN_RATE, LX_SOUND_MAX_RATE);
    /* One that was streamed does not know its length, and is stopped when it has been too long. */
    double claimed = (double)i->frames / i->samplerate * r->limits->rate;
    if (i->frames < SF_COUNT_MAX && claimed > r->limits->n_samples + 1.0)
        return fail_long(r, err);
    return LX_OK;
}

static lx_status open_file(reader *r, lx_error *err)
{
    const char *kind = kind_of(r->file.data, (size_t)r->file.n);
    if (kind == NULL)
        return lx_fail(err, LX_ERR_INVALID, r->param, "this is no WAV, FLAC or Ogg file");
    if (kind[0] == 'W' && is_cut(r->file.data, (size_t)r->file.n))
        return lx_fail(err, LX_ERR_INVALID, r->param, "the WAV file is cut");
    lx_status st = kind[0] == 'O' ? check_ogg(r, err) : LX_OK;
    if (st != LX_OK)
        return st;
    SF_VIRTUAL_IO calls = {
        .get_filelen = file_length, .seek = file_seek, .read = file_read, .tell = file_tell};
    r->sndfile = sf_open_virtual(&calls, SFM_READ, &r->info, &r->file);
    if (r->sndfile == NULL)
        return lx_fail(err, LX_ERR_INVALID, r->param, "the %s file is damaged", kind);
    return check_info(r, kind, err);
}

/* --- samples --- */

static lx_status prepare(reader *r, lx_error *err)
{
    int failed = 0;
    r->block = malloc(sizeof *r->block * BLOCK * (size_t)r->info.channels);
    r->samples = malloc(sizeof *r->samples * ((size_t)r->limits->n_samples + 1));
    if (r->info.samplerate != r->limits->rate)
        r->resampler = src_new(SRC_SINC_MEDIUM_QUALITY, 1, &failed);
    if (r->block == NULL || r->samples == NULL || failed != 0)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a sound");
    return LX_OK;
}

static float clip(float x)
{
    return fminf(fmaxf(x, -1), 1);
}

/* The block's frames become one channel, in its place. */
static lx_status mix(const reader *r, int64_t frames, lx_error *err)
{
    int channels = r->info.channels;
    for (int64_t i = 0; i < frames; i++) {
        const float *frame = r->block + i * channels;
        float x = channels == 1 ? frame[0] : 0.5f * (frame[0] + frame[1]);
        if (!isfinite(x))
            return lx_fail(err, LX_ERR_INVALID, r->param, "a sample of the sound is no number");
        r->block[i] = clip(x);
    }
    return LX_OK;
}

static lx_status take_as_it_is(reader *r, int64_t frames, lx_error *err)
{
    if (frames > r->limits->n_samples - r->n)
        return fail_long(r, err);
    memcpy(r->samples + r->n, r->block, sizeof *r->samples * (size_t)frames);
    r->n += frames;
    return LX_OK;
}

/* frames 0: the last call, for what the resampler has kept. */
static lx_status resample(reader *r, int64_t frames, lx_error *err)
{
    SRC_DATA d = {.data_in = r->block,
                  .input_frames = (long)frames,
                  .src_ratio = (double)r->limits->rate / r->info.samplerate,
                  .end_of_input = frames == 0};
    do {
        d.data_out = r->samples + r->n;
        d.output_frames = (long)(r->limits->n_samples + 1 - r->n);
        int failed = src_process(r->resampler, &d);
        if (failed != 0)
            return lx_fail(err, LX_ERR_INTERNAL, r->param, "resampling: %s", src_strerror(failed));
        for (long i = 0; i < d.output_frames_gen; i++)
            d.data_out[i] = clip(d.data_out[i]); /* between two samples a wave may go higher */
        r->n += d.output_frames_gen;
        if (r->n > r->limits->n_samples)
            return fail_long(r, err);
        d.data_in += d.input_frames_used;
        d.input_frames -= d.input_frames_used;
    } while (d.input_frames > 0 || (frames == 0 && d.output_frames_gen > 0));
    return LX_OK;
}

static lx_status decode(reader *r, lx_error *err)
{
    int64_t decoded = 0, frames;
    lx_status st = LX_OK;
    while (st == LX_OK && (frames = sf_readf_float(r->sndfile, r->block, BLOCK)) > 0) {
        decoded += frames;
        st = mix(r, frames, err);
        if (st == LX_OK)
            st = r->resampler != NULL ? resample(r, frames, err) : take_as_it_is(r, frames, err);
    }
    if (st != LX_OK)
        return st;
    if (sf_error(r->sndfile) != SF_ERR_NO_ERROR ||
        (r->info.frames < SF_COUNT_MAX && decoded < r->info.frames))
        return lx_fail(err, LX_ERR_INVALID, r->param, "the sound is damaged or cut after %.1f s",
                       (double)decoded / r->info.samplerate);
    if (r->resampler != NULL && decoded > 0)
        st = resample(r, 0, err);
    if (st == LX_OK && r->n == 0)
        return lx_fail(err, LX_ERR_INVALID, r->param, "the sound is empty");
    return st;
}

lx_status lx_sound_read(const void *data, size_t bytes, const lx_sound_limits *limits,
                        const char *param, lx_sound *out, lx_error *err)
{
    reader r = {.limits = limits, .param = param, .file = {.data = data, .n = (sf_count_t)bytes}};
    lx_status st = open_file(&r, err);
    if (st == LX_OK)
        st = prepare(&r, err);
    if (st == LX_OK)
        st = decode(&r, err);
    if (st == LX_OK)
        *out = (lx_sound){.n = (int32_t)r.n, .samples = r.samples};
    else
        free(r.samples);
    free(r.block);
    if (r.resampler != NULL)
        src_delete(r.resampler);
    if (r.sndfile != NULL)
        sf_close(r.sndfile);
    return st;
}

void lx_sound_fini(lx_sound *s)
{
    free(s->samples);
    *s = (lx_sound){0};
}
