/* The registry of attention kinds; each is one table (see attention.h). */
#include "model/attention.h"

#include <string.h>

/* --- linear: Katharopoulos et al. 2020; the state is s (D x M) and z (D) for every head ---------
 */

static lx_state_layout linear_layer_state(const lx_config *c)
{
    int64_t head = (int64_t)c->d_key * c->d_value + c->d_key;
    return (lx_state_layout){.fixed_floats = c->n_heads * head};
}

static void linear_attend(lx_backend *be, const lx_config *c, int32_t layer, lx_array *y,
                          const lx_array *qkv, lx_states *states)
{
    lx_attend_linear_args args = {
        .y = y,
        .qkv = qkv,
        .states = states,
        .offset = layer * linear_layer_state(c).fixed_floats,
        .n_heads = c->n_heads,
        .d_key = c->d_key,
        .d_value = c->d_value,
        .feature_map = c->feature_map,
        .eps = c->attention_eps,
    };
    be->ops->attend_linear(be, &args);
}

static const lx_attention_kind kinds[] = {
    {"linear", linear_layer_state, linear_attend},
};

const lx_attention_kind *lx_attention_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    }
    return NULL;
}
