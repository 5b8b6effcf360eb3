/*
 * Which rows the next step computes: a pure function of its arguments, tested alone.
 *
 * Every decoding slot gets its one row first (all of them fit: max_tokens >= n_slots); guesses come
 * on top, when all this is decided (drafts.c). What is left
 * of the budget goes to waiting prompts in order of arrival, each in chunks of at most prompt_chunk
 * rows. Beside n decoding slots all prompts together get at most n / 2 + prompt_beside rows: a
 * step's time grows with its rows, so running streams keep their pace within a known factor.
 */
#ifndef LINNET_SERVER_ENGINE_SCHEDULER_H
#define LINNET_SERVER_ENGINE_SCHEDULER_H

#include <stdint.h>

typedef enum lx_slot_phase { LX_SLOT_FREE, LX_SLOT_PROMPT, LX_SLOT_DECODE } lx_slot_phase;

typedef struct lx_slot_view {
    lx_slot_phase phase;
    int32_t rows_left; /* PROMPT: prompt rows not yet computed, >= 1 */
    uint64_t order;    /* PROMPT: arrival, smaller is older */
} lx_slot_view;

typedef struct lx_schedule_limits {
    int32_t max_tokens;    /* rows per step */
    int32_t prompt_chunk;  /* prompt rows a slot and step */
    int32_t prompt_beside; /* >= 1, prompt rows of a step that also decodes, above half of the rows
                              it decodes */
} lx_schedule_limits;

/* rows[i] = how many rows slot i computes in the next step, 0 for none. Returns the sum, which is
   0 only when no slot has anything to do. rows and scratch hold n_slots elements each. */
int32_t lx_schedule(const lx_slot_view *slots, int32_t n_slots, const lx_schedule_limits *limits,
                    int32_t *rows, int32_t *scratch);

#endif
