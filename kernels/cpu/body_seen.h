/*
 * Attention to rows that lie anywhere in memory, a list of them at a time: logits, weights,
 * weighted values, and how lists are added to one another.
 */

/* The sums over all lists so far, relative to the largest logit. */
typedef struct seen_sum {
    float largest, sum;
    bool grown;   /* the last list has a larger logit than all lists before */
    float factor; /* exp(smaller largest - larger), for the side with the smaller one */
} seen_sum;

static float v16_greatest(v16 v)
{
    float lanes[16];
    v16_store(lanes, v);
    for (int i = 1; i < 16; i++)
        lanes[0] = lanes[i] > lanes[0] ? lanes[i] : lanes[0];
    return lanes[0];
}

V16_FN v16 seen_load(const float *p, int32_t left)
{
    return left >= 16 ? v16_load(p) : v16_load_n(p, left, v16_set1(0.0f));
}

V16_FN void seen_store(float *p, v16 x, int32_t left)
{
    if (left >= 16)
        v16_store(p, x);
    else
        v16_store_n(p, x, left);
}

V16_FN float seen_dot(const float *a, const float *b, int32_t n)
{
    v16 sum = v16_set1(0.0f);
    for (int32_t d = 0; d < n; d += 16)
        sum = v16_fma(seen_load(a + d, n - d), seen_load(b + d, n - d), sum);
    return v16_sum(sum);
}

/* Logits to weights, with zeros up to a whole vector; returns their sum. */
static float seen_weights(float *x, int32_t n, float *largest)
{
    v16 most = v16_set1(-INFINITY), sum = v16_set1(0.0f);
    for (int32_t k = n; k % 16 != 0; k++)
        x[k] = -INFINITY;
    for (int32_t k = 0; k < n; k += 16)
        most = v16_max(most, v16_load(x + k));
    *largest = v16_greatest(most);
    v16 above = v16_set1(*largest);
    for (int32_t k = 0; k < n; k += 16)
        v16_store(x + k, v16_exp(v16_sub(v16_load(x + k), above)));
    for (int32_t k = n; k % 16 != 0; k++)
        x[k] = 0.0f;
    for (int32_t k = 0; k < n; k += 16)
        sum = v16_add(sum, v16_load(x + k));
    return v16_sum(sum);
}

/* nc times 16 columns of the weighted values of n rows; the last sixteen have `left` columns. nc is
   a constant to the compiler. */
V16_FN void seen_columns(const float *const *rows, const float *x, int32_t n, int32_t column,
                         int32_t left, const int nc, float *o)
{
    v16 sum[4];
    for (int c = 0; c < nc; c++)
        sum[c] = v16_set1(0.0f);
    for (int32_t k = 0; k < n; k++) {
        v16 weight = v16_set1(x[k]);
        const float *row = rows[k] + column;
        for (int c = 0; c + 1 < nc; c++)
            sum[c] = v16_fma(weight, v16_load(row + 16 * c), sum[c]);
        sum[nc - 1] = v16_fma(weight, seen_load(row + 16 * (nc - 1), left), sum[nc - 1]);
    }
    for (int c = 0; c < nc; c++)
        v16_store(o + column + 16 * c, sum[c]);
}

/* The weighted values of n rows; o: d_value floats in whole vectors. */
static void seen_values(const float *const *rows, const float *x, int32_t n, int32_t d_value,
                        float *o)
{
    int32_t m = 0;
    for (; d_value - m > 48; m += 64)
        seen_columns(rows, x, n, m, d_value - m - 48, 4, o);
    for (; d_value - m > 16; m += 32)
        seen_columns(rows, x, n, m, d_value - m - 16, 2, o);
    if (m < d_value)
        seen_columns(rows, x, n, m, d_value - m, 1, o);
}

/* Adds a list's sum of weights. */
static void seen_add(seen_sum *to, float largest, float sum)
{
    float f[16];
    to->grown = largest > to->largest;
    v16 apart = v16_set1(to->grown ? to->largest - largest : largest - to->largest);
    v16 before = v16_set1(to->sum), here = v16_set1(sum), factor = v16_exp(apart);
    v16_store(f, factor);
    to->factor = f[0];
    v16_store(f, to->grown ? v16_fma(before, factor, here) : v16_fma(here, factor, before));
    to->sum = f[0];
    to->largest = to->grown ? largest : to->largest;
}

/* Adds a list's weighted values. */
V16_FN v16 seen_add_values(const seen_sum *of, v16 before, v16 here)
{
    v16 factor = v16_set1(of->factor);
    return of->grown ? v16_fma(before, factor, here) : v16_fma(here, factor, before);
}
