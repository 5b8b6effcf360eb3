/* Numbers within bounds (see json_numbers.h). */
#include "model/grammar/json_numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const lx_ast_kind CAT = LX_AST_CAT, ALT = LX_AST_ALT;
static const char ZEROS[] = "000000000000000000";

static int32_t chars(lx_ast *a, int32_t low, int32_t high)
{
    const lx_range r = {low, high};
    return lx_ast_set(a, &r, 1);
}

static int32_t digits(lx_ast *a, int32_t least, int32_t most)
{
    return lx_ast_repeat(a, chars(a, '0', '9'), least, most);
}

static int32_t pair(lx_ast *a, int32_t one, int32_t other)
{
    return lx_ast_pair(a, CAT, one, other);
}

static int32_t none(lx_ast *a)
{
    return lx_ast_list(a, ALT, NULL, 0);
}

bool lx_decimal_of(double x, lx_decimal *out)
{
    char text[64];
    *out = (lx_decimal){.negative = x < 0};
    (void)snprintf(text, sizeof text, "%.*f", LX_JSON_MOST_DIGITS, fabs(x));
    char *dot = strchr(text, '.');
    if (fabs(x) >= 1e15 || dot == NULL)
        return false;
    /* So many places after the point that there are 15 digits in all. */
    size_t whole = text[0] == '0' ? 0 : (size_t)(dot - text);
    (void)snprintf(text, sizeof text, "%.*f", (int)(LX_JSON_MOST_DIGITS - whole), fabs(x));
    if (strtod(text, NULL) != fabs(x))
        return false;
    out->whole = strtoll(text, &dot, 10);
    (void)snprintf(out->fraction, sizeof out->fraction, "%s", *dot == '.' ? dot + 1 : "");
    for (size_t n = strlen(out->fraction); n > 0 && out->fraction[n - 1] == '0';)
        out->fraction[--n] = '\0';
    return true;
}

static int64_t power_of_ten(int32_t n)
{
    int64_t x = 1;
    while (n-- > 0)
        x *= 10;
    return x;
}

static int32_t n_digits(int64_t x)
{
    int32_t n = 1;
    for (; x >= 10; x /= 10)
        n++;
    return n;
}

/* --- whole numbers --- */

/* Multiples of `step` that end with so many zeros. Rules hold the digits after which only the
   remainder of those before counts; 0: not made yet. */
typedef struct steps {
    lx_ast *a;
    int32_t step, zeros;
    int32_t rules[LX_JSON_MOST_DIGITS + 1][LX_JSON_MOST_STEP];
} steps;

static int32_t complete(steps *s, int32_t n, int32_t rest, const char *low, const char *high);

static int32_t complete_freely(steps *s, int32_t n, int32_t rest)
{
    int32_t *rule = &s->rules[n][rest];
    if (s->step == 1)
        return digits(s->a, n, n);
    if (*rule == 0 && s->a->status == LX_OK) {
        *rule = lx_ast_rule(s->a);
        lx_ast_define(s->a, *rule, complete(s, n, rest, NULL, NULL));
    }
    return lx_ast_call(s->a, *rule);
}

/* n digits between those of low and high (NULL: any) that complete a multiple, where the digits
   before them leave a remainder of `rest`. */
static int32_t complete(steps *s, int32_t n, int32_t rest, const char *low, const char *high)
{
    lx_ast_trees ways = {0};
    if (n == 0)
        return rest == 0 ? 0 : none(s->a);
    char from = low != NULL ? *low : '0', to = high != NULL ? *high : '9';
    for (char d = from, last = d; d <= to && s->a->status == LX_OK; d = ++last) {
        const char *least = low != NULL && d == from ? low + 1 : NULL;
        const char *most = high != NULL && d == to ? high + 1 : NULL;
        bool freely = least == NULL && most == NULL && n > 1;
        int32_t left = (rest * 10 + (d - '0')) % s->step;
        if (s->step == 1 && least == NULL && most == NULL)
            last = high != NULL ? (char)(to - 1) : to;
        lx_ast_collect(
            s->a, &ways,
            pair(s->a, chars(s->a, d, last),
                 freely ? complete_freely(s, n - 1, left) : complete(s, n - 1, left, least, most)));
    }
    return lx_ast_take(s->a, ALT, &ways);
}

/* Multiples low .. high, 0 <= low; none where high < low. */
static int32_t between(steps *s, int64_t low, int64_t high)
{
    lx_ast *a = s->a;
    lx_ast_trees ways = {0};
    int64_t tens = power_of_ten(s->zeros);
    if (low == 0 && high >= 0) {
        lx_ast_collect(a, &ways, chars(a, '0', '0'));
        low = 1;
    }
    low = (low + tens - 1) / tens;
    high = high < 0 ? -1 : high / tens;
    int32_t zeros = lx_ast_text(a, ZEROS, (size_t)s->zeros);
    for (int32_t n = n_digits(low); low <= high && a->status == LX_OK; n++) {
        char from[24], to[24];
        int64_t last = n_digits(high) == n ? high : power_of_ten(n) - 1;
        (void)snprintf(from, sizeof from, "%" PRId64, low);
        (void)snprintf(to, sizeof to, "%" PRId64, last);
        lx_ast_collect(a, &ways, pair(a, complete(s, n, 0, from, to), zeros));
        low = power_of_ten(n);
    }
    return lx_ast_take(a, ALT, &ways);
}

static int64_t whole_of(const lx_decimal *d)
{
    return d->negative ? -d->whole : d->whole;
}

