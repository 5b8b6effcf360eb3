/* Parts of answers (see parts.h). */
#include "server/json/parts.h"

#include <stdbool.h>
#include <stdio.h>

#include "server/json/fields.h"

/* "prompt_ms", "prompt_per_token_ms", "prompt_per_second" and the like; false without memory. */
static bool add_rates(json_t *o, const char *what, int64_t n, double ms)
{
    char name[32];
    const char *const suffixes[] = {"n", "ms", "per_token_ms", "per_second"};
    json_t *const values[] = {json_integer((json_int_t)n), lx_json_real_or_null(ms),
                              lx_json_real_or_null(n > 0 ? ms / (double)n : 0),
                              lx_json_real_or_null(ms > 0 ? (double)n * 1e3 / ms : 0)};
    bool ok = true;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) { /* each is taken or freed */
        (void)snprintf(name, sizeof name, "%s_%s", what, suffixes[i]);
        ok = json_object_set_new(o, name, values[i]) == 0 && ok;
    }
    return ok;
}

/* By llama.cpp's names; likewise. */
static bool add_drafts(json_t *o, const lx_json_timings *t)
{
    return t->draft_n == 0 ||
           (json_object_set_new(o, "draft_n", json_integer((json_int_t)t->draft_n)) == 0 &&
            json_object_set_new(o, "draft_n_accepted",
                                json_integer((json_int_t)t->draft_n_accepted)) == 0);
}

json_t *lx_json_make_timings(const lx_json_timings *t)
{
    json_t *o = json_pack(
        "{s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "queue_ms", lx_json_real_or_null(t->queue_ms),
        "ttft_ms", lx_json_real_or_null(t->ttft_ms), "total_ms", lx_json_real_or_null(t->total_ms),
        "state_ms", lx_json_real_or_null(t->state_ms), "cache_n", (json_int_t)t->cache_n,
        "queue_steps", (json_int_t)t->queue_steps, "total_steps", (json_int_t)t->total_steps);
    if (o != NULL && add_rates(o, "prompt", t->prompt_n, t->prompt_ms) &&
        add_rates(o, "predicted", t->predicted_n, t->predicted_ms) && add_drafts(o, t))
        return o;
    json_decref(o);
    return NULL;
}

json_t *lx_json_make_warnings(const lx_json_warning *warnings, int32_t n)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++) {
        json_t *w =
            json_pack("{s:s, s:s}", "param", warnings[i].param, "message", warnings[i].message);
        if (json_array_append_new(list, w) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
