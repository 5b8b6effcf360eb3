/* See carried.h. */
#include "carried.h"

#include <math.h>
#include <string.h>

static int32_t pages_of(const carried *op)
{
    return op->page_floats > 0 ? (op->most + LX_PAGE_TOKENS - 1) / LX_PAGE_TOKENS : 0;
}

static int64_t state_floats(const carried *op)
{
    return op->fixed_floats + pages_of(op) * op->page_floats;
}

lx_states *carried_states(device *d, const carried *op, int32_t n_slots)
{
    int32_t pages = pages_of(op);
    lx_state_layout layout = {op->fixed_floats, op->page_floats, n_slots * pages, pages};
    lx_states *s = dev_states_of(d, layout, n_slots);
    float *nothing = floats(state_floats(op));
    bool ok = true;
    for (int64_t i = 0; i < state_floats(op); i++)
        nothing[i] = NAN;
    for (int32_t slot = 0; slot < n_slots; slot++) {
        for (int32_t i = 0; i < pages; i++) {
            int32_t page = n_slots * pages - 1 - (i * n_slots + slot);
            ok = ok && d->k->state_map(d->be, s, slot, i, 1, &page) == LX_OK;
        }
        ok = ok && d->k->state_import(d->be, s, slot, nothing, pages) == LX_OK &&
             d->k->state_zero(d->be, s, slot) == LX_OK;
    }
    return ok ? s : NULL;
}

bool carried_step(device *d, const carried *op, lx_states *s, int32_t n_seqs, const int32_t *length,
                  const int32_t *slot, const int32_t *position, const float *x, float *y)
{
    lx_batch *b = ragged_batch(n_seqs, length, slot);
    int64_t n_y = b->n_tokens * op->y_width;
    lx_array *in = dev_array(d, x, b->n_tokens * op->x_width), *out = dev_array(d, y, n_y);
    b->position = position;
    CHECK(s != NULL, "mapping or import failed");
    CHECK_OK(d->k->begin(d->be, b, NULL));
    op->queue(d, op->c, s, in, out);
    return dev_finish(d) && dev_read(d, out, y, n_y);
}

bool carried_matches_oracle(device *dut, device *oracle, const carried *op, rng *r)
{
    static const int32_t slot[] = {2, 0, 1}, zero[] = {0, 0, 0};
    const int32_t length[] = {op->most, 1, op->most / 3};
    int64_t n = op->most + 1 + op->most / 3, n_y = n * op->y_width;
    float *x = random_floats(r, n * op->x_width, UNIFORM, 2, 2);
    float *got = random_floats(r, n_y, UNIFORM, 1, 1), *want = floats(n_y);
    double *scale = take((size_t)n_y * sizeof *scale);
    memcpy(want, got, (size_t)n_y * sizeof *want);
    for (int64_t i = 0; i < n_y; i++)
        scale[i] = op->scale;
    if (!carried_step(dut, op, carried_states(dut, op, 3), 3, length, slot, zero, x, got) ||
        !carried_step(oracle, op, carried_states(oracle, op, 3), 3, length, slot, zero, x, want))
        return false;
    double error = worst_error(got, want, scale, n_y);
    CHECK(error <= op->bound, "error %.3g", error);
    dev_release(dut);
    dev_release(oracle);
    return true;
}

bool carried_any_split_is_equal(device *dut, const carried *op, rng *r)
{
    int32_t n = op->most, zero = 0, some[2] = {1, 2}, slots[2] = {1, 0}, at[2] = {0, 0};
    int64_t n_y = op->y_width;
    float *x = random_floats(r, (n + 2) * op->x_width, UNIFORM, 2, 2);
    float *y = random_floats(r, (n + 2) * n_y, UNIFORM, 1, 1);
    float *whole = floats(n * n_y), *piece = floats((n + 2) * n_y);
    float *one = floats(state_floats(op)), *two = floats(state_floats(op));
    lx_states *s = carried_states(dut, op, 2);
    memcpy(whole, y, (size_t)(n * n_y) * sizeof *whole);
    if (!carried_step(dut, op, s, 1, &n, &zero, &zero, x, whole))
        return false;
    CHECK_OK(dut->k->state_export(dut->be, s, 0, one, pages_of(op)));
    CHECK_OK(dut->k->state_zero(dut->be, s, 0));
    for (; at[0] < n; at[0] += some[0]) { /* next to others in slot 0, always its first tokens */
        some[0] = at[0] == 0 ? 1 : 1 + (int32_t)random_below(r, 70);
        some[0] = some[0] < n - at[0] ? some[0] : n - at[0];
        memcpy(piece, y + at[0] * n_y, (size_t)((some[0] + 2) * n_y) * sizeof *piece);
        if (!carried_step(dut, op, s, 2, some, slots, at, x + at[0] * op->x_width, piece))
            return false;
        CHECK(same_bytes(piece, whole + at[0] * n_y, some[0] * n_y), "tokens from %d on", at[0]);
    }
    CHECK_OK(dut->k->state_export(dut->be, s, 1, two, pages_of(op)));
    CHECK(same_bytes(one, two, state_floats(op)), "the state differs");
    dev_release(dut);
    return true;
}

bool carried_is_refused(device *dut, const char *word, const void *args,
                        void (*queue)(device *d, const void *args))
{
    static const int32_t position[] = {0, 0};
    lx_batch *b = single_rows(2);
    lx_error err = {0};
    uint64_t number;
    b->position = position;
    CHECK_OK(dut->k->begin(dut->be, b, NULL));
    queue(dut, args);
    CHECK(dut->k->end(dut->be, &number, &err) == LX_ERR_INVALID, "accepted: %s", word);
    CHECK(strstr(err.text, word) != NULL, "\"%s\" says no %s", err.text, word);
    return true;
}
