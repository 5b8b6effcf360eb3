/* The code that linnet generate and linnet chat share (see generate.h). */
#include "server/cli/generate.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/random.h"
#include "server/cli/terminal.h"

enum { MAX_SLOTS = 64, PREFIX_BYTES = 256 << 20, LINE_BYTES = 64 };
enum { POLL_MS = 50 }; /* of the progress bar */
enum { SHOWN = 8 };    /* most bytes that a terminal shows for a byte */

/* --- the job --- */

lx_status lx_generate_new_job(const lx_generate_sampling *o, lx_plan *plan, int32_t n, double usual,
                              const lx_stops *stops, sem_t *more, lx_job **out, lx_error *err)
{
    int32_t most = plan->n_new;
    lx_job_params params = {
        .n = n,
        .max_new = o->max_tokens > 0 && o->max_tokens < most ? (int32_t)o->max_tokens : most,
        .sampling = {.has_seed = true,
                     .seed = o->seed >= 0 ? o->seed : (int64_t)lx_random_bits() & LX_MAX_SEED,
                     .temperature = isnan(o->temperature) ? usual : o->temperature,
                     .top_p = o->top_p,
                     .top_k = (int32_t)o->top_k,
                     .min_p = o->min_p,
                     .typical_p = o->typical_p,
                     .frequency_penalty = o->frequency_penalty,
                     .presence_penalty = o->presence_penalty,
                     .repetition_penalty = o->repetition_penalty},
        .stops = stops->n > 0 ? stops : NULL,
        .deadline_ns = INT64_MAX,
    };
    return lx_job_new(plan, &params, more != NULL ? lx_generate_wake : NULL, more, out, err);
}

lx_status lx_generate_start(lx_transformer *t, int32_t n, int64_t draft, bool goes_on,
                            lx_engine **out, lx_error *err)
{
    static lx_metrics metrics;
    lx_backend *be = lx_transformer_backend(t);
    lx_engine_options limits = {.n_slots = n < MAX_SLOTS ? n : MAX_SLOTS,
                                .max_queue = 1,
                                .max_tokens = LX_GENERATE_ROWS,
                                .prompt_chunk = LX_GENERATE_ROWS - MAX_SLOTS,
                                .prompt_beside = LX_GENERATE_ROWS,
                                .prefix_bytes = goes_on ? PREFIX_BYTES : 0,
                                .ahead = lx_engine_best_ahead(be),
                                .draft = lx_engine_draft_of(draft, be)};
    return lx_engine_start(t, &limits, &metrics, out, err);
}

lx_status lx_generate_add_stop(const lx_generate_sampling *o, lx_stops *stops, lx_error *err)
{
    size_t n = o->stop != NULL ? strlen(o->stop) : 0;
    if (o->stop == NULL)
        return LX_OK;
    if (n < 1 || n > LX_MAX_STOP_BYTES)
        return lx_fail(err, LX_ERR_INVALID, "stop", "--stop: the text must have 1 to %d bytes",
                       LX_MAX_STOP_BYTES);
    struct lx_stop *stop = &stops->stop[stops->n++];
    stop->bytes = n;
    memcpy(stop->text, o->stop, n);
    return LX_OK;
}

const char *lx_generate_text_only(const lx_generate_sampling *o)
{
    return o->stop != NULL                                          ? "--stop"
           : o->max_tokens > 0                                      ? "--max-tokens"
           : o->frequency_penalty < 0 || o->frequency_penalty > 0   ? "--frequency-penalty"
           : o->presence_penalty < 0 || o->presence_penalty > 0     ? "--presence-penalty"
           : o->repetition_penalty < 1 || o->repetition_penalty > 1 ? "--repetition-penalty"
           : o->top_k > 0                                           ? "--top-k"
           : o->top_p < 1                                           ? "--top-p"
           : o->min_p > 0                                           ? "--min-p"
           : o->typical_p < 1                                       ? "--typical-p"
                                                                    : NULL;
}

/* Waits for an image, with a progress bar where stderr is a terminal. */
static void wait_for_pixels(lx_job *job)
{
    const lx_job_params *params = lx_job_get_params(job);
    const struct timespec pause = {.tv_nsec = POLL_MS * LX_NS_PER_MS};
    lx_progress bar;
    lx_progress_begin(&bar, "pixels", (int64_t)params->n * params->max_new);
    while (bar.on && !lx_job_finished(job)) {
        int64_t done = 0;
        for (int32_t i = 0; i < params->n; i++)
            done += lx_job_tokens(job, i, NULL, NULL);
        lx_progress_update(&bar, done);
        (void)nanosleep(&pause, NULL);
    }
    lx_progress_end(&bar);
    lx_job_wait(job);
}

lx_status lx_generate_run(lx_engine *engine, lx_job *job, sem_t *more, bool scores,
                          bool interruptible, lx_error *err)
{
    lx_status st = lx_engine_submit(engine, job, err);
    if (st != LX_OK)
        return st;
    if (more != NULL)
        return lx_generate_stream(job, more, scores, interruptible, err);
    if (lx_job_plan(job)->model->task->modality == LX_IMAGE)
        wait_for_pixels(job);
    else
        lx_job_wait(job);
    return lx_job_status(job, err);
}

