/*
 * How many guessed rows are worth their time: pure arithmetic, tested alone.
 *
 * A step of R rows takes about T(R) = base + slope R. A guessed row brings one more token if it and
 * all guesses before it are right, with probability p. It costs c rows: itself, with a sample's
 * first guess a second state to write, and, where it alone is wrong, the guesses before it once
 * more as late rows. It pays if it raises the expected tokens E per second:
 * (E + p) / T(R + c) > E / T(R). With many streams E and R are large and no guess pays, so drafting
 * stops.
 */
#ifndef LINNET_SERVER_ENGINE_DRAFTS_H
#define LINNET_SERVER_ENGINE_DRAFTS_H

#include <stdbool.h>
#include <stdint.h>

/* Sums for a line of least squares through the times of steps; old steps fade. */
typedef struct lx_step_cost {
    double n, rows, rows2, ns, rows_ns;
} lx_step_cost;

void lx_step_cost_observe(lx_step_cost *c, int32_t rows, int64_t ns);

/* base + slope * rows, in any unit of time. Before steps of several sizes were seen, a further row
   is taken to cost a third of the first. */
typedef struct lx_step_line {
    double base, slope;
} lx_step_line;

lx_step_line lx_step_cost_line(const lx_step_cost *c);

/* The next guess of a sample: all n before it are right with probability `before`; if they are, it
   is right with probability `sure`. */
typedef struct lx_draft_row {
    int32_t n;
    double before, sure;
} lx_draft_row;

/* Whether the guess pays in a step of so many rows and expected tokens. */
bool lx_draft_pays(const lx_step_line *line, double tokens, int32_t rows, const lx_draft_row *row);

#endif
