/*
 * The scheduler: decoding slots first, then the oldest prompts while their budget lasts. The
 * waiting prompts are put into a heap by arrival, because usually only its first few are taken.
 */
#include "server/engine/scheduler.h"

#include <stdbool.h>

static bool older(const lx_slot_view *slots, int32_t a, int32_t b)
{
    return slots[a].order < slots[b].order || (slots[a].order == slots[b].order && a < b);
}

static void sift_down(const lx_slot_view *slots, int32_t *heap, int32_t n, int32_t i)
{
    int32_t moved = heap[i];
    for (int32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && older(slots, heap[child + 1], heap[child]))
            child++;
        if (!older(slots, heap[child], moved))
            break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

static int32_t min3(int32_t a, int32_t b, int32_t c)
{
    int32_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Gives rows to prompts, oldest first; returns how many of `budget` were given. */
static int32_t give_prompts(const lx_slot_view *slots, int32_t *heap, int32_t n, int32_t budget,
                            int32_t chunk, int32_t *rows)
{
    int32_t given = 0;
    for (int32_t i = n / 2 - 1; i >= 0; i--)
        sift_down(slots, heap, n, i);
    while (n > 0 && given < budget) {
        int32_t slot = heap[0];
        rows[slot] = min3(slots[slot].rows_left, chunk, budget - given);
        given += rows[slot];
        heap[0] = heap[--n];
        if (n > 0)
            sift_down(slots, heap, n, 0);
    }
    return given;
}

int32_t lx_schedule(const lx_slot_view *slots, int32_t n_slots, const lx_schedule_limits *limits,
                    int32_t *rows, int32_t *scratch)
{
    int32_t total = 0, n_prompts = 0;
    for (int32_t i = 0; i < n_slots; i++) {
        rows[i] = slots[i].phase == LX_SLOT_DECODE && total < limits->max_tokens;
        total += rows[i];
        if (slots[i].phase == LX_SLOT_PROMPT)
            scratch[n_prompts++] = i;
    }
    int32_t left = limits->max_tokens - total;
    if (total > 0 && left - total / 2 > limits->prompt_beside)
        left = total / 2 + limits->prompt_beside;
    return total + give_prompts(slots, scratch, n_prompts, left, limits->prompt_chunk, rows);
}
