/*
 * Sound files (see sound.h). Of the many kinds that libsndfile opens those are let through whose
 * readers are common and simple; the first bytes decide before the library sees a file.
 */
#include "model/formats/sound.h"

#include "model/formats/flac.h"
#include "model/formats/halve.h"
#include "model/formats/ogg.h"
#include "model/formats/wav.h"

#include <math.h>
#include <samplerate.h>
#include <sndfile.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* LEAST_OVER: a rate is halved, and again, while it stays so many times the one that is wanted,
   since a resampler's work grows with the samples that go in. */
enum { BLOCK = LX_HALVE_MOST, RIFF_HEAD = 12, SIZE = 4, MOST_LINKS = 32, LEAST_OVER = 3 };

/* The file as the library reads it: with other bytes for sizes that may be wrong. */
typedef struct bytes_of_file {
    const uint8_t *data;
    sf_count_t n, at;
    struct {
        size_t at; /* 0: none */
        uint8_t bytes[SIZE];
    } sizes[2];
} bytes_of_file;

typedef struct reader {
    const lx_sound_limits *limits;
    const char *param;
    bytes_of_file file;
    SNDFILE *sndfile;
    SF_INFO info;
    SRC_STATE *resampler; /* NULL where the rates are one */
    lx_halver *halvers;   /* [n_halvers] */
    int n_halvers, rate;  /* that comes out of them */
    float *block;         /* [BLOCK, channels], and room for the samples that a halver keeps */
    float *samples;       /* [n_samples + 1] */
    int64_t n;
    int64_t weight; /* see lx_sound_weigh */
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
    for (int i = 0; i < 2 * SIZE; i++) {
        sf_count_t at = (sf_count_t)f->sizes[i / SIZE].at + i % SIZE;
        if (f->sizes[i / SIZE].at > 0 && at >= f->at && at < f->at + n)
            ((uint8_t *)to)[at - f->at] = f->sizes[i / SIZE].bytes[i % SIZE];
    }
    f->at += n;
    return n;
}

static sf_count_t file_tell(void *context)
{
    const bytes_of_file *f = context;
    return f->at;
}

/* --- the files that pass --- */

static const char *kind_of(const uint8_t *p, size_t n)
{
    if (n >= RIFF_HEAD && memcmp(p, "RIFF", 4) == 0 && memcmp(p + 8, "WAVE", 4) == 0)
        return "WAV";
    if (n >= 4 && memcmp(p, "fLaC", 4) == 0)
        return "FLAC";
    return n >= 4 && memcmp(p, "OggS", 4) == 0 ? "Ogg" : NULL;
}

/* The common kinds that are not read. An MP3 has neither a length nor sums, so one that is cut or
   damaged would pass; the library reads no MP4 and no WebM. */
static const char *other_kind_of(const uint8_t *p, size_t n)
{
    if (n >= 3 && (memcmp(p, "ID3", 3) == 0 || (p[0] == 0xff && p[1] >= 0xe0)))
        return "MP3";
    if (n >= 8 && memcmp(p + 4, "ftyp", 4) == 0)
        return "MP4";
    return n >= 4 && memcmp(p, "\x1a\x45\xdf\xa3", 4) == 0 ? "WebM" : NULL;
}

static lx_status fail_kind(const reader *r, lx_error *err)
{
    const char *other = other_kind_of(r->file.data, (size_t)r->file.n);
    if (other == NULL)
        return lx_fail(err, LX_ERR_INVALID, r->param, "this is no WAV, FLAC or Ogg file");
    return lx_fail(err, LX_ERR_INVALID, r->param,
                   "%s files are not read; convert the sound to WAV, FLAC or Ogg", other);
}

static void correct(bytes_of_file *f, int i, size_t at, uint32_t size)
{
    f->sizes[i].at = at;
    for (int b = 0; b < SIZE; b++)
        f->sizes[i].bytes[b] = (uint8_t)(size >> 8 * b);
}

