/*
 * Ids that stand for a deferred token of the row's own slot (lx_drawn_id). Tested are the token of
 * a step that is kept, its place, and an id without such a token. Each row of the embedding table
 * differs, so y shows which id was used.
 */
#include <math.h>
#include <string.h>

#include "conformance.h"

enum { WIDTH = 5, IDS = 23, SLOTS = 9, ROWS = 6 };

typedef struct world {
    const lx_table *tables[1];
    float *values; /* [IDS, WIDTH] */
    lx_array *y, *logits, *nan;
    lx_states *states;
} world;

static world make_world(device *d)
{
    rng r = {31};
    world w = {.values = random_floats(&r, IDS * WIDTH, UNIFORM, 0, 0)};
    lx_host_tensor t = {LX_F32, IDS, WIDTH, w.values};
    float *zeros = floats(ROWS * IDS), *nans = floats(ROWS * IDS);
    for (int i = 0; i < ROWS * IDS; i++)
        nans[i] = NAN;
    w.tables[0] = dev_table(d, &t);
    w.y = dev_array(d, NULL, ROWS * WIDTH);
    w.logits = dev_array(d, zeros, ROWS * IDS);
    w.nan = dev_array(d, nans, ROWS * IDS);
    w.states = dev_states(d, WIDTH, SLOTS);
    return w;
}

static lx_sampling forced(int32_t token, int32_t step)
{
    return (lx_sampling){.temperature = 1, .top_p = 1, .forced = token, .step = (uint32_t)step};
}

/* Samples these rows, all outputs, and keeps their tokens or not. */
static bool draw(device *d, const world *w, const lx_batch *b, const lx_sampling *how, bool mixture,
                 lx_array *logits, lx_states *states)
{
    lx_sample out[ROWS];
    lx_sample_args sample = {logits, IDS, how, out, states};
    lx_sample_mixture_args mix = {logits, 3, IDS, how, out, states};
    (void)w;
    CHECK_OK(d->k->begin(d->be, b, NULL));
    if (mixture)
        d->k->sample_mixture(d->be, &mix);
    else
        d->k->sample(d->be, &sample);
    return dev_finish(d);
}

/* Row i's id, one in each of the batch's slots, gives the table's row want[i]. */
static bool gives(device *d, const world *w, const lx_batch *b, const int32_t *ids,
                  const int32_t *want)
{
    float got[ROWS * WIDTH];
    lx_embed_args embed = {w->y, 1, w->tables, ids, w->states};
    CHECK_OK(d->k->begin(d->be, b, NULL));
    d->k->embed(d->be, &embed);
    if (!dev_finish(d))
        return false;
    CHECK_OK(d->k->array_download(d->be, w->y, 0, got, (int64_t)b->n_tokens * WIDTH));
    for (int32_t i = 0; i < b->n_tokens; i++)
        CHECK(same_bytes(got + (ptrdiff_t)i * WIDTH, w->values + (ptrdiff_t)want[i] * WIDTH, WIDTH),
              "row %d is not that of id %d", i, want[i]);
    return true;
}

/* The newest LX_DRAWN tokens of each slot can be named, those of other slots cannot. */
static bool check_kept(device *d, bool mixture)
{
    world w = make_world(d);
    static const int32_t slots[] = {7, 0, 4};
    const int32_t ones[] = {1, 1, 1};
    lx_batch *b = ragged_batch(3, ones, slots);
    all_outputs(b);
    for (int32_t step = 0; step < 2 * LX_DRAWN; step++) {
        lx_sampling how[3] = {forced(step, step), forced(step + 8, step), forced(22 - step, step)};
        if (!draw(d, &w, b, how, mixture, w.logits, w.states))
            return false;
        for (int32_t old = step; old >= 0 && old > step - LX_DRAWN; old--) {
            const int32_t ids[] = {lx_drawn_id(old), lx_drawn_id(old), lx_drawn_id(old)};
            const int32_t want[] = {old, old + 8, 22 - old};
            if (!gives(d, &w, b, ids, want))
                return false;
        }
    }
    return true;
}

