/*
 * Checks that all back ends make of objects, and the map of pages, which every back end keeps on
 * the host (see objects.h).
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
