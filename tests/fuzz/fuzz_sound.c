/* Sound files: an accepted sound is within its limits, reads the same twice, and gives finite
   features. */
#include <math.h>
#include <string.h>

#include "model/formats/sound.h"
#include "model/mel.h"
#include "tests/fuzz/subject.h"

enum { RATE = 8000, MOST = 4000, ROWS = 20, WIDTH = 600 };

static void expect_features(const lx_sound *s)
{
    static float rows[ROWS * WIDTH];
    lx_mel *m = NULL;
    MUST(lx_mel_new(&(lx_mel_config){RATE, 200, 80, 40, 20, 3, 7}, &m, NULL) == LX_OK);
    int32_t n = lx_mel_rows(m, s->n);
    MUST(n >= 0 && n <= ROWS && lx_mel_width(m) == WIDTH);
    if (n > 0)
        MUST(lx_mel_compute(m, s->samples, s->n, rows, NULL) == LX_OK);
    for (int32_t i = 0; i < n * WIDTH; i++)
        MUST(isfinite(rows[i]));
    lx_mel_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    lx_sound_limits limits = {RATE, MOST};
    lx_sound s, again;
    lx_error err = {0};
    lx_status st = lx_sound_read(data, n, &limits, "file", &s, &err);
    if (st != LX_OK) {
        subject_check_error(st, &err);
        return 0;
    }
    MUST(s.n >= 1 && s.n <= MOST);
    for (int32_t i = 0; i < s.n; i++)
        MUST(s.samples[i] >= -1 && s.samples[i] <= 1);
    MUST(lx_sound_read(data, n, &limits, "file", &again, &err) == LX_OK);
    MUST(again.n == s.n);
    MUST(memcmp(again.samples, s.samples, sizeof *s.samples * (size_t)s.n) == 0);
    expect_features(&s);
    lx_sound_fini(&again);
    lx_sound_fini(&s);
    return 0;
}
