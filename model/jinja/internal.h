/*
 * Shared by the files of the interpreter: arena.c (memory), value.c (values), lexer.c and parser.c
 * (text to nodes), texts.c, members.c and builtins.c (methods, attributes, filters, tests), run.c
 * (nodes to text).
 *
 * All memory of a template, and all memory of a rendering, belongs to one arena. Errors leave by
 * longjmp to the function that made the arena (lx_jinja_parse, lx_jinja_render), which frees it:
 * so no function here returns a status, and none owns memory.
 */
#ifndef LINNET_MODEL_JINJA_INTERNAL_H
#define LINNET_MODEL_JINJA_INTERNAL_H

#include <setjmp.h>
#include <stdbool.h>

#include "model/jinja/jinja.h"

typedef struct arena {
    struct arena_block *blocks;
    size_t used, max; /* bytes */
    int line;         /* of the template: errors name it */
    lx_error err;
    jmp_buf failed;
} arena;

/* Zeroed memory, never NULL. */
void *lx_jinja_alloc(arena *a, size_t bytes);
/* A copy of old[n] in room for `more` elements of `size` bytes. */
void *lx_jinja_grow(arena *a, const void *old, size_t n, size_t more, size_t size);
void lx_jinja_free_arena(arena *a);
_Noreturn void lx_jinja_fail(arena *a, lx_status status, const char *fmt, ...) LX_PRINTF(3, 4);

/* --- values --- */

typedef enum value_kind {
    UNDEFINED,
    NONE,
    BOOLEAN,
    WHOLE,
    REAL,
    TEXT,
    LIST,
    TUPLE,
    MAP,
    NAMESPACE,
    MACRO,
    METHOD, /* of a value, or a global function */
    LOOP
} value_kind;

/* Bytes that never change; marks is NULL where all are the template's. */
typedef struct span {
    const char *bytes;
    const char *marks;
    size_t n;
} span;

typedef struct value {
    value_kind kind;
    union {
        bool truth;
        int64_t whole;
        double real;
        const span *text; /* of UNDEFINED: the name that was not found */
        struct array *list;
        struct table *map;
        const struct macro *macro;
        const struct bound *bound;
        struct loop *loop;
    };
} value;

typedef struct array {
    value *items;
    size_t n, room;
} array;

typedef struct entry {
    value key, value;
} entry;

/* In the order of insertion. */
typedef struct table {
    entry *entries;
    size_t n, room;
} table;

typedef struct loop {
    const struct node *node;
    const array *items;
    struct frame *scope;
    size_t at;
    int depth;
    value changed; /* what loop.changed saw last */
} loop;

/* A text under construction. */
typedef struct builder {
    char *bytes, *marks; /* marks NULL: none yet */
    size_t n, room;
} builder;

struct run;
typedef struct arguments {
    const value *values;
    size_t n;
    const table *named; /* by name; NULL: none */
} arguments;
typedef value (*builtin)(struct run *r, value self, const arguments *given);
typedef struct bound {
    value self;
    builtin call;
} bound;

/* One rendering. */
typedef struct run {
    arena arena;
    struct frame *frame; /* the innermost scope of variables */
    builder *out;
    size_t max_bytes;
    uint64_t steps;
    int depth;
    int64_t now;
    int leaving; /* 1: break, 2: continue */
} run;

/* Counts steps for so many bytes or elements, and ends a rendering that takes too many. */
void lx_jinja_charge(run *r, size_t amount);
#define fail(r, ...) lx_jinja_fail(&(r)->arena, LX_ERR_INVALID, __VA_ARGS__)
#define refuse(r, ...) lx_jinja_fail(&(r)->arena, LX_ERR_UNSUPPORTED, __VA_ARGS__)

static inline value make_bool(bool truth)
{
    return (value){.kind = BOOLEAN, .truth = truth};
}
static inline value make_whole(int64_t whole)
{
    return (value){.kind = WHOLE, .whole = whole};
}
value lx_jinja_make_text(run *r, const char *bytes, const char *marks, size_t n);
value lx_jinja_make_name(run *r, const char *name); /* the template's text */
value lx_jinja_slice_text(run *r, const span *t, size_t first, size_t last); /* bytes */
value lx_jinja_make_list(run *r, value_kind kind, size_t room);
value lx_jinja_make_map(run *r, value_kind kind);
value lx_jinja_undefined(run *r, const char *name, size_t n);
void lx_jinja_push(run *r, value list, value item);
value *lx_jinja_find(run *r, const table *m, value key); /* NULL: not there */
value *lx_jinja_find_name(run *r, const table *m, const char *name);
void lx_jinja_put(run *r, table *m, value key, value item);
value lx_jinja_from_json(run *r, const json_t *json, bool client);

