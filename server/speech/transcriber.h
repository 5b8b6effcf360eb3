/*
 * Sound to text for many at once: of each model of speech two threads and a bounded queue.
 *
 *     reader    decodes a file into rows of features; later finds the text in the log-probabilities
 *     encoder   a pass over as many waiting sounds as fit into its rows, whole
 *
 * So no thread that answers requests decodes sound, and decoding does not delay passes. Sounds that
 * are late or cancelled are dropped between two passes. A sound has equal bytes alone and in
 * company (encoder.h). A pass that fails is made again for each of its sounds alone, so that no
 * sound fails for another sound.
 */
#ifndef LINNET_SERVER_SPEECH_TRANSCRIBER_H
#define LINNET_SERVER_SPEECH_TRANSCRIBER_H

#include "server/engine/metrics.h"
#include "server/speech/hearing.h"

enum { LX_PASS_SOUNDS = 16 /* of a pass, at most, and no more than it has rows */ };

typedef struct lx_transcriber lx_transcriber;

/* Computes one row and starts both threads. Model, back end and metrics must outlive it. At most
   max_queue sounds wait after the first. LX_ERR_INVALID for a model of another task,
   LX_ERR_UNSUPPORTED where the back end cannot compute it, LX_ERR_NO_MEMORY. */
lx_status lx_transcriber_new(const lx_model *model, lx_backend *be, int32_t max_queue,
                             lx_metrics *metrics, lx_transcriber **out, lx_error *err) LX_MUST_USE;
/* Ends the threads; sounds that are left fail with LX_ERR_UNAVAILABLE. NULL is allowed. */
void lx_transcriber_stop(lx_transcriber *t);

const lx_listener *lx_transcriber_listener(const lx_transcriber *t);
/* Of a pass of its encoder. */
int64_t lx_transcriber_bytes(const lx_transcriber *t);

/* Those below: any thread; none waits for a pass. */

/* Queues it, with a reference. LX_ERR_BUSY when the queue is full, LX_ERR_UNAVAILABLE when
   draining. */
lx_status lx_transcriber_submit(lx_transcriber *t, lx_hearing *h, lx_error *err) LX_MUST_USE;
/* Ends waiting sounds that were cancelled or are late; otherwise they would end at the next turn.
   Not with a lock held that their wake takes. */
void lx_transcriber_poke(lx_transcriber *t);
void lx_transcriber_drain(lx_transcriber *t); /* refuses new ones from now on */
bool lx_transcriber_idle(lx_transcriber *t);  /* none is there */
/* lx_now_ns() of the newest thing that was done; now, when there is nothing to do. */
int64_t lx_transcriber_last_step_ns(lx_transcriber *t);
/* Seconds until all sounds here are done, by the recent mean time of a sound; 0 without sounds. */
double lx_transcriber_wait_s(lx_transcriber *t);
/* Mean time of a pass lately, 0 before the first. */
double lx_transcriber_step_s(lx_transcriber *t);

#endif
