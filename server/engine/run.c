/* Questions about runs and slots (see run.h). */
#include <assert.h>

#include "server/engine/internal.h"

lx_slot_phase lx_run_after_prompt(const lx_run *r)
{
    bool state_only = r->params->max_new == r->params->start.n_tokens;
    return r->params->n > 1 ? LX_SLOT_SHARED : state_only ? LX_SLOT_PROMPTED : LX_SLOT_DECODE;
}

int32_t lx_run_prompt_end(const lx_run *r)
{
    int32_t n_targets = r->params->n_targets, max_new = r->params->max_new;
    if (n_targets > 0)
        return r->plan->n_prompt + (n_targets < max_new ? n_targets : max_new - 1);
    /* The last row is each sample's own, or that of a request that continues from the state. */
    return r->plan->n_prompt - (lx_run_after_prompt(r) != LX_SLOT_DECODE);
}

bool lx_run_goes_ahead(const lx_engine *e, const lx_run *r)
{
    return e->options.ahead > 0 && r->plan->runs_ahead && r->params->targets == NULL &&
           r->params->stops == NULL && !lx_job_penalizes(r->params);
}

const void *lx_run_owner(const lx_engine *e, const lx_run *r)
{
    return e->options.share_prefixes ? NULL : r->params->client.key;
}

int32_t lx_slot_rows(const lx_slot *s, const lx_run *r)
{
    return s->step > 0 ? r->plan->n_prompt + s->step - 1 : s->prompt_row;
}

static float temperature_of(const lx_sampling_params *p, int32_t sample)
{
    const lx_temperatures *t = &p->temperatures;
    return t->n > 0 ? t->at[sample % t->n] : (float)p->temperature;
}

lx_sampling lx_slot_sampling(const lx_slot *s, const lx_run *r, int32_t step)
{
    return (lx_sampling){
        .seed = (uint64_t)r->params->sampling.seed,
        .sample = r->params->start.first_sample + (uint32_t)s->sample,
        .step = (uint32_t)(step > r->plan->n_given ? step - r->plan->n_given : 0),
        .temperature = temperature_of(&r->params->sampling, s->sample),
        .top_p = (float)r->params->sampling.top_p,
        .min_p = (float)r->params->sampling.min_p,
        .typical_p = (float)r->params->sampling.typical_p,
        .top_k = r->params->sampling.top_k,
        .forced = -1,
    };
}

static bool may_follow(lx_slot_phase from, lx_slot_phase to)
{
    enum { BEGUN = 1 << LX_SLOT_DECODE | 1 << LX_SLOT_SHARED | 1 << LX_SLOT_PROMPTED };
    static const int next[LX_SLOT_PHASES] = {
        [LX_SLOT_FREE] = 1 << LX_SLOT_PROMPT | BEGUN,
        [LX_SLOT_PROMPT] = BEGUN | 1 << LX_SLOT_LEAVING | 1 << LX_SLOT_FREE,
        [LX_SLOT_DECODE] = 1 << LX_SLOT_CATCH_UP | 1 << LX_SLOT_LEAVING | 1 << LX_SLOT_FREE,
        [LX_SLOT_CATCH_UP] = 1 << LX_SLOT_DECODE | 1 << LX_SLOT_FREE,
        [LX_SLOT_SHARED] = 1 << LX_SLOT_DECODE | 1 << LX_SLOT_FREE,
        [LX_SLOT_PROMPTED] = 1 << LX_SLOT_LEAVING | 1 << LX_SLOT_FREE,
        [LX_SLOT_LEAVING] = 1 << LX_SLOT_FREE,
    };
    return (next[from] & 1 << to) != 0;
}

void lx_slot_enter(lx_engine *e, int32_t slot, lx_slot_phase phase)
{
    lx_slot *s = &e->slots[slot];
    bool counted = s->phase == LX_SLOT_FREE || lx_slot_is_active(s);
    bool follows = may_follow(s->phase, phase) && s->run >= 0;
    assert(follows && (phase != LX_SLOT_FREE || lx_slot_is_idle(s)));
    (void)follows;
    s->phase = phase;
    if (counted && !lx_slot_is_active(s))
        lx_usage_count(e, e->runs[s->run].request, -1, 0);
}

bool lx_run_is_ready(const lx_engine *e, const lx_run *r)
{
    return r->params->n > 1 &&
           (r->first_slot < 0 || e->slots[r->first_slot].phase == LX_SLOT_SHARED);
}

void lx_slot_count(lx_engine *e, int32_t slot, int32_t n_steps, int32_t n_moves)
{
    lx_slot *s = &e->slots[slot];
    s->steps += n_steps;
    s->moves += n_moves;
    e->runs[s->run].under_way += n_steps + n_moves;
    assert(s->steps >= 0 && s->moves >= 0 && s->moves <= 1);
}
