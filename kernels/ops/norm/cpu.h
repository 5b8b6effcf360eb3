/* One row. */

static void norm(float *y, const float *x, const float *gamma, const float *beta, int32_t d,
                 float eps)
{
    v16 zero = v16_set1(0.0f), sum = zero, squares = zero;
    int32_t whole = d / 16 * 16, rest = d - whole;
    for (int32_t i = 0; i < whole; i += 16)
        sum = v16_add(sum, v16_load(x + i));
    sum = v16_add(sum, v16_load_n(x + whole, rest, zero));
    float mean = v16_sum(sum) / (float)d;
    v16 centre = v16_set1(mean);
    for (int32_t i = 0; i < whole; i += 16) {
        v16 v = v16_sub(v16_load(x + i), centre);
        squares = v16_fma(v, v, squares);
    }
    v16 v = v16_keep_n(v16_sub(v16_load_n(x + whole, rest, zero), centre), rest);
    squares = v16_fma(v, v, squares);
    v16 scale = v16_set1(1.0f / sqrtf(v16_sum(squares) / (float)d + eps));
    for (int32_t i = 0; i < d; i += 16) {
        int n = d - i < 16 ? d - i : 16;
        v16 c = v16_mul(v16_sub(v16_load_n(x + i, n, zero), centre), scale);
        c = v16_fma(c, v16_load_n(gamma + i, n, zero), v16_load_n(beta + i, n, zero));
        v16_store_n(y + i, c, n);
    }
}
