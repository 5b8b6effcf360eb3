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
    for (int32_t i = 0; i < whole; i += 16) {
        v16 c = v16_mul(v16_sub(v16_load(x + i), centre), scale);
        v16_store(y + i, v16_fma(c, v16_load(gamma + i), v16_load(beta + i)));
    }
    v = v16_mul(v, scale);
    v = v16_fma(v, v16_load_n(gamma + whole, rest, zero), v16_load_n(beta + whole, rest, zero));
    v16_store_n(y + whole, v, rest);
}
