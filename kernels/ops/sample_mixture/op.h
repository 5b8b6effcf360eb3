/*
 * Sampling of levels from a mixture of K logistics over L levels (Salimans et al. 2017). A row has
 * K mixture logits, K means and K log scales. In units of levels, component k has
 *     m = (mean + 1) (L - 1) / 2
 *     r = 2 / (L - 1) exp(-max(log_scale, -7))
 *     a = (v + 1/2 - m) r
 *     b = (v - 1/2 - m) r = a - r
 *     P_k(v) = sigma(a) - sigma(b) = sigma(a) sigma(-b) (1 - exp(-r))
 *     P_k(0) = sigma(a)
 *     P_k(L - 1) = sigma(-b)
 * and P(v) = sum_k softmax(logits)_k P_k(v). The product form loses no digits, and neighbours share
 * an edge exactly, so the levels' sum is 1.
 *
 * The operation uses forced, temperature, seed, sample and step of lx_sampling:
 *   forced >= 0        that level
 *   temperature == 0   the mean of the likeliest component (the first among equals), rounded
 *   otherwise          the first k whose cumulative softmax(logits / temperature) exceeds
 *                      lx_uniform(.., 0); with u = lx_uniform(.., 1) kept within 2^-24 and
 *                      1 - 2^-24, x = m + temperature / r (log u - log(1 - u)), rounded
 * Rounding is floor(x + 1/2), kept within 0 .. L - 1. The log-probability is log P(v), whatever the
 * temperature, and never below the least finite f32; token -1 and NAN when a parameter is not
 * finite.
 */
#define LX_MIXTURE_MIN_LOG_SCALE (-7.0f)
#define LX_MIXTURE_MAX_COMPONENTS 64
#define LX_MIXTURE_MAX_LEVELS 65536

typedef struct lx_sample_mixture_args {
    const lx_array *parameters; /* [n_outputs, 3 K] */
    int32_t n_components;       /* K, 1 .. LX_MIXTURE_MAX_COMPONENTS */
    int32_t n_levels;           /* L, 2 .. LX_MIXTURE_MAX_LEVELS */
    const lx_sampling *rows;    /* [n_outputs], host; borrowed until sync() */
    lx_sample *out;             /* [n_outputs], host; written by sync() */
    lx_states *states;          /* as in lx_sample_args */
} lx_sample_mixture_args;
