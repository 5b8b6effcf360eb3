/* Memory for jansson (see json_memory.h). */
#include "model/formats/json_memory.h"

#include <errno.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"

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

static json_t *load(const char *text, size_t bytes, size_t flags, json_error_t *e)
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

/* The end of the number at text[at]. */
static size_t number_end(const char *text, size_t n, size_t at)
{
    while (at < n && text[at] != '\0' && strchr("+-.0123456789eE", text[at]) != NULL)
        at++;
    return at;
}

/* Whether a number is whole and beyond 64 bits. */
static bool is_long(const char *number, size_t n)
{
    char text[24] = {0};
    if (n < sizeof "999999999999999999" || memchr(number, '.', n) != NULL ||
        memchr(number, 'e', n) != NULL || memchr(number, 'E', n) != NULL)
        return false;
    memcpy(text, number, n < sizeof text - 1 ? n : sizeof text - 1);
    errno = 0;
    (void)strtoll(text, NULL, 10);
    return errno == ERANGE;
}

/* As lx_json_load, of a text of which some number is too large for the parser. */
static json_t *load_long_numbers(const char *text, size_t n, size_t flags, json_error_t *e)
{
    lx_buffer all;
    bool in_string = false;
    size_t kept = 0; /* bytes of `text` in `all` */
    lx_buffer_init(&all, 2 * n + 1);
    for (size_t at = 0; at < n; at++) {
        char c = text[at];
        if (in_string && c == '\\')
            at++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '-' || (c >= '0' && c <= '9'))) {
            size_t end = number_end(text, n, at);
            bool is_real = is_long(text + at, end - at);
            lx_buffer_append(&all, text + kept, end - kept);
            lx_buffer_puts(&all, is_real ? "e0" : "");
            kept = end;
            at = end - 1;
        }
    }
    lx_buffer_append(&all, text + kept, n - kept);
    json_t *root = NULL;
    if (all.status == LX_OK)
        root = load(all.data, all.length, flags, e);
    else
        e->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory;
    lx_buffer_fini(&all);
    return root;
}

json_t *lx_json_load(const char *text, size_t bytes, size_t flags, json_error_t *e)
{
    json_t *root = load(text, bytes, flags, e);
    bool is_long = root == NULL && json_error_code(e) == json_error_numeric_overflow;
    return is_long ? load_long_numbers(text, bytes, flags, e) : root;
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
