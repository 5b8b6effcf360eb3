/*
 * Products with the experts that `route` chose. Token row r has K choices with the experts e[r, j]
 * and the weights c[r, j], and the experts' matrices W_e [n, cols] have no bias.
 *     y[r, j] = W_e[r, j] x[r]                        x [T, cols], y [T, K n]
 * or with `sums`
 *     y[r] = residual[r] + sum of c[r, j] W_e[r, j] x[r, j]       x [T, K cols], y [T, n]
 * where experts of lower numbers are added first.
 * W has the rows of all experts one after another, those of each padded with zeros to
 * lx_expert_rows(n), so that a back end finds an expert at whole groups of outputs.
 */
static inline int64_t lx_expert_rows(int64_t n)
{
    return (n + 31) / 32 * 32;
}

typedef struct lx_experts_args {
    lx_array *y;              /* not x */
    const lx_array *x;        /* of the rows */
    const lx_array *choice;   /* [T, 2 K]: the output of `route` */
    const lx_matrix *w;       /* [E lx_expert_rows(n), cols] */
    const lx_array *residual; /* with `sums`: [T, n], may be y; NULL for none */
    int32_t n_experts, n_active, n;
    bool sums;
    lx_rows rows;
} lx_experts_args;