/* A file that ends before its samples is refused: the library would take the part that is there. */
static lx_status check_wav(reader *r, lx_error *err)
{
    lx_wav_sizes s = lx_wav_measure(r->file.data, (size_t)r->file.n);
    if (s.cut)
        return lx_fail(err, LX_ERR_INVALID, r->param, "the WAV file is cut");
    if (s.followed)
        return lx_fail(err, LX_ERR_INVALID, r->param,
                       "other data follows the WAV file's samples; only Ogg files may have several "
                       "sounds");
    correct(&r->file, 0, SIZE, s.riff);
    correct(&r->file, 1, s.data_at, s.data);
    return LX_OK;
}

/* The library would stop at the number of samples that the head promises; with 0 it reads on. */
static void hide_count(bytes_of_file *f)
{
    const uint8_t *p = f->data + LX_FLAC_COUNT_AT - 3; /* SIZE bytes to the one that is shared */
    if (f->n < LX_FLAC_COUNT_AT + LX_FLAC_COUNT_BYTES)
        return;
    uint32_t shared = p[3] & ~(uint32_t)LX_FLAC_COUNT_MASK;
    correct(f, 0, LX_FLAC_COUNT_AT - 3,
            shared << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0]);
    correct(f, 1, LX_FLAC_COUNT_AT + 1, 0);
}

/* The library is shown no other stream than these two, none whose beginning it would keep, and none
 * that makes it allocate room for missing data. */
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
                       "the sound has %d samples per second, not %d to %d", i->samplerate,
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
        return fail_kind(r, err);
    lx_status st = kind[0] == 'W' ? check_wav(r, err) : kind[0] == 'O' ? check_ogg(r, err) : LX_OK;
    if (st != LX_OK)
        return st;
    int64_t claims = kind[0] == 'F' ? lx_flac_claims(r->file.data, (size_t)r->file.n) : 0;
    if (kind[0] == 'F')
        hide_count(&r->file);
    SF_VIRTUAL_IO calls = {
        .get_filelen = file_length, .seek = file_seek, .read = file_read, .tell = file_tell};
    r->sndfile = sf_open_virtual(&calls, SFM_READ, &r->info, &r->file);
    if (r->sndfile == NULL)
        return lx_fail(err, LX_ERR_INVALID, r->param, "the %s file is damaged", kind);
    if (claims > 0)
        r->info.frames = claims;
    return check_info(r, kind, err);
}

/* --- samples --- */

