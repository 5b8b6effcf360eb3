/* Byte pair encoding with a heap of candidates (see bpe.h). */
#include "model/tokenizers/bpe.h"

#include <stdbool.h>
#include <stdlib.h>

#include "model/tokenizers/texts.h"

lx_status lx_bpe_init(lx_bpe *b, size_t n_merges, lx_error *err)
{
    uint32_t size = lx_table_size(n_merges);
    b->table = malloc(size * sizeof *b->table);
    if (b->table == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %zu merges", n_merges);
    b->mask = size - 1;
    for (uint32_t i = 0; i < size; i++)
        b->table[i].pair = UINT64_MAX;
    return LX_OK;
}

void lx_bpe_fini(lx_bpe *b)
{
    free(b->table);
    *b = (lx_bpe){0};
}

/* The slot of a pair, or the empty one where it would be. */
static lx_merge *slot_of(const lx_bpe *b, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint32_t slot = (uint32_t)lx_mix64(pair) & b->mask;
    while (b->table[slot].pair != pair && b->table[slot].pair != UINT64_MAX)
        slot = (slot + 1) & b->mask;
    return &b->table[slot];
}

void lx_bpe_add(lx_bpe *b, int32_t left, int32_t right, int32_t rank, int32_t id)
{
    *slot_of(b, left, right) =
        (lx_merge){(uint64_t)(uint32_t)left << 32 | (uint32_t)right, rank, id};
}

/* --- words --- */

void lx_word_fini(lx_word *w)
{
    free(w->symbols);
    free(w->heap);
    *w = (lx_word){0};
}

void lx_word_grow(lx_word *w)
{
    size_t capacity = w->capacity < 256 ? 256 : 2 * w->capacity;
    lx_symbol *symbols = realloc(w->symbols, capacity * sizeof *symbols);
    if (symbols == NULL) {
        w->status = LX_ERR_NO_MEMORY;
        return;
    }
    w->symbols = symbols;
    w->capacity = capacity;
}

/* Every join takes one candidate and gives at most two: never more than two a symbol. */
static void reserve_heap(lx_word *w)
{
    w->n_heap = 0;
    if (2 * w->n <= w->heap_capacity || w->status != LX_OK)
        return;
    free(w->heap);
    w->heap_capacity = 2 * w->n < 512 ? 512 : 2 * w->n;
    w->heap = malloc(w->heap_capacity * sizeof *w->heap);
    if (w->heap == NULL) {
        w->heap_capacity = 0;
        w->status = LX_ERR_NO_MEMORY;
    }
}

/* --- the heap --- */

/* Moves the entry at `at` down to where it belongs. */
static void sink(lx_word *w, size_t at)
{
    uint64_t c = w->heap[at];
    for (size_t child = 2 * at + 1; child < w->n_heap; child = 2 * at + 1) {
        if (child + 1 < w->n_heap && w->heap[child + 1] < w->heap[child])
            child++;
        if (w->heap[child] >= c)
            break;
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = c;
}

static void rise(lx_word *w, size_t at)
{
    uint64_t c = w->heap[at];
    for (; at > 0 && w->heap[(at - 1) / 2] > c; at = (at - 1) / 2)
        w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = c;
}

static uint64_t pop(lx_word *w)
{
    uint64_t top = w->heap[0];
    w->heap[0] = w->heap[--w->n_heap];
    if (w->n_heap > 1)
        sink(w, 0);
    return top;
}

/* --- joining --- */

/* Adds the pair at `at` and the next one to the end of the heap, if a merge joins them. */
static bool add_candidate(const lx_bpe *b, lx_word *w, int32_t at)
{
    const lx_symbol *s = &w->symbols[at];
    const lx_merge *m = slot_of(b, s->id, w->symbols[s->after].id);
    if (m->pair == UINT64_MAX)
        return false;
    w->heap[w->n_heap++] = (uint64_t)m->rank << 32 | (uint32_t)at;
    return true;
}

static void push(const lx_bpe *b, lx_word *w, int32_t at)
{
    if (add_candidate(b, w, at))
        rise(w, w->n_heap - 1);
}

static void join(const lx_bpe *b, lx_word *w, uint64_t candidate)
{
    int32_t at = (int32_t)(uint32_t)candidate, rank = (int32_t)(candidate >> 32);
    lx_symbol *s = &w->symbols[at];
    if (s->id < 0 || s->after < 0)
        return;
    lx_symbol *right = &w->symbols[s->after];
    const lx_merge *now = slot_of(b, s->id, right->id);
    if (now->pair == UINT64_MAX || now->rank != rank)
        return;
    s->id = now->id;
    s->after = right->after;
    right->id = -1;
    if (s->after >= 0)
        w->symbols[s->after].before = at;
    if (s->before >= 0)
        push(b, w, s->before);
    if (s->after >= 0)
        push(b, w, at);
}

void lx_bpe_apply(const lx_bpe *b, lx_word *w)
{
    int32_t n = (int32_t)w->n;
    reserve_heap(w);
    if (w->status != LX_OK)
        return;
    for (int32_t i = 0; i < n; i++) {
        w->symbols[i].before = i - 1;
        w->symbols[i].after = i + 1 < n ? i + 1 : -1;
    }
    for (int32_t i = 0; i + 1 < n; i++)
        (void)add_candidate(b, w, i);
    for (size_t i = w->n_heap / 2; i > 0; i--)
        sink(w, i - 1);
    while (w->n_heap > 0)
        join(b, w, pop(w));
}
