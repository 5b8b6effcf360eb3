/* The search for stop strings (see stops.h). Only text that is undecided is searched, so every
 * place is tried. */
#include "server/engine/stops.h"

#include <string.h>

static bool begins_with(const struct lx_stop *stop, const char *text, size_t bytes)
{
    return stop->bytes <= bytes && memcmp(text, stop->text, stop->bytes) == 0;
}

/* The number of the first stop string in the text and where it begins; -1: there is none. */
static int32_t first_in(const lx_stops *s, const char *text, size_t bytes, size_t *begin)
{
    for (size_t at = 0; at < bytes; at++) {
        for (int32_t i = 0; i < s->n; i++) {
            *begin = at;
            if (begins_with(&s->stop[i], text + at, bytes - at))
                return i;
        }
    }
    return -1;
}

size_t lx_stops_find(const lx_stops *s, const char *text, size_t bytes)
{
    size_t begin = 0;
    return first_in(s, text, bytes, &begin) >= 0 ? begin : bytes;
}

bool lx_stops_cut(const lx_stops *s, const char *text, size_t bytes, size_t *end)
{
    int32_t i = first_in(s, text, bytes, end);
    if (i >= 0 && i < s->n_kept)
        *end += s->stop[i].bytes;
    return i >= 0;
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
