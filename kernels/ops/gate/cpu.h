/* Some elements of a row. */

static void gate(const lx_cpu_gate *a)
{
    v16 zero = v16_set1(0.0f), one = v16_set1(1.0f);
    for (int32_t i = 0; i < a->n; i += 16) {
        int n = a->n - i < 16 ? a->n - i : 16;
        v16 g = v16_load_n(a->x + i, n, zero);
        if (a->bias != NULL)
            g = v16_add(g, v16_load_n(a->bias + i, n, zero));
        g = v16_function(g, a->f);
        if (a->factor != NULL || a->offset != NULL) {
            v16 factor = a->factor != NULL ? v16_load_n(a->factor + i, n, zero) : one;
            g = v16_fma(factor, g, a->offset != NULL ? v16_load_n(a->offset + i, n, zero) : zero);
        }
        if (a->exponent)
            g = v16_function(g, LX_FN_EXP);
        if (a->z != NULL) {
            v16 z = v16_load_n(a->z + i, n, zero);
            v16 other = a->other != NULL ? v16_load_n(a->other + i, n, zero) : zero;
            if (a->towards)
                other = v16_sub(other, z);
            g = a->other == NULL ? v16_mul(g, z) : v16_fma(g, other, z);
        }
        v16_store_n(a->y + i, g, n);
    }
}
