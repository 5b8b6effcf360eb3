/*
 * Sequences that continue in another slot (lx_batch.branch). A step with branches must leave the
 * bytes of three separate actions: a step of the rows before the branch, a copy of the state, and a
 * step of the rows after the branch. The branch's slot is NaN before, so that a read of it shows.
 */
#include <math.h>
#include <string.h>

#include "conformance.h"
#include "support.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

enum { SEQS = 5, SLOTS = 2 * SEQS + 1, HEADS = 3 };

/* Rows of each sequence, and how many of them come before the branch; no rows after it mean no
 * branch. */
static const int32_t length[SEQS] = {5, 1, 3, 20, 4}, own[SEQS] = {2, 1, 3, 1, 3};
static const int32_t slot[SEQS] = {3, 0, 9, 5, 1}, branch[SEQS] = {7, -1, -1, 2, 10};

/* An operation with all its inputs in rows of one array. */
typedef struct branch_case {
    int32_t d_key, d_value, kind; /* kind: which decay, correction and read */
    int64_t x_width, y_width, floats;
    void (*queue)(device *d, const struct branch_case *c, lx_states *s, lx_array *x, lx_array *y,
                  const lx_array *parameters);
} branch_case;

static void queue_attend(device *d, const branch_case *c, lx_states *s, lx_array *x, lx_array *y,
                         const lx_array *parameters)
{
    (void)parameters;
    lx_attend_linear_args a = {.y = y,
                               .qkv = x,
                               .states = s,
                               .n_heads = HEADS,
                               .d_key = c->d_key,
                               .d_value = c->d_value,
                               .feature_map = LX_PHI_ELU1,
                               .eps = 1e-6f};
    d->k->attend_linear(d->be, &a);
}

static branch_case attend_case(int32_t d_key, int32_t d_value)
{
    return (branch_case){.d_key = d_key,
                         .d_value = d_value,
                         .x_width = (int64_t)HEADS * (2 * d_key + d_value),
                         .y_width = (int64_t)HEADS * d_value,
                         .floats = (int64_t)HEADS * (d_key * d_value + d_key),
                         .queue = queue_attend};
}

/* Input `which` of the recurrence: each has as many columns a head as the largest may want. */
static lx_head_columns input(const branch_case *c, const lx_array *x, int32_t which)
{
    int32_t d = c->d_key > c->d_value ? c->d_key : c->d_value;
    return (lx_head_columns){x, (int32_t)c->x_width, which * HEADS * d, d, 1};
}

static void queue_recurrence(device *d, const branch_case *c, lx_states *s, lx_array *x,
                             lx_array *y, const lx_array *parameters)
{
    (void)parameters;
    bool before = c->kind == 3;
    lx_recurrence_args a = {.y = y,
                            .q = input(c, x, 0),
                            .k = input(c, x, 1),
                            .v = input(c, x, 2),
                            .w = input(c, x, 3),
                            .a = input(c, x, 4),
                            .b = input(c, x, 5),
                            .states = s,
                            .n_heads = HEADS,
                            .d_key = c->d_key,
                            .d_value = c->d_value,
                            .decay = c->kind == 0 ? LX_DECAY_HEAD : LX_DECAY_CHANNEL,
                            .correction = before ? LX_CORRECT_NONE : (lx_correction)c->kind,
                            .read = before ? LX_READ_BEFORE : LX_READ_AFTER,
                            .scale = 0.5f};
    d->k->recurrence(d->be, &a);
}

static branch_case recurrence_case(int32_t d_key, int32_t d_value, int32_t kind)
{
    int64_t d = d_key > d_value ? d_key : d_value;
    return (branch_case){.d_key = d_key,
                         .d_value = d_value,
                         .kind = kind,
                         .x_width = 6 * HEADS * d,
                         .y_width = (int64_t)HEADS * d_value,
                         .floats = (int64_t)HEADS * d_key * d_value,
                         .queue = queue_recurrence};
}

static void queue_kept(device *d, const branch_case *c, lx_states *s, lx_array *x, lx_array *y,
                       const lx_array *parameters)
{
    int32_t width = (int32_t)c->x_width;
    lx_short_conv_args conv = {y, {x, width, 0}, parameters, NULL,          s,
                               0, width,         c->d_key,   LX_FN_IDENTITY};
    lx_token_shift_args shift = {
        .y = {y}, .x = x, .mixes = parameters, .states = s, .n_mixes = 1, .d = width};
    if (c->d_key > 0)
        d->k->short_conv(d->be, &conv);
    else
        d->k->token_shift(d->be, &shift);
}

static void queue_scan(device *d, const branch_case *c, lx_states *s, lx_array *x, lx_array *y,
                       const lx_array *parameters)
{
    int32_t width = (int32_t)c->x_width, n = (int32_t)c->y_width;
    lx_selective_scan_args scan = {.y = y,
                                   .x = {x, width, 0},
                                   .t = {x, width, n},
                                   .b = {x, width, 2 * n},
                                   .c = {x, width, 2 * n + c->d_key},
                                   .a = parameters,
                                   .skip = parameters,
                                   .states = s,
                                   .d = n,
                                   .d_key = c->d_key};
    d->k->selective_scan(d->be, &scan);
}

