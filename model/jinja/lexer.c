/*
 * The text of a template to tokens, as jinja2's lexer cuts it with trim_blocks and lstrip_blocks:
 * a line feed after a block goes, and so do blanks before a block that begins its line; "-" next to
 * a delimiter takes all white space on its side, "+" keeps it.
 */
#include <stdlib.h>
#include <string.h>

#include "model/jinja/internal.h"
#include "model/utf8.h"

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool begins(const lexer *l, size_t at, const char *word)
{
    size_t n = strlen(word);
    return n <= l->n - at && memcmp(l->bytes + at, word, n) == 0;
}

static void count_lines(lexer *l, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        l->line += l->bytes[i] == '\n';
    l->arena->line = l->line;
}

static void skip_blanks(lexer *l)
{
    size_t first = l->at;
    while (l->at < l->n && is_blank(l->bytes[l->at]))
        l->at++;
    count_lines(l, first, l->at);
}

/* Moves past a delimiter's end ("%}" and such) at `at`, and what goes with it. */
static void end_of(lexer *l, bool block)
{
    char sign = l->bytes[l->at];
    l->at += (sign == '-' || sign == '+') + 2U;
    l->strips = sign == '-';
    l->line_starts = false;
    if (block && sign != '-' && sign != '+' && l->at < l->n && l->bytes[l->at] == '\n') {
        l->at++;
        count_lines(l, l->at - 1, l->at);
        l->line_starts = true;
    }
}

/* Where the data at `at` ends: before a delimiter, or at the end. */
static size_t find_delimiter(const lexer *l)
{
    for (size_t i = l->at; i + 1 < l->n; i++) {
        if (l->bytes[i] == '{' && strchr("{%#", l->bytes[i + 1]) != NULL && l->bytes[i + 1] != '\0')
            return i;
    }
    return l->n;
}

/* The end of the data before the delimiter at `end`, without the white space that goes. */
static size_t strip_end(const lexer *l, size_t end)
{
    if (end == l->n)
        return end;
    char sign = end + 2 < l->n ? l->bytes[end + 2] : ' ';
    size_t first = end;
    if (sign == '-') {
        while (first > l->at && is_blank(l->bytes[first - 1]))
            first--;
        return first;
    }
    if (sign == '+' || l->bytes[end + 1] == '{')
        return end;
    while (first > l->at && is_blank(l->bytes[first - 1]) && l->bytes[first - 1] != '\n')
        first--;
    bool whole_line = first > l->at ? l->bytes[first - 1] == '\n' : l->line_starts;
    return whole_line ? first : end;
}

static void skip_comment(lexer *l)
{
    size_t first = l->at;
    for (l->at += 2; !begins(l, l->at, "#}"); l->at++) {
        if (l->at >= l->n)
            lx_jinja_fail(l->arena, LX_ERR_FORMAT, "a comment has no end");
    }
    count_lines(l, first, l->at);
    char before = l->bytes[l->at - 1];
    bool has_sign = l->at > first + 2 && (before == '-' || before == '+');
    l->at -= has_sign;
    end_of(l, true);
}

/* {% raw %} at `at`: its text, up to {% endraw %}. False: another block. */
static bool lex_raw(lexer *l, token *t)
{
    lexer ahead = *l;
    ahead.at += 2U + (begins(l, l->at + 2, "-") || begins(l, l->at + 2, "+"));
    skip_blanks(&ahead);
    if (!begins(&ahead, ahead.at, "raw"))
        return false;
    ahead.at += 3;
    skip_blanks(&ahead);
    if (!begins(&ahead, ahead.at + (begins(&ahead, ahead.at, "-")), "%}"))
        return false;
    bool cuts = begins(&ahead, ahead.at, "-");
    ahead.at += 2U + cuts;
    if (cuts)
        skip_blanks(&ahead);
    for (size_t i = ahead.at; i < l->n; i++) {
        if (!begins(l, i, "{%"))
            continue;
        lexer end = ahead;
        end.at = i + 2U + (begins(l, i + 2, "-") || begins(l, i + 2, "+"));
        skip_blanks(&end);
        if (!begins(&end, end.at, "endraw"))
            continue;
        end.at += 6;
        skip_blanks(&end);
        if (!begins(&end, end.at + (begins(&end, end.at, "-") || begins(&end, end.at, "+")), "%}"))
            continue;
        size_t last = strip_end(&ahead, i);
        t->text = (span){.bytes = l->bytes + ahead.at, .n = last - ahead.at};
        size_t first = l->at;
        l->at = end.at;
        count_lines(l, first, l->at);
        end_of(l, true);
        return true;
    }
    lx_jinja_fail(l->arena, LX_ERR_FORMAT, "raw has no endraw");
}

