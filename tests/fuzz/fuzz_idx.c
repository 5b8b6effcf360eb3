/* idx files: all values of an accepted file can be read, and a limit gives the first of them. */
#include <string.h>

#include "model/formats/idx.h"
#include "tests/fuzz/subject.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    lx_idx all, one;
    lx_error err = {0};
    const char *path = subject_file(data, n);
    lx_status st = lx_idx_read(path, 0, &all, &err);
    if (st != LX_OK) {
        subject_check_error(st, &err);
        return 0;
    }
    MUST(all.n >= 1 && all.height >= 1 && all.width >= 1);
    MUST(all.channels == 1 || all.channels == 3);
    MUST(lx_idx_read(path, 1, &one, &err) == LX_OK);
    MUST(one.n == 1 && one.height == all.height && one.width == all.width);
    MUST(one.channels == all.channels);
    MUST(memcmp(one.values, all.values, (size_t)(one.height * one.width * one.channels)) == 0);
    lx_idx_fini(&one);
    lx_idx_fini(&all);
    return 0;
}
