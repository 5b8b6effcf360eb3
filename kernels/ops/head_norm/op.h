/*
 * RMSNorm, group norm and l2 norm, of the heads of a row or of a whole row, and gated. For every
 * head h = 0 .. n_heads - 1, which has d columns of x next to each other:
 *     y = (s x gamma + beta) f(gate)          s of x as below; gamma = 1, beta = 0, no gate if NULL
 *     y = s u gamma + beta, u = x f(gate)     with gate_first; s of u
 * n_heads = 1 norms a row: RMSNorm. Gated: fla's kinds norm first, Mamba-2 gates first. y is
 * [rows, n_heads * d], or the array of x itself: then results replace x in place.
 */
typedef enum lx_norm_kind {
    LX_NORM_RMS,   /* s = 1 / sqrt(mean x^2 + eps) */
    LX_NORM_GROUP, /* as RMS, of x - mean x, which takes the place of x */
    LX_NORM_L2,    /* s = 1 / sqrt(sum x^2 + eps) */
    LX_NORM_LENGTH /* s = 1 / max(sqrt(sum x^2), eps) */
} lx_norm_kind;

typedef struct lx_head_norm_args {
    lx_array *y;
    lx_columns x;                 /* n_heads * d columns, as of the gate */
    lx_columns gate;              /* array NULL for none */
    const lx_array *gamma, *beta; /* [n_heads * d] */
    int32_t n_heads, d;
    lx_norm_kind kind;
    lx_function f; /* of the gate */
    bool gate_first;
    float eps;
    lx_rows rows;
} lx_head_norm_args;

/* Where y lies. */
static inline lx_columns lx_head_norm_output(const lx_head_norm_args *a)
{
    return a->y == a->x.array ? a->x : (lx_columns){a->y, a->n_heads * a->d, 0};
}
