/* PNG: a picture that was read can be written and read again, unchanged. */
#include <stdlib.h>
#include <string.h>

#include "model/formats/png.h"
#include "tests/fuzz/subject.h"

enum { SIDE = 28, MAX_FILE = 1 << 20 };

static void expect_same_again(const lx_picture *p)
{
    lx_picture_limits limits = {SIDE, SIDE, p->n_channels};
    lx_buffer file;
    lx_picture again;
    lx_error err = {0};
    lx_buffer_init(&file, MAX_FILE);
    MUST(lx_png_write(p->values, p->width, p->height, p->n_channels, &file, &err) == LX_OK);
    MUST(lx_png_read(file.data, file.length, &limits, "image", &again, &err) == LX_OK);
    MUST(again.width == p->width && again.height == p->height && again.alpha == NULL);
    MUST(memcmp(again.values, p->values, (size_t)(p->width * p->height * p->n_channels)) == 0);
    lx_picture_fini(&again);
    lx_buffer_fini(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    for (int32_t n_channels = 1; n_channels <= 3; n_channels += 2) {
        lx_picture_limits limits = {SIDE, SIDE, n_channels};
        lx_picture p;
        lx_error err = {0};
        lx_status st = lx_png_read(data, n, &limits, "image", &p, &err);
        if (st != LX_OK) {
            subject_check_error(st, &err);
            continue;
        }
        MUST(p.width >= 1 && p.width <= SIDE && p.height >= 1 && p.height <= SIDE);
        MUST(p.n_channels == n_channels);
        unsigned sum = 0;
        for (int32_t i = 0; p.alpha != NULL && i < p.width * p.height; i++)
            sum += p.alpha[i];
        MUST(sum <= 255u * SIDE * SIDE);
        expect_same_again(&p);
        lx_picture_fini(&p);
    }
    return 0;
}
