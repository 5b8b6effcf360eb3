/* See chat_borders.h. */
#include "model/chat_borders.h"

#include <stdlib.h>
#include <string.h>

#include "model/chat_marks.h"
#include "model/tokenizers/tokenizer.h"

void lx_chat_borders_at(const lx_chat_tokens *c, const int32_t *offsets, size_t n,
                        lx_token_list *out)
{
    size_t at = 0, k = 0, bytes = 0;
    for (size_t i = c->first; i < c->end && k < n; i++) {
        const char *token = lx_tokenizer_token(c->tokenizer, c->ids[i], &bytes);
        if (token == NULL || bytes > c->n - at || memcmp(token, c->text + at, bytes) != 0)
            return;
        at += bytes;
        for (; k < n && (size_t)offsets[k] < at; k++)
            lx_token_list_add(out, (int32_t)i);
    }
}

static int by_value(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void sort(lx_token_list *list)
{
    if (list->n > 0)
        qsort(list->ids, list->n, sizeof *list->ids, by_value);
}

static void find_mark(const lx_chat_tokens *c, const char *mark, lx_token_list *offsets)
{
    const char *at = c->text, *end = c->text + c->n;
    while ((at = memmem(at, (size_t)(end - at), mark, strlen(mark))) != NULL)
        lx_token_list_add(offsets, (int32_t)(at++ - c->text));
}

void lx_chat_borders_of(const lx_chat_tokens *c, const lx_chat_marks *marks, lx_token_list *out)
{
    lx_token_list offsets;
    lx_token_list_init(&offsets, c->n);
    for (size_t i = c->first; i < c->end; i++) {
        if (lx_tokenizer_is_special(c->tokenizer, c->ids[i]))
            lx_token_list_add(out, (int32_t)i);
    }
    for (int32_t i = 0; i < marks->n; i++) {
        if (marks->mark[i].ends)
            find_mark(c, marks->mark[i].text, &offsets);
    }
    sort(&offsets);
    lx_chat_borders_at(c, offsets.ids, offsets.n, out);
    sort(out);
    if (offsets.status != LX_OK)
        out->status = offsets.status;
    lx_token_list_fini(&offsets);
}
