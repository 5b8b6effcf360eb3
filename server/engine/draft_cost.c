/* See drafts.h. */
#include "server/engine/drafts.h"

#define FADE 0.995        /* what a step counts when the next one comes */
#define LEAST_STEPS 8.0   /* before the line is believed */
#define LEAST_SPREAD 0.25 /* of the rows, their variance, likewise */
#define FIRST_SLOPE 0.5   /* of the base: before anything is known */
#define LEAST_SLOPE 0.02  /* of the mean time: a row is never free */

void lx_step_cost_observe(lx_step_cost *c, int32_t rows, int64_t ns)
{
    double r = (double)rows, t = (double)ns;
    c->n = c->n * FADE + 1;
    c->rows = c->rows * FADE + r;
    c->rows2 = c->rows2 * FADE + r * r;
    c->ns = c->ns * FADE + t;
    c->rows_ns = c->rows_ns * FADE + r * t;
}

lx_step_line lx_step_cost_line(const lx_step_cost *c)
{
    lx_step_line line = {1, FIRST_SLOPE};
    if (c->n < LEAST_STEPS)
        return line;
    double mean = c->rows / c->n, time = c->ns / c->n;
    double spread = c->rows2 / c->n - mean * mean;
    if (spread < LEAST_SPREAD)
        return line;
    line.slope = (c->rows_ns / c->n - mean * time) / spread;
    if (line.slope > time / mean)
        line.slope = time / mean;
    if (line.slope < LEAST_SLOPE * time)
        line.slope = LEAST_SLOPE * time;
    line.base = time - line.slope * mean;
    if (line.base < 0)
        line.base = 0;
    return line;
}

bool lx_draft_pays(const lx_step_line *line, double tokens, int32_t rows, double p)
{
    double now = line->base + line->slope * rows;
    return (tokens + p) * now > tokens * (now + line->slope);
}