/* --- the prompt --- */

lx_status lx_generate_read_prompt(const char *given, bool dash_reads, lx_buffer *out, lx_error *err)
{
    lx_buffer_init(out, LX_GENERATE_PROMPT_BYTES);
    lx_buffer_puts(out, "");
    if (dash_reads && strcmp(given, "-") == 0) {
        lx_error why = {0};
        if (lx_cli_read_input(out, &why) != LX_OK)
            return lx_fail(err, LX_ERR_IO, NULL, "standard input: %s", why.text);
        if (out->length > 0 && out->data[out->length - 1] == '\n')
            out->data[--out->length] = '\0';
    } else {
        lx_buffer_puts(out, given);
    }
    if (out->status == LX_ERR_TOO_LARGE)
        return lx_fail(err, LX_ERR_INVALID, "prompt", "the prompt has more than %d bytes",
                       LX_GENERATE_PROMPT_BYTES);
    return out->status == LX_OK ? LX_OK
                                : lx_fail(err, out->status, "prompt", "no memory for the prompt");
}

/* --- the answers --- */

/* Room for so many answers of the job. */
static void init_text(lx_buffer *text, const lx_job *job, int32_t n_answers)
{
    size_t token = (size_t)lx_job_plan(job)->model->token_bytes;
    lx_buffer_init(text, (size_t)n_answers *
                             ((size_t)lx_job_get_params(job)->max_new * token + LINE_BYTES));
}

static lx_status check_text(const lx_buffer *text, lx_error *err)
{
    if (text->status == LX_OK)
        return LX_OK;
    return lx_fail(err, text->status, NULL, "the answer: %s", lx_status_text(text->status));
}

static void put_score(const lx_job *job, int32_t i, lx_buffer *out)
{
    lx_buffer_printf(out, "\t%.3f", (double)lx_job_mean_logprob(job, i));
}

void lx_generate_answer(const lx_job *job, int32_t i, lx_buffer *out)
{
    const lx_stops *stops = lx_job_get_params(job)->stops;
    const int32_t *tokens = NULL;
    int32_t n = lx_job_tokens(job, i, &tokens, NULL);
    size_t begin = out->length;
    lx_plan_text(lx_job_plan(job), tokens, n, out);
    if (stops == NULL || out->status != LX_OK || out->length == begin)
        return;
    out->length = begin + lx_stops_find(stops, out->data + begin, out->length - begin);
    out->data[out->length] = '\0';
}

/* Writes text; on a terminal, control characters become visible. */
static lx_status write_text(const char *text, size_t n, lx_error *err)
{
    lx_buffer shown;
    if (!lx_terminal_is(stdout)) {
        (void)fwrite(text, 1, n, stdout);
        return LX_OK;
    }
    lx_buffer_init(&shown, n * SHOWN);
    lx_terminal_show(text, n, &shown);
    lx_status st = check_text(&shown, err);
    if (st == LX_OK && shown.length > 0)
        (void)fwrite(shown.data, 1, shown.length, stdout);
    lx_buffer_fini(&shown);
    return st;
}

/* Samples in the order that they are printed in; the caller frees it. */
static int32_t *new_order(const lx_job *job, lx_error *err)
{
    int32_t n = lx_job_get_params(job)->n;
    int32_t *order = calloc((size_t)n, sizeof *order);
    if (order == NULL)
        (void)lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d answers", n);
    else
        lx_job_rank(job, order);
    return order;
}

lx_status lx_generate_print(const lx_job *job, bool scores, lx_error *err)
{
    int32_t n = lx_job_get_params(job)->n;
    int32_t *order = new_order(job, err);
    if (order == NULL)
        return LX_ERR_NO_MEMORY;
    lx_buffer lines;
    init_text(&lines, job, n);
    for (int32_t i = 0; i < n; i++) {
        lx_generate_answer(job, order[i], &lines);
        if (scores)
            put_score(job, order[i], &lines);
        lx_buffer_puts(&lines, "\n");
    }
    lx_status st = check_text(&lines, err);
    if (st == LX_OK)
        st = write_text(lines.data, lines.length, err);
    lx_buffer_fini(&lines);
    free(order);
    return st;
}

/* Whether the model ended the answer, or a stop string did: see
   lx_completion_finish_reason. The text is the answer's, and all that its tokens say. */
static bool is_whole(const lx_job *job, int32_t sample, size_t text_bytes, size_t all_bytes)
{
    const lx_plan *plan = lx_job_plan(job);
    const lx_task_ops *task = plan->model->task;
    const int32_t *tokens = NULL;
    int32_t n = lx_job_tokens(job, sample, &tokens, NULL);
    if (text_bytes < all_bytes)
        return true;
    return task->ends != NULL ? n > 0 && task->ends(plan, tokens[n - 1]) : n >= plan->n_new;
}

