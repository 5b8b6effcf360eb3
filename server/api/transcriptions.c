/*
 * POST /v1/audio/transcriptions: the text of a sound, whole or as events. The model sees all of the
 * sound, so a stream says nothing before all is computed; then a token an event.
 */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "server/api/pending.h"
#include "server/http/sse.h"
#include "server/json/answers.h"

/* A request that is being answered. */
typedef struct heard {
    lx_pending pending;
    lx_hearing *hearing;
    lx_transcription_params asked; /* without its file */
    int64_t text_bytes;            /* of the answer, at most */
    int32_t n_sent;                /* tokens that a stream has sent */
} heard;

/* --- how it ends --- */

static bool count(heard *h, lx_status st)
{
    return lx_pending_count(&h->pending, st, h->hearing->submitted_ns);
}

static lx_status status_of(const heard *h, lx_error *err)
{
    *err = h->hearing->err;
    return lx_pending_status(&h->pending, h->hearing->status, err);
}

static lx_json_transcript transcript_of(const heard *h)
{
    return (lx_json_transcript){.model = h->pending.served->model->name,
                                .fingerprint = h->pending.served->fingerprint,
                                .said = &h->hearing->said,
                                .rows = h->hearing->rows,
                                .asked = &h->asked};
}

/* --- callbacks of lx_deferred --- */

static bool is_done(const void *context)
{
    return lx_hearing_done(((const heard *)context)->hearing);
}

/* An answer that is no JSON has the names of fields that change nothing in a header. */
static void add_ignored(const heard *h, lx_response *rs)
{
    char names[256];
    lx_json_list_noted(&h->asked.notes, names, sizeof names);
    bool json = h->asked.format == LX_TRANSCRIPT_JSON || h->asked.format == LX_TRANSCRIPT_VERBOSE;
    if (!json && names[0] != '\0')
        lx_response_add(rs, "Linnet-Ignored", "%s", names);
}

static void finish(void *context, lx_response *rs)
{
    heard *h = context;
    lx_error err = {0};
    lx_status st = status_of(h, &err);
    (void)count(h, st);
    if (st != LX_OK) {
        int32_t again_s = st == LX_ERR_BUSY ? lx_served_retry_after_s(h->pending.served) : 0;
        lx_respond_unstarted(rs, st, &err, again_s);
        return;
    }
    lx_buffer body;
    lx_buffer_init(&body, (size_t)h->text_bytes);
    lx_json_transcript t = transcript_of(h);
    lx_json_write_transcript(&t, &body);
    lx_response_take(rs, 200, lx_transcript_type(h->asked.format), &body);
    add_ignored(h, rs);
}

static void write_end(heard *h, lx_status st, const lx_error *err, lx_buffer *out)
{
    lx_json_transcript t = transcript_of(h);
    lx_sse_begin(out);
    if (st == LX_OK)
        lx_json_write_transcript_done(&t, out);
    else
        lx_api_write_error(LX_ENVELOPE_OPENAI, st, err, out);
    lx_sse_end(out);
    (void)count(h, st);
}

static bool pull(void *context, lx_buffer *out)
{
    heard *h = context;
    lx_error err = {0};
    if (!is_done(h))
        return false;
    lx_status st = status_of(h, &err);
    int32_t n = st == LX_OK ? h->hearing->said.n : 0;
    for (; h->n_sent < n; h->n_sent++) {
        if (out->length >= LX_PULL_BYTES || out->status != LX_OK)
            return false;
        lx_sse_begin(out);
        lx_json_write_transcript_delta(&h->hearing->said, h->n_sent, out);
        lx_sse_end(out);
    }
    if (out->length >= LX_PULL_BYTES)
        return false;
    write_end(h, st, &err, out);
    return true;
}

static lx_phase phase_of(const lx_hearing *h)
{
    if (lx_hearing_done(h))
        return LX_PHASE_ANSWER;
    return atomic_load(&h->started_ns) == 0 ? LX_PHASE_QUEUE : LX_PHASE_PROMPT;
}

static void cancel(void *context)
{
    heard *h = context;
    lx_pending_abandon(&h->pending, phase_of(h->hearing), h->hearing->submitted_ns);
    lx_hearing_cancel(h->hearing);
    lx_transcriber_poke(h->pending.served->transcriber);
}

static void release(void *context)
{
    heard *h = context;
    if (h->hearing != NULL)
        lx_hearing_detach(h->hearing);
    lx_hearing_unref(h->hearing);
    lx_pending_fini(&h->pending);
    free(h);
}

/* --- the start --- */

static int64_t longest_token(const lx_model *m)
{
    size_t most = 0;
    for (int32_t id = 0; id < m->config.head_size; id++) {
        size_t n = strlen(lx_vocab_text(m->vocab, id));
        most = n > most ? n : most;
    }
    return (int64_t)most;
}

