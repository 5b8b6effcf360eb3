/*
 * Metrics: relaxed atomic counters, and the page that shows them. Each family is one line of a
 * table, so a new metric is a field and a line. The cumulative buckets of a histogram and its
 * _count are summed from one reading of the buckets, so they agree.
 */
#include "server/engine/metrics.h"

#include <inttypes.h>
#include <stddef.h>

/* The 1-2-5 series: 10 us to 20 s. */
static const struct bound {
    int64_t ns;
    const char *text; /* in seconds */
} bounds[LX_N_BUCKETS] = {
    {10000, "1e-05"},    {20000, "2e-05"},    {50000, "5e-05"},      {100000, "0.0001"},
    {200000, "0.0002"},  {500000, "0.0005"},  {1000000, "0.001"},    {2000000, "0.002"},
    {5000000, "0.005"},  {10000000, "0.01"},  {20000000, "0.02"},    {50000000, "0.05"},
    {100000000, "0.1"},  {200000000, "0.2"},  {500000000, "0.5"},    {1000000000, "1.0"},
    {2000000000, "2.0"}, {5000000000, "5.0"}, {10000000000, "10.0"}, {20000000000, "20.0"},
};

void lx_histogram_observe(lx_histogram *h, int64_t ns)
{
    if (ns < 0)
        ns = 0;
    int32_t i = 0; /* the first bound >= ns */
    while (i < LX_N_BUCKETS && bounds[i].ns < ns)
        i++;
    atomic_fetch_add_explicit(&h->buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum_ns, (uint64_t)ns, memory_order_relaxed);
}

typedef enum kind { COUNTER, SECONDS, GAUGE, HISTOGRAM, OUTCOMES, PHASES } kind;

static const struct {
    const char *type;
    const char *label;     /* NULL, or one more label, by which the counters of a family differ */
    const char *values[6]; /* of the label */
} kinds[] = {
    [COUNTER] = {"counter", NULL, {NULL}},
    [SECONDS] = {"counter", NULL, {NULL}},
    [GAUGE] = {"gauge", NULL, {NULL}},
    [HISTOGRAM] = {"histogram", NULL, {NULL}},
    [OUTCOMES] = {"counter", "outcome", {"ok", "invalid", "busy", "cancelled", "timeout", "error"}},
    [PHASES] = {"counter", "phase", {"queue", "prompt", "decode", "answer"}},
};

typedef struct family {
    const char *name, *help;
    kind kind;
    size_t offset, size; /* of its value in lx_metrics; all counters have 8 bytes */
} family;

#define AT(field) offsetof(lx_metrics, field), sizeof((lx_metrics *)NULL)->field
static const family families[] = {
    {"linnet_requests_total", "Requests answered, by outcome.", OUTCOMES, AT(requests)},
    {"linnet_requests_abandoned_total",
     "Requests dropped before their answer was complete, by where they were.", PHASES,
     AT(abandoned)},
    {"linnet_prompt_tokens_total", "Prompt tokens computed.", COUNTER, AT(prompt_tokens)},
    {"linnet_cached_prompt_tokens_total",
     "Prompt tokens taken from a shared state instead of computed.", COUNTER,
     AT(cached_prompt_tokens)},
    {"linnet_spared_seconds_total",
     "Estimated seconds that cached prompt tokens would have taken to compute.", SECONDS,
     AT(spared_ns)},
    {"linnet_prefix_store_written_total", "Prompt states written to the prefix store.", COUNTER,
     AT(stored_prefixes)},
    {"linnet_prefix_store_read_total", "Prompt states read from the prefix store.", COUNTER,
     AT(read_prefixes)},
    {"linnet_prefix_store_lost_total",
     "Prompt states that the prefix store had lost or could not read.", COUNTER, AT(lost_prefixes)},
    {"linnet_prefix_store_failed_total", "Prompt states that could not be written.", COUNTER,
     AT(failed_prefixes)},
    {"linnet_prefix_store_up", "1 while the prefix store works; 0 without one and after a failure.",
     GAUGE, AT(prefix_store_works)},
    {"linnet_generated_tokens_total", "Tokens generated.", COUNTER, AT(generated_tokens)},
    {"linnet_steps_total", "Steps of the engine: batches computed.", COUNTER, AT(steps)},
    {"linnet_step_rows_total", "Token rows computed in all steps.", COUNTER, AT(step_rows)},
    {"linnet_sound_seconds_total", "Seconds of transcribed sound.", SECONDS, AT(sound_ns)},
    {"linnet_draft_tokens_total", "Guessed tokens.", COUNTER, AT(drafted_tokens)},
    {"linnet_draft_accepted_tokens_total", "Guessed tokens that were right.", COUNTER,
     AT(accepted_tokens)},
    {"linnet_probe_steps_total", "Steps of an idle engine that probe the device.", COUNTER,
     AT(probes)},
    {"linnet_preemptions_total", "Samples preempted for fairness.", COUNTER, AT(preemptions)},
    {"linnet_queue_steps_total", "Steps done while requests waited for their first slot.", COUNTER,
     AT(queue_steps)},
    {"linnet_slots", "Slots that a step can compute.", GAUGE, AT(slots_total)},
    {"linnet_slots_used", "Active slots, at most linnet_slots.", GAUGE, AT(slots_used)},
    {"linnet_growing_bytes_limit", "Bytes for the growing parts of states.", GAUGE, AT(pool_bytes)},
    {"linnet_growing_bytes", "Bytes of growing parts that running requests have reserved.", GAUGE,
     AT(pool_used)},
    {"linnet_growing_bytes_kept", "Bytes of growing parts held by shared prompt states; evictable.",
     GAUGE, AT(pool_kept)},
    {"linnet_samples_waiting", "Samples with a slot that were not in the last step.", GAUGE,
     AT(samples_waiting)},
    {"linnet_queue_length", "Jobs that wait in the queue for a slot.", GAUGE, AT(queue_length)},
    {"linnet_queue_limit", "Jobs that the queue can hold.", GAUGE, AT(queue_limit)},
    {"linnet_time_to_first_token_seconds", "From submission to the first token.", HISTOGRAM,
     AT(time_to_first_token)},
    {"linnet_inter_token_seconds", "Between two tokens of one sample.", HISTOGRAM, AT(inter_token)},
    {"linnet_queue_time_seconds", "From submission to the first slot.", HISTOGRAM, AT(queue_time)},
    {"linnet_request_duration_seconds", "From the request to the end of its answer.", HISTOGRAM,
     AT(request_time)},
    {"linnet_step_duration_seconds", "Duration of an engine step.", HISTOGRAM, AT(step_time)},
};
#undef AT

