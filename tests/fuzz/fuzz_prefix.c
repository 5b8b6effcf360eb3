/*
 * Kept states of prompts as bytes. The CRC is set right first, because no other input would get
 * past it. Only bytes that the writer would write are accepted, and damage of any byte is found.
 */
#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "server/states/prefix_blob.h"
#include "tests/fuzz/subject.h"

enum { ROWS = 3, WIDTH = 2, FLOATS = 5, CRC_BYTES = 4 };

static const int32_t ids[ROWS * WIDTH] = {1, 2, 3, 4, 5, 6};
static const lx_prefix_name name = {
    .maker = "m", .width = WIDTH, .key = {.ids = ids, .n_rows = ROWS}};

static void check_accepted(const uint8_t *bytes, size_t n, const float *state)
{
    lx_error err = {0};
    float other[FLOATS];
    uint8_t *again = malloc(n);
    MUST(again != NULL && n == lx_prefix_blob_bytes(&name, FLOATS));
    memcpy(again + lx_prefix_blob_head(&name), state, sizeof other);
    lx_prefix_blob_fill(&name, FLOATS, again);
    MUST(memcmp(again, bytes, n) == 0);
    for (size_t i = 0; i < n; i++) {
        again[i] ^= (uint8_t)(1 + i % 255);
        MUST(lx_prefix_blob_read(&name, again, n, other, FLOATS, &err) == LX_ERR_FORMAT);
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
    lx_status st = lx_prefix_blob_read(&name, bytes, n, state, FLOATS, &err);
    if (st == LX_OK)
        check_accepted(bytes, n, state);
    else
        MUST(st == LX_ERR_FORMAT);
    free(bytes);
    free(state);
    return 0;
}
