/* Strings and numbers of JSON Schemas (see schema_values.h). */
#include "model/grammar/schema_values.h"

#include <math.h>
#include <string.h>

#include "model/grammar/json_numbers.h"
#include "model/grammar/readers.h"

enum { MOST_ITEMS = 1 << 14 }; /* items of an array, and characters of a string */

static const json_t *get(const json_t *schema, const char *name)
{
    return json_object_get(schema, name);
}

/* --- counts --- */

/* The whole number of a keyword, or `without`. */
static int32_t count_of(lx_ast *a, const json_t *schema, const char *name, int32_t without)
{
    const json_t *value = get(schema, name);
    if (value == NULL)
        return without;
    double x = json_number_value(value);
    if (!json_is_number(value) || x < 0 || floor(x) != x)
        return lx_ast_fail(a, "%s must be a whole number that is not negative", name);
    return x < MOST_ITEMS ? (int32_t)x : MOST_ITEMS + 1;
}

bool lx_schema_counts(lx_ast *a, const json_t *schema, const char *least, const char *most,
                      int32_t *from, int32_t *to)
{
    *from = count_of(a, schema, least, 0);
    *to = count_of(a, schema, most, -1);
    if (*from > MOST_ITEMS)
        (void)lx_ast_fail(a, "%s is larger than %d", least, MOST_ITEMS);
    if (*to >= 0 && *to < *from)
        (void)lx_ast_fail(a, "%s is less than %s", most, least);
    if (*to > MOST_ITEMS) /* values may be shorter than their schema allows */
        *to = MOST_ITEMS;
    return a->status == LX_OK;
}

/* --- strings --- */

#define LABEL "[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?"
#define HOST LABEL "(\\." LABEL "){0,4}"
#define DATE                                                                                       \
    "[1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"  \
    "02-(0[1-9]|1[0-9]|2[0-8]))"
#define TIME                                                                                       \
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]" \
    ")"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define SECONDS "[0-9]{1,4}S"
#define MINUTES "[0-9]{1,4}M(" SECONDS ")?"
#define HOURS "[0-9]{1,4}H(" MINUTES ")?"
#define CLOCK "T(" HOURS "|" MINUTES "|" SECONDS ")"
#define DAYS "[0-9]{1,4}D"
#define MONTHS "[0-9]{1,4}M(" DAYS ")?"
#define YEARS "[0-9]{1,4}Y(" MONTHS ")?"

static const char *const formats[][2] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", "P((" YEARS "|" MONTHS "|" DAYS ")(" CLOCK ")?|" CLOCK "|[0-9]{1,4}W)"},
    {"email", "[A-Za-z0-9_+-]{1,30}(\\.[A-Za-z0-9_+-]{1,30}){0,2}@(" LABEL "\\.){1,3}[a-z]{2,10}"},
    {"hostname", HOST},
    {"ipv4", BYTE "(\\." BYTE "){3}"},
    {"ipv6", "[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}"},
    {"uuid", "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"},
    {"uuid4", "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"},
    {"uri", "https?://" HOST "(:[1-9][0-9]{1,3})?(/[A-Za-z0-9._~-]*)*(\\?[A-Za-z0-9._~=&-]*)?"},
};

/* The regular expression of a format; NULL: an error. */
static const char *expression_of(lx_ast *a, const json_t *format)
{
    const char *name = json_string_value(format);
    for (size_t i = 0; name != NULL && i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(formats[i][0], name) == 0)
            return formats[i][1];
    }
    if (name == NULL)
        (void)lx_ast_fail(a, "format must be a string");
    else
        (void)lx_ast_fail(a, "the format %.60s is not supported", name);
    return NULL;
}

