/* Connectionist temporal classification (see ctc.h). */
#include "model/ctc.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static double add(double a, double b)
{
    double more = a > b ? a : b, less = a > b ? b : a;
    return less == -INFINITY ? more : more + log1p(exp(less - more));
}

static const float *row_of(const lx_ctc_input *in, int32_t row)
{
    return in->log_p + (int64_t)row * in->n_ids;
}

/* --- the best path --- */

void lx_ctc_greedy(const lx_ctc_input *in, lx_ctc_line *line)
{
    line->n = 0;
    line->log_p = 0;
    int32_t before = in->blank;
    for (int32_t t = 0; t < in->n_rows; t++) {
        const float *y = row_of(in, t);
        int32_t best = 0;
        for (int32_t id = 1; id < in->n_ids; id++)
            if (y[id] > y[best])
                best = id;
        line->log_p += y[best];
        if (best != in->blank && best != before)
            line->tokens[line->n++] = (lx_ctc_token){.id = best, .first = t, .last = t};
        else if (best != in->blank)
            line->tokens[line->n - 1].last = t;
        before = best;
    }
}

/* --- prefix-beam search --- */

/* A line that one of the beams was at some time: its parent's line and one more id. The first has
   none, and is its own parent. */
typedef struct node {
    int32_t parent, id;
    int32_t child, sibling; /* the newest child; the next older one of the same parent; or -1 */
    int32_t beam;           /* which beam it is now, or -1 */
} node;

typedef struct beam {
    int32_t node;           /* -1 while it is a candidate whose line may be new */
    int32_t parent, id;     /* of a beam that is longer than its parent */
    double in_blank, in_id; /* of its paths that end in a blank, in its last id */
} beam;

typedef struct search {
    const lx_ctc_input *in;
    int32_t width, n_nodes, n_beams, n_next;
    node *nodes;        /* [n_rows * width + 1] */
    beam *beams, *next; /* [width] each, the best first */
    beam *kept;         /* [width] the beams of the next row that get no further id */
} search;

static double total(const beam *b)
{
    return add(b->in_blank, b->in_id);
}

static int32_t child_of(const search *s, int32_t parent, int32_t id)
{
    int32_t n = s->nodes[parent].child;
    while (n >= 0 && s->nodes[n].id != id)
        n = s->nodes[n].sibling;
    return n;
}

static int32_t add_node(search *s, int32_t parent, int32_t id)
{
    int32_t n = s->n_nodes++;
    s->nodes[n] = (node){parent, id, .child = -1, .sibling = s->nodes[parent].child, .beam = -1};
    s->nodes[parent].child = n;
    return n;
}

/* The probability that the paths of a line give to the line with this id at its end. After an equal
 * id only paths that end in a blank count.
 */
static double longer(const search *s, const beam *b, int32_t id, const float *y)
{
    bool repeats = b->node != 0 && s->nodes[b->node].id == id;
    return (repeats ? b->in_blank : total(b)) + y[id];
}

/* One of the best so far, in order; a later line stands after its equals. */
static void offer(search *s, const beam *b)
{
    double p = total(b);
    if (p == -INFINITY || (s->n_next == s->width && p <= total(&s->next[s->width - 1])))
        return;
    int32_t at = s->n_next < s->width ? s->n_next++ : s->width - 1;
    for (; at > 0 && total(&s->next[at - 1]) < p; at--)
        s->next[at] = s->next[at - 1];
    s->next[at] = *b;
}

/* The beams as they are, and the probability that their paths give to other beams. */
static void keep_beams(search *s, const float *y)
{
    for (int32_t i = 0; i < s->n_beams; i++) {
        const beam *b = &s->beams[i];
        s->kept[i] = *b;
        s->kept[i].in_blank = total(b) + y[s->in->blank];
        s->kept[i].in_id = b->node == 0 ? -INFINITY : b->in_id + y[s->nodes[b->node].id];
    }
    for (int32_t i = 0; i < s->n_beams; i++) {
        int32_t n = s->beams[i].node, parent = n == 0 ? -1 : s->nodes[s->nodes[n].parent].beam;
        if (parent >= 0)
            s->kept[i].in_id =
                add(s->kept[i].in_id, longer(s, &s->beams[parent], s->nodes[n].id, y));
    }
    for (int32_t i = 0; i < s->n_beams; i++)
        offer(s, &s->kept[i]);
}

