/* The states of a transformer's sequences (see transformer.h): the back end's, by input rows. */
#include <stdlib.h>

#include "model/transformer.h"

/* The back end says only what kind of failure it was. */
static lx_status checked(lx_status st, const char *what, lx_error *err)
{
    return st == LX_OK ? LX_OK : lx_fail(err, st, NULL, "the device failed to %s a state", what);
}

lx_status lx_transformer_states_pool(lx_transformer *t, int32_t n_slots, int32_t n_pages,
                                     int32_t slot_pages, lx_states **out, lx_error *err)
{
    lx_backend *be = lx_transformer_backend(t);
    lx_state_layout layout = lx_transformer_model(t)->state;
    layout.n_pages = layout.page_floats > 0 ? n_pages : 0;
    layout.slot_pages = layout.page_floats > 0 ? slot_pages : 0;
    lx_status st = be->ops->states_new(be, &layout, n_slots, out, err);
    const float *initial = lx_transformer_initial_state(t);
    for (int32_t slot = 0; slot < n_slots && initial != NULL && st == LX_OK; slot++)
        st = be->ops->state_import(be, *out, slot, initial, 0);
    return st;
}

/* Slot i takes pages i * n to i * n + n - 1. */
static lx_status map_all(lx_transformer *t, lx_states *s, int32_t n_slots, int32_t n, lx_error *err)
{
    int32_t *pages = malloc((size_t)n * sizeof *pages);
    if (pages == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d pages", n);
    lx_status st = LX_OK;
    for (int32_t slot = 0; slot < n_slots && st == LX_OK; slot++) {
        for (int32_t i = 0; i < n; i++)
            pages[i] = slot * n + i;
        st = lx_transformer_state_map(t, s, slot, n, pages, err);
    }
    free(pages);
    return st;
}

lx_status lx_transformer_states_new(lx_transformer *t, int32_t n_slots, int64_t rows,
                                    lx_states **out, lx_error *err)
{
    int32_t n = lx_model_state_pages(lx_transformer_model(t), rows);
    lx_status st = lx_transformer_states_pool(t, n_slots, n_slots * n, n, out, err);
    if (st != LX_OK || n == 0)
        return st;
    st = map_all(t, *out, n_slots, n, err);
    if (st != LX_OK) {
        lx_transformer_states_free(t, *out);
        *out = NULL;
    }
    return st;
}

void lx_transformer_states_free(lx_transformer *t, lx_states *s)
{
    lx_backend *be = lx_transformer_backend(t);
    be->ops->states_free(be, s);
}

lx_status lx_transformer_state_map(lx_transformer *t, lx_states *s, int32_t slot, int32_t n,
                                   const int32_t *pages, lx_error *err)
{
    lx_backend *be = lx_transformer_backend(t);
    return checked(be->ops->state_map(be, s, slot, 0, n, pages), "map the pages of", err);
}

lx_status lx_transformer_state_zero(lx_transformer *t, lx_states *s, int32_t slot, lx_error *err)
{
    lx_backend *be = lx_transformer_backend(t);
    const float *initial = lx_transformer_initial_state(t);
    lx_status st = checked(be->ops->state_zero(be, s, slot), "clear", err);
    if (st == LX_OK && initial != NULL)
        st = checked(be->ops->state_import(be, s, slot, initial, 0), "take in", err);
    return st;
}

lx_status lx_transformer_state_copy(lx_transformer *t, lx_states *s, int32_t to, int32_t from,
                                    int64_t rows, lx_error *err)
{
    lx_backend *be = lx_transformer_backend(t);
    int32_t n = lx_model_state_pages(lx_transformer_model(t), rows);
    return checked(be->ops->state_copy(be, s, to, from, n), "copy", err);
}

lx_status lx_transformer_state_save(lx_transformer *t, const lx_states *s, int32_t slot,
                                    int64_t rows, float *to, lx_error *err)
{
    lx_backend *be = lx_transformer_backend(t);
    int32_t n = lx_model_state_pages(lx_transformer_model(t), rows);
    return checked(be->ops->state_export(be, s, slot, to, n), "hand out", err);
}

lx_status lx_transformer_state_load(lx_transformer *t, lx_states *s, int32_t slot, int64_t rows,
                                    const float *from, lx_error *err)
{
    lx_backend *be = lx_transformer_backend(t);
    int32_t n = lx_model_state_pages(lx_transformer_model(t), rows);
    return checked(be->ops->state_import(be, s, slot, from, n), "take in", err);
}
