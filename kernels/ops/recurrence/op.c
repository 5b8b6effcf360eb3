#include "kernels/op.h"

/* Columns of `length` floats lie within a row for every head. */
static bool is_inside(const lx_head_columns *c, int32_t n_heads, int64_t length)
{
    if (c->width < 1 || c->first < 0 || c->apart < 0 || c->shared < 1 || n_heads % c->shared != 0)
        return false;
    return c->first + (int64_t)(n_heads / c->shared - 1) * c->apart + length <= c->width;
}

static bool are_inside(const lx_recurrence_args *a)
{
    int32_t h = a->n_heads, d = a->d_key;
    return is_inside(&a->q, h, d) && is_inside(&a->k, h, d) && is_inside(&a->v, h, a->d_value) &&
           (a->decay == LX_DECAY_NONE ||
            is_inside(&a->w, h, a->decay == LX_DECAY_CHANNEL ? d : 1)) &&
           (a->correction != LX_CORRECT_PAIR ||
            (is_inside(&a->a, h, d) && is_inside(&a->b, h, d))) &&
           (a->beta.array == NULL || is_inside(&a->beta, h, 1));
}

/* y is written head by head while other heads still read their columns. */
static bool overwrites(const lx_recurrence_args *a)
{
    return a->y == a->q.array || a->y == a->k.array || a->y == a->v.array || a->y == a->w.array ||
           a->y == a->a.array || a->y == a->b.array || a->y == a->beta.array;
}

static const char *wrong(const void *args)
{
    const lx_recurrence_args *a = args;
    int64_t h = a->n_heads, d = a->d_key, m = a->d_value;
    if (h < 1 || d < 1 || m < 1 || h > 65536 || d > 65536 || m > 65536)
        return "heads and their sizes must be 1 to 65536";
    if ((unsigned)a->decay > LX_DECAY_CHANNEL || (unsigned)a->correction > LX_CORRECT_PAIR ||
        (unsigned)a->read > LX_READ_BEFORE)
        return "unknown decay, correction or read";
    if (!are_inside(a))
        return "a head's columns lie outside the row";
    if (a->y != NULL && overwrites(a))
        return "y is one of the inputs";
    if (a->read == LX_READ_BEFORE && (a->correction != LX_CORRECT_NONE || a->beta.array != NULL))
        return "a read before the update has neither correction nor beta";
    if (a->read == LX_READ_AFTER && a->bonus != NULL)
        return "a bonus goes with a read before the update";
    if (!lx_states_hold(a->states, a->offset, h * d * m))
        return "the layer's state lies outside the slot";
    return NULL;
}

static void uses(const void *args, lx_uses *u)
{
    const lx_recurrence_args *a = args;
    int64_t h = a->n_heads;
    lx_uses_array(u, LX_USE_OUT, "y", a->y, h * a->d_value);
    lx_uses_array(u, LX_USE_IN, "q", a->q.array, a->q.width);
    lx_uses_array(u, LX_USE_BESIDE, "k", a->k.array, a->k.width);
    lx_uses_array(u, LX_USE_BESIDE, "v", a->v.array, a->v.width);
    if (a->decay != LX_DECAY_NONE)
        lx_uses_array(u, a->decay == LX_DECAY_FIXED ? LX_USE_PARAMETER : LX_USE_BESIDE, "w",
                      a->w.array, a->w.width);
    if (a->correction == LX_CORRECT_PAIR) {
        lx_uses_array(u, LX_USE_BESIDE, "a", a->a.array, a->a.width);
        lx_uses_array(u, LX_USE_BESIDE, "b", a->b.array, a->b.width);
    }
    if (a->beta.array != NULL)
        lx_uses_array(u, LX_USE_BESIDE, "beta", a->beta.array, a->beta.width);
    lx_uses_optional(u, "bonus", a->bonus, h * a->d_key);
    lx_uses_optional(u, "skip", a->skip, h);
    u->states = a->states;
    u->branches = true;
}

LX_DEFINE_OP(recurrence, .lasting = true, .wrong = wrong, .uses = uses);