static branch_case scan_case(int32_t keys, int32_t channels)
{
    return (branch_case){.d_key = keys,
                         .x_width = 2 * (channels + keys),
                         .y_width = channels,
                         .floats = (int64_t)keys * channels,
                         .queue = queue_scan};
}

/* A convolution of that many taps, or with none a shift. */
static branch_case kept_case(int32_t taps, int32_t width)
{
    return (branch_case){.d_key = taps,
                         .x_width = width,
                         .y_width = width,
                         .floats = (int64_t)width * (taps > 0 ? taps - 1 : 1),
                         .queue = queue_kept};
}

static bool run(device *d, const branch_case *c, lx_states *s, const lx_batch *b, const float *x,
                float *y)
{
    static float ones[4096];
    for (int i = 0; i < COUNT(ones); i++)
        ones[i] = 0.25f + (float)(i % 7) / 16;
    int owned = d->n_owned;
    lx_array *in = dev_array(d, x, b->n_tokens * c->x_width);
    lx_array *out = dev_array(d, NULL, b->n_tokens * c->y_width);
    CHECK_OK(d->k->begin(d->be, b, NULL));
    c->queue(d, c, s, in, out, dev_array(d, ones, COUNT(ones)));
    bool ok = dev_finish(d) && dev_read(d, out, y, b->n_tokens * c->y_width);
    while (d->n_owned > owned)
        d->k->array_free(d->be, d->owned[--d->n_owned].object);
    return ok;
}

/* Fills the sequences' slots with the states of `before`, in order, and all others with NaN. */
static lx_states *states_of(device *d, const branch_case *c, const float *before)
{
    lx_states *s = dev_states(d, c->floats, SLOTS);
    float *nan = floats(c->floats);
    for (int64_t i = 0; i < c->floats; i++)
        nan[i] = NAN;
    for (int32_t i = 0; i < SLOTS; i++)
        (void)d->k->state_import(d->be, s, i, nan, 0);
    for (int32_t i = 0; i < SEQS; i++)
        (void)d->k->state_import(d->be, s, slot[i], before + i * c->floats, 0);
    return s;
}

/* Runs the steps before and after the branch separately, with copies between them. */
static bool run_apart(device *d, const branch_case *c, lx_states *s, const float *x, float *y)
{
    int32_t rest[SEQS], there[SEQS], n = 0, rows = 0;
    float *first = floats(40 * c->y_width), *second = floats(40 * c->y_width);
    float *x1 = floats(40 * c->x_width), *x2 = floats(40 * c->x_width);
    int64_t at1 = 0, at2 = 0, size = (int64_t)sizeof *x * c->x_width;
    for (int32_t i = 0; i < SEQS; rows += length[i++]) {
        memcpy(x1 + at1 * c->x_width, x + rows * c->x_width, (size_t)(own[i] * size));
        at1 += own[i];
        if (branch[i] < 0)
            continue;
        rest[n] = length[i] - own[i], there[n++] = branch[i];
        memcpy(x2 + at2 * c->x_width, x + (rows + own[i]) * c->x_width,
               (size_t)((length[i] - own[i]) * size));
        at2 += length[i] - own[i];
    }
    if (!run(d, c, s, ragged_batch(SEQS, own, slot), x1, first))
        return false;
    for (int32_t i = 0; i < SEQS; i++) {
        if (branch[i] >= 0)
            CHECK_OK(d->k->state_copy(d->be, s, branch[i], slot[i], 0));
    }
    if (!run(d, c, s, ragged_batch(n, rest, there), x2, second))
        return false;
    size = (int64_t)sizeof *y * c->y_width;
    for (int32_t i = 0; i < SEQS; i++) {
        int32_t behind = length[i] - own[i];
        memcpy(y, first, (size_t)(own[i] * size));
        memcpy(y + own[i] * c->y_width, second, (size_t)(behind * size));
        y += length[i] * c->y_width, first += own[i] * c->y_width, second += behind * c->y_width;
    }
    return true;
}

static bool check(device *d, const branch_case *c, rng *r)
{
    lx_batch *b = ragged_batch(SEQS, length, slot);
    int64_t n_y = b->n_tokens * c->y_width;
    float *x = random_floats(r, b->n_tokens * c->x_width, UNIFORM, 0, 0);
    float *before = random_floats(r, SEQS * c->floats, UNIFORM, 0, 0);
    float *y = floats(n_y), *want = floats(n_y), *left = floats(c->floats),
          *want_left = floats(c->floats);
    lx_states *s = states_of(d, c, before), *apart = states_of(d, c, before);
    if (!run_apart(d, c, apart, x, want))
        return false;
    b->branch = branch;
    b->branch_row = own;
    if (!run(d, c, s, b, x, y))
        return false;
    CHECK(same_bytes(y, want, n_y), "%d x %d, kind %d: outputs", c->d_key, c->d_value, c->kind);
    for (int32_t i = 0; i < SLOTS; i++) {
        CHECK_OK(d->k->state_export(d->be, s, i, left, 0));
        CHECK_OK(d->k->state_export(d->be, apart, i, want_left, 0));
        CHECK(same_bytes(left, want_left, c->floats), "%d x %d, kind %d: the state in slot %d",
              c->d_key, c->d_value, c->kind, i);
    }
    dev_release(d);
    return true;
}

