/*
 * The text of a template to tokens, as jinja2's lexer cuts it with trim_blocks and lstrip_blocks. A
 * line feed after a block goes, and so do blanks before a block that begins its line. A "-" next to
 * a delimiter takes all white space on its side, a "+" keeps it.
 */
#include <stdlib.h>
#include <string.h>

#include "common/hex.h"
#include "model/jinja/internal.h"
#include "model/utf8.h"

#define wrong(l, ...) lx_jinja_fail((l)->arena, LX_ERR_FORMAT, __VA_ARGS__)

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

/* The byte at a place; NUL after the end. */
static char byte_at(const lexer *l, size_t at)
{
    return at < l->n ? l->bytes[at] : '\0';
}

static bool is_sign(char c)
{
    return c == '-' || c == '+';
}

static bool begins(const lexer *l, size_t at, const char *word)
{
    size_t n = strlen(word);
    return at <= l->n && n <= l->n - at && memcmp(l->bytes + at, word, n) == 0;
}

static size_t after_blanks(const lexer *l, size_t at)
{
    while (at < l->n && is_blank(l->bytes[at]))
        at++;
    return at;
}

/* Goes on at a later place. */
static void move_to(lexer *l, size_t at)
{
    for (; l->at < at; l->at++)
        l->line += l->bytes[l->at] == '\n';
    l->arena->line = l->line;
}

/* Moves past the end of a delimiter ("%}" and such, after its sign), and the white space that goes
   with it. */
static void end_of(lexer *l, bool block)
{
    char sign = byte_at(l, l->at);
    l->at += is_sign(sign) + 2U;
    l->strips = sign == '-';
    l->line_starts = block && !is_sign(sign) && byte_at(l, l->at) == '\n';
    if (l->line_starts)
        move_to(l, l->at + 1);
}

/* The place after the data: a delimiter, or the end. */
static size_t find_delimiter(const lexer *l)
{
    for (size_t i = l->at; i + 1 < l->n; i++) {
        char next = l->bytes[i + 1];
        if (l->bytes[i] == '{' && (next == '{' || next == '%' || next == '#'))
            return i;
    }
    return l->n;
}

/* The end of the data before the delimiter at `end`, without the white space that goes. */
static size_t strip_end(const lexer *l, size_t end)
{
    char sign = byte_at(l, end + 2);
    size_t first = end;
    if (end == l->n || (sign != '-' && (sign == '+' || l->bytes[end + 1] == '{')))
        return end;
    while (first > l->at && is_blank(l->bytes[first - 1]) &&
           (sign == '-' || l->bytes[first - 1] != '\n'))
        first--;
    bool whole_line = first > l->at ? l->bytes[first - 1] == '\n' : l->line_starts;
    return sign == '-' || whole_line ? first : end;
}

static void skip_comment(lexer *l)
{
    size_t first = l->at + 2, end = first;
    while (!begins(l, end, "#}")) {
        if (end++ >= l->n)
            wrong(l, "a comment has no end");
    }
    move_to(l, end - (end > first && is_sign(l->bytes[end - 1])));
    end_of(l, true);
}

/* Whether a block of one word begins at `at`. *end is the place of its "%}", or of the sign before.
 */
static bool is_block_of(const lexer *l, size_t at, const char *word, size_t *end)
{
    if (!begins(l, at, "{%"))
        return false;
    at = after_blanks(l, at + 2U + is_sign(byte_at(l, at + 2)));
    if (!begins(l, at, word))
        return false;
    *end = after_blanks(l, at + strlen(word));
    return begins(l, *end + is_sign(byte_at(l, *end)), "%}");
}

/* {% raw %} at hand: its text, up to {% endraw %}. False: another block. */
static bool lex_raw(lexer *l, token *t)
{
    size_t end = 0;
    if (!is_block_of(l, l->at, "raw", &end) || l->bytes[end] == '+')
        return false;
    bool strips = l->bytes[end] == '-';
    move_to(l, end + 2U + strips);
    if (strips)
        move_to(l, after_blanks(l, l->at));
    size_t last = l->at;
    while (!is_block_of(l, last, "endraw", &end)) {
        if (last++ >= l->n)
            wrong(l, "raw has no endraw");
    }
    t->text = (span){.bytes = l->bytes + l->at, .n = strip_end(l, last) - l->at};
    move_to(l, end);
    end_of(l, true);
    return true;
}

static token lex_data(lexer *l)
{
    for (;;) {
        if (l->strips)
            move_to(l, after_blanks(l, l->at));
        l->strips = false;
        token t = {.kind = T_DATA, .line = l->line};
        size_t first = l->at, end = find_delimiter(l), last = strip_end(l, end);
        if (last > first || first == l->n) {
            t.kind = first == l->n ? T_END : T_DATA;
            t.text = (span){.bytes = l->bytes + first, .n = last - first};
            move_to(l, end); /* the delimiter is next, without the white space before it */
            return t;
        }
        move_to(l, end);
        if (begins(l, end, "{#")) {
            skip_comment(l);
            continue;
        }
        bool block = begins(l, end, "{%");
        if (block && lex_raw(l, &t))
            return t;
        t = (token){.kind = T_SIGN, .line = l->line, .text = make_span(block ? "{%" : "{{")};
        l->at += 2U + is_sign(byte_at(l, end + 2));
        l->end = block ? "%}" : "}}";
        l->line_starts = false;
        return t;
    }
}

