/*
 * Stored weights as f32, which every back end needs. Both half formats are subsets of f32, so the
 * conversions are exact.
 */
#include <string.h>

#include "kernels/kernels.h"

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
