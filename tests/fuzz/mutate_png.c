/* Changes a PNG and corrects the checksums of its chunks, which no fuzzer would guess. */
#include <stddef.h>
#include <stdint.h>

#include "tests/support/png_maker.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    n = LLVMFuzzerMutate(data, n, max);
    if (seed % 8 == 0) /* wrong checksums too */
        return n;
    for (size_t at = 8; at + 12 <= n;) {
        size_t length = (size_t)data[at] << 24 | (size_t)data[at + 1] << 16 |
                        (size_t)data[at + 2] << 8 | data[at + 3];
        if (length > n - at - 12)
            break;
        png_maker_fix(data, at);
        at += 12 + length;
    }
    return n;
}
