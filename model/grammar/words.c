/* A vocabulary as a tree of bytes (see words.h). */
#include "model/grammar/words.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 15 /* of a token: depths have 16 bits */ };

typedef struct word {
    const unsigned char *bytes;
    int32_t n, id;
} word;

static int by_bytes(const void *pa, const void *pb)
{
    const word *a = pa, *b = pb;
    int32_t n = a->n < b->n ? a->n : b->n;
    int order = memcmp(a->bytes, b->bytes, (size_t)n);
    if (order != 0)
        return order;
    return a->n != b->n ? (a->n > b->n) - (a->n < b->n) : (a->id > b->id) - (a->id < b->id);
}

static word *list_words(const lx_words *w, int32_t *n)
{
    word *list = malloc((size_t)w->n_ids * sizeof *list);
    *n = 0;
    for (int32_t id = 0; id < w->n_ids && list != NULL; id++) {
        size_t bytes = 0;
        const char *text = w->bytes_of(w->context, id, &bytes);
        if (text != NULL && bytes > 0 && bytes <= MOST_BYTES)
            list[(*n)++] = (word){(const unsigned char *)text, (int32_t)bytes, id};
    }
    return list;
}

/* The bytes that a word shares with the word before it in the list. */
static int32_t shared(const word *list, int32_t i)
{
    int32_t k = 0;
    while (i > 0 && k < list[i].n && k < list[i - 1].n && list[i].bytes[k] == list[i - 1].bytes[k])
        k++;
    return k;
}

static int64_t count_nodes(const word *list, int32_t n)
{
    int64_t count = 0;
    for (int32_t i = 0; i < n; i++)
        count += list[i].n - shared(list, i);
    return count;
}

/* `open` are the nodes of the newest word, by depth. */
static void fill_nodes(lx_words *w, const word *list, int32_t *open)
{
    int32_t n = 0, depth = 0;
    for (int32_t i = 0; i < w->n_tokens; i++) {
        int32_t same = shared(list, i);
        for (; depth > same; depth--)
            w->nodes[open[depth - 1]].after = n;
        for (; depth < list[i].n; depth++) {
            open[depth] = n;
            w->nodes[n++] =
                (lx_words_node){.token = i, .depth = (uint16_t)depth, .byte = list[i].bytes[depth]};
        }
        w->tokens[i] = list[i].id;
    }
    for (; depth > 0; depth--)
        w->nodes[open[depth - 1]].after = n;
    w->nodes[n] = (lx_words_node){.token = w->n_tokens};
    w->n_nodes = n;
}

/* The tokens of a node are its own alone where the first longer one begins the next node. */
lx_status lx_words_make(lx_words *w, lx_error *err)
{
    word *list = list_words(w, &w->n_tokens);
    int32_t *open = NULL;
    lx_status st = LX_ERR_NO_MEMORY;
    if (list != NULL) {
        qsort(list, (size_t)w->n_tokens, sizeof *list, by_bytes);
        for (int32_t i = 0; i < w->n_tokens; i++)
            w->deepest = list[i].n > w->deepest ? list[i].n : w->deepest;
        w->nodes = calloc((size_t)count_nodes(list, w->n_tokens) + 1, sizeof *w->nodes);
        w->tokens = calloc((size_t)w->n_tokens + 1, sizeof *w->tokens);
        open = calloc((size_t)w->deepest + 1, sizeof *open);
    }
    if (list != NULL && w->nodes != NULL && w->tokens != NULL && open != NULL) {
        fill_nodes(w, list, open);
        st = LX_OK;
    }
    free(list);
    free(open);
    return st == LX_OK ? st : lx_fail(err, st, NULL, "no memory for the words of a vocabulary");
}

void lx_words_fini(lx_words *w)
{
    free(w->nodes);
    free(w->tokens);
    w->nodes = NULL;
    w->tokens = NULL;
}
