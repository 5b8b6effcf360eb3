/* The heads of a row. */

/* The turn of this position, cos and sin of every pair: the product of its digits' turns. */
V16_FN void rotary_turn(const lx_cpu_rotary *a)
{
    v16 zero = v16_set1(0.0f);
    int32_t pairs = a->d / 2;
    for (int32_t i = 0; i < pairs; i += 16) {
        int n = pairs - i < 16 ? pairs - i : 16;
        v16 c = v16_load_n(a->turns[0] + i, n, zero),
            s = v16_load_n(a->turns[0] + pairs + i, n, zero);
        for (int level = 1; level < LX_ROTARY_LEVELS; level++) {
            v16 more = v16_load_n(a->turns[level] + i, n, zero);
            v16 aside = v16_load_n(a->turns[level] + pairs + i, n, zero);
            v16 old = c;
            c = v16_fma(c, more, v16_sub(zero, v16_mul(s, aside)));
            s = v16_fma(s, more, v16_mul(old, aside));
        }
        v16_store_n(a->scratch + i, c, n);
        v16_store_n(a->scratch + pairs + i, s, n);
    }
}

static void rotary(const lx_cpu_rotary *a)
{
    v16 zero = v16_set1(0.0f);
    int32_t pairs = a->d / 2;
    rotary_turn(a);
    for (int32_t h = 0; h < a->n_heads; h++) {
        float *x = a->x + (int64_t)h * a->apart;
        for (int32_t i = 0; i < pairs; i += 16) {
            int n = pairs - i < 16 ? pairs - i : 16;
            v16 c = v16_load_n(a->scratch + i, n, zero);
            v16 s = v16_load_n(a->scratch + pairs + i, n, zero);
            v16 left = v16_load_n(x + i, n, zero), right = v16_load_n(x + pairs + i, n, zero);
            v16_store_n(x + i, v16_fma(left, c, v16_sub(zero, v16_mul(right, s))), n);
            v16_store_n(x + pairs + i, v16_fma(right, c, v16_mul(left, s)), n);
        }
    }
}
