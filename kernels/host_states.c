/*
 * Slot states in the process's own memory, their pages, and the tokens drawn beside them (see
 * host.h).
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/host.h"

static size_t float_bytes(int64_t n)
{
    return (size_t)n * sizeof(float);
}

/* --- layouts and pages --- */

static lx_status check_layout(const lx_state_layout *l, int32_t n_slots, lx_error *err)
{
    bool grows = l->page_floats > 0;
    if (n_slots < 1 || n_slots > LX_HOST_MAX_SLOTS || l->fixed_floats < !grows ||
        l->fixed_floats > LX_HOST_MAX_FLOATS / n_slots - 16)
        return lx_fail(err, LX_ERR_INVALID, NULL, "%d slots of %lld floats", n_slots,
                       (long long)l->fixed_floats);
    if (grows ? l->n_pages < 1 || l->slot_pages < 1 || l->slot_pages > LX_HOST_MAX_PAGES ||
                    l->page_floats > LX_HOST_MAX_FLOATS / l->n_pages - 16
              : l->page_floats < 0 || l->n_pages != 0 || l->slot_pages != 0)
        return lx_fail(err, LX_ERR_INVALID, NULL, "%d pages of %lld floats, %d a slot", l->n_pages,
                       (long long)l->page_floats, l->slot_pages);
    return LX_OK;
}

lx_status lx_host_states_init(lx_states *s, const lx_state_layout *layout, int32_t n_slots,
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

bool lx_host_has_pages(const lx_states *s, int32_t slot, int32_t n_pages)
{
    return is_slot(s, slot) && n_pages >= 0 &&
           (n_pages == 0 || (s->mapped != NULL && n_pages <= s->mapped[slot]));
}

lx_status lx_host_state_map(lx_backend *be, lx_states *s, int32_t slot, int32_t first, int32_t n,
                            const int32_t *pages)
{
    (void)be;
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

/* --- states --- */

float *lx_host_branch(const lx_states *s, const lx_batch *b, int32_t i, int64_t offset, int64_t n)
{
    float *to = s->data + b->branch[i] * s->stride + offset;
    memcpy(to, s->data + b->slot[i] * s->stride + offset, float_bytes(n));
    return to;
}

static size_t state_bytes(const lx_states *s)
{
    return float_bytes(s->stride) * (size_t)s->n_slots;
}

static size_t pool_bytes(const lx_states *s)
{
    return float_bytes(s->page_stride) * (size_t)s->n_pages;
}

lx_status lx_host_states_new(lx_backend *be, const lx_state_layout *layout, int32_t n_slots,
                             lx_states **out, lx_error *err)
{
    lx_states *s = calloc(1, sizeof *s);
    if (s == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for states");
    lx_status st = lx_host_states_init(s, layout, n_slots, err);
    if (st == LX_OK) {
        s->data = lx_host_reserve(state_bytes(s));
        s->pool = lx_host_reserve(pool_bytes(s));
        s->drawn = calloc((size_t)n_slots * LX_DRAWN, sizeof *s->drawn);
        if (s->data == NULL || s->pool == NULL || s->drawn == NULL)
            st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for states (%.1f MiB)",
                         (double)(state_bytes(s) + pool_bytes(s)) / 1048576.0);
    }
    if (st != LX_OK) {
        lx_host_states_free(be, s);
        return st;
    }
    *out = s;
    return LX_OK;
}

void lx_host_states_free(lx_backend *be, lx_states *s)
{
    (void)be;
    if (s == NULL)
        return;
    lx_host_release(s->data, state_bytes(s));
    lx_host_release(s->pool, pool_bytes(s));
    free(s->pages);
    free(s->mapped);
    free(s->drawn);
    free(s);
}

lx_status lx_host_state_zero(lx_backend *be, lx_states *s, int32_t slot)
{
    (void)be;
    if (!is_slot(s, slot))
        return LX_ERR_INVALID;
    memset(s->data + slot * s->stride, 0, float_bytes(s->floats));
    return LX_OK;
}

lx_status lx_host_state_copy(lx_backend *be, lx_states *s, int32_t to, int32_t from,
                             int32_t n_pages)
{
    (void)be;
    if (!lx_host_has_pages(s, to, n_pages) || !lx_host_has_pages(s, from, n_pages))
        return LX_ERR_INVALID;
    if (to == from)
        return LX_OK;
    memcpy(s->data + to * s->stride, s->data + from * s->stride, float_bytes(s->floats));
    for (int32_t i = 0; i < n_pages; i++) {
        float *page = lx_host_page(s, to, i);
        if (page != lx_host_page(s, from, i))
            memcpy(page, lx_host_page(s, from, i), float_bytes(s->page_floats));
    }
    return LX_OK;
}

lx_status lx_host_state_export(lx_backend *be, const lx_states *s, int32_t slot, float *dst,
                               int32_t n_pages)
{
    (void)be;
    if (!lx_host_has_pages(s, slot, n_pages))
        return LX_ERR_INVALID;
    memcpy(dst, s->data + slot * s->stride, float_bytes(s->floats));
    dst += s->floats;
    for (int32_t i = 0; i < n_pages; i++, dst += s->page_floats)
        memcpy(dst, lx_host_page(s, slot, i), float_bytes(s->page_floats));
    return LX_OK;
}

lx_status lx_host_state_import(lx_backend *be, lx_states *s, int32_t slot, const float *src,
                               int32_t n_pages)
{
    (void)be;
    if (!lx_host_has_pages(s, slot, n_pages))
        return LX_ERR_INVALID;
    memcpy(s->data + slot * s->stride, src, float_bytes(s->floats));
    src += s->floats;
    for (int32_t i = 0; i < n_pages; i++, src += s->page_floats)
        memcpy(lx_host_page(s, slot, i), src, float_bytes(s->page_floats));
    return LX_OK;
}

/* --- drawn tokens --- */

int32_t lx_host_keeper(const lx_batch *b, int32_t i, int32_t *seq)
{
    while (b->seq_start[*seq + 1] <= b->output_row[i])
        ++*seq;
    bool last = i + 1 == b->n_outputs || b->output_row[i + 1] >= b->seq_start[*seq + 1];
    return last ? b->slot[*seq] : -1;
}

void lx_host_keep_drawn(const lx_batch *b, lx_states *s, const lx_sampling *rows,
                        const lx_sample *drawn)
{
    int32_t seq = 0;
    for (int32_t i = 0; s != NULL && i < b->n_outputs; i++) {
        int32_t slot = lx_host_keeper(b, i, &seq);
        if (slot >= 0)
            s->drawn[lx_drawn_place(slot, rows[i].step)] = drawn[i].token;
    }
}
