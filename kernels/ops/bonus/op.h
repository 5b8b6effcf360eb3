/*
 * A token's own value, past the state (RWKV-7, Peng et al. 2025), added after the norm of the
 * heads. For every head
 *     y = (x + (sum over d of u_d q_d k_d) v) z        z = 1 if NULL
 * q and k have d_key columns per head; x, v, z and y have d_value. Heads follow each other.
 */
typedef struct lx_bonus_args {
    lx_array *y; /* [T, n_heads * d_value]; may be an input of the same shape */
    lx_columns x, q, k, v;
    lx_columns z;      /* array NULL for none */
    const lx_array *u; /* [n_heads * d_key] */
    int32_t n_heads, d_key, d_value;
} lx_bonus_args;
