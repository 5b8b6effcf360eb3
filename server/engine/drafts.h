/*
 * How many guessed rows are worth their time: pure arithmetic, tested alone.
 *
 * A step of R rows takes about base + slope R. A guessed row makes it longer, and brings a token
 * more only if all guesses up to it are right, which is so with probability p. It costs itself,
 * with the first guess of a sample a second state to write, and if it is wrong where those before
 * it are right, these once more as late rows: c rows. It is worth its time as long as it raises the
 * tokens expected of the step for each second of it:
 *     (E + p) / T(R + c) > E / T(R)
 * With many streams E and R are large, and no guess is sure enough: drafting stops by itself.
 */
#ifndef LINNET_SERVER_ENGINE_DRAFTS_H
#define LINNET_SERVER_ENGINE_DRAFTS_H

#include <stdbool.h>
#include <stdint.h>

/* Times of steps, by their rows: sums for a line of least squares, in which old steps fade. */
typedef struct lx_step_cost {
    double n, rows, rows2, ns, rows_ns;
} lx_step_cost;

void lx_step_cost_observe(lx_step_cost *c, int32_t rows, int64_t ns);

/* The line, in any unit of time: base + slope * rows. Before steps of several sizes were seen a
   further row is taken to cost a third of what the first one does. */
typedef struct lx_step_line {
    double base, slope;
} lx_step_line;

lx_step_line lx_step_cost_line(const lx_step_cost *c);

/* The next guess of a sample: all n before it are right with probability `before`, and if so this
   one with `sure`. */
typedef struct lx_draft_row {
    int32_t n;
    double before, sure;
} lx_draft_row;

/* Whether the guess is worth its time, in a step of so many rows of which so many tokens are
   expected. */
bool lx_draft_pays(const lx_step_line *line, double tokens, int32_t rows, const lx_draft_row *row);

#endif
