/*
 * The router of a mixture of experts. For every token row with the router's numbers x [E]:
 *     p = softmax(x), or sigmoid(x)
 *     the K experts with the greatest p + bias, greatest first; of equal ones the lower number
 *     weight = scale p, or with `normalise` scale p / (eps + sum of p over these K)
 * y has the K numbers of the experts as floats, then their K weights.
 *
 * With groups the experts stand in n_groups of equal size, one after another. Only those of the
 * active_groups groups with the greatest sum of their two greatest p + bias can be chosen; of equal
 * groups the first (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report").
 */
#define LX_MOST_EXPERTS 4096

typedef struct lx_route_args {
    lx_array *y;          /* [T, 2 K], not x */
    const lx_array *x;    /* [T, E] */
    const lx_array *bias; /* [E], for the choice only; NULL: zeros */
    int32_t n_experts, n_active;
    int32_t n_groups, active_groups; /* 0: no groups */
    bool sigmoid, normalise;
    float scale, eps;
    lx_rows rows;
} lx_route_args;