static bool drawn_tokens_are_kept(device *dut, device *oracle)
{
    (void)oracle;
    return check_kept(dut, false) && check_kept(dut, true);
}

/* A sequence with several outputs keeps the last one's token; also next to known ids, and in longer
 * sequences. */
static bool the_last_output_is_kept(device *dut, device *oracle)
{
    (void)oracle;
    world w = make_world(dut);
    static const int32_t slots[] = {2, 8}, lengths[] = {4, 2}, rows[] = {0, 2, 5};
    lx_batch *b = ragged_batch(2, lengths, slots);
    b->n_outputs = 3;
    b->output_row = rows;
    const lx_sampling how[] = {forced(9, 4), forced(11, 4), forced(13, 4)};
    if (!draw(dut, &w, b, how, false, w.logits, w.states))
        return false;
    const int32_t ids[] = {3, lx_drawn_id(4), 5, lx_drawn_id(0), 22, lx_drawn_id(4)};
    const int32_t want[] = {3, 11, 5, 11, 22, 13};
    return gives(dut, &w, b, ids, want);
}

/* Without a token, or without room to keep it: id 0, or the former value. */
static bool nothing_drawn_is_id_0(device *dut, device *oracle)
{
    (void)oracle;
    world w = make_world(dut);
    const lx_batch *b = single_rows(2);
    const lx_sampling seven[] = {forced(7, 1), forced(7, 1)};
    const lx_sampling any[] = {forced(-1, 1), forced(-1, 1)};
    const int32_t ids[] = {lx_drawn_id(1), lx_drawn_id(1)}, none[] = {0, 0}, before[] = {7, 7};
    if (!gives(dut, &w, b, ids, none) || !draw(dut, &w, b, seven, false, w.logits, w.states) ||
        !draw(dut, &w, b, any, false, w.logits, NULL) || !gives(dut, &w, b, ids, before))
        return false;
    return draw(dut, &w, b, any, false, w.nan, w.states) && gives(dut, &w, b, ids, none) &&
           draw(dut, &w, b, seven, false, w.logits, w.states) &&
           draw(dut, &w, b, any, true, w.nan, w.states) && gives(dut, &w, b, ids, none);
}

/* A token that the table has not counts as id 0. */
static bool unknown_drawn_is_id_0(device *dut, device *oracle)
{
    enum { FEW = 9 };
    (void)oracle;
    world w = make_world(dut);
    const lx_batch *b = single_rows(3);
    const lx_sampling how[] = {forced(FEW - 1, 1), forced(FEW, 1), forced(IDS - 1, 1)};
    const int32_t ids[] = {lx_drawn_id(1), lx_drawn_id(1), lx_drawn_id(1)};
    const int32_t want[] = {FEW - 1, 0, 0};
    lx_host_tensor t = {LX_F32, FEW, WIDTH, w.values};
    w.tables[0] = dev_table(dut, &t);
    return draw(dut, &w, b, how, false, w.logits, w.states) && gives(dut, &w, b, ids, want);
}

static bool states_move_without_them(device *dut, device *oracle)
{
    (void)oracle;
    world w = make_world(dut);
    const lx_batch *b = single_rows(2);
    const lx_sampling how[] = {forced(7, 0), forced(8, 0)};
    const int32_t ids[] = {lx_drawn_id(0), lx_drawn_id(0)}, want[] = {7, 8};
    float state[WIDTH] = {0};
    if (!draw(dut, &w, b, how, false, w.logits, w.states))
        return false;
    CHECK_OK(dut->k->state_copy(dut->be, w.states, 0, 1, 0));
    CHECK_OK(dut->k->state_zero(dut->be, w.states, 1));
    CHECK_OK(dut->k->state_export(dut->be, w.states, 0, state, 0));
    CHECK_OK(dut->k->state_import(dut->be, w.states, 1, state, 0));
    return gives(dut, &w, b, ids, want);
}

