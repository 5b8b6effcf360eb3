/* Rotary positions for mixers: the operation `rotary` with its table. */
#ifndef LINNET_MODEL_MIXERS_ROTARY_H
#define LINNET_MODEL_MIXERS_ROTARY_H

#include "model/mixers/mixer.h"

/* For `declare`: the table of `rotary` for d columns and this base. */
void lx_mixer_add_turns(lx_mixer_parts *p, double base, int32_t d);
/* As lx_mixer_add_turns, where only the first `pairs` of the d / 2 pairs turn. */
void lx_mixer_add_partial_turns(lx_mixer_parts *p, double base, int32_t d, int32_t pairs);

/* For `queue`: heads of d columns that fill the rows of `heads` turn in place, as a whole. */
void lx_mixer_rotate(const lx_mixer_call *call, lx_array *heads, int32_t n_heads, int32_t d,
                     const lx_array *turns);

#endif
