/* Some channels of one sequence: sixteen at a time, or the n that are left, token after token. */

V16_FN void conv_channels(const lx_cpu_short_conv *a, int32_t i, int n, int taps)
{
    v16 zero = v16_set1(0.0f), kept[LX_CONV_MOST_TAPS], weights[LX_CONV_MOST_TAPS];
    v16 bias = a->bias != NULL ? v16_load_n(a->bias + i, n, zero) : zero;
    for (int j = 0; j < taps; j++) {
        weights[j] = v16_load_n(a->weights + (int64_t)j * a->d + i, n, zero);
        kept[j] = j + 1 < taps ? v16_load_n(a->state + (int64_t)j * a->d + i, n, zero) : zero;
    }
    for (int64_t t = 0; t < a->n_tokens; t++) {
        v16 sum = bias;
        kept[taps - 1] = v16_load_n(a->x.at + t * a->x.stride + i, n, zero);
        for (int j = 0; j < taps; j++)
            sum = v16_fma(weights[j], kept[j], sum);
        v16_store_n(a->y + t * a->d + i, v16_function(sum, a->f), n);
        for (int j = 0; j + 1 < taps; j++)
            kept[j] = kept[j + 1];
    }
    for (int j = 0; j + 1 < taps; j++)
        v16_store_n(a->state + (int64_t)j * a->d + i, kept[j], n);
}

static void short_conv(const lx_cpu_short_conv *a)
{
    for (int32_t i = 0; i < a->columns; i += 16) {
        int n = a->columns - i < 16 ? a->columns - i : 16;
        if (a->taps == 4)
            conv_channels(a, i, n, 4);
        else if (a->taps == 3)
            conv_channels(a, i, n, 3);
        else if (a->taps == 2)
            conv_channels(a, i, n, 2);
        else
            conv_channels(a, i, n, a->taps);
    }
}
