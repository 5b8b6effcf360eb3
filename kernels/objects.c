/*
 * Checks that all back ends make of objects and the map of pages, which every back end keeps on the
 * host (see objects.h), and stored weights as f32. Both half formats are subsets of f32, so the
 * conversions are exact.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/objects.h"

/* --- floats --- */

lx_status lx_floats_check(int64_t n, const char *what, lx_error *err)
{
    return n >= 1 && n <= LX_MAX_FLOATS
               ? LX_OK
               : lx_fail(err, LX_ERR_INVALID, NULL, "%s of %lld floats", what, (long long)n);
}

lx_status lx_rows_check(int64_t rows, int64_t width, lx_error *err)
{
    return rows >= 1 && width >= 1 && rows <= LX_MAX_FLOATS / width
               ? LX_OK
               : lx_fail(err, LX_ERR_INVALID, NULL, "an array of %lld rows of %lld floats",
                         (long long)rows, (long long)width);
}

bool lx_array_has(const lx_array *a, int64_t offset, int64_t n)
{
    return offset >= 0 && n >= 0 && offset <= a->n && n <= a->n - offset;
}

/* --- stored weights --- */

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

int lx_dtype_bytes(lx_dtype dtype)
{
    return dtype == LX_F32 ? 4 : 2;
}

lx_status lx_host_tensor_check(const lx_host_tensor *t, const char *what, lx_error *err)
{
    if (t->dtype != LX_F32 && t->dtype != LX_BF16 && t->dtype != LX_F16)
        return lx_fail(err, LX_ERR_UNSUPPORTED, NULL, "%s has unknown dtype %d", what,
                       (int)t->dtype);
    if (t->data == NULL || t->rows < 1 || t->cols < 1 || t->rows > LX_MAX_FLOATS / t->cols ||
        t->rows > INT32_MAX || t->cols > INT32_MAX)
        return lx_fail(err, LX_ERR_INVALID, NULL, "%s has shape [%lld, %lld]", what,
                       (long long)t->rows, (long long)t->cols);
    return LX_OK;
}

/* --- layouts and pages --- */

static lx_status check_layout(const lx_state_layout *l, int32_t n_slots, lx_error *err)
{
    bool grows = l->page_floats > 0;
    if (n_slots < 1 || n_slots > LX_MAX_SLOTS || l->fixed_floats < !grows ||
        l->fixed_floats > LX_MAX_FLOATS / n_slots - 16)
        return lx_fail(err, LX_ERR_INVALID, NULL, "%d slots of %lld floats", n_slots,
                       (long long)l->fixed_floats);
    if (grows ? l->n_pages < 1 || l->slot_pages < 1 || l->slot_pages > LX_MAX_SLOT_PAGES ||
                    l->page_floats > LX_MAX_FLOATS / l->n_pages - 16
              : l->page_floats < 0 || l->n_pages != 0 || l->slot_pages != 0)
        return lx_fail(err, LX_ERR_INVALID, NULL, "%d pages of %lld floats, %d a slot", l->n_pages,
                       (long long)l->page_floats, l->slot_pages);
    return LX_OK;
}

lx_status lx_states_init(lx_states *s, const lx_state_layout *layout, int32_t n_slots,
                         lx_error *err)
{
    lx_status st = check_layout(layout, n_slots, err);
    if (st != LX_OK)
        return st;
    size_t places = (size_t)n_slots * (size_t)layout->slot_pages;
    s->n_slots = n_slots;
    s->floats = layout->fixed_floats;
    s->stride = layout->fixed_floats > 0 ? (layout->fixed_floats + 15) / 16 * 16 : 16;
    s->page_floats = layout->page_floats;
    s->page_stride = (layout->page_floats + 15) / 16 * 16;
    s->n_pages = layout->n_pages;
    s->slot_pages = layout->slot_pages;
    if (places == 0)
        return LX_OK;
    s->pages = malloc(places * sizeof *s->pages);
    s->mapped = calloc((size_t)n_slots, sizeof *s->mapped);
    if (s->pages == NULL || s->mapped == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the pages of %d slots", n_slots);
    for (size_t i = 0; i < places; i++)
        s->pages[i] = -1;
    return LX_OK;
}

static bool is_slot(const lx_states *s, int32_t slot)
{
    return slot >= 0 && slot < s->n_slots;
}

bool lx_states_have(const lx_states *s, int32_t slot, int32_t n_pages)
{
    return is_slot(s, slot) && n_pages >= 0 &&
           (n_pages == 0 || (s->mapped != NULL && n_pages <= s->mapped[slot]));
}

lx_status lx_states_map(lx_states *s, int32_t slot, int32_t first, int32_t n, const int32_t *pages)
{
    if (!is_slot(s, slot) || first < 0 || n < 0 || first > s->slot_pages - n)
        return LX_ERR_INVALID;
    for (int32_t i = 0; i < n; i++) {
        if (pages[i] < -1 || pages[i] >= s->n_pages)
            return LX_ERR_INVALID;
    }
    if (n == 0)
        return LX_OK;
    int32_t *map = s->pages + (int64_t)slot * s->slot_pages, *mapped = &s->mapped[slot];
    memcpy(map + first, pages, (size_t)n * sizeof *pages);
    *mapped = *mapped < first ? *mapped : first;
    while (*mapped < s->slot_pages && map[*mapped] >= 0)
        ++*mapped;
    return LX_OK;
}