static token lex_data(lexer *l)
{
    for (;;) {
        if (l->strips)
            skip_blanks(l);
        l->strips = false;
        token t = {.kind = T_DATA, .line = l->line};
        size_t end = find_delimiter(l), last = strip_end(l, end);
        if (last > l->at || l->at == l->n) {
            t.kind = l->at == l->n ? T_END : T_DATA;
            t.text = (span){.bytes = l->bytes + l->at, .n = last - l->at};
            count_lines(l, l->at, end);
            l->at = end; /* the delimiter is next, without the white space before it */
            return t;
        }
        count_lines(l, l->at, end);
        l->at = end;
        if (begins(l, l->at, "{#")) {
            skip_comment(l);
            continue;
        }
        bool block = begins(l, l->at, "{%");
        if (block && lex_raw(l, &t))
            return t;
        t.line = l->line;
        l->at += 2;
        l->at += l->at < l->n && (l->bytes[l->at] == '-' || l->bytes[l->at] == '+');
        l->inside = block ? 1 : 2;
        t.kind = block ? T_BLOCK_BEGIN : T_OUTPUT_BEGIN;
        l->line_starts = false;
        return t;
    }
}

/* The character that an escape stands for, after its backslash; 0: the backslash stays. */
static char unescape(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'v':
        return '\v';
    case 'a':
        return '\a';
    case '\\':
    case '\'':
    case '"':
        return c;
    default:
        return '\0';
    }
}

