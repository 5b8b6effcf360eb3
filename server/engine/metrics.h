/*
 * Counters, gauges and histograms of one model, rendered as Prometheus text (exposition format
 * 0.0.4). All updates are atomic; any thread.
 */
#ifndef LINNET_SERVER_ENGINE_METRICS_H
#define LINNET_SERVER_ENGINE_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/buffer.h"

enum { LX_N_BUCKETS = 20 };

/* Bucket bounds in seconds: 10 us, 20 us, 50 us, 100 us, ... 20 s; see metrics.c. */
typedef struct lx_histogram {
    _Atomic uint64_t buckets[LX_N_BUCKETS + 1]; /* not cumulative; the last is +Inf */
    _Atomic uint64_t sum_ns;
} lx_histogram;

void lx_histogram_observe(lx_histogram *h, int64_t ns);

static inline void lx_counter_add(_Atomic uint64_t *counter, int64_t n)
{
    atomic_fetch_add_explicit(counter, (uint64_t)n, memory_order_relaxed);
}

/* How a request ended, the label `outcome`. */
typedef enum lx_outcome {
    LX_OUTCOME_OK,
    LX_OUTCOME_INVALID,   /* 4xx of the client's making */
    LX_OUTCOME_BUSY,      /* 429 */
    LX_OUTCOME_CANCELLED, /* the client left */
    LX_OUTCOME_TIMEOUT,
    LX_OUTCOME_ERROR, /* 5xx */
    LX_N_OUTCOMES
} lx_outcome;

/* Where a request was when its client left, the label `phase`. */
typedef enum lx_phase {
    LX_PHASE_QUEUE,  /* no slot yet */
    LX_PHASE_PROMPT, /* no token yet */
    LX_PHASE_DECODE,
    LX_PHASE_ANSWER, /* all was made, not all was read */
    LX_N_PHASES
} lx_phase;

typedef struct lx_metrics {
    _Atomic uint64_t abandoned[LX_N_PHASES];
    _Atomic uint64_t requests[LX_N_OUTCOMES];
    _Atomic uint64_t prompt_tokens, cached_prompt_tokens, generated_tokens, steps, step_rows,
        probes, preemptions, queue_steps;
    _Atomic uint64_t spared_ns; /* the time that cached prompt rows would have taken */
    _Atomic uint64_t stored_prefixes, read_prefixes, lost_prefixes, failed_prefixes;
    _Atomic uint64_t sound_ns;                        /* that was written down */
    _Atomic uint64_t drafted_tokens, accepted_tokens; /* guessed, and of those drawn */
    /* bytes of growing states: of the pool, reserved ones, and those of kept states */
    _Atomic int64_t pool_bytes, pool_used, pool_kept;
    _Atomic int64_t prefix_store_works;
    _Atomic int64_t slots_total, slots_used, samples_waiting, queue_length, queue_limit;
    lx_histogram time_to_first_token, inter_token, queue_time, request_time, step_time;
} lx_metrics;

/* Adds to `to` the counts of `from` since the last time, which `carried` remembers, so that a
   model's counters go on when its weights are replaced. Gauges stay. */
void lx_metrics_carry(lx_metrics *to, const lx_metrics *from, lx_metrics *carried);

/* The whole page for n models, families in a fixed order, label model="NAME". */
void lx_metrics_render(const char *const *names, const lx_metrics *const *metrics, int32_t n,
                       lx_buffer *out);

#endif
