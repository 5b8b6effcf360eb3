/* The trie (see trie.h). */
#include "model/tokenizers/trie.h"

#include <stdlib.h>
#include <string.h>

#include "model/tokenizers/texts.h"

enum { MAX_NODES = 1 << 24 };

lx_status lx_trie_init(lx_trie *t, size_t n_bytes, lx_error *err)
{
    *t = (lx_trie){0};
    if (n_bytes + 2 > MAX_NODES)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "the tokens have more than %d bytes together",
                       MAX_NODES - 2);
    uint32_t size = lx_table_size(n_bytes);
    t->edges = calloc(size, sizeof *t->edges);
    t->values = malloc((n_bytes + 1) * sizeof *t->values);
    if (t->edges == NULL || t->values == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a trie of %zu bytes", n_bytes);
    t->mask = size - 1;
    t->max_nodes = (uint32_t)n_bytes + 1;
    t->n_nodes = 1;
    t->values[0] = -1;
    return LX_OK;
}

void lx_trie_fini(lx_trie *t)
{
    free(t->edges);
    free(t->values);
    *t = (lx_trie){0};
}

/* The slot of an edge, or the empty one where it would be. */
static lx_trie_edge *edge(const lx_trie *t, uint32_t key)
{
    uint32_t slot = (uint32_t)lx_mix64(key) & t->mask;
    while (t->edges[slot].key != key && t->edges[slot].key != 0)
        slot = (slot + 1) & t->mask;
    return &t->edges[slot];
}

uint32_t lx_trie_next(const lx_trie *t, uint32_t node, unsigned char byte)
{
    return node == 0 ? t->root[byte] : edge(t, node << 8 | byte)->node;
}

static uint32_t add_child(lx_trie *t, uint32_t node, unsigned char byte)
{
    uint32_t fresh = t->n_nodes++;
    t->values[fresh] = -1;
    if (node == 0)
        t->root[byte] = fresh;
    else
        *edge(t, node << 8 | byte) = (lx_trie_edge){node << 8 | byte, fresh};
    return fresh;
}

int32_t lx_trie_add(lx_trie *t, const char *text, size_t n, int32_t value)
{
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t next = lx_trie_next(t, node, (unsigned char)text[i]);
        node = next != 0 ? next : add_child(t, node, (unsigned char)text[i]);
    }
    int32_t before = t->values[node];
    if (before < 0)
        t->values[node] = value;
    return before;
}

int32_t lx_trie_longest(const lx_trie *t, const char *text, size_t n, size_t *length)
{
    int32_t found = -1;
    uint32_t node = n > 0 ? t->root[(unsigned char)text[0]] : 0;
    for (size_t i = 1; node != 0; i++) {
        if (t->values[node] >= 0) {
            found = t->values[node];
            *length = i;
        }
        node = i < n ? edge(t, node << 8 | (unsigned char)text[i])->node : 0;
    }
    return found;
}
