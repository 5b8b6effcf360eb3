/*
 * Kept states of prompts as bytes. The CRC is set right first, because no other input would get
 * past it. Only bytes that the writer would write are accepted, and damage of any byte is found.
 */
#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "server/states/prefix_blob.h"
#include "tests/fuzz/subject.h"

enum { ROWS = 130, WIDTH = 2, FIXED = 5, PAGE = 2, FLOATS = 11, CRC_BYTES = 4 };

static const int32_t ids[ROWS * WIDTH] = {1, 2, 3, 4, 5, 6};
static const lx_prefix_sizes sizes = {FIXED, PAGE};
static const lx_prefix_name name = {
    .maker = "m", .width = WIDTH, .key = {.ids = ids, .n_rows = ROWS}};

static void check_accepted(const uint8_t *bytes, size_t n, int32_t base, const float *state)
{
    size_t own = lx_prefix_floats(&sizes, base, ROWS), pages = own - FIXED;
    lx_error err = {0};
    float other[FLOATS];
    int32_t other_base;
    uint8_t *again = malloc(n);
    MUST(again != NULL && base < ROWS && n == lx_prefix_blob_bytes(&name, own));
    memcpy(again + lx_prefix_blob_head(&name), state, FIXED * sizeof *state);
    memcpy(again + lx_prefix_blob_head(&name) + FIXED * sizeof *state, state + FLOATS - pages,
           pages * sizeof *state);
    lx_prefix_blob_fill(&name, base, own, again);
    MUST(memcmp(again, bytes, n) == 0);
    for (size_t i = 0; i < n; i++) {
        again[i] ^= (uint8_t)(1 + i % 255);
        MUST(lx_prefix_blob_read(&name, &sizes, -1, again, n, other, &other_base, &err) ==
             LX_ERR_FORMAT);
        again[i] = bytes[i];
    }
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    lx_error err = {0};
    float *state = malloc(FLOATS * sizeof *state);
    uint8_t *bytes = malloc(n > 0 ? n : 1); /* exact size */
    MUST(bytes != NULL && state != NULL);
    memcpy(bytes, data, n);
    if (n >= CRC_BYTES) {
        uint32_t crc = lx_crc32c(0, bytes, n - CRC_BYTES);
        memcpy(bytes + n - CRC_BYTES, &crc, sizeof crc);
    }
    int32_t base = 0;
    lx_status st = lx_prefix_blob_read(&name, &sizes, -1, bytes, n, state, &base, &err);
    if (st == LX_OK)
        check_accepted(bytes, n, base, state);
    else
        MUST(st == LX_ERR_FORMAT);
    for (int32_t end = 0; st == LX_OK && end <= ROWS / LX_PAGE_TOKENS; end++)
        MUST(lx_prefix_blob_read(&name, &sizes, end, bytes, n, state, &base, &err) == LX_OK);
    free(bytes);
    free(state);
    return 0;
}