static lx_status prepare(reader *r, lx_error *err)
{
    int failed = 0;
    r->rate = r->info.samplerate;
    for (; r->rate % 2 == 0 && r->rate / 2 >= LEAST_OVER * r->limits->rate; r->n_halvers++)
        r->rate /= 2;
    r->block = malloc(sizeof *r->block * (BLOCK + 1) * (size_t)r->info.channels);
    if (r->samples == NULL)
        r->samples = malloc(sizeof *r->samples * ((size_t)r->limits->n_samples + 1));
    if (r->n_halvers > 0)
        r->halvers = calloc((size_t)r->n_halvers, sizeof *r->halvers);
    if (r->rate != r->limits->rate)
        r->resampler = src_new(SRC_SINC_MEDIUM_QUALITY, 1, &failed);
    if (r->block == NULL || r->samples == NULL || failed != 0 ||
        (r->n_halvers > 0 && r->halvers == NULL))
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

/* frames 0: the last call, for the samples that the resampler has kept. */
static lx_status resample(reader *r, int64_t frames, lx_error *err)
{
    SRC_DATA d = {.data_in = r->block,
                  .input_frames = (long)frames,
                  .src_ratio = (double)r->limits->rate / r->rate,
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

/* The block's frames, through halver i and those after it. frames 0: the end of the sound. */
static lx_status convert(reader *r, int i, int64_t frames, lx_error *err)
{
    bool end = frames == 0;
    lx_status st = LX_OK;
    for (; i < r->n_halvers && st == LX_OK; i++) {
        frames = lx_halve(&r->halvers[i], r->block, frames);
        if (frames == 0 && !end)
            return LX_OK; /* none is complete yet */
        if (end && frames > 0)
            st = convert(r, i + 1, frames,
                         err); /* the samples that this one had kept, before the next's end */
        frames = end ? 0 : frames;
    }
    if (st != LX_OK || r->resampler == NULL)
        return st == LX_OK ? take_as_it_is(r, frames, err) : st;
    return resample(r, frames, err);
}

static lx_status decode(reader *r, lx_error *err)
{
    int64_t decoded = 0, frames;
    lx_status st = LX_OK;
    while (st == LX_OK && (frames = sf_readf_float(r->sndfile, r->block, BLOCK)) > 0) {
        decoded += frames;
        st = mix(r, frames, err);
        if (st == LX_OK)
            st = convert(r, 0, frames, err);
    }
    if (st != LX_OK)
        return st;
    bool flac = (r->info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC;
    if (sf_error(r->sndfile) != SF_ERR_NO_ERROR ||
        (r->info.frames < SF_COUNT_MAX && decoded != r->info.frames) ||
        (flac && !lx_flac_is_whole(r->file.data, (size_t)r->file.n)))
        return lx_fail(err, LX_ERR_INVALID, r->param, "the sound is damaged or cut after %.1f s%s",
                       (double)decoded / r->info.samplerate,
                       flac ? ", or other data follows it" : "");
    return decoded > 0 ? convert(r, 0, 0, err) : LX_OK;
}

/* One file, or one of the streams that follow each other in an Ogg file. */
static lx_status read_stream(reader *r, lx_error *err)
{
    r->n_halvers = 0;
    lx_status st = open_file(r, err);
    if (st == LX_OK)
        st = prepare(r, err);
    if (st == LX_OK)
        st = decode(r, err);
    free(r->block);
    free(r->halvers);
    if (r->resampler != NULL)
        src_delete(r->resampler);
    if (r->sndfile != NULL)
        sf_close(r->sndfile);
    r->block = NULL;
    r->halvers = NULL;
    r->resampler = NULL;
    r->sndfile = NULL;
    return st;
}

/* Like read_stream, without decoding. */
static lx_status weigh_stream(reader *r, lx_error *err)
{
    lx_status st = open_file(r, err);
    double most = (double)r->limits->n_samples / r->limits->rate * r->info.samplerate;
    double frames = (double)r->info.frames;
    if (st == LX_OK)
        r->weight += (int64_t)(frames < most ? frames : most) * r->info.channels;
    if (r->sndfile != NULL)
        sf_close(r->sndfile);
    r->sndfile = NULL;
    return st;
}

static lx_status each_stream(reader *r, const uint8_t *data, size_t bytes,
                             lx_status (*act)(reader *r, lx_error *err), lx_error *err)
{
    lx_status st = LX_OK;
    size_t n = 0;
    for (int links = 0; st == LX_OK && n < bytes; links++) {
        const char *kind = kind_of(data + n, bytes - n);
        size_t own = kind != NULL && kind[0] == 'O' ? lx_ogg_link(data + n, bytes - n) : bytes - n;
        if (own == 0)
            return lx_fail(err, LX_ERR_INVALID, r->param, "the Ogg file is damaged");
        if (links == MOST_LINKS)
            return lx_fail(err, LX_ERR_INVALID, r->param,
                           "the Ogg file has more than %d streams that follow each other",
                           MOST_LINKS);
        r->info = (SF_INFO){0};
        r->file = (bytes_of_file){.data = data + n, .n = (sf_count_t)own};
        st = act(r, err);
        n += own;
    }
    return st;
}

lx_status lx_sound_read(const void *data, size_t bytes, const lx_sound_limits *limits,
                        const char *param, lx_sound *out, lx_error *err)
{
    reader r = {.limits = limits, .param = param};
    lx_status st = bytes > 0 ? each_stream(&r, data, bytes, read_stream, err) : open_file(&r, err);
    if (st == LX_OK && r.n == 0)
        st = lx_fail(err, LX_ERR_INVALID, param, "the sound is empty");
    if (st == LX_OK)
        *out = (lx_sound){.n = (int32_t)r.n, .samples = r.samples};
    else
        free(r.samples);
    return st;
}

void lx_sound_fini(lx_sound *s)
{
    free(s->samples);
    *s = (lx_sound){0};
}

lx_status lx_sound_weigh(const void *data, size_t bytes, const lx_sound_limits *limits,
                         const char *param, int64_t *samples, lx_error *err)
{
    reader r = {.limits = limits, .param = param};
    lx_status st = each_stream(&r, data, bytes, weigh_stream, err);
    *samples = r.weight;
    return st;
}
