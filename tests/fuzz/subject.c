/* See subject.h. The readers want a path: there is one file in memory, rewritten every time. */
#include "tests/fuzz/subject.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *subject_file(const uint8_t *data, size_t n)
{
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("subject", MFD_CLOEXEC);
        MUST(fd >= 0);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    MUST(ftruncate(fd, 0) == 0);
    for (size_t at = 0; at < n;) {
        ssize_t k = pwrite(fd, data + at, n - at, (off_t)at);
        MUST(k > 0);
        at += (size_t)k;
    }
    return path;
}

void subject_check_text(lx_status got, const lx_error *err)
{
    MUST(err->status == got);
    MUST(err->text[0] != '\0');
    for (const char *p = err->text; *p != '\0'; p++)
        MUST((unsigned char)*p >= ' ' && *p != 0x7f);
}

void subject_check_error(lx_status got, const lx_error *err)
{
    MUST(got == LX_ERR_FORMAT || got == LX_ERR_INVALID || got == LX_ERR_UNSUPPORTED);
    subject_check_text(got, err);
}
