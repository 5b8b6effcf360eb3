/* Passes over the logits or weights of one row. */

static bool scan(const float *x, int32_t n, float *largest)
{
    v16 zero = v16_set1(0.0f), first = v16_set1(x[0]), most = first, nothing = zero;
    for (int32_t i = 0; i < n; i += 16) {
        v16 v = v16_load_n(x + i, n - i < 16 ? n - i : 16, first);
        most = v16_max(v, most);
        nothing = v16_fma(v, zero, nothing); /* 0, or NaN after a value that is not finite */
    }
    *largest = v16_greatest(most);
    return v16_sum(nothing) == 0.0f;
}

static bool range(const float *x, int32_t n, float *least, float *greatest)
{
    v16 nothing = v16_set1(-INFINITY), low = nothing, high = nothing; /* low: of -x */
    for (int32_t i = 0; i < n; i += 16) {
        v16 v = v16_load_n(x + i, n - i < 16 ? n - i : 16, nothing);
        high = v16_max(v, high);
        low = v16_max(v16_select_gt(v, nothing, v16_sub(v16_set1(0.0f), v), nothing), low);
    }
    *least = -v16_greatest(low);
    *greatest = v16_greatest(high);
    return *greatest > -INFINITY;
}

static void add(float *y, const float *x, const float *bias, int32_t n)
{
    v16 zero = v16_set1(0.0f);
    for (int32_t i = 0; i < n; i += 16) {
        int k = n - i < 16 ? n - i : 16;
        v16 v = v16_load_n(x + i, k, zero);
        if (bias != NULL)
            v = v16_add(v, v16_load_n(bias + i, k, zero));
        v16_store_n(y + i, v, k);
    }
}

static double sum_block(const float *x, int32_t n)
{
    v16 zero = v16_set1(0.0f), sum = zero;
    for (int32_t i = 0; i < n; i += 16)
        sum = v16_add(sum, v16_load_n(x + i, n - i < 16 ? n - i : 16, zero));
    return (double)v16_sum(sum);
}

static double above(const float *x, const float *w, int32_t n, float level, int32_t *count)
{
    v16 zero = v16_set1(0.0f), one = v16_set1(1.0f), limit = v16_set1(level), number = zero;
    v16 nothing = v16_set1(-INFINITY);
    double total = 0;
    for (int32_t at = 0; at < n; at += LX_CPU_BLOCK) {
        int32_t end = n - at < LX_CPU_BLOCK ? n : at + LX_CPU_BLOCK;
        v16 sum = zero;
        for (int32_t i = at; i < end; i += 16) {
            int k = end - i < 16 ? end - i : 16;
            v16 v = v16_load_n(x + i, k, nothing);
            sum = v16_add(sum, v16_select_gt(limit, v, zero, v16_load_n(w + i, k, zero)));
            number = v16_add(number, v16_select_gt(limit, v, zero, one));
        }
        total += (double)v16_sum(sum);
    }
    *count = (int32_t)v16_sum(number);
    return total;
}

/* exp is 0 from -104 down. A processor takes hundreds of cycles for such a product, and a masked
   row has many, so these lanes get another argument. */
static double weights(float *w, const float *x, int32_t n, float largest, float temperature)
{
    v16 most = v16_set1(largest), divisor = v16_set1(temperature), zero = v16_set1(0.0f);
    v16 gone = v16_set1(-104.0f);
    double sum = 0;
    for (int32_t at = 0; at < n; at += LX_CPU_BLOCK) {
        int32_t end = n - at < LX_CPU_BLOCK ? n : at + LX_CPU_BLOCK;
        for (int32_t i = at; i < end; i += 16) {
            int k = end - i < 16 ? end - i : 16;
            v16 v = v16_div(v16_sub(v16_load_n(x + i, k, most), most), divisor);
            v16 e = v16_exp(v16_select_gt(v, gone, v, zero));
            v16_store_n(w + i, v16_select_gt(v, gone, e, zero), k);
        }
        sum += sum_block(w + at, end - at);
    }
    return sum;
}

static lx_cpu_sample_loop sample = {
    .scan = scan, .range = range, .add = add, .weights = weights, .sum = sum_block, .above = above};