static bool branches_equal_copies(device *dut, device *oracle)
{
    static const int32_t sizes[][2] = {{16, 16}, {32, 32}, {5, 7}, {33, 70}, {112, 112}};
    rng r = {977};
    (void)oracle;
    for (int i = 0; i < COUNT(sizes); i++) {
        branch_case c = attend_case(sizes[i][0], sizes[i][1]);
        if (!check(dut, &c, &r))
            return false;
        for (int32_t kind = 0; kind < 4; kind++) {
            c = recurrence_case(sizes[i][0], sizes[i][1], kind);
            if (!check(dut, &c, &r))
                return false;
        }
        arena_reset();
    }
    branch_case large = recurrence_case(200, 3, 2); /* more than a block has room for */
    if (!check(dut, &large, &r))
        return false;
    branch_case scans = scan_case(16, 100);
    if (!check(dut, &scans, &r))
        return false;
    for (int32_t taps = 0; taps <= LX_CONV_MOST_TAPS; taps++) {
        branch_case c = kept_case(taps, 100);
        if (taps != 1 && !check(dut, &c, &r))
            return false;
    }
    return true;
}

static bool refused(device *d, const lx_batch *b, const char *what)
{
    lx_error err = {0};
    CHECK(d->k->begin(d->be, b, &err) == LX_ERR_INVALID, "accepted: %s", what);
    CHECK(strncmp(err.text, "batch: ", 7) == 0, "%s: %s", what, err.text);
    return true;
}

static bool bad_branches_are_refused(device *dut, device *oracle)
{
    int32_t two[] = {2, 2}, at[] = {0, 1}, to[] = {2, -1}, row[] = {1, 0}, late[] = {2, 0},
            early[] = {0, 0}, taken[] = {1, -1}, same[] = {2, 2}, both[] = {1, 1},
            below[] = {-2, -1};
    lx_batch *b = ragged_batch(2, two, at);
    (void)oracle;
    const struct {
        const char *what;
        const int32_t *branch, *row;
    } bad[] = {{"no rows behind it", to, late},
               {"no rows before it", to, early},
               {"the slot of another", taken, row},
               {"a slot twice", same, both},
               {"no slot", below, row},
               {"no branch_row", to, NULL}};
    for (int i = 0; i < COUNT(bad); i++) {
        b->branch = bad[i].branch;
        b->branch_row = bad[i].row;
        if (!refused(dut, b, bad[i].what))
            return false;
    }
    return true;
}

/* A state in pages cannot be left as it was by writing elsewhere. */
static bool what_cannot_branch_says_so(device *dut, device *oracle)
{
    int32_t two = 2, at = 0, position = 0, to = 1, far = 2, row = 1;
    lx_error err = {0};
    uint64_t step = 0;
    (void)oracle;
    for (int which = 0; which < 2; which++) {
        branch_case c = kept_case(0, 8);
        lx_batch *b = ragged_batch(1, &two, &at);
        lx_states *s = dev_states(dut, 64, 2);
        lx_array *x = dev_array(dut, NULL, 2 * 24), *y = dev_array(dut, NULL, 2 * 8);
        b->position = &position;
        b->branch = which == 0 ? &to : &far;
        b->branch_row = &row;
        lx_chunk_sums_args sums = {.y = y,
                                   .q = {x, 24, 0},
                                   .k = {x, 24, 4},
                                   .v = {x, 24, 8},
                                   .states = s,
                                   .d_key = 4,
                                   .d_value = 8,
                                   .chunk = 4,
                                   .scale = 1};
        CHECK_OK(dut->k->begin(dut->be, b, NULL));
        if (which == 0)
            dut->k->chunk_sums(dut->be, &sums);
        else
            c.queue(dut, &c, s, x, y, dev_array(dut, NULL, 8));
        lx_status st = dut->k->end(dut->be, &step, &err);
        CHECK(st == (which == 0 ? LX_ERR_UNSUPPORTED : LX_ERR_INVALID), "%d: %s", which, err.text);
        CHECK(strstr(err.text, "branch") != NULL, "%d: %s", which, err.text);
        dev_release(dut);
    }
    return true;
}

const test branch_tests[] = {
    {"branches_equal_copies", branches_equal_copies},
    {"bad_branches_are_refused", bad_branches_are_refused},
    {"what_cannot_branch_says_so", what_cannot_branch_says_so},
    {NULL, NULL},
};
