/*
 * Oniguruma's expressions on PCRE2 (see regex.h). Compiled to machine code where the system allows
 * it, otherwise interpreted, with the same limits: steps and memory of a match, time of a text.
 *
 * The time is that of the thread on its processor, so that the same text passes on a busy machine.
 * It is looked at once in MOST_FINDS finds, and at each one as long as they are slow.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/tokenizers/regex.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/buffer.h"
#include "common/clock.h"

enum {
    /* Of one match; two a byte are needed at most, of a text that may have become longer. */
    MATCH_STEPS = 1000 * 1000,
    STEPS_PER_BYTE = 16,
    /* Of all finds in a text. Splitting takes some 50 ns a byte; interpreted, ten times as long. */
    TEXT_MS = 250,
    NS_PER_BYTE = 1000,
    SLOW_NS = 20 * 1000, /* a find */
    MOST_FINDS = 64,
    MATCH_KIB = 64 << 10,
    STACK_START = 32 << 10,
    STACK_MAX = 4 << 20,
};

struct lx_regex {
    pcre2_code *code;
    bool compiled; /* to machine code */
};

struct lx_regex_run {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    int64_t looked_ns, end_ns; /* the thread's time: at the last look, and when the run is over */
    int32_t finds, most_finds; /* since the last look; at the next one */
};

/* --- from one dialect to the other --- */

/* The pattern under the translator. */
typedef struct source {
    const char *at, *end, *field;
    lx_buffer out;
    lx_error *err;
} source;

static lx_status refuse(const source *s, const char *what)
{
    return lx_fail(s->err, LX_ERR_UNSUPPORTED, NULL, "%s: %s is not implemented", s->field, what);
}

static bool begins(const source *s, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(s->end - s->at) >= n && memcmp(s->at, text, n) == 0;
}

static void pass(source *s, size_t n)
{
    lx_buffer_append(&s->out, s->at, n);
    s->at += n;
}

/* Whether PCRE2 has a script of that name. */
static bool is_script(const char *name, size_t n)
{
    char pattern[64];
    int code, used = snprintf(pattern, sizeof pattern, "\\p{sc:%.*s}", (int)n, name);
    size_t offset;
    if (used >= (int)sizeof pattern)
        return false;
    pcre2_code *c =
        pcre2_compile((PCRE2_SPTR)pattern, (size_t)used, PCRE2_UTF, &code, &offset, NULL);
    pcre2_code_free(c);
    return c != NULL;
}

/* \p{Name}, \p{^Name}. The name of a script is its own characters; PCRE2 would add those that it
   shares with other scripts, such as the full stop of Han. */
static lx_status property(source *s)
{
    size_t n = 3;
    while (s->at + n < s->end && s->at[n] != '}')
        n++;
    if (s->at + n >= s->end || s->at[2] != '{')
        return refuse(s, "\\p without {}");
    size_t name = n > 3 && s->at[3] == '^' ? 4 : 3;
    bool script = is_script(s->at + name, n - name);
    n -= name;
    pass(s, name);
    lx_buffer_puts(&s->out, script ? "sc:" : "");
    pass(s, n + 1);
    return LX_OK;
}

/* The characters of \w in Oniguruma's tables; outside of a set its table of Latin 1 has ², ³, ¹,
   ¼, ½ and ¾, too. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define MORE_WORD WORD "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define IS_WORD "[" MORE_WORD "]"

/* The expression for \w, \W, \b or \B. NULL for another letter, and where a set has no such part.
 */
static const char *word_part(char c, bool in_set)
{
    switch (c) {
    case 'w':
        return in_set ? WORD : IS_WORD;
    case 'W':
        return in_set ? NULL : "[^" MORE_WORD "]";
    case 'b':
        return in_set ? NULL
                      : "(?:(?<=" IS_WORD ")(?!" IS_WORD ")|(?<!" IS_WORD ")(?=" IS_WORD "))";
    case 'B':
        return in_set ? NULL
                      : "(?:(?<=" IS_WORD ")(?=" IS_WORD ")|(?<!" IS_WORD ")(?!" IS_WORD "))";
    default:
        return NULL;
    }
}

