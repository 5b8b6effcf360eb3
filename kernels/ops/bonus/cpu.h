/* One head of a row. */

static void bonus(const lx_cpu_bonus *a)
{
    v16 zero = v16_set1(0.0f), sum = zero;
    for (int32_t d = 0; d < a->d_key; d += 16) {
        int n = a->d_key - d < 16 ? a->d_key - d : 16;
        v16 weighed = v16_mul(v16_load_n(a->u + d, n, zero), v16_load_n(a->q + d, n, zero));
        sum = v16_fma(weighed, v16_load_n(a->k + d, n, zero), sum);
    }
    v16 factor = v16_set1(v16_sum(sum));
    for (int32_t m = 0; m < a->d_value; m += 16) {
        int n = a->d_value - m < 16 ? a->d_value - m : 16;
        v16 y = v16_fma(factor, v16_load_n(a->v + m, n, zero), v16_load_n(a->x + m, n, zero));
        if (a->z != NULL)
            y = v16_mul(y, v16_load_n(a->z + m, n, zero));
        v16_store_n(a->y + m, y, n);
    }
}