/* A format next to a pattern only describes. */
int32_t lx_schema_string(lx_ast *a, lx_json_rules *r, const json_t *schema)
{
    const json_t *pattern = get(schema, "pattern"), *format = get(schema, "format");
    lx_regex_use use = {.spell = lx_json_spell, .search = pattern != NULL};
    if (!lx_schema_counts(a, schema, "minLength", "maxLength", &use.least, &use.most))
        return 0;
    if (pattern == NULL && format == NULL)
        return use.least > 0 || use.most >= 0 ? lx_json_string_of(a, use.least, use.most)
                                              : lx_json_string(a, r);
    if (pattern != NULL && !json_is_string(pattern))
        return lx_ast_fail(a, "pattern must be a string");
    const char *text = pattern != NULL ? json_string_value(pattern) : expression_of(a, format);
    if (text == NULL)
        return 0;
    size_t bytes = pattern != NULL ? json_string_length(pattern) : strlen(text);
    return lx_json_quoted(a, lx_grammar_read_regex(a, text, bytes, &use));
}

/* --- numbers --- */

/* A bound beyond the numbers that are written: it holds for all of them, or for none. */
static void read_far(lx_ast *a, double x, bool up, const char *name)
{
    if (up ? x > 0 : x < 0)
        (void)lx_ast_fail(a, "%s leaves no number of at most %d digits", name, LX_JSON_MOST_DIGITS);
}

static bool is_less(const lx_decimal *one, const lx_decimal *other)
{
    if (one->negative != other->negative)
        return one->negative;
    int order = one->whole != other->whole ? (one->whole < other->whole ? -1 : 1)
                                           : strcmp(one->fraction, other->fraction);
    return one->negative ? order > 0 : order < 0;
}

/* One bound: the keyword with the bound itself and the one without it; `up`: a least number. */
static void read_bound(lx_ast *a, const json_t *schema, const char *name, bool whole,
                       lx_json_bounds *b)
{
    const json_t *value = get(schema, name);
    bool up = strstr(name, "inimum") != NULL, exclusive = name[0] == 'e';
    double x = json_number_value(value);
    lx_decimal bound;
    if (value == NULL)
        return;
    if (!json_is_number(value)) {
        (void)lx_ast_fail(a, "%s must be a number", name);
        return;
    }
    if (fabs(x) >= 1e15) { /* a digit more than LX_JSON_MOST_DIGITS */
        read_far(a, x, up, name);
        return;
    }
    exclusive &= !whole || floor(x) == x;
    if (!lx_decimal_of(whole ? (up ? ceil(x) : floor(x)) : x, &bound)) {
        (void)lx_ast_fail(a, "%s has more than %d digits, so it is not exact", name,
                          LX_JSON_MOST_DIGITS);
        return;
    }
    lx_decimal *to = up ? &b->low : &b->high;
    bool *has = up ? &b->has_low : &b->has_high, *open = up ? &b->above_low : &b->below_high;
    bool tighter = !*has || (up ? is_less(to, &bound) : is_less(&bound, to));
    bool equal = *has && !is_less(to, &bound) && !is_less(&bound, to);
    *open = tighter ? exclusive : *open || (equal && exclusive);
    *to = tighter ? bound : *to;
    *has = true;
}

/* The step of multipleOf, 0 without one. */
static int64_t step_of(lx_ast *a, const json_t *schema)
{
    const json_t *value = get(schema, "multipleOf");
    double x = json_number_value(value), factor = x;
    if (value == NULL)
        return 0;
    if (x < 1 || floor(x) != x || x > 1e14)
        return lx_ast_fail(a, "multipleOf must be a whole number above 0, as others are not exact");
    while (fmod(factor, 10) == 0)
        factor /= 10;
    if (factor > LX_JSON_MOST_STEP)
        return lx_ast_fail(a, "multipleOf is larger than %d, not counting zeros at its end",
                           LX_JSON_MOST_STEP);
    return (int64_t)x;
}

int32_t lx_schema_number(lx_ast *a, lx_json_rules *r, const json_t *schema, bool whole)
{
    static const char *const names[] = {"minimum", "maximum", "exclusiveMinimum",
                                        "exclusiveMaximum"};
    lx_json_bounds b = {.has_low = false};
    int64_t step = step_of(a, schema);
    bool bounded = false;
    whole |= step > 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        read_bound(a, schema, names[i], whole, &b);
        bounded |= get(schema, names[i]) != NULL;
    }
    if (a->status != LX_OK)
        return 0;
    if (whole)
        return lx_json_multiples(a, &b, step > 0 ? step : 1);
    return bounded ? lx_json_real(a, &b) : lx_json_number(a, r);
}