/* At a backslash. */
static lx_status escape(source *s, bool in_set)
{
    char c = s->end - s->at >= 2 ? s->at[1] : '\0';
    char what[] = "an expression with \\?";
    what[sizeof what - 2] = c >= ' ' && c <= '~' ? c : '?';
    if (word_part(c, in_set) != NULL) {
        lx_buffer_puts(&s->out, word_part(c, in_set));
        s->at += 2;
        return LX_OK;
    }
    if (c == 's' || c == 'S') {
        lx_buffer_puts(&s->out, c == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
        s->at += 2;
        return LX_OK;
    }
    if (c == 'p' || c == 'P')
        return property(s);
    bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (c == '\0' || (c & 0x80) != 0 || (is_letter && strchr("nrtfdD", c) == NULL))
        return refuse(s, what);
    pass(s, 2);
    return LX_OK;
}

static lx_status set(source *s);

/* At "&&[": the set that begins at `start` in the output is cut with one more, [A&&[B]], which ends
   it. PCRE2 looks ahead for it: (?:(?=[B])[A]). */
static lx_status intersection(source *s, size_t start)
{
    static const char open[] = "(?:(?=";
    lx_buffer first;
    s->at += 2;
    if (s->out.status != LX_OK || s->out.data[start + 1] == '^' || s->at == s->end || *s->at != '[')
        return refuse(s, "a set within a set");
    lx_buffer_init(&first, s->out.max);
    lx_buffer_append(&first, s->out.data + start, s->out.length - start);
    s->out.length = start;
    lx_buffer_puts(&s->out, open);
    lx_status st = set(s);
    bool ends = st == LX_OK && s->at < s->end && *s->at == ']';
    lx_buffer_puts(&s->out, ")");
    lx_buffer_append(&s->out, first.data, first.length);
    if (first.status != LX_OK)
        st = lx_fail(s->err, first.status, NULL, "no memory for an expression");
    lx_buffer_fini(&first);
    if (st != LX_OK || ends)
        return st;
    return refuse(s, "a set within a set");
}

/* At '[': a set, in which another one may come after &&. */
static lx_status set(source *s)
{
    bool first = true, cut = false;
    size_t start = s->out.length;
    pass(s, 1);
    if (s->at < s->end && *s->at == '^')
        pass(s, 1);
    for (; s->at < s->end && (*s->at != ']' || first); first = false) {
        lx_status st = LX_OK;
        if (*s->at == ']')
            return refuse(s, "an empty set");
        if (begins(s, "&&") && !first) {
            st = intersection(s, start);
            cut = true;
        } else if (*s->at == '[' || begins(s, "&&")) {
            return refuse(s, "a set within a set");
        } else if (*s->at == '\\') {
            st = escape(s, true);
        } else {
            pass(s, 1);
        }
        if (st != LX_OK)
            return st;
    }
    if (s->at == s->end)
        return refuse(s, "a set without its end");
    pass(s, 1);
    lx_buffer_puts(&s->out, cut ? ")" : "");
    return LX_OK;
}

/* At '(': one of the groups that both dialects read alike. */
static lx_status group(source *s)
{
    static const char *const known[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (begins(s, known[i])) {
            pass(s, strlen(known[i]));
            return LX_OK;
        }
    }
    if (begins(s, "(?") || begins(s, "(*"))
        return refuse(s, "a group other than (?: (?i: (?= (?! (?<= (?<! (?>");
    pass(s, 1);
    return LX_OK;
}

/* At '{' or after it: {n}, {n,}, {n,m}, and no sign after it that the dialects read differently.
 */
static lx_status interval(source *s)
{
    size_t n = 1;
    while (s->at + n < s->end && strchr("0123456789,", s->at[n]) != NULL && s->at[n] != '\0')
        n++;
    if (n == 1 || s->at[1] == ',' || s->at + n == s->end || s->at[n] != '}')
        return refuse(s, "a { that is no {n,m}");
    pass(s, n + 1);
    if (s->at < s->end && (*s->at == '+' || *s->at == '?' || *s->at == '*'))
        return refuse(s, "a sign after {n,m}");
    return LX_OK;
}

static lx_status translate(source *s)
{
    lx_status st = LX_OK;
    while (st == LX_OK && s->at < s->end) {
        switch (*s->at) {
        case '\\':
            st = escape(s, false);
            break;
        case '[':
            st = set(s);
            break;
        case '(':
            st = group(s);
            break;
        case '{':
            st = interval(s);
            break;
        case '^':
        case '$':
            st = refuse(s, "an anchor (^ or $)");
            break;
        default:
            pass(s, 1);
        }
    }
    return st;
}

/* --- compiling --- */

static lx_status compile(lx_regex *r, const char *pattern, size_t n, bool literal,
                         const char *field, lx_error *err)
{
    int code;
    size_t offset;
    uint32_t can_be_empty = 1;
    uint32_t options = PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C);
    r->code = pcre2_compile((PCRE2_SPTR)pattern, n, options, &code, &offset, NULL);
    if (r->code == NULL) {
        char text[128];
        (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: %s", field, text);
    }
    if (pcre2_pattern_info(r->code, PCRE2_INFO_MATCHEMPTY, &can_be_empty) != 0 || can_be_empty)
        return lx_fail(err, LX_ERR_UNSUPPORTED, NULL,
                       "%s: an expression that can match nothing is not implemented", field);
    r->compiled = pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE) == 0;
    return LX_OK;
}

