/* What the files of built-in functions share: their tables' rows, and how a function reads its
 * arguments. */
#ifndef LINNET_MODEL_JINJA_BUILTINS_H
#define LINNET_MODEL_JINJA_BUILTINS_H

#include "model/jinja/internal.h"

typedef struct row {
    const char *name;
    builtin call;
} row;

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))
const row *lx_jinja_find_row(const row *rows, size_t count, const char *name,
                             size_t n); /* NULL: none */
/* The row's function as a method of the value; undefined where there is no row. */
value lx_jinja_bind_row(run *r, value self, const row *found, const span *name);
const row *lx_jinja_text_method(const char *name, size_t n);

/* The argument at a position or by its name; `missing` where it is not given. */
value lx_jinja_argument(run *r, const arguments *given, size_t at, const char *name, value missing);
/* The same, which must be given; and one that must be a text. */
value lx_jinja_needed(run *r, const arguments *given, size_t at, const char *name);
const span *lx_jinja_needed_text(run *r, const arguments *given, size_t at, const char *name);
int64_t lx_jinja_whole_of(run *r, value v, const char *name);
const span *lx_jinja_text_of(run *r, value v); /* as lx_jinja_string */

/* Methods that are filters, too. */
value lx_jinja_do_strip(run *r, value self, const arguments *given);
value lx_jinja_do_upper(run *r, value self, const arguments *given);
value lx_jinja_do_lower(run *r, value self, const arguments *given);
value lx_jinja_do_capitalize(run *r, value self, const arguments *given);
value lx_jinja_do_title_filter(run *r, value self, const arguments *given);
value lx_jinja_do_replace(run *r, value self, const arguments *given);
value lx_jinja_do_items(run *r, value self, const arguments *given);
value lx_jinja_pairs_of(run *r, const table *m); /* a list of (key, value) */

#endif
