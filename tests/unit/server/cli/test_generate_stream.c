/*
 * linnet generate on a terminal: a token's text is printed before the next token exists. The test
 * plays the engine, and reads a pipe that is the standard output.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "server/cli/generate.h"
#include "tests/support/patience.h"

enum { N_TOKENS = 5, TOKEN_BYTES = 8 };

/* Token 0 has no text of its own, as the first part of a character has none. */
static void render(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_buffer *out)
{
    (void)plan;
    if (tokens[step] != 0)
        lx_buffer_printf(out, "<%d>", tokens[step]);
}

static const lx_task_ops task = {.name = "none", .render = render};
static const lx_model model = {.task = &task, .token_bytes = TOKEN_BYTES};

typedef struct stream {
    lx_job *job;
    sem_t more;
    bool scores;
    int in;      /* the printed text */
    int stdout_; /* the standard output that there was */
    lx_status st;
    lx_error err;
    pthread_t thread;
} stream;

static void *run(void *context)
{
    stream *s = context;
    s->st = lx_generate_stream(s->job, &s->more, s->scores, false, &s->err);
    (void)fflush(stdout);
    (void)dup2(s->stdout_, STDOUT_FILENO); /* the pipe ends */
    return NULL;
}

static void begin(stream *s, bool scores)
{
    int ends[2];
    lx_plan *plan = calloc(1, sizeof *plan);
    assert_non_null(plan);
    *plan = (lx_plan){.model = &model, .n_prompt = 1, .n_new = N_TOKENS};
    *s = (stream){.scores = scores};
    lx_job_params p = {.n = 1, .max_new = N_TOKENS, .deadline_ns = INT64_MAX};
    assert_int_equal(sem_init(&s->more, 0, 0), 0);
    assert_int_equal(lx_job_new(plan, &p, lx_generate_wake, &s->more, &s->job, NULL), LX_OK);
    assert_int_equal(pipe(ends), 0);
    s->in = ends[0];
    (void)fflush(stdout);
    s->stdout_ = dup(STDOUT_FILENO);
    assert_true(s->stdout_ >= 0 && dup2(ends[1], STDOUT_FILENO) >= 0);
    (void)close(ends[1]);
    assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
}

static void push(stream *s, int32_t token)
{
    if (lx_job_push(s->job, 0, token, -1))
        lx_job_notify(s->job);
}

static bool is_readable(int fd)
{
    struct pollfd there = {.fd = fd, .events = POLLIN};
    return poll(&there, 1, 0) == 1;
}

static void expect(stream *s, const char *text)
{
    char seen[64] = {0};
    size_t n = 0;
    while (n < strlen(text)) {
        wait_until(is_readable(s->in));
        ssize_t got = read(s->in, seen + n, sizeof seen - 1 - n);
        assert_true(got > 0);
        n += (size_t)got;
    }
    assert_string_equal(seen, text);
}

static void end(stream *s, lx_status st, const lx_error *err, const char *last)
{
    char more;
    lx_job_finish(s->job, st, err);
    lx_job_notify(s->job);
    expect(s, last);
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    assert_int_equal(read(s->in, &more, 1), 0);
    assert_int_equal(s->st, st);
    (void)close(s->in);
    (void)close(s->stdout_);
    lx_job_unref(s->job);
    (void)sem_destroy(&s->more);
}

static void every_token_is_there_before_the_next(void **state)
{
    (void)state;
    stream s;
    begin(&s, false);
    push(&s, 7);
    expect(&s, "<7>");
    push(&s, 0);
    push(&s, 8);
    expect(&s, "<8>");
    push(&s, 9);
    expect(&s, "<9>");
    push(&s, 10);
    end(&s, LX_OK, NULL, "<10>\n");
}

static void the_score_comes_behind_it(void **state)
{
    (void)state;
    stream s;
    begin(&s, true);
    push(&s, 7);
    expect(&s, "<7>");
    end(&s, LX_OK, NULL, "\t-1.000\n");
}

static void an_error_begins_a_line(void **state)
{
    (void)state;
    stream s;
    lx_error why = {0};
    (void)!lx_fail(&why, LX_ERR_INTERNAL, NULL, "it broke");
    begin(&s, true);
    push(&s, 7);
    expect(&s, "<7>");
    end(&s, LX_ERR_INTERNAL, &why, "\n");
    assert_string_equal(s.err.text, "it broke");
}

static void an_error_before_anything_has_its_line_alone(void **state)
{
    (void)state;
    stream s;
    lx_error why = {0};
    (void)!lx_fail(&why, LX_ERR_INTERNAL, NULL, "it broke");
    begin(&s, false);
    end(&s, LX_ERR_INTERNAL, &why, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_is_there_before_the_next),
        cmocka_unit_test(the_score_comes_behind_it),
        cmocka_unit_test(an_error_begins_a_line),
        cmocka_unit_test(an_error_before_anything_has_its_line_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
