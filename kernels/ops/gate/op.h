/*
 * Gates. For every element of a row
 *     g = offset + factor f(x + bias), or exp of that with `exponent`
 *     y = g, or as `weighing` says
 * A parameter that is NULL is 0, factor 1. So with f:
 *     RWKV-7's decay        exp(factor sigmoid(x + bias)), factor -0.606530659
 *     GDN's, Mamba-2's      exp(factor softplus(x + bias)), factor -exp(A_log)
 *     GLA's                 exp(factor log_sigmoid(x + bias)), factor 1/16
 *     RWKV-6's              exp(factor exp(x + bias)), factor -1
 *     Mamba-2's dt          softplus(x + bias)
 *     an MLP                silu(x) z, both columns of one projection
 *     RWKV-7's keys         (offset + factor sigmoid(x)) z, factor k_a, offset 1 - k_a
 *     RWKV-7's values       z + sigmoid(x) (other - z)
 *     RWKV-6's channel mix  z + sigmoid(x) other, z the residual stream
 */

/* softplus(x) = log(1 + exp(x)); log_sigmoid(x) = -softplus(-x); exp(x) = exp(80) above 80. */
typedef enum lx_function {
    LX_FN_IDENTITY,
    LX_FN_SIGMOID,
    LX_FN_SILU, /* x sigmoid(x) */
    LX_FN_TANH,
    LX_FN_SOFTPLUS,
    LX_FN_LOG_SIGMOID,
    LX_FN_RELU2, /* max(x, 0)^2 */
    LX_FN_EXP,
    LX_FUNCTIONS
} lx_function;

typedef enum lx_weighing {
    LX_WEIGH_NONE,
    LX_WEIGH_TIMES,   /* y = g z */
    LX_WEIGH_TOWARDS, /* y = z + g (other - z) */
    LX_WEIGH_PLUS     /* y = z + g other */
} lx_weighing;

typedef struct lx_gate_args {
    lx_array *y; /* [rows, d], or with y_width columns y_first .. of rows of that width; other
                    columns keep their values. May be an input that lies where y does */
    int32_t y_width, y_first;
    lx_columns x;                           /* d columns, as z and other */
    lx_columns z;                           /* TIMES, TOWARDS, PLUS */
    lx_columns other;                       /* TOWARDS, PLUS */
    const lx_array *bias, *factor, *offset; /* [d] */
    int32_t d;
    lx_function f;
    bool exponent;
    lx_weighing weighing;
    lx_rows rows;
} lx_gate_args;

/* Whether the operation reads `other`. */
static inline bool lx_gate_has_other(const lx_gate_args *a)
{
    return a->weighing == LX_WEIGH_TOWARDS || a->weighing == LX_WEIGH_PLUS;
}

/* Where y lies. */
static inline lx_columns lx_gate_output(const lx_gate_args *a)
{
    return (lx_columns){a->y, a->y_width > 0 ? a->y_width : a->d, a->y_first};
}
