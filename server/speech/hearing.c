/* One sound on its way (see hearing.h). */
#include "server/speech/hearing.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

lx_status lx_hearing_new(const lx_hearing_params *params, lx_hearing **out, lx_error *err)
{
    lx_hearing *h = calloc(1, sizeof *h);
    void *file = malloc(params->bytes + 1); /* never of size 0 */
    if (h == NULL || file == NULL) {
        free(h);
        free(file);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a sound of %zu bytes",
                       params->bytes);
    }
    memcpy(file, params->file, params->bytes);
    atomic_store(&h->refs, 1);
    h->params = *params;
    h->params.file = file;
    h->params.reserve = lx_reserve_ref(params->reserve);
    h->submitted_ns = lx_now_ns();
    (void)pthread_mutex_init(&h->lock, NULL);
    *out = h;
    return LX_OK;
}

lx_hearing *lx_hearing_ref(lx_hearing *h)
{
    atomic_fetch_add(&h->refs, 1);
    return h;
}

static void free_way(lx_hearing *h)
{
    free((void *)(uintptr_t)h->params.file);
    h->params.file = NULL;
    lx_utterance_fini(&h->utterance);
}

void lx_hearing_unref(lx_hearing *h)
{
    if (h == NULL || atomic_fetch_sub(&h->refs, 1) != 1)
        return;
    free_way(h);
    lx_transcription_fini(&h->said);
    (void)pthread_mutex_destroy(&h->lock);
    lx_reserve *reserve = h->params.reserve;
    free(h);
    lx_reserve_unref(reserve);
}

void lx_hearing_detach(lx_hearing *h)
{
    (void)pthread_mutex_lock(&h->lock);
    h->params.wake = NULL;
    (void)pthread_mutex_unlock(&h->lock);
}

void lx_hearing_cancel(lx_hearing *h)
{
    atomic_store(&h->cancelled, true);
}

bool lx_hearing_done(const lx_hearing *h)
{
    return atomic_load(&h->done);
}

lx_status lx_hearing_fault(const lx_hearing *h, int64_t now_ns, lx_error *err)
{
    const lx_hearing_params *p = &h->params;
    if (atomic_load(&h->cancelled))
        return lx_fail(err, LX_ERR_CANCELLED, NULL, "the request was cancelled");
    if (now_ns >= p->deadline_ns)
        return lx_fail(err, LX_ERR_TIMEOUT, NULL, "the request took longer than it may");
    if (p->queue_deadline_ns > 0 && now_ns >= p->queue_deadline_ns &&
        atomic_load(&h->started_ns) == 0)
        return lx_fail(err, LX_ERR_BUSY, NULL, "the request waited too long for its turn");
    return LX_OK;
}

void lx_hearing_finish(lx_hearing *h, lx_status status, const lx_error *err)
{
    h->status = status;
    if (status != LX_OK)
        h->err = *err;
    h->rows = h->utterance.input.n_rows;
    free_way(h);
    h->finished_ns = lx_now_ns();
    (void)pthread_mutex_lock(&h->lock);
    atomic_store(&h->done, true);
    if (h->params.wake != NULL)
        h->params.wake(h->params.context);
    (void)pthread_mutex_unlock(&h->lock);
}