/* More steps than any back end has room for, none synced but the last; and each looked at once more
   when its number is long past. */
static bool steps_wait_for_room(device *dut, device *oracle)
{
    enum { STEPS = 20 };
    (void)oracle;
    world w = make_world(dut);
    lx_batch *b = single_rows(1);
    lx_sampling *how = take(STEPS * sizeof *how);
    lx_sample *out = take(STEPS * sizeof *out);
    int32_t *ids = take(STEPS * sizeof *ids);
    uint64_t number[STEPS];
    float got[WIDTH];
    for (int32_t i = 0; i < STEPS; i++) {
        how[i] = forced(i, i);
        out[i].token = -2;
        ids[i] = i == 0 ? 0 : lx_drawn_id(i - 1);
        lx_embed_args embed = {w.y, 1, w.tables, &ids[i], w.states};
        lx_sample_args sample = {w.logits, IDS, &how[i], &out[i], w.states};
        CHECK_OK(dut->k->begin(dut->be, b, NULL));
        dut->k->embed(dut->be, &embed);
        dut->k->sample(dut->be, &sample);
        CHECK_OK(dut->k->end(dut->be, &number[i], NULL));
    }
    for (int32_t i = STEPS - 1; i >= 0; i--) {
        CHECK_OK(dut->k->sync(dut->be, number[i], NULL));
        CHECK(out[i].token == i, "step %d drew %d", i, out[i].token);
    }
    CHECK_OK(dut->k->array_download(dut->be, w.y, 0, got, WIDTH));
    CHECK(same_bytes(got, w.values + (ptrdiff_t)(STEPS - 2) * WIDTH, WIDTH), "another id's row");
    return true;
}

/* A step that is only prepared changes nothing, and the next one is not disturbed. */
static bool a_prepared_step_does_not_happen(device *dut, device *oracle)
{
    (void)oracle;
    if (dut->k->prepare == NULL) {
        CHECK(dut->k->step_size == NULL, "sizes of an operation that was not prepared");
        return true;
    }
    world w = make_world(dut);
    const lx_batch *b = single_rows(2);
    const lx_sampling seven[] = {forced(7, 1), forced(7, 1)}, nine[] = {forced(9, 1), forced(9, 1)};
    const int32_t ids[] = {lx_drawn_id(1), lx_drawn_id(1)}, want[] = {7, 7};
    lx_sample out[2] = {{-2, 0}, {-2, 0}};
    lx_sample_args sample = {w.logits, IDS, nine, out, w.states};
    lx_embed_args broken = {NULL, 1, w.tables, ids, w.states};
    if (!draw(dut, &w, b, seven, false, w.logits, w.states))
        return false;
    CHECK_OK(dut->k->begin(dut->be, b, NULL));
    dut->k->sample(dut->be, &sample);
    CHECK_OK(dut->k->prepare(dut->be, NULL));
    CHECK_OK(dut->k->begin(dut->be, b, NULL));
    dut->k->embed(dut->be, &broken);
    CHECK(dut->k->prepare(dut->be, NULL) == LX_ERR_INVALID, "accepted without a result");
    if (!gives(dut, &w, b, ids, want))
        return false;
    CHECK(out[0].token == -2 && out[1].token == -2, "the step has happened");
    for (int32_t n = 1, size; n < 100; n = size + 1) {
        size = dut->k->step_size(n);
        CHECK(size >= n, "%d sequences have size %d", n, size);
    }
    return true;
}

const test drawn_tests[] = {
    {"drawn_tokens_are_kept", drawn_tokens_are_kept},
    {"the_last_output_is_kept", the_last_output_is_kept},
    {"nothing_drawn_is_id_0", nothing_drawn_is_id_0},
    {"unknown_drawn_is_id_0", unknown_drawn_is_id_0},
    {"states_move_without_them", states_move_without_them},
    {"steps_wait_for_room", steps_wait_for_room},
    {"a_prepared_step_does_not_happen", a_prepared_step_does_not_happen},
    {NULL, NULL},
};
