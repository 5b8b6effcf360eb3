/* See sequences.h. */
#include "sequences.h"

#include <string.h>

#include "kept_results.h"
#include "support.h"

int32_t sequence_rows(const sequences *s)
{
    int32_t rows = 0;
    for (int32_t i = 0; i < s->n_seqs; i++)
        rows += s->length[i];
    return rows;
}

int32_t *sequence_slots(int32_t n_seqs)
{
    int32_t *slot = take((size_t)n_seqs * sizeof *slot);
    for (int32_t i = 0; i < n_seqs; i++)
        slot[i] = (i * 5 + 2) % (n_seqs + 1);
    return slot;
}

/* One step on rows `row` .. of sequences with these lengths and slots. */
static bool step(device *d, const sequences *s, lx_states *states, int32_t n_seqs,
                 const int32_t *length, const int32_t *slot, int64_t row, float *y)
{
    lx_batch *b = ragged_batch(n_seqs, length, slot);
    int64_t n_y = b->n_tokens * s->n_y;
    int owned = d->n_owned;
    lx_array *in[SEQUENCE_ARRAYS] = {NULL}, *out = dev_array(d, NULL, n_y);
    for (int i = 0; i < s->n_arrays; i++)
        in[i] = dev_array(d, s->rows[i] + row * s->width[i], (int64_t)b->n_tokens * s->width[i]);
    CHECK_OK(d->k->begin(d->be, b, NULL));
    s->run(d, s, out, in, states);
    bool ok = dev_finish(d) && dev_read(d, out, y, n_y);
    while (d->n_owned > owned)
        d->k->array_free(d->be, d->owned[--d->n_owned].object);
    return ok;
}

bool sequences_run(device *d, const sequences *s, float *y, float *state)
{
    lx_states *states = dev_states(d, s->floats, s->n_slots);
    if (!step(d, s, states, s->n_seqs, s->length, s->slot, 0, y))
        return false;
    for (int32_t i = 0; i < s->n_slots; i++)
        CHECK_OK(d->k->state_export(d->be, states, i, state + i * s->floats, 0));
    return true;
}

static uint64_t key_of(const sequences *s)
{
    uint64_t key = hash_bytes(NO_BYTES, s->text, strlen(s->text));
    key = hash_bytes(key, &s->run, sizeof s->run);
    key = hash_bytes(key, s->length, (size_t)s->n_seqs * sizeof *s->length);
    key = hash_bytes(key, s->slot, (size_t)s->n_seqs * sizeof *s->slot);
    key = hash_bytes(key, &s->floats, sizeof s->floats);
    for (int i = 0; i < s->n_arrays; i++)
        key = hash_floats(key, s->rows[i], (int64_t)sequence_rows(s) * s->width[i]);
    return key;
}

static bool compare(device *oracle, const sequences *s, const float *y, const float *state,
                    double y_bound, double state_bound)
{
    int64_t n_y = sequence_rows(s) * s->n_y, n = s->n_slots * s->floats;
    results want = results_of(key_of(s), n_y, n);
    if (!want.known) {
        if (!sequences_run(oracle, s, want.y, want.state))
            return false;
        s->scales(s, want.y_scale, want.state_scale);
        keep_results(&want);
    }
    double error = worst_error(y, want.y, want.y_scale, n_y);
    CHECK(error <= y_bound, "%s, %d sequences: error %.3g", s->text, s->n_seqs, error);
    error = worst_error(state, want.state, want.state_scale, n);
    CHECK(error <= state_bound, "%s: state's error %.3g", s->text, error);
    for (int64_t i = 0; i < n; i++)
        CHECK(want.state_scale[i] > 0 || state[i] == 0, "%s: float %lld of the states was written",
              s->text, (long long)i);
    return true;
}

bool sequences_match(device *dut, device *oracle, const sequences *s, double y_bound,
                     double state_bound)
{
    int64_t n_y = sequence_rows(s) * s->n_y, n = s->n_slots * s->floats;
    float *got = floats(n_y), *got_state = floats(n);
    if (!sequences_run(dut, s, got, got_state))
        return false;
    if (!dut->only_runs && !compare(oracle, s, got, got_state, y_bound, state_bound))
        return false;
    dev_release(dut);
    dev_release(oracle);
    arena_reset();
    return true;
}

/* Sequence `which` in pieces of `longest` rows, or with r of a random number up to that. */
static bool sequence_equals(device *d, const sequences *s, int32_t which, int32_t longest, rng *r,
                            const float *y, const float *state)
{
    lx_states *states = dev_states(d, s->floats, 1);
    int32_t length = s->length[which], zero = 0;
    float *piece = floats(length * s->n_y), *end = floats(s->floats);
    int64_t first = 0;
    for (int32_t i = 0; i < which; i++)
        first += s->length[i];
    for (int32_t row = 0, n = 0; row < length; row += n) {
        n = r != NULL ? 1 + (int32_t)random_below(r, (uint32_t)longest) : longest;
        n = n < length - row ? n : length - row;
        if (!step(d, s, states, 1, &n, &zero, first + row, piece))
            return false;
        CHECK(same_bytes(piece, y + (first + row) * s->n_y, n * s->n_y),
              "%s: rows %d to %d of sequence %d differ", s->text, row, row + n - 1, which);
    }
    CHECK_OK(d->k->state_export(d->be, states, 0, end, 0));
    CHECK(same_bytes(end, state + s->slot[which] * s->floats, s->floats),
          "%s: the state of sequence %d differs", s->text, which);
    return true;
}

bool sequences_split(device *d, const sequences *s, const int32_t *longest, int32_t n, rng *r)
{
    float *y = floats(sequence_rows(s) * s->n_y), *state = floats(s->n_slots * s->floats);
    if (!sequences_run(d, s, y, state))
        return false;
    for (int32_t i = 0; i < s->n_seqs * n; i++) {
        if (!sequence_equals(d, s, i / n, longest[i % n], r, y, state))
            return false;
    }
    dev_release(d);
    arena_reset();
    return true;
}

bool sequences_hash(device *d, const sequences *s, uint64_t *hash)
{
    int64_t n_y = sequence_rows(s) * s->n_y, n = s->n_slots * s->floats;
    float *y = floats(n_y), *state = floats(n);
    if (!sequences_run(d, s, y, state))
        return false;
    *hash =
        hash_bytes(hash_bytes(*hash, y, (size_t)n_y * sizeof *y), state, (size_t)n * sizeof *state);
    dev_release(d);
    return true;
}