static void put_label_value(const char *text, lx_buffer *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n')
            lx_buffer_puts(out, "\\n");
        else if (*text == '"' || *text == '\\')
            lx_buffer_append(out, (char[]){'\\', *text}, 2);
        else
            lx_buffer_append(out, text, 1);
    }
}

/* The series up to its first label: NAME{model="MODEL", still open for more labels. */
static void put_series(const char *name, const char *suffix, const char *model, lx_buffer *out)
{
    lx_buffer_printf(out, "%s%s{model=\"", name, suffix);
    put_label_value(model, out);
    lx_buffer_puts(out, "\"");
}

static void put_seconds(const _Atomic uint64_t *value, lx_buffer *out)
{
    uint64_t ns = atomic_load_explicit(value, memory_order_relaxed);
    lx_buffer_printf(out, "} %" PRIu64 ".%09" PRIu64 "\n", ns / 1000000000, ns % 1000000000);
}

static void put_histogram(const char *name, const char *model, const lx_histogram *h,
                          lx_buffer *out)
{
    uint64_t count = 0;
    for (int32_t i = 0; i <= LX_N_BUCKETS; i++) {
        count += atomic_load_explicit(&h->buckets[i], memory_order_relaxed);
        put_series(name, "_bucket", model, out);
        lx_buffer_printf(out, ",le=\"%s\"} %" PRIu64 "\n",
                         i < LX_N_BUCKETS ? bounds[i].text : "+Inf", count);
    }
    put_series(name, "_sum", model, out);
    put_seconds(&h->sum_ns, out);
    put_series(name, "_count", model, out);
    lx_buffer_printf(out, "} %" PRIu64 "\n", count);
}

static void put_values(const family *f, const char *model, const lx_metrics *m, lx_buffer *out)
{
    const _Atomic uint64_t *values = (const void *)((const char *)m + f->offset);
    for (size_t i = 0; i < f->size / sizeof *values; i++) {
        put_series(f->name, "", model, out);
        if (kinds[f->kind].label != NULL)
            lx_buffer_printf(out, ",%s=\"%s\"", kinds[f->kind].label, kinds[f->kind].values[i]);
        uint64_t value = atomic_load_explicit(&values[i], memory_order_relaxed);
        if (f->kind == SECONDS)
            put_seconds(&values[i], out);
        else if (f->kind == GAUGE)
            lx_buffer_printf(out, "} %" PRId64 "\n", (int64_t)value);
        else
            lx_buffer_printf(out, "} %" PRIu64 "\n", value);
    }
}

void lx_metrics_carry(lx_metrics *to, const lx_metrics *from, lx_metrics *carried)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const family *f = &families[i];
        _Atomic uint64_t *sum = (void *)((char *)to + f->offset);
        _Atomic uint64_t *before = (void *)((char *)carried + f->offset);
        const _Atomic uint64_t *now = (const void *)((const char *)from + f->offset);
        for (size_t k = 0; k < f->size / sizeof *now && f->kind != GAUGE; k++) {
            uint64_t value = atomic_load_explicit(&now[k], memory_order_relaxed);
            atomic_fetch_add_explicit(&sum[k], value - before[k], memory_order_relaxed);
            before[k] = value;
        }
    }
}

void lx_metrics_render(const char *const *names, const lx_metrics *const *metrics, int32_t n,
                       lx_buffer *out)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const family *f = &families[i];
        lx_buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", f->name, f->help, f->name,
                         kinds[f->kind].type);
        for (int32_t k = 0; k < n; k++) {
            if (f->kind == HISTOGRAM)
                put_histogram(f->name, names[k],
                              (const void *)((const char *)metrics[k] + f->offset), out);
            else
                put_values(f, names[k], metrics[k], out);
        }
    }
}
