/* What the sampling options say (see sampling_options.h). */
#include "server/cli/sampling_options.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"

static int64_t choose_seed(int64_t wanted)
{
    uint64_t seed = 0;
    if (wanted >= 0)
        return wanted;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint64_t)lx_now_ns();
    return (int64_t)seed & LX_MAX_SEED;
}

lx_sampling_params lx_cli_sampling_params(const lx_cli_sampling *o, double usual)
{
    return (lx_sampling_params){.has_seed = true,
                                .seed = choose_seed(o->seed),
                                .temperature = isnan(o->temperature) ? usual : o->temperature,
                                .top_p = o->top_p,
                                .top_k = (int32_t)o->top_k,
                                .min_p = o->min_p,
                                .typical_p = o->typical_p,
                                .frequency_penalty = o->frequency_penalty,
                                .presence_penalty = o->presence_penalty,
                                .repetition_penalty = o->repetition_penalty};
}

lx_status lx_cli_add_stop(const lx_cli_sampling *o, lx_stops *stops, lx_error *err)
{
    size_t n = o->stop != NULL ? strlen(o->stop) : 0;
    if (o->stop == NULL)
        return LX_OK;
    if (n < 1 || n > LX_MAX_STOP_BYTES)
        return lx_fail(err, LX_ERR_INVALID, "stop", "--stop must have 1 to %d bytes",
                       LX_MAX_STOP_BYTES);
    struct lx_stop *stop = &stops->stop[stops->n++];
    stop->bytes = n;
    memcpy(stop->text, o->stop, n);
    return LX_OK;
}

const char *lx_cli_text_only(const lx_cli_sampling *o)
{
    return o->stop != NULL                                          ? "--stop"
           : o->max_tokens > 0                                      ? "--max-tokens"
           : o->frequency_penalty < 0 || o->frequency_penalty > 0   ? "--frequency-penalty"
           : o->presence_penalty < 0 || o->presence_penalty > 0     ? "--presence-penalty"
           : o->repetition_penalty < 1 || o->repetition_penalty > 1 ? "--repetition-penalty"
           : o->min_p > 0                                           ? "--min-p"
           : o->typical_p < 1                                       ? "--typical-p"
                                                                    : NULL;
}