/* Reserves the memory that follows from its bytes and from the longest sound. */
static lx_status reserve(heard *h, size_t file_bytes, int32_t *again_s, lx_error *err)
{
    const lx_model *m = h->pending.served->model;
    const lx_listener *l = lx_transcriber_listener(h->pending.served->transcriber);
    int64_t notes = lx_cost_notes(&h->asked.notes);
    h->text_bytes = lx_transcript_text_bytes(&h->asked, m->max_rows, longest_token(m)) + notes;
    int64_t bytes = (int64_t)(sizeof *h + LX_HEARING_BYTES + file_bytes + 1) + notes +
                    lx_listener_bytes(l, h->asked.beam) + LX_COST_STREAM +
                    (LX_COST_GROWN + 1) * h->text_bytes;
    return lx_pending_reserve(h->pending.api, h->pending.served, bytes, "file", &h->pending.reserve,
                              again_s, err);
}

/* A text has at most as many tokens as the longest sound has rows. So many the key must have, and
   more for a file whose decoding is more work than that of the longest sound. */
static lx_status take_load(heard *h, const lx_upload *file, const lx_request *rq, int32_t *again_s,
                           lx_error *err)
{
    const lx_key *key = lx_key_of(&rq->client);
    const lx_listener *l = lx_transcriber_listener(h->pending.served->transcriber);
    lx_key_load load = {.n_samples = 1};
    lx_status st = LX_OK;
    if (key != NULL && lx_key_counts_tokens(key)) /* else the file is not opened for its weight */
        st = lx_listener_weigh(l, file->data, file->bytes, "file", &load.n_tokens, err);
    if (st != LX_OK)
        return st;
    st = lx_pending_take(&h->pending, rq, &load, again_s, err);
    if (st == LX_ERR_INVALID)
        return lx_fail(err, st, "file",
                       "decoding the file counts as %lld tokens, more than a key may have per "
                       "minute (--key-tokens)",
                       (long long)load.n_tokens);
    return st;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static lx_status submit(heard *h, const lx_upload *file, const lx_request *rq, int32_t *again_s,
                        lx_error *err)
{
    const lx_api *api = h->pending.api;
    int64_t now = lx_now_ns(), queue = api->queue_timeout_ns, first = api->first_token_timeout_ns;
    int64_t timeout = lx_api_timeout_ns(api, h->asked.timeout_ms);
    const lx_hearing_params params = {
        .file = file->data,
        .bytes = file->bytes,
        .beam = h->asked.beam,
        .deadline_ns = now + (first > 0 ? earlier(first, timeout) : timeout),
        .queue_deadline_ns = queue > 0 ? now + queue : 0,
        .reserve = h->pending.reserve,
        .wake = rq->wake,
        .context = rq->wake_context,
    };
    lx_status st = lx_hearing_new(&params, &h->hearing, err);
    if (st == LX_OK)
        st = lx_transcriber_submit(h->pending.served->transcriber, h->hearing, err);
    if (st == LX_ERR_BUSY)
        *again_s = lx_served_retry_after_s(h->pending.served);
    return st;
}

static lx_status start(heard *h, const lx_upload *file, const lx_request *rq, int32_t *again_s,
                       lx_error *err)
{
    lx_status st = reserve(h, file->bytes, again_s, err);
    if (st == LX_OK)
        st = take_load(h, file, rq, again_s, err);
    if (st == LX_OK)
        st = submit(h, file, rq, again_s, err);
    if (st != LX_OK)
        lx_pending_refund(&h->pending);
    return st;
}

static void defer(heard *h, lx_response *rs)
{
    int64_t deadline = lx_pending_read_by(h->hearing->params.deadline_ns);
    rs->deferred = (lx_deferred){.context = h,
                                 .is_done = is_done,
                                 .finish = finish,
                                 .pull = h->asked.stream ? pull : NULL,
                                 .cancel = cancel,
                                 .release = release,
                                 .ping = LX_SSE_PING,
                                 .failure = LX_SSE_FAILURE,
                                 .deadline_ns = deadline};
    if (h->asked.stream)
        lx_sse_start(rs);
}

/* Takes nothing of p but a copy. */
static void answer(lx_api *api, lx_served_model *served, const lx_transcription_params *p,
                   const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    int32_t again_s = 0;
    heard *h = calloc(1, sizeof *h);
    if (h == NULL) {
        (void)lx_fail(&err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
        lx_api_refuse(api, p->model, LX_ERR_NO_MEMORY, &err, rs);
        return;
    }
    lx_pending_init(&h->pending, api, served);
    lx_facts_set_model(rq->facts, served->model->name);
    h->asked = *p;
    h->asked.file = (lx_upload){.data = NULL};
    lx_status st = start(h, &p->file, rq, &again_s, &err);
    if (st == LX_OK) {
        defer(h, rs);
        return;
    }
    lx_served_count(served, st);
    lx_respond_unstarted(rs, st, &err, again_s);
    release(h);
}

void lx_handle_transcriptions(lx_api *api, const lx_request *rq, lx_response *rs)
{
    if (!lx_request_begins(api, rq, "multipart/form-data", rs))
        return;
    lx_error err = {0};
    lx_transcription_params p = {.timeout_ms = 0};
    lx_served_model *served = NULL;
    lx_status st = lx_form_read_transcription(rq->content_type, rq->body, rq->body_bytes, &p, &err);
    if (st == LX_OK)
        st = lx_serving_find_model(api->serving, p.model, LX_SPEECH, &served, &err);
    if (st == LX_OK)
        answer(api, served, &p, rq, rs);
    else
        lx_api_refuse(api, p.model, st, &err, rs);
}
