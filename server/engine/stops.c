/* The search for stop strings (see stops.h). Only undecided text is searched, so every byte is
 * tried. */
#include "server/engine/stops.h"

#include <stdlib.h>
#include <string.h>

/* The number of the first stop string in the text and where it begins; -1: there is none. */
static int32_t first_in(const lx_stops *s, const char *text, size_t bytes, size_t *begin)
{
    for (size_t at = 0; at < bytes; at++) {
        *begin = at;
        for (int32_t i = 0; i < s->n; i++)
            if (s->stop[i].bytes <= bytes - at &&
                memcmp(text + at, s->stop[i].text, s->stop[i].bytes) == 0)
                return i;
    }
    return -1;
}

size_t lx_stops_find(const lx_stops *s, const char *text, size_t bytes)
{
    size_t begin = 0;
    return first_in(s, text, bytes, &begin) >= 0 ? begin : bytes;
}

int32_t lx_stops_cut(const lx_stops *s, const char *text, size_t bytes, size_t *end)
{
    int32_t i = first_in(s, text, bytes, end);
    if (i >= 0 && i < s->n_kept)
        *end += s->stop[i].bytes;
    return i;
}

size_t lx_stops_settled(const lx_stops *s, const char *text, size_t bytes)
{
    size_t longest = lx_stops_longest(s);
    for (size_t at = bytes >= longest ? bytes - longest : 0; at < bytes; at++) {
        for (int32_t i = 0; i < s->n; i++) {
            if (s->stop[i].bytes > bytes - at &&
                memcmp(text + at, s->stop[i].text, bytes - at) == 0)
                return at;
        }
    }
    return bytes;
}

size_t lx_stops_longest(const lx_stops *s)
{
    size_t longest = 0;
    for (int32_t i = 0; i < s->n; i++)
        longest = s->stop[i].bytes > longest ? s->stop[i].bytes : longest;
    return longest;
}

/* --- the ends of texts --- */

struct lx_stop_tails {
    const lx_plan *plan;
    const lx_stops *stops;
    size_t longest;
    lx_buffer text; /* one of them, and the text of one more token */
    char *tails;    /* [n, longest], after the bytes */
    size_t bytes[]; /* [n], less than the longest */
};

static size_t text_room(const lx_plan *plan, const lx_stops *stops)
{
    return lx_stops_longest(stops) + (size_t)plan->model->token_bytes;
}

int64_t lx_stop_tails_bytes(const lx_plan *plan, int32_t n, const lx_stops *stops)
{
    size_t each = lx_stops_longest(stops) + sizeof(size_t);
    return (int64_t)(sizeof(lx_stop_tails) + (size_t)n * each + text_room(plan, stops) + 1);
}

lx_stop_tails *lx_stop_tails_new(const lx_plan *plan, int32_t n, const lx_stops *stops)
{
    size_t room = (size_t)n * (sizeof(size_t) + lx_stops_longest(stops));
    lx_stop_tails *t = calloc(1, sizeof *t + room);
    if (t == NULL)
        return NULL;
    t->plan = plan;
    t->stops = stops;
    t->longest = lx_stops_longest(stops);
    t->tails = (char *)(t->bytes + n);
    lx_buffer_init(&t->text, text_room(plan, stops));
    lx_buffer_reserve(&t->text, t->text.max);
    if (t->text.status != LX_OK) {
        lx_stop_tails_free(t);
        return NULL;
    }
    return t;
}

void lx_stop_tails_free(lx_stop_tails *t)
{
    if (t == NULL)
        return;
    lx_buffer_fini(&t->text);
    free(t);
}

bool lx_stop_tails_follow(lx_stop_tails *t, int32_t i, int32_t step, const int32_t *tokens)
{
    lx_buffer *text = &t->text;
    char *tail = t->tails + (size_t)i * t->longest;
    text->length = 0;
    lx_buffer_append(text, tail, t->bytes[i]);
    t->plan->model->task->render(t->plan, step, tokens, text);
    t->bytes[i] = text->length < t->longest ? text->length : t->longest - 1;
    memcpy(tail, text->data + text->length - t->bytes[i], t->bytes[i]);
    return lx_stops_find(t->stops, text->data, text->length) < text->length;
}

bool lx_stop_tails_settled(const lx_stop_tails *t, int32_t i)
{
    const char *tail = t->tails + (size_t)i * t->longest;
    return lx_stops_settled(t->stops, tail, t->bytes[i]) == t->bytes[i];
}
