/*
 * Causal linear attention, recurrent form (Katharopoulos et al. 2020, eq. 16-20), for every token
 * of every sequence in order and every head:
 *     s  = w s + phi(k) v^T      s: D x M; w = 1 without `decay`
 *     z  = w z + phi(k)          z: D
 *     y  = phi(q)^T s / (phi(q)^T z + eps)
 * The state of head h begins at offset + h * (D * M + D) floats of the slot: s row-major, then z.
 */

/* phi, applied to every number of a query or key */
typedef enum lx_feature_map {
    LX_PHI_ELU1,  /* elu(x) + 1 */
    LX_PHI_RELU,  /* max(x, 0) */
    LX_PHI_RELU2, /* max(x, 0)^2 */
    LX_PHI_EXP,   /* exp(min(x, LX_PHI_MOST)) */
    LX_FEATURE_MAPS
} lx_feature_map;

/* The bound on the argument of exp: no sum of products of two such values reaches the largest
   float. */
#define LX_PHI_MOST 8.0f

typedef struct lx_attend_linear_args {
    lx_array *y;         /* [T, H * M] */
    const lx_array *qkv; /* [T, H*D | H*D | H*M], feature map not yet applied */
    lx_states *states;
    int64_t offset; /* of this layer's part of a slot, in floats */
    int32_t n_heads, d_key, d_value;
    lx_feature_map feature_map;
    float eps;
    /* [T, H], the factors w; or NULL. The cuda back end has none: a mixer asks with `is_on`. */
    const lx_array *decay;
} lx_attend_linear_args;
