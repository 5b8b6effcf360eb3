/*
 * linnet eval of a model of speech, on a list of sound files with their texts. The error rate is
 * the least number of tokens to change, add and leave out, as a share of all tokens. Connectionist
 * temporal classification gives the nats per token of the texts.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "model/ctc.h"
#include "model/formats/file.h"
#include "model/tasks/speech.h"
#include "model/transcribe.h"
#include "server/cli/eval.h"

typedef struct measured {
    const lx_eval_options *o;
    const lx_cli_model *m;
    char folder[LX_EVAL_LINE_BYTES]; /* of the list, with its '/' */
    int64_t n_files, n_tokens, n_wrong, n_right_files, n_impossible;
    double nats, seconds;
} measured;

/* The ids of the text's characters; *n is at most LX_CTC_MAX_ROWS. */
static lx_status read_said(const lx_vocab *v, const char *text, int32_t *ids, int32_t *n,
                           lx_error *err)
{
    *n = 0;
    for (const char *at = text; *at != '\0';) {
        int32_t id = 1, found = -1;
        size_t bytes = 0;
        for (; id < lx_vocab_size(v) && found < 0; id++) {
            bytes = strlen(lx_vocab_text(v, id));
            found = strncmp(at, lx_vocab_text(v, id), bytes) == 0 ? id : -1;
        }
        if (found < 0)
            return lx_fail(err, LX_ERR_INVALID, NULL,
                           "\"%.60s\": byte %d is of no character that the model can say", text,
                           (int)(at - text) + 1);
        if (*n == LX_CTC_MAX_ROWS)
            return lx_fail(err, LX_ERR_INVALID, NULL, "the text has more than %d characters",
                           LX_CTC_MAX_ROWS);
        ids[(*n)++] = found;
        at += bytes;
    }
    return LX_OK;
}

/* The least number of tokens to change, add and leave out. */
static int32_t distance(const int32_t *said, int32_t n_said, const lx_transcription *heard)
{
    static int32_t row[LX_CTC_MAX_ROWS + 1];
    for (int32_t j = 0; j <= heard->n; j++)
        row[j] = j;
    for (int32_t i = 0; i < n_said; i++) {
        int32_t diagonal = row[0];
        row[0] = i + 1;
        for (int32_t j = 0; j < heard->n; j++) {
            int32_t changed = diagonal + (said[i] != heard->tokens[j].id);
            int32_t other = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            diagonal = row[j + 1];
            row[j + 1] = changed < other ? changed : other;
        }
    }
    return row[heard->n];
}

static lx_status judge(measured *e, const lx_utterance *u, const int32_t *said, int32_t n,
                       lx_error *err)
{
    lx_transcription t = {0};
    double log_p = 0;
    lx_status st = lx_listener_write(e->m->listener, u, (int32_t)e->o->beam, &t, err);
    if (st == LX_OK)
        st = lx_ctc_log_p(&(lx_ctc_input){.log_p = u->input.log_p,
                                          .n_rows = u->input.n_rows,
                                          .n_ids = e->m->model->config.head_size,
                                          .blank = LX_SPEECH_BLANK},
                          said, n, &log_p, err);
    if (st == LX_OK) {
        int32_t wrong = distance(said, n, &t);
        e->n_files++;
        e->n_tokens += n;
        e->n_wrong += wrong;
        e->n_right_files += wrong == 0;
        e->n_impossible += log_p == -INFINITY; /* longer than the sound has rows for */
        e->nats -= log_p == -INFINITY ? 0 : log_p;
        e->seconds += u->duration;
    }
    lx_transcription_fini(&t);
    return st;
}

static lx_status hear(measured *e, const char *file, const int32_t *said, int32_t n, lx_error *err)
{
    char path[2 * LX_EVAL_LINE_BYTES];
    char *data = NULL;
    size_t bytes = 0;
    lx_utterance u = {0};
    (void)snprintf(path, sizeof path, "%s%s", file[0] == '/' ? "" : e->folder, file);
    lx_error why = {0};
    lx_status st = lx_file_read(path, LX_CLI_MAX_SOUND, &data, &bytes, &why);
    if (st == LX_OK)
        st = lx_listener_read(e->m->listener, data, bytes, "file", &u, &why);
    free(data);
    if (st == LX_OK)
        st = lx_encoder_run(e->m->encoder, &u.input, 1, &why);
    if (st == LX_OK)
        st = judge(e, &u, said, n, &why);
    lx_utterance_fini(&u);
    return st == LX_OK ? st : lx_fail(err, st, NULL, "%s: %s", lx_file_label(file), why.text);
}

static lx_status add_line(void *context, char *line, lx_error *err)
{
    static int32_t said[LX_CTC_MAX_ROWS];
    measured *e = context;
    int32_t n = 0;
    char *tab = strchr(line, '\t');
    if (tab == NULL || tab == line || tab[1] == '\0' || strchr(tab + 1, '\t') != NULL)
        return lx_fail(err, LX_ERR_INVALID, NULL, "a line is FILE TAB TEXT");
    *tab = '\0';
    lx_status st = read_said(e->m->model->vocab, tab + 1, said, &n, err);
    return st == LX_OK ? hear(e, line, said, n, err) : st;
}

static void print_report(const measured *e, double took)
{
    double tokens = (double)e->n_tokens;
    double rate = (double)e->n_wrong / tokens, nll = e->nats / tokens;
    if (e->o->json) {
        lx_cli_begin_json(e->m->model->name);
        (void)printf(", \"files\": %lld, \"seconds\": %.3f, \"tokens\": %lld, \"wrong\": %lld, "
                     "\"token_error_rate\": %.6f, \"files_right\": %.6f, \"nll\": ",
                     (long long)e->n_files, e->seconds, (long long)e->n_tokens,
                     (long long)e->n_wrong, rate, (double)e->n_right_files / (double)e->n_files);
        (void)printf(e->n_impossible > 0 ? "null" : "%.6f", nll);
        (void)printf(", \"beam\": %lld, \"took\": %.3f}\n", (long long)e->o->beam, took);
        return;
    }
    (void)printf("model            %s\nfiles            %lld, %.1f s of sound\n", e->m->model->name,
                 (long long)e->n_files, e->seconds);
    (void)printf("wrong            %.3f %%: %lld of %lld tokens\nfiles right      %.2f %%\n",
                 100 * rate, (long long)e->n_wrong, (long long)e->n_tokens,
                 100 * (double)e->n_right_files / (double)e->n_files);
    if (e->n_impossible > 0)
        (void)printf("nll              infinite: %lld files say more than they have rows for\n",
                     (long long)e->n_impossible);
    else
        (void)printf("nll              %.5f nats per token\n", nll);
    (void)printf("time             %.2f s, %.1f s of sound a second\n", took, e->seconds / took);
}

lx_status lx_eval_sounds(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                         lx_error *err)
{
    measured e = {.o = o, .m = local};
    const char *slash = strrchr(path, '/');
    size_t n = slash != NULL ? (size_t)(slash + 1 - path) : 0;
    if (n >= sizeof e.folder)
        return lx_fail(err, LX_ERR_INVALID, NULL, "the path of the list has more than %d bytes",
                       LX_EVAL_LINE_BYTES - 1);
    memcpy(e.folder, path, n);
    int64_t began = lx_now_ns();
    lx_status st = lx_eval_lines_read(path, o->limit, "sound", add_line, &e, err);
    if (st == LX_OK)
        print_report(&e, (double)(lx_now_ns() - began) * 1e-9);
    return st;
}
