/*
 * Which rows the next step computes: a pure function of its arguments, tested alone.
 *
 * Every decoding slot gets its one row first (all of them fit: max_tokens >= n_slots); drafts.c
 * adds guesses afterwards. The rest of the budget goes to prompts in the order of the items, each
 * in chunks of at most prompt_chunk rows. Beside n decoding slots all prompts together get at most
 * n / 2 + prompt_beside rows: a step's time grows with its rows, so running streams keep their pace
 * within a known factor.
 */
#ifndef LINNET_SERVER_ENGINE_SCHEDULER_H
#define LINNET_SERVER_ENGINE_SCHEDULER_H

#include "server/engine/fair.h"

typedef struct lx_schedule_limits {
    int32_t max_tokens;    /* rows per step */
    int32_t prompt_chunk;  /* prompt rows per slot and step */
    int32_t prompt_beside; /* >= 1, prompt rows of a step that also decodes, above half of the rows
                              it decodes */
} lx_schedule_limits;

/* Sets the rows of all items, by their prompt_rows. Returns the sum, which is 0 only without items.
 */
int32_t lx_schedule(lx_fair_item *items, int32_t n, const lx_schedule_limits *limits);

#endif