int32_t lx_json_multiples(lx_ast *a, const lx_json_bounds *b, int64_t step)
{
    /* Rules are many, so steps alone reach less far. */
    const int64_t farthest = power_of_ten(LX_JSON_MOST_DIGITS) - 1;
    int64_t far = step == 1 ? farthest : power_of_ten(9) - 1;
    while (far < farthest && (far < b->low.whole || far < b->high.whole))
        far = far * 10 + 9;
    int64_t low = b->has_low ? whole_of(&b->low) + b->above_low : -far;
    int64_t high = b->has_high ? whole_of(&b->high) - b->below_high : far;
    steps *s = calloc(1, sizeof *s);
    if (s == NULL) {
        a->status = lx_fail(a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
        return 0;
    }
    s->a = a;
    for (; step % 10 == 0; step /= 10)
        s->zeros++;
    s->step = (int32_t)step;
    int32_t positive = between(s, low > 0 ? low : 0, high);
    int32_t negative = between(s, high < 0 ? -high : 1, -low);
    free(s);
    return lx_ast_pair(a, ALT, positive, pair(a, lx_ast_word(a, "-"), negative));
}

/* --- numbers with a fraction --- */

/* Numbers without a sign. */
typedef struct sizes {
    const lx_decimal *low, *high;
    bool above, below;
    int32_t most; /* digits of a fraction */
} sizes;

/* Up to n further digits of a fraction between the rest of those of low and high (NULL: all). Where
   they do not begin the fraction, it may end before them. */
static int32_t fraction(lx_ast *a, const sizes *s, const char *low, const char *high, int32_t n,
                        bool begins)
{
    lx_ast_trees ways = {0};
    if (low != NULL && *low == '\0' && !s->above)
        low = NULL;
    if (low == NULL && high == NULL)
        return digits(a, begins, n);
    bool ends = low == NULL && (*high != '\0' || !s->below);
    if (!begins && ends)
        lx_ast_collect(a, &ways, 0);
    char from = low != NULL && *low != '\0' ? *low : '0';
    char to = high == NULL ? '9' : *high != '\0' ? *high : '0';
    for (char d = from; d <= to && n > 0 && a->status == LX_OK; d++) {
        const char *least = low != NULL && d == from ? low + (*low != '\0') : NULL;
        const char *most = high != NULL && d == to ? high + (*high != '\0') : NULL;
        lx_ast_collect(a, &ways,
                       pair(a, chars(a, d, d), fraction(a, s, least, most, n - 1, false)));
    }
    return lx_ast_take(a, ALT, &ways);
}

/* The whole number with all fractions between low and high (NULL: all). */
static int32_t with_fraction(lx_ast *a, const sizes *s, int32_t whole, const char *low,
                             const char *high)
{
    bool ends = low == NULL || (*low == '\0' && !s->above);
    ends &= high == NULL || *high != '\0' || !s->below;
    if (s->most == 0)
        return ends ? whole : none(a);
    int32_t dot = lx_ast_word(a, "."), some = fraction(a, s, low, high, s->most, true);
    int32_t rest = pair(a, dot, some);
    return pair(a, whole, ends ? lx_ast_optional(a, rest) : rest);
}

static int32_t whole_between(lx_ast *a, int64_t low, int64_t high)
{
    const lx_json_bounds b = {
        .low = {.whole = low}, .high = {.whole = high}, .has_low = true, .has_high = true};
    return lx_json_multiples(a, &b, 1);
}

static int32_t in_sizes(lx_ast *a, const sizes *s)
{
    int64_t low = s->low->whole, high = s->high->whole;
    if (low > high)
        return none(a);
    if (low == high)
        return with_fraction(a, s, whole_between(a, low, low), s->low->fraction, s->high->fraction);
    int32_t first = with_fraction(a, s, whole_between(a, low, low), s->low->fraction, NULL);
    int32_t inner = with_fraction(a, s, whole_between(a, low + 1, high - 1), NULL, NULL);
    int32_t last = with_fraction(a, s, whole_between(a, high, high), NULL, s->high->fraction);
    return lx_ast_pair(a, ALT, first, lx_ast_pair(a, ALT, inner, last));
}

int32_t lx_json_real(lx_ast *a, const lx_json_bounds *b)
{
    const lx_decimal zero = {.whole = 0};
    const int64_t farthest = power_of_ten(LX_JSON_MOST_DIGITS) - 1;
    int64_t far = 999999999;
    while (far < farthest && (far / 10 < b->low.whole || far / 10 < b->high.whole))
        far = far * 10 + 9;
    const lx_decimal low = b->has_low ? b->low : (lx_decimal){.negative = true, .whole = far};
    const lx_decimal high = b->has_high ? b->high : (lx_decimal){.whole = far};
    int32_t most = LX_JSON_MOST_DIGITS - n_digits(far);
    lx_ast_trees ways = {0};
    if (!high.negative) {
        const sizes positive = {low.negative ? &zero : &low, &high, !low.negative && b->above_low,
                                b->below_high, most};
        lx_ast_collect(a, &ways, in_sizes(a, &positive));
    }
    if (low.negative) {
        bool above = high.negative ? b->below_high : true; /* -0 is written as 0 */
        const sizes negative = {high.negative ? &high : &zero, &low, above, b->above_low, most};
        lx_ast_collect(a, &ways, pair(a, lx_ast_word(a, "-"), in_sizes(a, &negative)));
    }
    return lx_ast_take(a, ALT, &ways);
}
