/* The rotation of softmax layers (see reader.h): its base, and the columns of a head that turn. */
#include <math.h>

#include "model/formats/hugging_face/reader.h"

enum { MAX_BASE = 1 << 30 };

void lx_hf_read_base(lx_hf_reader *r, lx_mixer_config *m, const char *key, double fallback)
{
    double base = lx_hf_number(r, key, 2, 1e30, fallback);
    int32_t zeros = 0;
    if (base != nearbyint(base))
        lx_hf_wrong(r, key, "must be a whole number: nothing else is supported");
    while (base > MAX_BASE && fmod(base, 10) == 0) {
        base /= 10;
        zeros++;
    }
    if (base > MAX_BASE) {
        lx_hf_wrong(r, key, "has more than 9 digits before its zeros: this is not supported");
        base = fallback;
    }
    lx_mixer_value(m, "base")->i = (int32_t)base;
    lx_mixer_value(m, "zeros")->i = zeros;
}

static double base_of(lx_mixer_config *m)
{
    return lx_mixer_value(m, "base")->i * pow(10, lx_mixer_value(m, "zeros")->i);
}

/* rope_theta of rope_parameters, or of the config around it; both may have the key if they agree.
 */
static void read_both_bases(lx_hf_reader *r, lx_hf_reader *inner, lx_mixer_config *m, double base)
{
    lx_mixer_config outer = *m;
    bool twice = json_is_number(json_object_get(r->root, "rope_theta")) &&
                 json_is_number(json_object_get(inner->root, "rope_theta"));
    lx_hf_read_base(r, &outer, "rope_theta", base);
    inner->st = r->st;
    lx_hf_read_base(inner, m, "rope_theta", base_of(&outer));
    if (twice && base_of(&outer) != base_of(m))
        lx_hf_wrong(inner, "rope_theta", "differs from rope_theta");
}

/* The share of a head's columns that turn; in files of both forms the config around rope_parameters
   may name it. */
static void read_share(lx_hf_reader *r, lx_hf_reader *inner, lx_mixer_config *m, double share)
{
    if (share == 0) {
        lx_hf_ignore(r, "partial_rotary_factor");
        lx_hf_ignore(inner, "partial_rotary_factor");
        return;
    }
    double outer =
        inner->root != r->root ? lx_hf_number(r, "partial_rotary_factor", 1e-3, 1, 0) : 0;
    inner->st = r->st;
    double part = lx_hf_number(inner, "partial_rotary_factor", 1e-3, 1, outer > 0 ? outer : share);
    int32_t rotated = (int32_t)(m->d_key * part);
    if (outer > 0 && outer != part)
        lx_hf_wrong(inner, "partial_rotary_factor", "differs from partial_rotary_factor");
    if (share == 1 && part != 1) /* a library that does not read the key */
        lx_hf_wrong(inner, "partial_rotary_factor", "must be 1: nothing else is supported");
    if (rotated % 2 != 0 || rotated < 2)
        lx_hf_wrong(inner, "partial_rotary_factor", "times head_dim must be 2, 4, ..");
    lx_mixer_value(m, "rotated")->i = rotated;
}

void lx_hf_read_rotation(lx_hf_reader *r, lx_mixer_config *m, double base, double share)
{
    json_t *own = r->st == LX_OK ? json_object_get(r->root, "rope_parameters") : NULL;
    lx_hf_reader inner = *r;
    if (own != NULL && !json_is_object(own) && !json_is_null(own))
        lx_hf_wrong(r, "rope_parameters", "must be an object or null");
    lx_hf_only_null(r, "rope_scaling");
    if (json_is_object(own)) {
        inner.root = own;
        inner.prefix = "rope_parameters.";
        read_share(r, &inner, m, share);
        r->st = inner.st;
        read_both_bases(r, &inner, m, base);
        lx_hf_only_word(&inner, "rope_type", "default");
        /* Text is at the same place of all three axes. */
        lx_hf_ignore(&inner, "mrope_section mrope_interleaved");
        lx_hf_refuse_rest(&inner);
        r->st = inner.st;
    } else {
        read_share(r, r, m, share);
        lx_hf_read_base(r, m, "rope_theta", base);
    }
    lx_hf_ignore(r, "rope_parameters");
}
