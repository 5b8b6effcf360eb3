/*
 * Texts that go on until a mark (see until.h). The search for the marks has states: the number of
 * bytes of each mark with which the text ends. Every state is a rule, and every rule ends with the
 * call of the next one, so that the calls need no place to return to.
 */
#include "model/grammar/until.h"

#include <string.h>

static const lx_ast_kind CAT = LX_AST_CAT, ALT = LX_AST_ALT;
enum { GONE = -1, MOST_WAYS = 2, SIDE = LX_UNTIL_MOST + 2, OTHER = 0 };

typedef struct search {
    lx_ast *a;
    const lx_passage *ways;
    int32_t n;
    bool may_end;
    char bytes[2 * LX_UNTIL_MOST + 2]; /* [n_bytes] the bytes of the marks, each once */
    int32_t n_bytes;
    int32_t others;             /* the set of all other characters */
    int32_t rules[SIDE * SIDE]; /* 0: not made */
} search;

/* How many bytes of the mark the text ends with after one more byte; OTHER is no byte of it. */
static int32_t after_byte(const lx_passage *way, int32_t matched, char byte)
{
    if (matched == GONE || (byte != OTHER && way->mark[matched] == byte))
        return matched == GONE ? GONE : matched + 1;
    if (way->first)
        return matched == 0 && byte == '\n' ? 0 : GONE;
    for (int32_t n = matched; byte != OTHER && n > 0; n--) {
        /* the last n - 1 matched bytes and this one are a begin of the mark */
        if (way->mark[n - 1] == byte &&
            memcmp(way->mark, way->mark + matched - (n - 1), (size_t)(n - 1)) == 0)
            return n;
    }
    return 0;
}

static int32_t state_rule(search *s, const int32_t *matched);

/* The rest of the text after a byte; LX_UNTIL_NEVER: the byte cannot stand there. */
static int32_t rest_after(search *s, const int32_t *matched, char byte)
{
    int32_t next[MOST_WAYS] = {0};
    for (int32_t i = 0; i < s->n && i < MOST_WAYS; i++) {
        next[i] = after_byte(&s->ways[i], matched[i], byte);
        if (next[i] > 0 && s->ways[i].mark[next[i]] == '\0')
            return s->ways[i].then;
    }
    return lx_ast_call(s->a, state_rule(s, next));
}

static int32_t state_rule(search *s, const int32_t *matched)
{
    int32_t *rule = &s->rules[(matched[0] + 1) * SIDE + (s->n > 1 ? matched[1] + 1 : 0)];
    lx_ast_trees ways = {0};
    if (*rule != 0 || s->a->status != LX_OK)
        return *rule;
    *rule = lx_ast_rule(s->a);
    if (s->may_end)
        lx_ast_collect(s->a, &ways, 0);
    for (int32_t i = 0; i < s->n_bytes; i++) {
        int32_t byte = lx_ast_text(s->a, &s->bytes[i], 1);
        int32_t rest = rest_after(s, matched, s->bytes[i]);
        if (rest != LX_UNTIL_NEVER)
            lx_ast_collect(s->a, &ways, lx_ast_pair(s->a, CAT, byte, rest));
    }
    lx_ast_collect(s->a, &ways, lx_ast_pair(s->a, CAT, s->others, rest_after(s, matched, OTHER)));
    lx_ast_define(s->a, *rule, lx_ast_take(s->a, ALT, &ways));
    return *rule;
}

/* Every byte of the marks, and the line feed where one of them counts after line feeds. */
static void list_bytes(search *s)
{
    lx_charset others = {.at = {{1, LX_MAX_CODEPOINT}}, .n = 1};
    for (int32_t i = 0; i < s->n; i++) {
        if (s->ways[i].first && memchr(s->bytes, '\n', (size_t)s->n_bytes) == NULL)
            s->bytes[s->n_bytes++] = '\n';
        for (const char *c = s->ways[i].mark; *c != '\0'; c++) {
            if (memchr(s->bytes, *c, (size_t)s->n_bytes) == NULL)
                s->bytes[s->n_bytes++] = *c;
        }
    }
    for (int32_t i = 0; i < s->n_bytes; i++) {
        unsigned char byte = (unsigned char)s->bytes[i];
        if (byte < 0x80)
            lx_charset_cut(s->a, &others, byte, byte);
    }
    s->others = lx_ast_set(s->a, others.at, others.n);
}

int32_t lx_text_until(lx_ast *a, const lx_passage *ways, int32_t n, bool may_end)
{
    search s = {.a = a, .ways = ways, .n = n, .may_end = may_end};
    const int32_t begin[MOST_WAYS] = {0, 0};
    list_bytes(&s);
    return lx_ast_call(a, state_rule(&s, begin));
}