static void make_longer(search *s, const beam *b, const float *y)
{
    for (int32_t id = 0; id < s->in->n_ids; id++) {
        if (id == s->in->blank)
            continue;
        int32_t n = child_of(s, b->node, id);
        if (n >= 0 && s->nodes[n].beam >= 0)
            continue; /* it has got its part */
        offer(s, &(beam){.node = n,
                         .parent = b->node,
                         .id = id,
                         .in_blank = -INFINITY,
                         .in_id = longer(s, b, id, y)});
    }
}

static void take_row(search *s, const float *y)
{
    s->n_next = 0;
    keep_beams(s, y);
    for (int32_t i = 0; i < s->n_beams; i++)
        make_longer(s, &s->beams[i], y);
    for (int32_t i = 0; i < s->n_beams; i++)
        s->nodes[s->beams[i].node].beam = -1;
    for (int32_t i = 0; i < s->n_next; i++) {
        beam *b = &s->next[i];
        if (b->node < 0)
            b->node = add_node(s, b->parent, b->id);
        s->nodes[b->node].beam = i;
    }
    beam *old = s->beams;
    s->beams = s->next;
    s->next = old;
    s->n_beams = s->n_next;
}

static size_t nodes_of(int32_t n_rows, int32_t width)
{
    return (size_t)n_rows * (size_t)width + 1;
}

/* beams: [3 * width] */
static void search_init(search *s, const lx_ctc_input *in, int32_t width, node *nodes, beam *beams)
{
    *s = (search){.in = in,
                  .width = width,
                  .nodes = nodes,
                  .beams = beams,
                  .next = beams + width,
                  .kept = beams + 2 * (int64_t)width};
    s->nodes[0] = (node){.id = in->blank, .child = -1, .sibling = -1};
    s->beams[0] = (beam){.in_id = -INFINITY};
    s->n_nodes = s->n_beams = 1;
}

static void take_line(const search *s, lx_ctc_line *line)
{
    line->n = 0;
    line->log_p = s->n_beams == 0 ? -INFINITY : total(&s->beams[0]);
    if (s->n_beams == 0)
        return;
    for (int32_t n = s->beams[0].node; n != 0; n = s->nodes[n].parent)
        line->n++;
    int32_t at = line->n;
    for (int32_t n = s->beams[0].node; n != 0; n = s->nodes[n].parent)
        line->tokens[--at] = (lx_ctc_token){.id = s->nodes[n].id};
}

/* --- when a line's tokens are said --- */

/* The states of a path through a line: blank, token, blank, ..., token, blank. */
typedef struct alignment {
    const lx_ctc_input *in;
    lx_ctc_line *line;
    int32_t n_states;
    double *best, *before; /* [n_states] of the best path that is there after a row */
    uint8_t *steps;        /* [n_rows, n_states] how many states it went on for the row */
} alignment;

static int32_t id_of(const alignment *a, int32_t state)
{
    return state % 2 == 0 ? a->in->blank : a->line->tokens[state / 2].id;
}

/* Two at once skips a blank, between tokens that differ. */
static int32_t most_steps(const alignment *a, int32_t state)
{
    bool skips = state >= 3 && state % 2 == 1 && id_of(a, state) != id_of(a, state - 2);
    return skips ? 2 : state > 0 ? 1 : 0;
}

static void align_row(alignment *a, int32_t row)
{
    const float *y = row_of(a->in, row);
    for (int32_t state = 0; state < a->n_states; state++) {
        double p = row > 0 ? a->before[state] : state < 2 ? 0 : -INFINITY;
        uint8_t chosen = 0;
        for (int32_t steps = 1; row > 0 && steps <= most_steps(a, state); steps++)
            if (a->before[state - steps] > p) {
                p = a->before[state - steps];
                chosen = (uint8_t)steps;
            }
        a->best[state] = p + y[id_of(a, state)];
        a->steps[(int64_t)row * a->n_states + state] = chosen;
    }
    double *other = a->before;
    a->before = a->best;
    a->best = other;
}

