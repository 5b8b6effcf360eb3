/*
 * Shared by the files of the interpreter. value.c has memory and values, print.c writes values as
 * text. lexer.c and parser.c make nodes of a template's text, run.c makes text of nodes. texts.c
 * and builtins.c have methods, attributes, filters and tests.
 *
 * All memory of a template, and all memory of a rendering, belongs to one arena. Errors leave by
 * longjmp to the function that made the arena (lx_jinja_parse, lx_jinja_render), which frees it.
 * So no function here returns a status, and none owns memory.
 */
#ifndef LINNET_MODEL_JINJA_INTERNAL_H
#define LINNET_MODEL_JINJA_INTERNAL_H

#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

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
    GENERATOR, /* the result of map and of similar filters: it can be read once */
    MAP,
    NAMESPACE,
    MACRO,
    METHOD, /* of a value, or a global function */
    LOOP
} value_kind;
#define SET(kind) (1U << (kind))

/* Bytes that never change; marks is NULL where all are the template's. */
typedef struct span {
    const char *bytes;
    const char *marks;
    size_t n;
} span;

typedef struct value {
    value_kind kind;
    bool safe; /* a text that + does not escape (the filter safe) */
    union {
        int64_t whole; /* of BOOLEAN: 0 or 1 */
        double real;
        span text; /* of UNDEFINED: the name without a value */
        struct array *list;
        const struct macro *macro;
        const struct bound *bound;
        struct loop *loop;
    };
} value;

/* A MAP or NAMESPACE has its keys at even places, each before its value, in the order of insertion.
 */
typedef struct array {
    value *items;
    size_t n, room;
} array;

typedef struct loop {
    const struct node *node;
    const array *items;
    struct frame *scope;
    size_t at;
    int depth;
    value changed; /* the last arguments of loop.changed */
} loop;

/* A text under construction. */
typedef struct builder {
    char *bytes, *marks; /* marks NULL: none yet */
    size_t n, room;
} builder;

typedef struct arguments {
    const value *values;
    size_t n;
    const array *named; /* a map; NULL: none */
} arguments;

/* Whether a loop is left. */
typedef enum way_out { STAYS, BREAKS, CONTINUES } way_out;

/* One rendering. */
typedef struct run {
    arena arena;
    struct frame *frame; /* the innermost scope of variables */
    builder *out;
    size_t max_bytes;
    uint64_t steps;
    int depth;
    int64_t now;
    way_out leaving;
    json_t *parsed; /* owned: the JSON that the filter from_json reads */
} run;

/* Counts steps for so many bytes or elements, and ends a rendering that takes too many. */
void lx_jinja_charge(run *r, size_t amount);
/* One level deeper; the caller counts r->depth down. */
void lx_jinja_enter(run *r);
#define fail(r, ...) lx_jinja_fail(&(r)->arena, LX_ERR_INVALID, __VA_ARGS__)
#define refuse(r, ...) lx_jinja_fail(&(r)->arena, LX_ERR_UNSUPPORTED, __VA_ARGS__)

static inline value make_bool(bool truth)
{
    return (value){.kind = BOOLEAN, .whole = truth};
}
static inline value make_whole(int64_t whole)
{
    return (value){.kind = WHOLE, .whole = whole};
}
static inline value make_real(double real)
{
    return (value){.kind = REAL, .real = real};
}
static inline value make_text(span text)
{
    return (value){.kind = TEXT, .text = text};
}
static inline value make_undefined(span name)
{
    return (value){.kind = UNDEFINED, .text = name};
}
/* The template's text: a constant, or bytes of the arena. */
static inline span make_span(const char *bytes)
{
    return (span){.bytes = bytes, .n = strlen(bytes)};
}
static inline span part_of(span t, size_t first, size_t end) /* bytes */
{
    return (span){t.bytes + first, t.marks != NULL ? t.marks + first : NULL, end - first};
}
static inline int64_t whole_or(value v, int64_t missing)
{
    return v.kind == WHOLE || v.kind == BOOLEAN ? v.whole : missing;
}
static inline bool is_a(value v, unsigned kinds)
{
    return (SET(v.kind) & kinds) != 0;
}

value lx_jinja_make_list(run *r, value_kind kind, size_t room);
void lx_jinja_push(run *r, value list, value item);
value lx_jinja_reversed(run *r, value_kind kind, const array *items);
value *lx_jinja_find(run *r, const array *map, value key); /* NULL: not there */
const value *lx_jinja_find_named(run *r, const arguments *given, span name);
void lx_jinja_put(run *r, array *map, value key, value item);
void lx_jinja_put_all(run *r, array *map, const array *from);
value lx_jinja_from_json(run *r, const json_t *json, bool client);

bool lx_jinja_is_true(value v);
bool lx_jinja_equal(run *r, value a, value b);
int lx_jinja_order(run *r, value a, value b); /* below, equal to or above 0 */
bool lx_jinja_contains(run *r, value whole, value part);
const char *lx_jinja_kind_name(value v); /* as Python calls it */
bool lx_jinja_is_word(span t, const char *word);
/* The place of a word in a list with blanks between its words; below 0: it is not there. */
int lx_jinja_place_of(span word, const char *words);
value lx_jinja_defined(run *r, value v); /* v, which must be defined */
double lx_jinja_real_of(value number);
size_t lx_jinja_length(run *r, value v);           /* characters of a text */
size_t lx_jinja_offset(span t, size_t characters); /* bytes before a character */
const array *lx_jinja_items(run *r, value v);      /* for a loop; a generator is empty then */

