/* Changes a sound and corrects the checksums of its pages of Ogg, which no fuzzer would guess. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <ogg/ogg.h>

enum { HEAD = 27, SEGMENTS = 26 };

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed);

/* Bytes of the page that begins here; 0: none does, or it is cut. */
static size_t page_bytes(const uint8_t *p, size_t n, size_t *head)
{
    if (n < HEAD || memcmp(p, "OggS", 4) != 0 || n - HEAD < p[SEGMENTS])
        return 0;
    *head = HEAD + (size_t)p[SEGMENTS];
    size_t whole = *head;
    for (size_t i = 0; i < p[SEGMENTS]; i++)
        whole += p[HEAD + i];
    return whole <= n ? whole : 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    n = LLVMFuzzerMutate(data, n, max);
    if (seed % 8 == 0) /* wrong checksums too */
        return n;
    for (size_t at = 0, head, whole; at<n; at += whole> 0 ? whole : 1) {
        whole = page_bytes(data + at, n - at, &head);
        if (whole == 0)
            continue;
        ogg_page page = {.header = data + at,
                         .header_len = (long)head,
                         .body = data + at + head,
                         .body_len = (long)(whole - head)};
        ogg_page_checksum_set(&page);
    }
    return n;
}