/* \x, \u and \U with their digits: UTF-8 to out; returns the bytes written. */
static size_t put_codepoint(lexer *l, char kind, char *out)
{
    size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
    uint32_t code = 0;
    for (size_t i = 0; i < digits; i++, l->at++) {
        int digit = lx_hex_digit(byte_at(l, l->at));
        if (digit < 0 || code > 0x10fff)
            wrong(l, "a string has a wrong \\%c", kind);
        code = code * 16 + (uint32_t)digit;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        wrong(l, "a string has a wrong \\%c", kind);
    return lx_utf8_put(code, out);
}

/* The escape after its backslash: its characters to out; returns the bytes written. */
static size_t unescape(lexer *l, char *out)
{
    static const char letters[] = "ntrbfva\\'\"", characters[] = "\n\t\r\b\f\v\a\\'\"";
    char c = l->bytes[l->at++];
    const char *known = c != '\0' ? strchr(letters, c) : NULL;
    if (c == 'x' || c == 'u' || c == 'U')
        return put_codepoint(l, c, out);
    if (c >= '0' && c <= '7')
        lx_jinja_fail(l->arena, LX_ERR_UNSUPPORTED, "octal escapes in strings are not implemented");
    if (c == '\n')
        return 0;
    out[0] = known != NULL ? characters[known - letters] : '\\';
    out[1] = c;
    return known != NULL ? 1 : 2;
}

static token lex_string(lexer *l)
{
    char quote = l->bytes[l->at++];
    token t = {.kind = T_TEXT, .line = l->line};
    size_t end = l->at, n = 0;
    while (end < l->n && l->bytes[end] != quote)
        end += l->bytes[end] == '\\' ? 2 : 1;
    if (end >= l->n)
        wrong(l, "a string has no end");
    char *out = lx_jinja_alloc(l->arena, end - l->at + 1); /* no escape is shorter than its bytes */
    while (l->at < end) {
        char c = l->bytes[l->at++];
        l->line += c == '\n';
        if (c != '\\')
            out[n++] = c;
        else
            n += unescape(l, out + n);
    }
    l->at = end + 1;
    t.text = (span){.bytes = out, .n = n};
    return t;
}

static token lex_number(lexer *l)
{
    token t = {.kind = T_NUMBER, .line = l->line};
    bool real = false;
    char digits[64];
    size_t n = 0;
    for (; l->at < l->n && n + 1 < sizeof digits; l->at++) {
        char c = l->bytes[l->at], next = byte_at(l, l->at + 1);
        bool point = c == '.' && !real && is_digit(next);
        bool exponent = (c == 'e' || c == 'E') && (is_digit(next) || next == '-');
        bool sign = c == '-' && n > 0 && (digits[n - 1] == 'e' || digits[n - 1] == 'E');
        if (!is_digit(c) && !point && !exponent && !sign && c != '_')
            break;
        real = real || point || exponent;
        if (c != '_')
            digits[n++] = c;
    }
    digits[n] = '\0';
    if (n + 1 >= sizeof digits || (!real && n > 18))
        lx_jinja_fail(l->arena, LX_ERR_UNSUPPORTED, "the number %s is too long", digits);
    t.number = real ? make_real(strtod(digits, NULL)) : make_whole(strtoll(digits, NULL, 10));
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
        token t = {.kind = T_SIGN, .line = l->line, .text = make_span(signs[i])};
        l->at += t.text.n;
        if (strchr("([{", signs[i][0]) != NULL)
            l->brackets++;
        if (strchr(")]}", signs[i][0]) != NULL && --l->brackets < 0)
            wrong(l, "%s has no beginning", signs[i]);
        return t;
    }
    wrong(l, "the character %c (%d) has no meaning here", l->bytes[l->at],
          (unsigned char)l->bytes[l->at]);
}

token lx_jinja_next(lexer *l)
{
    if (l->end == NULL)
        return lex_data(l);
    move_to(l, after_blanks(l, l->at));
    if (l->at >= l->n)
        wrong(l, "%s has no end", l->end[0] == '%' ? "{%" : "{{");
    char c = l->bytes[l->at];
    bool block = l->end[0] == '%', sign = c == '-' || (c == '+' && block);
    if (l->brackets == 0 && begins(l, l->at + sign, l->end)) {
        token t = {.kind = T_SIGN, .line = l->line, .text = make_span(l->end)};
        end_of(l, block);
        l->end = NULL;
        return t;
    }
    if (c == '\'' || c == '"')
        return lex_string(l);
    if (is_digit(c))
        return lex_number(l);
    if (!is_letter(c))
        return lex_sign(l);
    size_t first = l->at;
    while (is_letter(byte_at(l, l->at)) || is_digit(byte_at(l, l->at)))
        l->at++;
    return (token){
        .kind = T_NAME, .line = l->line, .text = {.bytes = l->bytes + first, .n = l->at - first}};
}
