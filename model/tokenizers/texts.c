/* Texts by number with an index (see texts.h). */
#include "model/tokenizers/texts.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BLOCK = 256 << 20 };

lx_status lx_texts_init(lx_texts *t, int32_t n, lx_error *err)
{
    *t = (lx_texts){.n = n};
    lx_buffer_init(&t->block, MAX_BLOCK);
    t->places = malloc(((size_t)n + 1) * sizeof *t->places);
    if (t->places == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d tokens", n);
    for (int32_t i = 0; i < n; i++)
        t->places[i] = (lx_text_place){UINT32_MAX, 0};
    return LX_OK;
}

void lx_texts_fini(lx_texts *t)
{
    lx_buffer_fini(&t->block);
    free(t->places);
    free(t->slots);
    *t = (lx_texts){0};
}

lx_status lx_texts_set(lx_texts *t, int32_t id, const char *bytes, size_t n, lx_error *err)
{
    lx_text_place place = {(uint32_t)t->block.length, (uint32_t)n};
    lx_buffer_append(&t->block, bytes, n);
    if (t->block.status != LX_OK)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the tokens' texts");
    t->places[id] = place;
    return LX_OK;
}

const char *lx_texts_get(const lx_texts *t, int32_t id, size_t *n)
{
    lx_text_place p = t->places[id];
    *n = p.n;
    return p.at == UINT32_MAX ? NULL : t->block.data + p.at;
}

uint64_t lx_texts_hash(const char *bytes, size_t n)
{
    uint64_t hash = n, word = 0;
    for (; n >= 8; bytes += 8, n -= 8) {
        memcpy(&word, bytes, 8);
        hash = lx_mix64(hash ^ word);
    }
    word = 0;
    if (n > 0)
        memcpy(&word, bytes, n);
    return lx_mix64(hash ^ word);
}

/* The slot that holds the text, or the empty one where it would be. */
static uint32_t look_up(const lx_texts *t, const char *bytes, size_t n)
{
    uint32_t slot = (uint32_t)lx_texts_hash(bytes, n) & t->mask;
    for (; t->slots[slot] >= 0; slot = (slot + 1) & t->mask) {
        lx_text_place p = t->places[t->slots[slot]];
        if (p.n == n && memcmp(t->block.data + p.at, bytes, n) == 0)
            break;
    }
    return slot;
}

lx_status lx_texts_index(lx_texts *t, lx_error *err)
{
    uint32_t size = lx_table_size((size_t)t->n);
    t->slots = malloc(size * sizeof *t->slots);
    if (t->slots == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an index of %d tokens", t->n);
    t->mask = size - 1;
    memset(t->slots, 0xff, size * sizeof *t->slots);
    for (int32_t id = 0; id < t->n; id++) {
        size_t n;
        const char *bytes = lx_texts_get(t, id, &n);
        uint32_t slot = bytes != NULL ? look_up(t, bytes, n) : 0;
        if (bytes != NULL && t->slots[slot] < 0)
            t->slots[slot] = id;
    }
    return LX_OK;
}

int32_t lx_texts_find(const lx_texts *t, const char *bytes, size_t n)
{
    return t->slots == NULL ? -1 : t->slots[look_up(t, bytes, n)];
}
