/*
 * A hearing is one sound on its way to a transcription, and the border between the HTTP threads and
 * those of a transcriber.
 *
 * It keeps a copy of the file until that is read. References: created with one; the transcriber
 * takes one more while the hearing is with it. Its maker reserves its memory, and the last
 * reference gives it back.
 */
#ifndef LINNET_SERVER_SPEECH_HEARING_H
#define LINNET_SERVER_SPEECH_HEARING_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/budget.h"
#include "model/transcribe.h"

typedef struct lx_hearing_params {
    const void *file; /* [bytes], copied */
    size_t bytes;
    int32_t beam;              /* see lx_listener_write */
    int64_t deadline_ns;       /* lx_now_ns() time at which it fails with LX_ERR_TIMEOUT */
    int64_t queue_deadline_ns; /* the same while no pass has begun with it, LX_ERR_BUSY; 0: none */
    lx_reserve *reserve;       /* held until it is freed; NULL: none */
    void (*wake)(void *context); /* once, at the end, by any thread; never after detach; or NULL */
    void *context;
} lx_hearing_params;

typedef struct lx_hearing {
    _Atomic int32_t refs;
    lx_hearing_params params; /* file: its own */
    atomic_bool cancelled, done;
    _Atomic int64_t started_ns; /* when its pass began; 0: not yet */
    int64_t submitted_ns, finished_ns;
    /* Final once it is done. */
    lx_status status;
    lx_error err;
    int32_t rows;
    lx_transcription said;
    /* The transcriber's. */
    lx_utterance utterance;
    struct lx_hearing *next;
    pthread_mutex_t lock; /* for params.wake */
} lx_hearing;

/* Bytes of a hearing without its file and lx_listener_bytes. */
enum { LX_HEARING_BYTES = sizeof(lx_hearing) + 256 };

/* LX_ERR_NO_MEMORY. */
lx_status lx_hearing_new(const lx_hearing_params *params, lx_hearing **out,
                         lx_error *err) LX_MUST_USE;
lx_hearing *lx_hearing_ref(lx_hearing *h); /* h */
void lx_hearing_unref(lx_hearing *h);      /* NULL is allowed */
/* After return `wake` is not running and will not be called. Not to be called with a lock held that
   wake takes. */
void lx_hearing_detach(lx_hearing *h);
/* Asks for its end: it fails with LX_ERR_CANCELLED unless it was done. Any thread. */
void lx_hearing_cancel(lx_hearing *h);
bool lx_hearing_done(const lx_hearing *h); /* any thread */

/* --- the transcriber's side --- */

/* Whether it should go no further, and why. */
lx_status lx_hearing_fault(const lx_hearing *h, int64_t now_ns, lx_error *err) LX_MUST_USE;
/* Publishes how it ended, frees what only the way there needed, and wakes the reader. Once. */
void lx_hearing_finish(lx_hearing *h, lx_status status, const lx_error *err);

#endif
