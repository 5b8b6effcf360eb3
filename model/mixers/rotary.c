/* See rotary.h. */
#include "model/mixers/rotary.h"

#include <math.h>

/* d->number is the base; see lx_rotary_args. The angle of a position is taken apart, not rounded:
   pairs turn by base^(-2 i / d) a position, the first d->count of them. */
static void fill_turns(const lx_mixer_config *c, const lx_mixer_parts *p, const lx_mixer_derived *d,
                       const float *from, float *to)
{
    (void)c, (void)p, (void)from;
    int64_t columns = d->n / (LX_ROTARY_LEVELS * LX_ROTARY_STEPS), pairs = columns / 2;
    int64_t step = 1;
    for (int32_t level = 0; level < LX_ROTARY_LEVELS; level++, step *= LX_ROTARY_STEPS) {
        for (int32_t at = 0; at < LX_ROTARY_STEPS; at++, to += columns) {
            for (int64_t i = 0; i < pairs; i++) {
                double angle = i < d->count ? (double)(at * step) *
                                                  pow(d->number, -2.0 * (double)i / (double)columns)
                                            : 0;
                to[i] = (float)cos(angle);
                to[pairs + i] = (float)sin(angle);
            }
        }
    }
}

void lx_mixer_add_partial_turns(lx_mixer_parts *p, double base, int32_t d, int32_t pairs)
{
    lx_mixer_add_derived_by(p, -1, (int64_t)LX_ROTARY_LEVELS * LX_ROTARY_STEPS * d, fill_turns,
                            base);
    p->derived[p->n_derived - 1].count = pairs;
}

void lx_mixer_add_turns(lx_mixer_parts *p, double base, int32_t d)
{
    lx_mixer_add_partial_turns(p, base, d, d / 2);
}

void lx_mixer_rotate(const lx_mixer_call *call, lx_array *heads, int32_t n_heads, int32_t d,
                     const lx_array *turns)
{
    call->be->ops->rotary(call->be, &(lx_rotary_args){.x = heads,
                                                      .width = n_heads * d,
                                                      .apart = d,
                                                      .n_heads = n_heads,
                                                      .d = d,
                                                      .turns = turns});
}