static lx_status print_choice(const lx_job *job, int32_t sample, int32_t place, lx_error *err)
{
    const int32_t *tokens = NULL;
    int32_t n = lx_job_tokens(job, sample, &tokens, NULL);
    float score = lx_job_mean_logprob(job, sample);
    lx_buffer text;
    init_text(&text, job, 2);
    lx_buffer_puts(&text, "");
    lx_plan_text(lx_job_plan(job), tokens, n, &text);
    size_t all = text.length;
    text.length = 0;
    lx_generate_answer(job, sample, &text);
    lx_status st = check_text(&text, err);
    if (st == LX_OK) {
        (void)printf("%s{\"index\": %d, \"text\": ", place > 0 ? ", " : "", place);
        lx_cli_print_json_bytes(text.data, text.length);
        (void)printf(", \"tokens\": %d, \"finish_reason\": \"%s\"", n,
                     is_whole(job, sample, text.length, all) ? "stop" : "length");
        if (isfinite(score))
            (void)printf(", \"mean_logprob\": %.6g", (double)score);
        (void)putchar('}');
    }
    lx_buffer_fini(&text);
    return st;
}

lx_status lx_generate_print_json(const lx_job *job, lx_error *err)
{
    const lx_job_params *params = lx_job_get_params(job);
    int32_t *order = new_order(job, err);
    lx_status st = order != NULL ? LX_OK : LX_ERR_NO_MEMORY;
    if (st == LX_OK) {
        lx_cli_begin_json(lx_job_plan(job)->model->name);
        (void)printf(", \"seed\": %lld, \"prompt_tokens\": %d, \"choices\": [",
                     (long long)params->sampling.seed, lx_job_plan(job)->n_prompt);
    }
    for (int32_t i = 0; st == LX_OK && i < params->n; i++)
        st = print_choice(job, order[i], i, err);
    if (st == LX_OK)
        (void)puts("]}");
    free(order);
    return st;
}

/* --- as it is written --- */

static volatile sig_atomic_t interrupted;
static sem_t *volatile to_wake; /* by the signal */

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
    (void)sem_post(to_wake);
}

void lx_generate_wake(void *more)
{
    (void)sem_post(more);
}

/* The first n bytes of a piece on the terminal, at once; the rest stays. */
static void show(lx_buffer *piece, size_t n, lx_error *err)
{
    if (piece->status == LX_OK && piece->data != NULL && n > 0) {
        if (write_text(piece->data, n, err) != LX_OK)
            piece->status = err->status;
        piece->length -= n;
        memmove(piece->data, piece->data + n, piece->length + 1);
    }
    (void)fflush(stdout);
}

/* Shows the settled part of the piece; true when a stop string ends the answer there. */
static bool show_settled(const lx_stops *stops, lx_buffer *piece, lx_error *err)
{
    if (stops == NULL || piece->length == 0) {
        show(piece, piece->length, err);
        return false;
    }
    size_t end = lx_stops_find(stops, piece->data, piece->length);
    bool stopped = end < piece->length;
    show(piece, stopped ? end : lx_stops_settled(stops, piece->data, piece->length), err);
    if (stopped)
        piece->length = 0;
    return stopped;
}

static lx_status show_answer(lx_job *job, sem_t *more, lx_buffer *piece, lx_error *err)
{
    const lx_plan *plan = lx_job_plan(job);
    int32_t shown = 0;
    bool stopped = false;
    for (bool ended = false; !ended;) {
        const int32_t *tokens = NULL;
        while (sem_wait(more) != 0)
            continue; /* interrupted by a signal that did not end the program */
        if (interrupted)
            lx_job_cancel(job);
        ended = lx_job_finished(job); /* first, as no token comes after the end */
        int32_t n = lx_job_tokens(job, 0, &tokens, NULL);
        for (; shown < n && !stopped; shown++)
            plan->model->task->render(plan, shown, tokens, piece);
        stopped = stopped || show_settled(lx_job_get_params(job)->stops, piece, err);
        lx_job_want(job, 0, n + 1);
    }
    show(piece, piece->length, err);
    lx_status st = lx_job_status(job, err);
    if (st == LX_OK || shown > 0)
        lx_buffer_puts(piece, ""); /* the line must be ended, also before an error */
    return st;
}

lx_status lx_generate_stream(lx_job *job, sem_t *more, bool scores, bool interruptible,
                             lx_error *err)
{
    lx_buffer piece;
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART}, before;
    init_text(&piece, job, 1);
    interrupted = 0;
    to_wake = more;
    bool caught = interruptible && sigaction(SIGINT, &action, &before) == 0;
    lx_status st = show_answer(job, more, &piece, err);
    if (caught)
        (void)sigaction(SIGINT, &before, NULL);
    if (st == LX_OK && scores)
        put_score(job, 0, &piece);
    if (piece.data != NULL)
        lx_buffer_puts(&piece, "\n");
    show(&piece, piece.length, err);
    lx_status text = st == LX_OK ? check_text(&piece, err) : st;
    lx_buffer_fini(&piece);
    return text;
}
