/*
 * The tools of a request and the grammar of answers with calls (see calls.h). The source of a
 * grammar is a JSON object with the format, the rules and the tools, so that a state that keeps its
 * shape needs nothing else.
 */
#include "model/grammar/calls.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "model/grammar/call_values.h"
#include "model/grammar/readers.h"
#include "model/grammar/until.h"

static const lx_ast_kind CAT = LX_AST_CAT, ALT = LX_AST_ALT;
enum { THINKS_NOT, THINKS_MARK, THINKS_AT_ONCE, MOST_NAME = 64, MOST_FEEDS = 2 };

struct lx_calls {
    atomic_int n_owners;
    const lx_call_format *format;
    bool inside;
    uint64_t seed; /* of the calls' ids */
    json_t *tools; /* a list of objects with name and parameters */
    int32_t *loose;
    int32_t n_loose;
    char *source;
    size_t bytes;
};

/* --- the tree of an answer --- */

typedef struct maker {
    lx_ast *a;
    const lx_call_format *format;
    unsigned special;
    bool required, never, parallel;
    int thinks;
    const char *schema; /* of an answer without calls; NULL: any text */
    size_t schema_bytes;
    bool shaped;
} maker;

static const char *mark_of(const maker *m, lx_call_mark mark)
{
    return (m->special >> mark & 1) != 0 ? lx_call_mark_byte(mark)
                                         : lx_call_mark_text(m->format, mark);
}

static int32_t word(const maker *m, const char *text)
{
    return lx_ast_word(m->a, text);
}

static int32_t cat(const maker *m, int32_t one, int32_t other)
{
    return lx_ast_pair(m->a, CAT, one, other);
}

static int32_t as_rule(lx_ast *a, int32_t tree)
{
    int32_t rule = lx_ast_rule(a);
    lx_ast_define(a, rule, tree);
    return lx_ast_call(a, rule);
}

/* A call from its name to the end of its arguments. */
static int32_t one_call(const maker *m, const json_t *tool)
{
    const lx_call_format *f = m->format;
    const char *name = json_string_value(json_object_get(tool, "name"));
    int32_t head = cat(m, word(m, f->before_name),
                       cat(m, word(m, name != NULL ? name : ""), word(m, f->after_name)));
    int32_t arguments = lx_call_arguments(m->a, f->spelling, json_object_get(tool, "parameters"));
    return cat(m, head, cat(m, arguments, word(m, f->after_arguments)));
}

static int32_t any_call(const maker *m, const json_t *tools)
{
    lx_ast_trees ways = {0};
    for (size_t i = 0; i < json_array_size(tools) && m->a->status == LX_OK; i++)
        lx_ast_collect(m->a, &ways, one_call(m, json_array_get(tools, i)));
    return as_rule(m->a, lx_ast_take(m->a, ALT, &ways));
}

/* All calls, after the first mark. */
static int32_t all_calls(const maker *m, const json_t *tools)
{
    const lx_call_format *f = m->format;
    int32_t call = any_call(m, tools), between = word(m, f->between);
    int32_t end = cat(m, word(m, f->end), word(m, mark_of(m, LX_MARK_CALL_END)));
    int32_t most = m->parallel && !f->single ? -1 : 0;
    if (!f->each) {
        int32_t more = lx_ast_repeat(m->a, cat(m, between, call), 0, most);
        return as_rule(m->a, cat(m, word(m, f->head), cat(m, call, cat(m, more, end))));
    }
    int32_t one = cat(m, call, end);
    int32_t next = cat(m, between, cat(m, word(m, mark_of(m, LX_MARK_CALL)), one));
    return as_rule(m->a, cat(m, one, lx_ast_repeat(m->a, next, 0, most)));
}

/* The answer after its thoughts, or without them. `calls`: LX_UNTIL_NEVER for an answer without
   them. `thoughts`: they may begin here; 0: they may not. */
static int32_t after_thoughts(const maker *m, int32_t calls, int32_t thoughts)
{
    const lx_passage ways[] = {{mark_of(m, LX_MARK_CALL), m->format->first, calls},
                               {mark_of(m, LX_MARK_THINK), true, thoughts}};
    if (!m->required && !m->shaped)
        return lx_text_until(m->a, ways, thoughts != 0 ? 2 : 1, true);
    int32_t called = cat(m, word(m, mark_of(m, LX_MARK_CALL)), calls);
    int32_t thought = thoughts != 0 ? cat(m, word(m, mark_of(m, LX_MARK_THINK)), thoughts) : 0;
    int32_t other = called;
    if (!m->required)
        other = lx_ast_pair(m->a, ALT, called,
                            lx_grammar_schema_tree(m->a, m->schema, m->schema_bytes));
    return thoughts != 0 ? lx_ast_pair(m->a, ALT, thought, other) : other;
}

