/* Memory for jansson (see json_memory.h). */
#include "model/formats/json_memory.h"

#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* In front of every block. While a text is read its blocks are in a list, else `link` is NULL. */
typedef struct block {
    struct block *next, **link;
} block;

static _Thread_local struct {
    jmp_buf end;
    block *first;
    bool reading, starved;
} own;

static void *take(size_t n)
{
    block *b = n <= SIZE_MAX - sizeof *b ? malloc(sizeof *b + n) : NULL;
    if (b == NULL) {
        own.starved = true;
        if (own.reading)
            longjmp(own.end, 1);
        return NULL;
    }
    *b = (block){NULL, NULL};
    if (own.reading) {
        *b = (block){own.first, &own.first};
        if (b->next != NULL)
            b->next->link = &b->next;
        own.first = b;
    }
    return b + 1;
}

static void give(void *p)
{
    if (p == NULL)
        return;
    block *b = (block *)p - 1;
    if (b->link != NULL)
        *b->link = b->next;
    if (b->next != NULL)
        b->next->link = b->link;
    free(b);
}

/* Before the first use, because one allocator must not free the other's blocks. */
__attribute__((constructor)) static void set_functions(void)
{
    json_set_alloc_funcs(take, give);
}

/* Ends the list: the blocks are the caller's, or freed. */
static void leave_list(bool freed)
{
    own.reading = false;
    for (block *b = own.first, *next; b != NULL; b = next) {
        next = b->next;
        *b = (block){NULL, NULL};
        if (freed)
            free(b);
    }
    own.first = NULL;
}

json_t *lx_json_load(const char *text, size_t bytes, size_t flags, json_error_t *e)
{
    own.reading = true;
    if (setjmp(own.end) != 0) {
        leave_list(true);
        memset(e, 0, sizeof *e);
        e->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory; /* where jansson keeps it */
        return NULL;
    }
    json_t *root = json_loadb(text, bytes, flags, e);
    leave_list(false);
    return root;
}

json_t *lx_json_load_file(const char *text, size_t bytes, size_t flags, json_error_t *e)
{
    static const char mark[] = "\xef\xbb\xbf";
    size_t n = bytes >= strlen(mark) && memcmp(text, mark, strlen(mark)) == 0 ? strlen(mark) : 0;
    return lx_json_load(text + n, bytes - n, flags, e);
}

bool lx_json_starved(void)
{
    bool starved = own.starved;
    own.starved = false;
    return starved;
}