static void trace(const alignment *a)
{
    lx_ctc_token *tokens = a->line->tokens;
    int32_t state = a->n_states - 1;
    if (state > 0 && a->before[state - 1] > a->before[state])
        state--;
    for (int32_t i = 0; i < a->line->n; i++)
        tokens[i].last = -1;
    for (int32_t row = a->in->n_rows - 1; row >= 0; row--) {
        if (state % 2 == 1) {
            tokens[state / 2].first = row;
            if (tokens[state / 2].last < 0)
                tokens[state / 2].last = row;
        }
        state -= a->steps[(int64_t)row * a->n_states + state];
    }
}

static bool align(const lx_ctc_input *in, lx_ctc_line *line)
{
    size_t n_states = 2 * (size_t)line->n + 1;
    alignment a = {.in = in,
                   .line = line,
                   .n_states = (int32_t)n_states,
                   .best = calloc(n_states, sizeof *a.best),
                   .before = calloc(n_states, sizeof *a.before),
                   .steps = calloc((size_t)in->n_rows, n_states)};
    bool ok = a.best != NULL && a.before != NULL && a.steps != NULL;
    for (int32_t row = 0; ok && row < in->n_rows; row++)
        align_row(&a, row);
    if (ok)
        trace(&a);
    free(a.best);
    free(a.before);
    free(a.steps);
    return ok;
}

lx_status lx_ctc_beam(const lx_ctc_input *in, int32_t width, lx_ctc_line *line, lx_error *err)
{
    node *nodes = malloc(sizeof *nodes * nodes_of(in->n_rows, width));
    beam *beams = calloc(3 * (size_t)width, sizeof *beams);
    bool ok = nodes != NULL && beams != NULL;
    lx_status st = LX_OK;
    if (ok) {
        search s;
        search_init(&s, in, width, nodes, beams);
        for (int32_t t = 0; t < in->n_rows && st == LX_OK; t++) {
            take_row(&s, row_of(in, t));
            st = in->fault != NULL ? in->fault(in->context, err) : LX_OK;
        }
        take_line(&s, line);
    }
    free(nodes);
    free(beams);
    if (st != LX_OK)
        return st;
    if (ok && line->n > 0)
        ok = align(in, line);
    return ok ? LX_OK : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory to decode a sound");
}

int64_t lx_ctc_beam_bytes(int32_t n_rows, int32_t width)
{
    int64_t beams = 3 * (int64_t)sizeof(beam) * width;
    int64_t nodes = (int64_t)sizeof(node) * (int64_t)nodes_of(n_rows, width);
    int64_t states = 2 * (int64_t)n_rows + 1;
    int64_t states_bytes = states * (2 * (int64_t)sizeof(double) + n_rows);
    return nodes + beams > states_bytes ? nodes + beams : states_bytes;
}

/* --- how likely a line is --- */

/* The states of a path are an alignment: blank, id, blank, ..., id, blank. The sum of the paths
 * that end in a state is p[state]. It is computed from the last state on, so that one row is
 * enough.
 */
static void add_row(const lx_ctc_input *in, const int32_t *ids, int32_t n_states, int32_t row,
                    double *p)
{
    const float *y = row_of(in, row);
    for (int32_t state = n_states - 1; state >= 0; state--) {
        int32_t id = state % 2 == 0 ? in->blank : ids[state / 2];
        double sum = row == 0 && state > 1 ? -INFINITY : p[state];
        if (row > 0 && state > 0)
            sum = add(sum, p[state - 1]);
        if (row > 0 && state >= 3 && state % 2 == 1 && id != ids[state / 2 - 1])
            sum = add(sum, p[state - 2]);
        p[state] = sum + (double)y[id];
    }
}

lx_status lx_ctc_log_p(const lx_ctc_input *in, const int32_t *ids, int32_t n, double *log_p,
                       lx_error *err)
{
    int32_t n_states = 2 * n + 1;
    double *p = calloc((size_t)n_states, sizeof *p);
    if (p == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory to score a sound");
    for (int32_t row = 0; row < in->n_rows; row++)
        add_row(in, ids, n_states, row, p);
    *log_p = n > 0 ? add(p[n_states - 1], p[n_states - 2]) : p[0];
    free(p);
    return LX_OK;
}
