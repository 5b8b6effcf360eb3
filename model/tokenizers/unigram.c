/* Unigram by a lattice (see unigram.h). */
#include "model/tokenizers/unigram.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "model/utf8.h"

enum { UNKNOWN_PENALTY = 10 }; /* below the lowest score, as in SentencePiece */

lx_status lx_unigram_init(lx_unigram *u, int32_t n, size_t n_bytes, lx_error *err)
{
    *u = (lx_unigram){.unknown = HUGE_VAL};
    u->scores = calloc((size_t)n + 1, sizeof *u->scores);
    if (u->scores == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d scores", n);
    return lx_trie_init(&u->trie, n_bytes, err);
}

void lx_unigram_fini(lx_unigram *u)
{
    lx_trie_fini(&u->trie);
    free(u->scores);
    *u = (lx_unigram){0};
}

int32_t lx_unigram_add(lx_unigram *u, int32_t id, const char *text, size_t n, double score)
{
    u->scores[id] = score;
    u->unknown = fmin(u->unknown, score - UNKNOWN_PENALTY);
    return n > 0 ? lx_trie_add(&u->trie, text, n, id) : -1;
}

void lx_lattice_fini(lx_lattice *l)
{
    free(l->nodes);
    *l = (lx_lattice){0};
}

/* Nodes for a word of n bytes that no piece has reached. */
static bool reserve(lx_lattice *l, size_t n)
{
    if (n + 1 > l->capacity) {
        size_t capacity = n + 1 < 256 ? 256 : 2 * (n + 1);
        free(l->nodes);
        l->nodes = malloc(capacity * sizeof *l->nodes);
        l->capacity = l->nodes != NULL ? capacity : 0;
    }
    for (size_t i = 0; l->nodes != NULL && i <= n; i++)
        l->nodes[i] = (lx_lattice_node){.link = -1};
    return l->nodes != NULL;
}

/* A piece from `start` to the node at `end`, whose link is the start until the path is known. */
static void reach(lx_lattice *l, size_t start, size_t end, double score, int32_t id)
{
    lx_lattice_node *node = &l->nodes[end];
    double sum = l->nodes[start].score + score;
    if (node->link < 0 || sum > node->score)
        *node = (lx_lattice_node){.score = sum, .id = id, .link = (int32_t)start};
}

/* All pieces that begin at `start`; whether one is the character up to `after`. */
static bool reach_pieces(const lx_unigram *u, const uint8_t *specials, const char *text, size_t n,
                         size_t start, size_t after, lx_lattice *l)
{
    bool single = false;
    uint32_t node = lx_trie_next(&u->trie, 0, (unsigned char)text[start]);
    for (size_t end = start + 1; node != 0; end++) {
        int32_t id = u->trie.values[node];
        if (id >= 0 && specials[id] == 0) {
            reach(l, start, end, u->scores[id], id);
            single = single || end == after;
        }
        node = end < n ? lx_trie_next(&u->trie, node, (unsigned char)text[end]) : 0;
    }
    return single;
}

/* Links lead from the last node to the first one; they are turned around. */
static void turn_links(lx_lattice *l, size_t n)
{
    int32_t next = -1;
    for (int32_t at = (int32_t)n; at > 0;) {
        int32_t before = l->nodes[at].link;
        l->nodes[at].link = next;
        next = at;
        at = before;
    }
    l->first = next;
}

lx_status lx_unigram_apply(const lx_unigram *u, const uint8_t *specials, int32_t unknown,
                           const char *text, size_t n, lx_lattice *l, lx_error *err)
{
    if (!reserve(l, n))
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a word of %zu bytes", n);
    for (size_t start = 0, after = 0; start < n; start = after) {
        int32_t c = lx_utf8_next(text, n, &after);
        if (reach_pieces(u, specials, text, n, start, after, l))
            continue;
        if (unknown < 0)
            return lx_fail(err, LX_ERR_INVALID, NULL, "the vocabulary has no token for U+%04X",
                           (unsigned)c);
        reach(l, start, after, u->unknown, unknown);
    }
    turn_links(l, n);
    return LX_OK;
}
