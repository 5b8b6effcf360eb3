/* The log's way out: nothing waits for a reader, whole lines arrive in order, the lost are counted.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/log.h"

enum { THREADS = 4, LINES = 4000, LINE_BYTES = 100, READ_MAX = 8 << 20 };

static int own_stderr;
static char *text; /* the bytes read */
static size_t n_text;

/* Makes standard error one end; returns the other end. */
static int redirect(bool use_socket)
{
    int ends[2];
    own_stderr = dup(STDERR_FILENO);
    if (use_socket)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    else
        assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    (void)close(ends[1]);
    n_text = 0;
    return ends[0];
}

static void restore(void)
{
    (void)dup2(own_stderr, STDERR_FILENO);
    (void)close(own_stderr);
}

static void *write_lines(void *context)
{
    for (int i = 0; i < LINES; i++) {
        char line[2 * LINE_BYTES];
        (void)snprintf(line, sizeof line, "%d %06d %0*d\n", *(const int *)context, i,
                       LINE_BYTES - 10, 0);
        lx_log_sink_write(line, LINE_BYTES);
    }
    return NULL;
}

static void write_from_threads(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void *read_all(void *context)
{
    ssize_t n;
    while ((n = read(*(const int *)context, text + n_text, READ_MAX - n_text - 1)) > 0)
        n_text += (size_t)n;
    text[n_text] = '\0';
    return NULL;
}

/* Lines of each thread, whole and in order; returns how many there are. */
static uint64_t count_lines(void)
{
    uint64_t n = 0;
    int last[THREADS] = {-1, -1, -1, -1};
    for (char *line = text, *end; *line != '\0'; line = end + 1) {
        int thread = -1, number = -1;
        end = strchr(line, '\n');
        assert_non_null(end);
        *end = '\0';
        if (strstr(line, "dropped") != NULL)
            continue; /* the report */
        assert_int_equal(end - line, LINE_BYTES - 1);
        assert_int_equal(sscanf(line, "%d %d", &thread, &number), 2);
        assert_in_range(thread, 0, THREADS - 1);
        assert_true(number > last[thread]);
        last[thread] = number;
        n++;
    }
    return n;
}

static void check(bool use_socket)
{
    uint64_t before = lx_log_sink_dropped();
    int end = redirect(use_socket);
    assert_int_equal(lx_log_sink_start(lx_log_report_loss, NULL), LX_OK);
    write_from_threads(); /* without a reader, the function returns too */
    assert_true(lx_log_sink_dropped() > before);
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, read_all, &end), 0);
    lx_log_sink_stop(60 * 1000);
    uint64_t dropped = lx_log_sink_dropped() - before;
    restore();
    assert_int_equal(pthread_join(reader, NULL), 0);
    (void)close(end);
    assert_int_equal(count_lines() + dropped, THREADS * LINES);
}

static void a_pipe_that_is_not_read(void **state)
{
    (void)state;
    check(false);
}

static void a_socket_that_is_not_read(void **state)
{
    (void)state;
    check(true);
}

static void the_end_does_not_wait_for_a_reader(void **state)
{
    (void)state;
    int end = redirect(false);
    assert_int_equal(lx_log_sink_start(lx_log_report_loss, NULL), LX_OK);
    write_from_threads();
    lx_log_sink_stop(1);
    restore();
    (void)close(end);
}

static void a_file_gets_every_line(void **state)
{
    (void)state;
    uint64_t before = lx_log_sink_dropped();
    FILE *f = tmpfile();
    assert_non_null(f);
    own_stderr = dup(STDERR_FILENO);
    assert_true(dup2(fileno(f), STDERR_FILENO) >= 0);
    assert_int_equal(lx_log_sink_start(lx_log_report_loss, NULL), LX_OK);
    write_from_threads();
    lx_log_sink_stop(1);
    restore();
    rewind(f);
    n_text = fread(text, 1, READ_MAX - 1, f);
    text[n_text] = '\0';
    (void)fclose(f);
    assert_int_equal(count_lines(), THREADS * LINES);
    assert_int_equal(lx_log_sink_dropped(), before);
}

int main(void)
{
    text = malloc(READ_MAX);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipe_that_is_not_read),
        cmocka_unit_test(a_socket_that_is_not_read),
        cmocka_unit_test(the_end_does_not_wait_for_a_reader),
        cmocka_unit_test(a_file_gets_every_line),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(text);
    return failed;
}