lx_status lx_regex_new(const char *pattern, size_t n, bool literal, const char *field,
                       lx_regex **out, lx_error *err)
{
    if (n == 0 || n > LX_REGEX_MAX_PATTERN)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: must have 1 to %d bytes", field,
                       LX_REGEX_MAX_PATTERN);
    source s = {.at = pattern, .end = pattern + n, .field = field, .err = err};
    lx_buffer_init(&s.out, 16 * (size_t)LX_REGEX_MAX_PATTERN);
    lx_regex *r = calloc(1, sizeof *r);
    lx_status st = literal ? LX_OK : translate(&s);
    if (st == LX_OK && (r == NULL || s.out.status != LX_OK))
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", field);
    if (st == LX_OK)
        st = compile(r, literal ? pattern : s.out.data, literal ? n : s.out.length, literal, field,
                     err);
    lx_buffer_fini(&s.out);
    if (st != LX_OK) {
        lx_regex_free(r);
        return st;
    }
    *out = r;
    return LX_OK;
}

void lx_regex_free(lx_regex *r)
{
    if (r == NULL)
        return;
    pcre2_code_free(r->code);
    free(r);
}

/* --- matching --- */

/* The time that the thread has been on a processor. */
static int64_t thread_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * LX_NS_PER_S + t.tv_nsec;
}

lx_status lx_regex_run_new(size_t n, lx_regex_run **out, lx_error *err)
{
    lx_regex_run *run = calloc(1, sizeof *run);
    if (run != NULL) {
        run->match = pcre2_match_data_create(1, NULL);
        run->context = pcre2_match_context_create(NULL);
        run->stack = pcre2_jit_stack_create(STACK_START, STACK_MAX, NULL);
    }
    if (run == NULL || run->match == NULL || run->context == NULL) {
        lx_regex_run_free(run);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for matching");
    }
    run->looked_ns = thread_ns();
    run->end_ns = run->looked_ns + TEXT_MS * LX_NS_PER_MS + (int64_t)n * NS_PER_BYTE;
    (void)pcre2_set_match_limit(run->context, (uint32_t)(MATCH_STEPS + STEPS_PER_BYTE * n));
    (void)pcre2_set_heap_limit(run->context, MATCH_KIB);
    if (run->stack != NULL)
        pcre2_jit_stack_assign(run->context, NULL, run->stack);
    *out = run;
    return LX_OK;
}

void lx_regex_run_free(lx_regex_run *run)
{
    if (run == NULL)
        return;
    pcre2_match_data_free(run->match);
    pcre2_match_context_free(run->context);
    pcre2_jit_stack_free(run->stack);
    free(run);
}

/* Counts a find; false when the run has had its time. */
static bool has_time(lx_regex_run *run)
{
    if (++run->finds < run->most_finds)
        return true;
    int64_t now = thread_ns();
    bool slow = now - run->looked_ns > SLOW_NS * (int64_t)run->finds;
    int32_t more = 2 * run->most_finds + 1;
    run->most_finds = slow ? 1 : more < MOST_FINDS ? more : MOST_FINDS;
    run->finds = 0;
    run->looked_ns = now;
    return now < run->end_ns;
}

lx_status lx_regex_find(const lx_regex *r, lx_regex_run *run, const char *text, size_t n,
                        size_t from, size_t *start, size_t *end, lx_error *err)
{
    int found = r->compiled ? pcre2_jit_match(r->code, (PCRE2_SPTR)text, n, from, 0, run->match,
                                              run->context)
                            : pcre2_match(r->code, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK,
                                          run->match, run->context);
    *start = *end = n;
    if (!has_time(run))
        return lx_fail(
            err, LX_ERR_TOO_LARGE, NULL,
            "the tokenizer's splitting expression takes too long on this text: %d ms and "
            "%d ns a byte were not enough; send a shorter text",
            TEXT_MS, NS_PER_BYTE);
    if (found == PCRE2_ERROR_NOMATCH)
        return LX_OK;
    if (found < 0)
        return lx_fail(
            err, LX_ERR_TOO_LARGE, NULL,
            "the tokenizer's splitting expression takes too many steps after byte %zu of "
            "a piece of this text (PCRE2 %d); send a shorter text",
            from, found);
    const size_t *places = pcre2_get_ovector_pointer(run->match);
    *start = places[0];
    *end = places[1];
    return LX_OK;
}
