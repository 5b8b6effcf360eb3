/*
 * The registry of back ends, and the conversions of stored weights that all of them need.
 * Both half formats are subsets of f32, so the conversions are exact.
 */
#include <string.h>

#include "kernels/backends.h"

lx_status lx_backend_open(const char *name, const lx_backend_options *options, lx_backend **out,
                          lx_error *err)
{
    static const struct {
        const char *name;
        lx_status (*open)(const lx_backend_options *, lx_backend **, lx_error *);
    } known[] = {{"reference", lx_reference_open}, {"cpu", lx_cpu_open}};

    if (options->n_threads < 1 || options->n_threads > 256)
        return lx_fail(err, LX_ERR_INVALID, "threads", "threads is %d, must be 1 to 256",
                       options->n_threads);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].name, name) == 0)
            return known[i].open(options, out, err);
    }
    return lx_fail(err, LX_ERR_UNSUPPORTED, "backend",
                   "back end \"%s\" is not built in (reference, cpu)", name);
}

static float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float lx_bf16_to_f32(uint16_t x)
{
    return float_of_bits((uint32_t)x << 16);
}

float lx_f16_to_f32(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000u) << 16, exponent = (x >> 10) & 31u, mantissa = x & 1023u;
    if (exponent == 31)
        return float_of_bits(sign | 0x7f800000u | mantissa << 13);
    if (exponent != 0)
        return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    float magnitude = (float)mantissa * 0x1p-24f; /* subnormal or zero */
    return sign != 0 ? -magnitude : magnitude;
}

float lx_host_tensor_at(const lx_host_tensor *t, int64_t i)
{
    const unsigned char *bytes = t->data;
    if (t->dtype == LX_F32) {
        float f;
        memcpy(&f, bytes + i * 4, sizeof f);
        return f;
    }
    uint16_t half;
    memcpy(&half, bytes + i * 2, sizeof half);
    return t->dtype == LX_BF16 ? lx_bf16_to_f32(half) : lx_f16_to_f32(half);
}
