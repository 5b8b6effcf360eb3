/*
 * States as bytes. The size and the CRC are set right first, because no other input would get past
 * them. An accepted state has sizes that fit, and is written again as the same bytes or in the
 * newest version. With a key, no input is accepted.
 */
#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "server/states/blob.h"
#include "tests/fuzz/subject.h"

enum { VERSION_AT = 7, SIZE_AT = 8, CRC_BYTES = 4, LEAST = 196 };

static void check_accepted(const lx_saved_state *s, const uint8_t *bytes, size_t n)
{
    size_t inside = s->request_bytes + (size_t)s->start.n_tokens * sizeof(int32_t);
    if (s->start.state != NULL)
        inside += (size_t)lx_state_floats(s) * sizeof(float);
    MUST(inside <= n && (s->start.state == NULL) == (s->start.rows == 0));
    MUST(strnlen(s->made_by, sizeof s->made_by) < sizeof s->made_by);
    lx_buffer again;
    lx_buffer_init(&again, n);
    MUST(lx_state_write(s, NULL, 0, &again, NULL) == LX_OK);
    if (bytes[VERSION_AT] == '2')
        MUST(again.length == n && memcmp(again.data, bytes, n) == 0);
    lx_saved_state read;
    MUST(lx_state_read(again.data, again.length, NULL, 0, &read, NULL) == LX_OK);
    lx_state_fini(&read);
    lx_buffer_fini(&again);
}

static void read_without_key(const uint8_t *bytes, size_t n)
{
    lx_saved_state s;
    lx_error err = {0};
    lx_status st = lx_state_read(bytes, n, NULL, 0, &s, &err);
    if (st != LX_OK) {
        subject_check_error(st, &err);
        return;
    }
    if (bytes[48] % 2 == 0 && strlen(s.made_by) > 0) /* not signed: nothing is lost by writing */
        check_accepted(&s, bytes, n);
    lx_state_fini(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    lx_saved_state s;
    uint8_t *bytes = malloc(n > 0 ? n : 1); /* exact size */
    MUST(bytes != NULL);
    memcpy(bytes, data, n);
    if (n >= LEAST) {
        uint64_t total = n;
        memcpy(bytes + SIZE_AT, &total, sizeof total);
        size_t end = n - CRC_BYTES;
        uint32_t crc = lx_crc32c(0, bytes, end);
        memcpy(bytes + end, &crc, sizeof crc);
    }
    MUST(lx_state_read(bytes, n, "key", 3, &s, NULL) != LX_OK);
    read_without_key(bytes, n);
    free(bytes);
    return 0;
}
