/* See draft.h. */
#include "model/drafts/draft.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"

struct lx_drafter {
    const lx_guesser *guesser;
    uint64_t time;
    struct {
        const void *owner;
        uint64_t used; /* the drafter's time at the last use, 0: the place is free */
    } owners[LX_MOST_OWNERS];
    int32_t newest;        /* the owner of the last call, whom most calls ask for again */
    size_t bytes;          /* of one owner's memory, a multiple of its alignment */
    unsigned char *memory; /* [LX_MOST_OWNERS, bytes] */
};

enum { MOST_TRIES = 255 };

void lx_odds_count(lx_odds *o, bool hit)
{
    o->tries++;
    o->hits = (uint16_t)(o->hits + hit);
    if (o->tries < MOST_TRIES)
        return;
    o->tries /= 2; /* old guesses count less */
    o->hits /= 2;
}

float lx_odds_of(const lx_odds *o)
{
    return ((float)o->hits + 0.5f) / ((float)o->tries + 1.5f);
}

/* Of a mixture the first number draws a component, the second one the value. */
lx_draw lx_draw_of(const lx_model *model, const lx_sampling *s)
{
    bool mixture = model->config.head_kind == LX_HEAD_LOGISTIC_MIXTURE;
    bool sorted = s->top_k > 0 || s->top_p < 1 || s->min_p > 0;
    lx_draw_order order = s->temperature <= 0  ? LX_DRAW_LIKELIEST
                          : sorted && !mixture ? LX_DRAW_BY_LOGIT
                                               : LX_DRAW_BY_ID;
    return (lx_draw){order, lx_uniform(s->seed, s->sample, s->step, mixture ? 1 : 0)};
}

static const lx_guesser *guesser_of(const lx_model *model)
{
    return model->task->modality == LX_IMAGE ? &lx_guesser_image_context : &lx_guesser_lookup;
}

lx_status lx_drafter_new(const lx_model *model, const lx_guesser *guesser, lx_drafter **out,
                         lx_error *err)
{
    lx_drafter *d = calloc(1, sizeof *d);
    if (d == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for drafts");
    d->guesser = guesser != NULL ? guesser : guesser_of(model);
    size_t align = _Alignof(max_align_t);
    d->bytes = (d->guesser->memory_bytes / align + 1) * align;
    d->memory = calloc(LX_MOST_OWNERS, d->bytes);
    if (d->memory == NULL) {
        lx_drafter_free(d);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for drafts");
    }
    *out = d;
    return LX_OK;
}

void lx_drafter_free(lx_drafter *d)
{
    if (d == NULL)
        return;
    free(d->memory);
    free(d);
}

const char *lx_drafter_name(const lx_drafter *d)
{
    return d->guesser->name;
}

/* The place of the owner, or of the one unused for longest. */
static int32_t place_of(const lx_drafter *d, const void *owner)
{
    int32_t oldest = 0;
    for (int32_t i = 0; i < LX_MOST_OWNERS; i++) {
        if (d->owners[i].used > 0 && d->owners[i].owner == owner)
            return i;
        oldest = d->owners[i].used < d->owners[oldest].used ? i : oldest;
    }
    return oldest;
}

/* The lessons of the owner's answers; a new owner has none. */
static void *memory_of(lx_drafter *d, const void *owner)
{
    if (d->owners[d->newest].used == 0 || d->owners[d->newest].owner != owner)
        d->newest = place_of(d, owner);
    int32_t i = d->newest;
    void *memory = d->memory + (size_t)i * d->bytes;
    if (d->owners[i].used > 0 && d->owners[i].owner != owner)
        memset(memory, 0, d->bytes);
    d->owners[i].owner = owner;
    d->owners[i].used = ++d->time;
    return memory;
}

static bool is_banned(const lx_constraint *rule, int32_t token)
{
    if (rule->allowed != NULL && (rule->allowed[token / 32] >> (token % 32) & 1) == 0)
        return true;
    for (int32_t i = 0; i < rule->n_banned; i++) {
        if (rule->banned[i] == token)
            return true;
    }
    return false;
}

lx_guess lx_drafter_guess(lx_drafter *d, const lx_guess_context *c, const lx_constraint *rule)
{
    const lx_model *model = c->plan->model;
    lx_guess g = rule->forced >= 0 ? (lx_guess){rule->forced, 1.0f}
                                   : d->guesser->guess(memory_of(d, c->owner), c);
    bool ends = model->task->ends != NULL && model->task->ends(c->plan, g.token);
    if (g.token < 0 || g.token >= model->config.n_values || ends || is_banned(rule, g.token))
        g.sure = 0;
    return g;
}

void lx_drafter_learn(lx_drafter *d, const lx_guess_context *c, int32_t token)
{
    d->guesser->learn(memory_of(d, c->owner), c, token);
}