void lx_jinja_write(run *r, builder *b, const char *bytes, const char *marks, size_t n);
void lx_jinja_puts(run *r, builder *b, const char *bytes);
value lx_jinja_built(run *r, const builder *b);

bool lx_jinja_is_true(run *r, value v);
bool lx_jinja_equal(run *r, value a, value b);
int lx_jinja_order(run *r, value a, value b); /* below, equal to or above 0 */
bool lx_jinja_contains(run *r, value whole, value part);
const char *lx_jinja_kind_name(value v); /* as Python calls it */
bool lx_jinja_is_word(const span *t, const char *word);
bool lx_jinja_is_text(value v, const char *bytes);
size_t lx_jinja_length(run *r, value v);                  /* characters of a text */
size_t lx_jinja_offset(const span *t, size_t characters); /* bytes before a character */
const array *lx_jinja_items(run *r, value v);             /* what a loop goes through */
value lx_jinja_string(run *r, value v);                   /* as Python's str() */
void lx_jinja_repr(run *r, builder *b, value v);

typedef struct json_style {
    bool ascii, sorted;
    int64_t indent; /* below 0: on one line */
    const span *comma, *colon;
} json_style;
void lx_jinja_write_json(run *r, builder *b, value v, const json_style *style, int level);

/* --- built in --- */

builtin lx_jinja_filter(const char *name, size_t n); /* NULL: no such filter */
builtin lx_jinja_test(const char *name, size_t n);
/* The attribute of a value that is a method, or undefined. */
value lx_jinja_method(run *r, value self, const span *name);
value lx_jinja_global(run *r, const span *name);
value lx_jinja_call(run *r, value callee, const arguments *given);
value lx_jinja_defined(run *r, value v); /* v, which must be defined */
value lx_jinja_attribute(run *r, value v, value name);
value lx_jinja_subscript(run *r, value v, value key);

/* --- nodes --- */

typedef enum node_kind {
    /* expressions */
    N_CONSTANT,
    N_TEXT,
    N_NAME,
    N_LIST,
    N_TUPLE,
    N_MAP,       /* list: key, value, key, value ... */
    N_ATTRIBUTE, /* a.text */
    N_SUBSCRIPT, /* a[b] */
    N_SLICE,     /* a[b:c:d] */
    N_CALL,      /* a(list) */
    N_FILTER,    /* a|text(list) */
    N_TEST,      /* a is text(list) */
    N_NAMED,     /* an argument text=a */
    N_NOT,
    N_NEGATE,
    N_PLUS,
    N_AND,
    N_OR,
    N_IF_ELSE, /* b if a else c */
    N_BINARY,  /* a op b */
    N_COMPARE, /* a, then list of N_OPERAND: op a */
    N_OPERAND,
    /* statements */
    N_BODY,   /* list */
    N_DATA,   /* text */
    N_OUTPUT, /* a */
    N_IF,     /* a: condition, b: body, c: else */
    N_FOR,    /* a: target, b: what, c: condition, d: body, e: else */
    N_SET,    /* a: target, b: value, or d: body and b: filters of N_BODY_VALUE */
    N_BODY_VALUE,
    N_MACRO, /* text: name, list: parameters N_NAMED, d: body */
    N_CALL_BLOCK,
    N_FILTER_BLOCK,
    N_WITH,
    N_BREAK,
    N_CONTINUE
} node_kind;

typedef enum operation {
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_FLOOR,
    OP_REMAINDER,
    OP_POWER,
    OP_JOIN,
    OP_EQUAL,
    OP_UNEQUAL,
    OP_LESS,
    OP_LESS_EQUAL,
    OP_MORE,
    OP_MORE_EQUAL,
    OP_IN,
    OP_NOT_IN
} operation;

typedef struct node {
    node_kind kind;
    int line;
    int height; /* of the nodes in it: what walks over them is bounded by it */
    operation op;
    bool recursive;
    span text;
    value constant;
    builtin call; /* of a filter or a test */
    struct node *a, *b, *c, *d, *e;
    struct node *list, *last; /* children, by `next` */
    struct node *next;
} node;

struct lx_jinja {
    arena arena;
    node *body;
};

typedef enum token_kind {
    T_END,
    T_DATA,
    T_NAME,
    T_TEXT,
    T_WHOLE,
    T_REAL,
    T_SIGN,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_OUTPUT_BEGIN,
    T_OUTPUT_END
} token_kind;

typedef struct token {
    token_kind kind;
    int line;
    span text; /* of data, names, texts (without escapes) and signs */
    int64_t whole;
    double real;
} token;

typedef struct lexer {
    arena *arena;
    const char *bytes;
    size_t n, at;
    int line;
    int inside;       /* 0: data, 1: a block, 2: an output */
    int brackets;     /* open ones */
    bool line_starts; /* a line begins at `at` */
    bool strips;      /* white space at `at` goes */
} lexer;
token lx_jinja_next(lexer *l);

#endif
