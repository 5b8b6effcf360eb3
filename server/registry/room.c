/* A model's share of memory (see room.h). */
#include "server/registry/room.h"

#include "server/engine/scheduler.h"

enum {
    LEAST_GROWING = 16, /* slots of states that grow: they are rarely as large as they can be */
    MOST_PROMPT_ROWS = 256,
    LEAST_PROMPT_ROWS = 32,
    ROWS_PART = 4 /* of a share may be prompt rows */
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Few slots have as many spare slots: more of these would take memory from the former. */
static int32_t usual_spare(int32_t n_slots)
{
    int32_t spare = (int32_t)smaller(lx_fair_spare(n_slots), n_slots);
    return spare > LX_LEAST_SPARE ? spare : LX_LEAST_SPARE;
}

/* Bytes of n slots with spare slots, each state with so many. */
static int64_t bytes_of(const lx_room_sizes *s, const lx_room *r, int32_t n_slots, int32_t n_spare,
                        int64_t state)
{
    int32_t total = n_slots + n_spare;
    int64_t n_states = total + smaller(s->most_drafts, total / 2);
    return ((int64_t)n_slots + r->prompt_rows) * s->row + n_states * state;
}

/* The most slots that fit, in low .. high: spare ones for n_slots slots, with 0 slots and spare
   slots. At least `low`. */
static int32_t most_that_fit(const lx_room_sizes *s, const lx_room *r, int32_t n_slots,
                             int64_t state, int32_t low, int32_t high)
{
    while (low < high) {
        int32_t middle = low + (high - low + 1) / 2;
        int64_t bytes = n_slots > 0 ? bytes_of(s, r, n_slots, middle, state)
                                    : bytes_of(s, r, middle, usual_spare(middle), state);
        if (bytes <= s->bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static int32_t choose_slots(const lx_room_sizes *s, const lx_room *r)
{
    int32_t n = most_that_fit(s, r, 0, s->state, 1, s->most_slots);
    if (s->state > s->fixed && n < LEAST_GROWING)
        n = most_that_fit(s, r, 0, s->fixed, 1, (int32_t)smaller(LEAST_GROWING, s->most_slots));
    return n;
}

lx_room lx_room_choose(const lx_room_sizes *s)
{
    int64_t rows = smaller(s->bytes / ROWS_PART / s->row, MOST_PROMPT_ROWS);
    lx_room r = {.prompt_rows = rows > LEAST_PROMPT_ROWS ? (int32_t)rows : LEAST_PROMPT_ROWS};
    r.n_slots = s->n_slots > 0 ? s->n_slots : choose_slots(s, &r);
    r.n_spare = s->n_slots > 0 ? most_that_fit(s, &r, s->n_slots, s->fixed, LX_LEAST_SPARE,
                                               lx_fair_spare(s->n_slots))
                               : usual_spare(r.n_slots);
    r.held = bytes_of(s, &r, r.n_slots, r.n_spare, s->fixed);
    int64_t most = ((int64_t)r.n_slots + r.n_spare) * (s->state - s->fixed);
    if (most > 0) {
        r.page_bytes = smaller(s->bytes - r.held, most);
        r.page_bytes = r.page_bytes > 1 ? r.page_bytes : 1;
        r.held += r.page_bytes;
    }
    return r;
}