/* \x, \u and \U with their digits: UTF-8 to out; returns the bytes written. */
static size_t put_codepoint(lexer *l, char kind, char *out)
{
    size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
    uint32_t code = 0;
    for (size_t i = 0; i < digits; i++) {
        const char *hex = "0123456789abcdefABCDEF", *at = NULL;
        char c = l->at < l->n ? l->bytes[l->at++] : '\0';
        at = c == '\0' ? NULL : strchr(hex, c);
        if (at == NULL || code > 0x10fff)
            lx_jinja_fail(l->arena, LX_ERR_FORMAT, "a string has a wrong \\%c", kind);
        code = code * 16 + (uint32_t)(at - hex < 16 ? at - hex : at - hex - 6);
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        lx_jinja_fail(l->arena, LX_ERR_FORMAT, "a string has a wrong \\%c", kind);
    return lx_utf8_put(code, out);
}

static token lex_string(lexer *l)
{
    char quote = l->bytes[l->at++];
    char *out = lx_jinja_alloc(l->arena, l->n - l->at < 4096 ? l->n - l->at + 1 : 4096);
    size_t room = l->n - l->at < 4096 ? l->n - l->at + 1 : 4096, n = 0;
    token t = {.kind = T_TEXT, .line = l->line};
    for (;;) {
        if (l->at >= l->n)
            lx_jinja_fail(l->arena, LX_ERR_FORMAT, "a string has no end");
        if (n + 5 > room) {
            out = lx_jinja_grow(l->arena, out, n, 2 * room + 8, 1);
            room = 2 * room + 8;
        }
        char c = l->bytes[l->at++];
        if (c == quote)
            break;
        if (c == '\n')
            l->line++;
        if (c != '\\' || l->at >= l->n) {
            out[n++] = c;
            continue;
        }
        char next = l->bytes[l->at++];
        if (next == 'x' || next == 'u' || next == 'U')
            n += put_codepoint(l, next, out + n);
        else if (unescape(next) != '\0')
            out[n++] = unescape(next);
        else if (next >= '0' && next <= '7')
            lx_jinja_fail(l->arena, LX_ERR_UNSUPPORTED,
                          "octal escapes in strings are not implemented");
        else if (next != '\n') {
            out[n++] = '\\';
            out[n++] = next;
        }
    }
    t.text = (span){.bytes = out, .n = n};
    return t;
}

static token lex_number(lexer *l)
{
    token t = {.kind = T_WHOLE, .line = l->line};
    char digits[64];
    size_t n = 0;
    for (; l->at < l->n && n + 1 < sizeof digits; l->at++) {
        char c = l->bytes[l->at];
        bool point =
            c == '.' && t.kind == T_WHOLE && l->at + 1 < l->n && is_digit(l->bytes[l->at + 1]);
        bool exponent = (c == 'e' || c == 'E') && l->at + 1 < l->n &&
                        (is_digit(l->bytes[l->at + 1]) || l->bytes[l->at + 1] == '-');
        bool sign = c == '-' && n > 0 && (digits[n - 1] == 'e' || digits[n - 1] == 'E');
        if (!is_digit(c) && !point && !exponent && !sign && c != '_')
            break;
        if (point || exponent)
            t.kind = T_REAL;
        if (c != '_')
            digits[n++] = c;
    }
    digits[n] = '\0';
    if (n + 1 >= sizeof digits || (t.kind == T_WHOLE && n > 18))
        lx_jinja_fail(l->arena, LX_ERR_UNSUPPORTED, "the number %s is too long", digits);
    t.whole = t.kind == T_WHOLE ? strtoll(digits, NULL, 10) : 0;
    t.real = strtod(digits, NULL);
    return t;
}

static token lex_sign(lexer *l)
{
    static const char *const signs[] = {"//", "**", "==", "!=", "<=", ">=", "+", "-", "/",
                                        "*",  "%",  "~",  "<",  ">",  "=",  "(", ")", "[",
                                        "]",  "{",  "}",  ".",  ",",  ":",  "|", ";"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (!begins(l, l->at, signs[i]))
            continue;
        token t = {.kind = T_SIGN, .line = l->line};
        t.text = (span){.bytes = signs[i], .n = strlen(signs[i])};
        l->at += t.text.n;
        if (strchr("([{", signs[i][0]) != NULL)
            l->brackets++;
        if (strchr(")]}", signs[i][0]) != NULL && --l->brackets < 0)
            lx_jinja_fail(l->arena, LX_ERR_FORMAT, "%s has no beginning", signs[i]);
        return t;
    }
    lx_jinja_fail(l->arena, LX_ERR_FORMAT, "the character %c (%d) has no meaning here",
                  l->bytes[l->at], (unsigned char)l->bytes[l->at]);
}

token lx_jinja_next(lexer *l)
{
    if (l->inside == 0)
        return lex_data(l);
    skip_blanks(l);
    if (l->at >= l->n)
        lx_jinja_fail(l->arena, LX_ERR_FORMAT, "%s has no end", l->inside == 1 ? "{%" : "{{");
    const char *end = l->inside == 1 ? "%}" : "}}";
    char c = l->bytes[l->at];
    bool sign = c == '-' || (c == '+' && l->inside == 1);
    if (l->brackets == 0 && begins(l, l->at + sign, end)) {
        token t = {.kind = l->inside == 1 ? T_BLOCK_END : T_OUTPUT_END, .line = l->line};
        end_of(l, l->inside == 1);
        l->inside = 0;
        return t;
    }
    if (c == '\'' || c == '"')
        return lex_string(l);
    if (is_digit(c))
        return lex_number(l);
    if (!is_letter(c))
        return lex_sign(l);
    token t = {.kind = T_NAME, .line = l->line};
    size_t first = l->at;
    while (l->at < l->n && (is_letter(l->bytes[l->at]) || is_digit(l->bytes[l->at])))
        l->at++;
    t.text = (span){.bytes = l->bytes + first, .n = l->at - first};
    return t;
}