static int32_t answer_tree(const maker *m, const json_t *tools)
{
    int32_t calls = m->never ? LX_UNTIL_NEVER : all_calls(m, tools), feeds = 0;
    if (m->thinks == THINKS_NOT)
        return after_thoughts(m, calls, 0);
    if (m->required || m->shaped)
        feeds = lx_ast_repeat(m->a, word(m, "\n"), 0, MOST_FEEDS);
    int32_t rest = as_rule(m->a, cat(m, feeds, after_thoughts(m, calls, 0)));
    const lx_passage end = {mark_of(m, LX_MARK_THINK_END), false, rest};
    int32_t thoughts = lx_text_until(m->a, &end, 1, !m->required);
    return m->thinks == THINKS_AT_ONCE ? thoughts : after_thoughts(m, calls, thoughts);
}

static bool flag(const json_t *source, const char *name)
{
    return json_is_true(json_object_get(source, name));
}

static int32_t number(const json_t *source, const char *name)
{
    return (int32_t)json_integer_value(json_object_get(source, name));
}

void lx_grammar_read_calls(lx_ast *a, const char *text, size_t bytes)
{
    json_error_t e;
    json_t *source = lx_json_load(text, bytes, JSON_ALLOW_NUL, &e);
    const char *format = json_string_value(json_object_get(source, "format"));
    const json_t *schema = json_object_get(source, "schema");
    maker m = {.a = a,
               .format = format != NULL ? lx_call_format_named(format) : NULL,
               .special = (unsigned)number(source, "special"),
               .required = flag(source, "required"),
               .never = flag(source, "never"),
               .parallel = flag(source, "parallel"),
               .thinks = number(source, "thinks"),
               .schema = json_string_value(schema),
               .schema_bytes = json_string_length(schema),
               .shaped = json_is_string(schema)};
    int32_t tree = 0;
    if (source == NULL && lx_json_starved())
        a->status = lx_fail(a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
    else if (source == NULL)
        (void)lx_ast_fail(a, "it is not valid JSON: %.100s", e.text);
    else if (m.format == NULL)
        (void)lx_ast_fail(a, "the format of calls is unknown");
    else
        tree = answer_tree(&m, json_object_get(source, "tools"));
    lx_ast_define(a, 0, tree);
    json_decref(source);
}

/* --- the tools of a request --- */

static lx_status no_memory(lx_error *err)
{
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for tools");
}

/* Whether the name can stand in every format. */
static bool is_plain_name(const char *name)
{
    static const char known[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/";
    size_t n = strspn(name, known);
    return n > 0 && n <= MOST_NAME && name[n] == '\0';
}

/* The parameters of a function, which always have a type; NULL: no memory. */
static json_t *parameters_of(const json_t *function)
{
    const json_t *given = json_object_get(function, "parameters");
    if (!json_is_object(given))
        return json_pack("{s:s, s:{}}", "type", "object", "properties");
    json_t *own = json_deep_copy(given);
    bool ok = json_equal(own, given); /* a copy without memory lacks members */
    if (ok && json_object_get(own, "type") == NULL)
        ok = json_object_set_new(own, "type", json_string("object")) == 0;
    if (ok)
        return own;
    json_decref(own);
    return NULL;
}

/* LX_ERR_INVALID where no grammar can be made of the schema. */
static lx_status try_schema(const lx_call_format *f, const json_t *parameters, lx_error *err)
{
    lx_ast a;
    lx_ast_init(&a, "parameters", err);
    (void)lx_call_arguments(&a, f->spelling, parameters);
    lx_status st = a.status;
    lx_ast_fini(&a);
    return st;
}

static lx_status refuse_schema(size_t i, const lx_error *why, lx_error *err)
{
    return lx_fail(err, why->status, "tools", "tools[%zu].function.%s", i, why->text);
}

/* A schema that is not supported becomes looser, unless the client wants it to be strict. */
static lx_status fit_schema(lx_calls *c, size_t i, const json_t *function, json_t **parameters,
                            lx_error *err)
{
    lx_error why = {0};
    lx_status st = try_schema(c->format, *parameters, &why);
    if (st == LX_OK)
        return LX_OK;
    if (st != LX_ERR_INVALID)
        return lx_fail(err, st, NULL, "%s", why.text);
    if (json_is_true(json_object_get(function, "strict")))
        return refuse_schema(i, &why, err);
    json_t *loose = lx_call_loosen(*parameters);
    json_decref(*parameters);
    *parameters = loose;
    if (loose == NULL)
        return no_memory(err);
    st = try_schema(c->format, loose, &why);
    c->loose[c->n_loose++] = (int32_t)i;
    return st == LX_OK ? st : refuse_schema(i, &why, err);
}

static lx_status add_tool(lx_calls *c, const lx_call_rules *rules, size_t i, lx_error *err)
{
    const json_t *function = json_object_get(json_array_get(rules->tools, i), "function");
    const char *name = json_string_value(json_object_get(function, "name"));
    if (rules->only != NULL && strcmp(name, rules->only) != 0)
        return LX_OK;
    if (!is_plain_name(name))
        return lx_fail(err, LX_ERR_INVALID, "tools",
                       "tools[%zu].function.name must have 1 to %d letters, digits, _ or -", i,
                       MOST_NAME);
    json_t *parameters = parameters_of(function);
    if (parameters == NULL)
        return no_memory(err);
    const char *type = json_string_value(json_object_get(parameters, "type"));
    lx_status st = type != NULL && strcmp(type, "object") == 0
                       ? fit_schema(c, i, function, &parameters, err)
                       : lx_fail(err, LX_ERR_INVALID, "tools",
                                 "tools[%zu].function.parameters: the type must be object", i);
    if (st != LX_OK) {
        json_decref(parameters);
        return st;
    }
    json_t *tool = json_pack("{s:s, s:o}", "name", name, "parameters", parameters);
    return tool != NULL && json_array_append_new(c->tools, tool) == 0 ? LX_OK : no_memory(err);
}

static lx_status make_source(lx_calls *c, const lx_call_rules *rules, lx_error *err)
{
    json_t *source =
        json_pack("{s:s, s:i, s:b, s:b, s:b, s:i, s:O}", "format", c->format->name, "special",
                  (int)rules->special, "required", (int)rules->required, "never", (int)rules->never,
                  "parallel", (int)rules->parallel, "thinks", rules->thinks, "tools", c->tools);
    bool ok = source != NULL;
    if (ok && rules->schema != NULL)
        ok = json_object_set_new(source, "schema",
                                 json_stringn(rules->schema, rules->schema_bytes)) == 0;
    c->bytes = ok ? json_dumpb(source, NULL, 0, JSON_COMPACT) : 0;
    c->source = c->bytes > 0 ? calloc(1, c->bytes + 1) : NULL;
    ok = c->source != NULL && json_dumpb(source, c->source, c->bytes, JSON_COMPACT) == c->bytes;
    json_decref(source);
    return ok ? LX_OK : no_memory(err);
}

lx_status lx_calls_new(const lx_call_rules *rules, lx_calls **out, lx_error *err)
{
    size_t n = rules->never ? 0 : json_array_size(rules->tools);
    lx_calls *c = calloc(1, sizeof *c);
    if (c == NULL)
        return no_memory(err);
    atomic_init(&c->n_owners, 1);
    c->format = rules->format;
    c->inside = rules->inside;
    c->seed = lx_random_bits();
    c->tools = json_array();
    c->loose = calloc(n + 1, sizeof *c->loose);
    lx_status st = c->tools != NULL && c->loose != NULL ? LX_OK : no_memory(err);
    for (size_t i = 0; st == LX_OK && i < n; i++)
        st = add_tool(c, rules, i, err);
    if (st == LX_OK && !rules->never && json_array_size(c->tools) == 0)
        st = lx_fail(err, LX_ERR_INVALID, rules->field, "%s names %s, which tools does not have",
                     rules->field, rules->only != NULL ? rules->only : "no tool");
    if (st == LX_OK)
        st = make_source(c, rules, err);
    if (st == LX_OK)
        *out = c;
    else
        lx_calls_unref(c);
    return st;
}

lx_calls *lx_calls_ref(lx_calls *c)
{
    if (c != NULL)
        atomic_fetch_add(&c->n_owners, 1);
    return c;
}

void lx_calls_unref(lx_calls *c)
{
    if (c == NULL || atomic_fetch_sub(&c->n_owners, 1) > 1)
        return;
    json_decref(c->tools);
    free(c->source);
    free(c->loose);
    free(c);
}

const char *lx_calls_source(const lx_calls *c, size_t *bytes)
{
    *bytes = c->bytes;
    return c->source;
}

int32_t lx_calls_loose(const lx_calls *c, int32_t i)
{
    return i < c->n_loose ? c->loose[i] : -1;
}

const lx_call_format *lx_calls_format(const lx_calls *c)
{
    return c->format;
}

uint64_t lx_calls_id(const lx_calls *c, int32_t i)
{
    return c->seed + (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);
}

bool lx_calls_inside(const lx_calls *c)
{
    return c->inside;
}

lx_call_value lx_calls_value(const lx_calls *c, const char *tool, const char *parameter)
{
    for (size_t i = 0; i < json_array_size(c->tools); i++) {
        const json_t *t = json_array_get(c->tools, i);
        if (strcmp(json_string_value(json_object_get(t, "name")), tool) != 0)
            continue;
        const json_t *properties = json_object_get(json_object_get(t, "parameters"), "properties");
        return lx_call_value_of(json_object_get(properties, parameter));
    }
    return LX_VALUE_JSON;
}
