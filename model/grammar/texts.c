/* Lists of texts as trees (see texts.h): the list is sorted, and neighbours share their bytes. */
#include "model/grammar/texts.h"

#include <stdlib.h>
#include <string.h>

static void fail_memory(lx_ast *a)
{
    a->status = lx_fail(a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
}

static bool has_room(lx_grammar_texts *list)
{
    if (list->n < list->room)
        return true;
    int32_t room = list->room > 0 ? 2 * list->room : 8;
    lx_grammar_text *at = realloc(list->at, (size_t)room * sizeof *at);
    if (at == NULL)
        return false;
    list->at = at;
    list->room = room;
    return true;
}

void lx_grammar_texts_add(lx_ast *a, lx_grammar_texts *list, const char *text, size_t n)
{
    if (a->status != LX_OK)
        return;
    char *copy = has_room(list) ? malloc(n + 1) : NULL;
    if (copy == NULL) {
        fail_memory(a);
        return;
    }
    memcpy(copy, text, n);
    list->at[list->n++] = (lx_grammar_text){copy, n};
}

static int by_bytes(const void *one, const void *other)
{
    const lx_grammar_text *x = one, *y = other;
    int order = memcmp(x->bytes, y->bytes, x->n < y->n ? x->n : y->n);
    return order != 0 ? order : (x->n > y->n) - (x->n < y->n);
}

/* The texts from the byte `from` on; all of them are equal before it. */
static int32_t tree_of(lx_ast *a, const lx_grammar_text *at, int32_t n, size_t from)
{
    lx_ast_trees ways = {0};
    int32_t i = 0;
    while (i < n && at[i].n == from)
        i++;
    if (i > 0)
        lx_ast_collect(a, &ways, 0);
    while (i < n && a->status == LX_OK) {
        const lx_grammar_text *first = &at[i];
        int32_t end = i + 1;
        while (end < n && at[end].bytes[from] == first->bytes[from])
            end++;
        const lx_grammar_text *last = &at[end - 1];
        size_t equal = from + 1;
        while (equal < first->n && equal < last->n && first->bytes[equal] == last->bytes[equal])
            equal++;
        int32_t head = lx_ast_text(a, first->bytes + from, equal - from);
        int32_t rest = end - i > 1 ? tree_of(a, first, end - i, equal) : 0;
        lx_ast_collect(a, &ways, lx_ast_pair(a, LX_AST_CAT, head, rest));
        i = end;
    }
    return lx_ast_take(a, LX_AST_ALT, &ways);
}

int32_t lx_grammar_texts_take(lx_ast *a, lx_grammar_texts *list)
{
    if (list->n > 1)
        qsort(list->at, (size_t)list->n, sizeof *list->at, by_bytes);
    int32_t tree = a->status == LX_OK ? tree_of(a, list->at, list->n, 0) : 0;
    for (int32_t i = 0; i < list->n; i++)
        free(list->at[i].bytes);
    free(list->at);
    *list = (lx_grammar_texts){0};
    return tree;
}
