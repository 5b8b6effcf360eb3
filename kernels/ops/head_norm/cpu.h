/* One head of a row. y may be x: an element is read before it is written. */

/* Elements i .. i + n - 1 of the input of the norm, then zeros. */
V16_FN v16 head_load(const lx_cpu_head_norm *a, int32_t i, int n)
{
    v16 zero = v16_set1(0.0f), x = v16_load_n(a->x + i, n, zero);
    if (a->gate == NULL || !a->gate_first)
        return x;
    return v16_mul(x, v16_keep_n(v16_function(v16_load_n(a->gate + i, n, zero), a->f), n));
}

static float head_mean(const lx_cpu_head_norm *a)
{
    v16 sum = v16_set1(0.0f);
    for (int32_t i = 0; i < a->d; i += 16)
        sum = v16_add(sum, head_load(a, i, a->d - i < 16 ? a->d - i : 16));
    return v16_sum(sum) / (float)a->d;
}

static float head_scale(const lx_cpu_head_norm *a, v16 mean)
{
    v16 sum = v16_set1(0.0f);
    for (int32_t i = 0; i < a->d; i += 16) {
        int n = a->d - i < 16 ? a->d - i : 16;
        v16 x = v16_keep_n(v16_sub(head_load(a, i, n), mean), n);
        sum = v16_fma(x, x, sum);
    }
    float squares = v16_sum(sum);
    if (a->kind == LX_NORM_LENGTH) {
        float size = sqrtf(squares);
        return 1.0f / (a->eps > size ? a->eps : size);
    }
    if (a->kind != LX_NORM_L2)
        squares = squares / (float)a->d;
    return 1.0f / sqrtf(squares + a->eps);
}

static void head_norm(const lx_cpu_head_norm *a)
{
    v16 zero = v16_set1(0.0f);
    v16 mean = v16_set1(a->kind == LX_NORM_GROUP ? head_mean(a) : 0.0f);
    v16 scale = v16_set1(head_scale(a, mean));
    for (int32_t i = 0; i < a->d; i += 16) {
        int n = a->d - i < 16 ? a->d - i : 16;
        v16 y = v16_mul(v16_sub(head_load(a, i, n), mean), scale);
        v16 beta = a->beta != NULL ? v16_load_n(a->beta + i, n, zero) : zero;
        if (a->gamma != NULL)
            y = v16_fma(y, v16_load_n(a->gamma + i, n, zero), beta);
        else
            y = v16_add(y, beta);
        if (a->gate != NULL && !a->gate_first)
            y = v16_mul(y, v16_function(v16_load_n(a->gate + i, n, zero), a->f));
        v16_store_n(a->y + i, y, n);
    }
}
