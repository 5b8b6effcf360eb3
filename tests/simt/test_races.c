/*
 * What the checker of race.h must find, each in a process of its own, which it ends; and the same
 * kernels without what is planted, of which it must not complain.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/simt/planted.h"

static int failed, passed;

/* In a process of its own: 0, or -1 when it was aborted; what it said in `text`. */
static int run_apart(enum planted_kind kind, bool sound, char *text, size_t size)
{
    int ends[2], status = 0;
    size_t n = 0;
    if (pipe(ends) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        cudaStream_t stream = NULL;
        planted a = {NULL, sound};
        void *out = NULL;
        (void)dup2(ends[1], STDERR_FILENO);
        bool good = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
                    cudaMalloc(&out, 128 * sizeof *a.out) == cudaSuccess;
        a.out = out;
        good = good && planted_run(kind, &a, stream) == 0 &&
               cudaStreamSynchronize(stream) == cudaSuccess;
        _exit(good ? 0 : 2);
    }
    (void)close(ends[1]);
    for (ssize_t got = 1; got > 0 && n<size - 1; n += got> 0 ? (size_t)got : 0)
        got = read(ends[0], text + n, size - 1 - n);
    text[n] = '\0';
    (void)close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check(bool good, const char *name, const char *what, const char *text)
{
    if (good) {
        passed++;
        return;
    }
    failed++;
    (void)printf("FAILED %s, %s: %s\n", name, what, text);
}

int main(void)
{
    static const struct {
        const char *name, *says;
    } kinds[PLANTED_KINDS] = {
        [PLANTED_BLOCK] = {"a missing barrier", "races with a"},
        [PLANTED_BLOCK_AGAIN] = {"a missing second barrier", "races with a"},
        [PLANTED_WARP] = {"a missing barrier of a warp", "races with a"},
        [PLANTED_HALF_WARPS] = {"a barrier of too few lanes", "races with a"},
        [PLANTED_BLOCKS] = {"blocks that share memory", "races with a"},
        [PLANTED_COUNT] = {"a read beside atomics", "races with a"},
        [PLANTED_UNWRITTEN] = {"shared memory without a value", "was not written"}};
    static char text[1 << 14];
    for (int kind = 0; kind < PLANTED_KINDS; kind++) {
        int status = run_apart((enum planted_kind)kind, true, text, sizeof text);
        check(status == 0 && text[0] == '\0', kinds[kind].name, "without it", text);
        status = run_apart((enum planted_kind)kind, false, text, sizeof text);
        check(status == -1 && strstr(text, kinds[kind].says) != NULL, kinds[kind].name, "found",
              text);
        check(strstr(text, "planted.cu") != NULL, kinds[kind].name, "its place", text);
    }
    (void)printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