/* --- texts (print.c) --- */

void lx_jinja_write(run *r, builder *b, span t);
void lx_jinja_puts(run *r, builder *b, const char *bytes);
value lx_jinja_built(const builder *b);

typedef struct style {
    bool json, ascii, sorted;
    int64_t indent; /* below 0: on one line */
    span comma, colon;
} style;
/* The value as JSON, by Python's json.dumps, or else as Python's repr() writes it. */
void lx_jinja_print(run *r, builder *b, value v, const style *s, int level);
span lx_jinja_string(run *r, value v);  /* as Python's str() */
value lx_jinja_escape(run *r, value v); /* for HTML; a safe text stays as it is */
value lx_jinja_add(run *r, span a, span b);

/* --- built in --- */

enum { MAX_PARAMETERS = 4 };
#define ANY ((1U << 31) - 1)
#define INTS (SET(WHOLE) | SET(BOOLEAN))
#define NUMBERS (INTS | SET(REAL))

/* A call of a built-in function, with the arguments in the order of its parameters. */
typedef struct call {
    const struct builtin *row;
    value self;
    value given[MAX_PARAMETERS]; /* UNDEFINED without a name: not given */
    arguments more;              /* those after the parameters */
} call;

/*
 * A filter, a test, a method or a global function: a row of a table. lx_jinja_invoke checks the
 * arguments before it runs. Parameters are words. A "?" ends the word of an optional parameter, and
 * "*" stands for further arguments. After a ":" stands the kind of the argument: s str, i int, S
 * and I also None, w int or str, p str or tuple.
 */
typedef struct builtin {
    const char *names; /* words */
    value (*run)(run *r, const call *c);
    int which;      /* for a function of several rows */
    unsigned takes; /* kinds of values */
    const char *parameters;
} builtin;

typedef struct bound {
    value self;
    const builtin *row;
} bound;

value lx_jinja_invoke(run *r, const builtin *row, value self, const arguments *given);
const builtin *lx_jinja_filter(span name); /* NULL: no such filter */
const builtin *lx_jinja_test(span name);
const builtin *lx_jinja_find_row(const builtin *rows, size_t count, span name); /* NULL: none */
#define COUNT(rows) (sizeof(rows) / sizeof *(rows))
const builtin *lx_jinja_text_method(span name);
/* Methods of texts that are filters, too: by sides, by the case, and with two texts. */
enum { LEFT = 1, RIGHT = 2 };
enum { UPPER, LOWER, CAPITALIZE, TITLE, TITLE_WORDS };
value lx_jinja_do_strip(run *r, const call *c);
value lx_jinja_do_case(run *r, const call *c);
value lx_jinja_do_replace(run *r, const call *c);
value lx_jinja_global(run *r, span name); /* undefined: no such function */
value lx_jinja_attribute(run *r, value v, value name);
value lx_jinja_subscript(run *r, value v, value key);

/* --- nodes --- */

typedef enum node_kind {
    /* expressions */
    N_CONSTANT,
    N_NAME,
    N_LIST,
    N_TUPLE,
    N_MAP,       /* list: key, value, key, value ... */
    N_ATTRIBUTE, /* a.text */
    N_SUBSCRIPT, /* a[b] */
    N_SLICE,     /* a[b:c:d] */
    N_CALL,      /* a(list) */
    N_APPLY,     /* a|text(list), a is text(list) */
    N_NAMED,     /* an argument text=a */
    N_NOT,
    N_IF_ELSE, /* b if a else c */
    N_CAPTURE, /* the text of d */
    N_MACRO,   /* text: name, list: parameters N_NAMED, d: body */
    N_BINARY,  /* a op b */
    N_COMPARE, /* a, then list of N_OPERAND: op a; each is computed once */
    N_OPERAND,
    /* statements */
    N_BODY,   /* list */
    N_OUTPUT, /* a */
    N_IF,     /* a: condition, b: body, c: else */
    N_FOR,    /* a: target, b: items, c: condition, d: body, e: else */
    N_SET,    /* a: target, b: value */
    N_WITH,   /* list: N_SET, d: body */
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
    OP_NOT_IN,
    OP_AND,
    OP_OR
} operation;
bool lx_jinja_compares(run *r, operation op, value a, value b);

typedef struct node {
    node_kind kind;
    int line;
    operation op;
    bool recursive;
    span text;
    value constant;
    const builtin *row; /* of a filter or a test */
    struct node *a, *b, *c, *d, *e;
    struct node *list, *last; /* children, by `next` */
    struct node *next;
} node;

struct lx_jinja {
    arena arena;
    node *body;
};

typedef enum token_kind { T_END, T_DATA, T_NAME, T_TEXT, T_NUMBER, T_SIGN } token_kind;

typedef struct token {
    token_kind kind;
    int line;
    span text; /* of data, names, texts (without escapes) and signs, the delimiters of blocks among
                  them */
    value number;
} token;

typedef struct lexer {
    arena *arena;
    const char *bytes;
    size_t n, at;
    int line;
    const char *end;  /* of the block or output at hand: "%}" or "}}"; NULL: in data */
    int brackets;     /* open ones */
    bool line_starts; /* a line begins at `at` */
    bool strips;      /* white space at `at` goes */
} lexer;
token lx_jinja_next(lexer *l);

#endif
