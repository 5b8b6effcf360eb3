/* The scheduler (see scheduler.h). */
#include "server/engine/scheduler.h"

static int32_t min3(int32_t a, int32_t b, int32_t c)
{
    int32_t m = a < b ? a : b;
    return m < c ? m : c;
}

int32_t lx_schedule(lx_fair_item *items, int32_t n, const lx_schedule_limits *limits)
{
    int32_t total = 0;
    for (int32_t i = 0; i < n; i++) {
        items[i].rows = items[i].prompt_rows == 0 && total < limits->max_tokens;
        total += items[i].rows;
    }
    int32_t left = limits->max_tokens - total;
    if (total > 0 && left - total / 2 > limits->prompt_beside)
        left = total / 2 + limits->prompt_beside;
    for (int32_t i = 0; i < n && left > 0; i++) {
        int32_t rows = min3(items[i].prompt_rows, limits->prompt_chunk, left);
        items[i].rows += rows;
        total += rows;
        left -= rows;
    }
    return total;
}
