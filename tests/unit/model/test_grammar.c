/*
 * The automaton of grammars and its places: the texts that it accepts are those of the language,
 * masks are the tokens whose bytes can follow, also after memory was forgotten, and every failing
 * allocation is reported. Then the calls of tools: the grammar accepts each format's own texts, and
 * the reader gives the same calls however the text is cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "model/grammar/calls.h"
#include "model/grammar/grammar.h"
#include "model/grammar/places.h"
#include "model/grammar/readers.h"
#include "tests/support/failing.h"

enum { N_IDS = 274, END = 0, MOST_TEXT = 512 };

/* Token 0 ends an answer, 1 to 256 are the bytes, others have several. */
static const char *const longer[] = {"ab",   "abc", "a,b",  "\": \"", "\"}", "{\"",
                                     "true", "é",   "\xc3", "\xa9x",  "((",  "))",
                                     "aaaa", "  ",  "12",   "}\n",    "<"};
static char single[256];

static const char *bytes_of(const void *context, int32_t id, size_t *n)
{
    (void)context;
    *n = id == END || id >= N_IDS ? 0 : id <= 256 ? 1 : strlen(longer[id - 257]);
    return id == END || id >= N_IDS ? NULL : id <= 256 ? &single[id - 1] : longer[id - 257];
}

static const int32_t ends[] = {END}, n_ends = 1;

static lx_words words_of_test(void)
{
    for (int i = 0; i < 256; i++)
        single[i] = (char)i;
    return (lx_words){.n_ids = N_IDS, .n_ends = &n_ends, .ends = ends, .bytes_of = bytes_of};
}

typedef struct machine {
    lx_words words;
    lx_automaton automaton;
    lx_places *places;
} machine;

static lx_status try_machine(machine *m, lx_shape_kind kind, const char *text, lx_error *err)
{
    lx_ast a;
    *m = (machine){.words = words_of_test()};
    lx_status st = lx_words_make(&m->words, err);
    if (st != LX_OK)
        return st;
    lx_ast_init(&a, "grammar", err);
    if (kind == LX_SHAPE_GBNF)
        lx_grammar_read_gbnf(&a, text, strlen(text));
    else if (kind == LX_SHAPE_SCHEMA)
        lx_ast_define(&a, 0, lx_grammar_schema_tree(&a, text, strlen(text)));
    else if (kind == LX_SHAPE_CALLS)
        lx_grammar_read_calls(&a, text, strlen(text));
    else if (kind == LX_SHAPE_CHOICE)
        lx_grammar_read_choice(&a, text, strlen(text));
    else
        lx_ast_define(&a, 0,
                      lx_grammar_read_regex(&a, text, strlen(text),
                                            &(lx_regex_use){.spell = lx_spell_plain, .most = -1}));
    st = lx_automaton_make(&m->automaton, &a, m->words.deepest);
    lx_ast_fini(&a);
    return st == LX_OK ? lx_places_new(&m->automaton, &m->words, &m->places, err) : st;
}

static void machine_fini(machine *m)
{
    lx_places_free(m->places);
    lx_automaton_fini(&m->automaton);
    lx_words_fini(&m->words);
}

static void make_machine(machine *m, lx_shape_kind kind, const char *text)
{
    lx_error err = {0};
    lx_status st = try_machine(m, kind, text, &err);
    if (st != LX_OK)
        print_error("%s: %s\n", text, err.text);
    assert_int_equal(st, LX_OK);
}

/* The place after the bytes, one by one. */
static int32_t place_after(machine *m, const char *text, size_t n)
{
    int32_t place = lx_places_first(m->places);
    for (size_t i = 0; i < n && place > 0; i++)
        place = lx_places_step(m->places, place, (uint8_t)text[i]);
    assert_true(place >= 0);
    return place;
}

static bool accepts(machine *m, const char *text)
{
    int32_t place = place_after(m, text, strlen(text));
    return place > 0 && lx_places_may_end(m->places, place);
}

/* --- the language --- */

/* Every text of at most `most` letters of "abc" is accepted exactly where it is in the list. */
static void check_language(lx_shape_kind kind, const char *source, int most, const char *list)
{
    machine m;
    char text[8] = "";
    make_machine(&m, kind, source);
    for (int length = 0, count = 1; length <= most; length++, count *= 3) {
        for (int number = 0; number < count; number++) {
            char between[12];
            for (int i = 0, rest = number; i < length; i++, rest /= 3)
                text[i] = "abc"[rest % 3];
            text[length] = '\0';
            (void)snprintf(between, sizeof between, " %s ", text);
            bool wanted = strstr(list, between) != NULL;
            bool accepted = accepts(&m, text);
            if (accepted != wanted)
                print_error("%s: '%s'\n", source, text);
            assert_int_equal(accepted, wanted);
        }
    }
    machine_fini(&m);
}

static void texts_are_those_of_the_language(void **state)
{
    (void)state;
    check_language(LX_SHAPE_REGEX, "a|bc|", 3, "  a bc ");
    check_language(LX_SHAPE_REGEX, "(ab?){1,2}", 4, " a ab aa aba aab abab ");
    check_language(LX_SHAPE_REGEX, "[^a]c*", 3, " b c bc cc bcc ccc ");
    check_language(LX_SHAPE_REGEX, "a+(b|c)a", 4, " aba aca aaba aaca ");
    check_language(LX_SHAPE_GBNF, "root ::= \"a\" root \"b\" | \"c\"", 5, " c acb aacbb ");
    check_language(LX_SHAPE_GBNF, "root ::= x | y\nx ::= \"a\" \"b\"\ny ::= \"a\" [b-c]", 2,
                   " ab ac ");
    check_language(LX_SHAPE_GBNF, "root ::= (\"a\" | \"ab\") (\"c\" | \"bc\")", 4, " ac abc abbc ");
    check_language(LX_SHAPE_GBNF, "root ::= \"a\"? root2\nroot2 ::= \"b\" root2 | \"\"", 3,
                   "  a b ab bb abb bbb ");
    check_language(LX_SHAPE_CHOICE, "[\"ab\", \"b\", \"abc\", \"a\", \"bca\", \"b\", \"abbc\"]", 4,
                   " a ab abc abbc b bca ");
}

/* A schema of numbers, and those that it allows. */
typedef struct numbers {
    const char *source;
    double low, high;
    int step; /* whole parts are multiples of it */
    bool whole;
} numbers;

/* The place after one more byte; 0 is none, from which no byte leads. */
static int32_t after(machine *m, int32_t place, char byte)
{
    return place > 0 ? lx_places_step(m->places, place, (uint8_t)byte) : 0;
}

/* The number whose text leads to this place is accepted exactly where the bounds allow it. */
static void check_number(const machine *m, const numbers *n, int32_t place, int hundredths)
{
    double x = hundredths / 100.0;
    bool is_whole = hundredths % 100 == 0;
    bool wanted = x >= n->low && x <= n->high && (is_whole || !n->whole) &&
                  abs(hundredths) / 100 % n->step == 0;
    bool accepted = place > 0 && lx_places_may_end(m->places, place);
    if (accepted != wanted)
        print_error("%s: %g\n", n->source, x);
    assert_int_equal(accepted, wanted);
}

/* A whole number, and those of one and two decimals that begin with its text. */
static void check_decimals(machine *m, const numbers *n, bool negative, int whole)
{
    char text[32];
    int sign = negative ? -1 : 1;
    (void)snprintf(text, sizeof text, "%s%d", negative ? "-" : "", whole);
    int32_t place = place_after(m, text, strlen(text));
    if (!negative || whole > 0)
        check_number(m, n, place, sign * whole * 100);
    place = after(m, place, '.');
    for (int tenth = 0; tenth < 10; tenth++) {
        int32_t one = after(m, place, (char)('0' + tenth));
        if (tenth > 0)
            check_number(m, n, one, sign * (whole * 100 + tenth * 10));
        for (int i = 0; i < 10; i++) {
            int32_t two = after(m, one, (char)('0' + i));
            if (tenth > 0 || i > 0)
                check_number(m, n, two, sign * (whole * 100 + tenth * 10 + i));
        }
    }
}

static void check_numbers(const char *source, double low, double high, int step, bool whole)
{
    const numbers n = {source, low, high, step, whole};
    machine m;
    make_machine(&m, LX_SHAPE_SCHEMA, source);
    for (int i = 0; i <= 2600; i++) {
        if (i % 5 == 0)
            lx_places_clear(m.places); /* before they are full */
        check_decimals(&m, &n, i > 1300, i > 1300 ? i - 1301 : i);
    }
    machine_fini(&m);
}

static void numbers_keep_their_bounds(void **state)
{
    (void)state;
#define NUMBER "{\"type\": \"number\", "
#define INTEGER "{\"type\": \"integer\", "
    check_numbers(NUMBER "\"minimum\": -7.25, \"maximum\": 3.1}", -7.25, 3.1, 1, false);
    check_numbers(NUMBER "\"exclusiveMinimum\": -0.5, \"exclusiveMaximum\": 0.07}", -0.49, 0.06, 1,
                  false);
    check_numbers(NUMBER "\"exclusiveMinimum\": 99.9, \"maximum\": 1000}", 99.91, 1000, 1, false);
    check_numbers(NUMBER "\"exclusiveMaximum\": -12.3, \"minimum\": -3e38}", -1e9, -12.31, 1,
                  false);
    check_numbers(INTEGER "\"minimum\": -9007199254740991, \"maximum\": 17.5}", -1e9, 17, 1, true);
    check_numbers(INTEGER "\"multipleOf\": 7}", -1e9, 1e9, 7, true);
    check_numbers(INTEGER "\"multipleOf\": 20, \"minimum\": -101, \"exclusiveMaximum\": 1200}",
                  -101, 1199, 20, true);
    check_numbers(NUMBER "\"multipleOf\": 100, \"exclusiveMinimum\": 0}", 1, 1e9, 100, true);
}

/* A schema, texts that it allows and texts that it does not, with a blank between two. */
typedef struct choice {
    const char *source, *yes, *no;
} choice;

static void check_choices(const choice *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        machine m;
        make_machine(&m, LX_SHAPE_SCHEMA, cases[i].source);
        for (int wanted = 0; wanted < 2; wanted++) {
            char list[128], *rest = NULL;
            (void)snprintf(list, sizeof list, "%s", wanted ? cases[i].yes : cases[i].no);
            for (char *text = strtok_r(list, " ", &rest); text != NULL;
                 text = strtok_r(NULL, " ", &rest))
                assert_int_equal(accepts(&m, text), wanted);
        }
        machine_fini(&m);
    }
}

/* Bounds of up to 15 digits count, and those beyond hold for all numbers that are written. */
static void numbers_keep_far_bounds(void **state)
{
    (void)state;
    static const choice cases[] = {
        {INTEGER "\"minimum\": 1, \"maximum\": 100000000000005}",
         "1 7 100000000000005 99999999999999", "0 -1 100000000000006 268033030323661"},
        {INTEGER "\"minimum\": 100000000000000, \"maximum\": 100000000000005}",
         "100000000000000 100000000000005", "99999999999999 100000000000006 5 283721303733243"},
        {INTEGER "\"minimum\": -100000000000005, \"maximum\": -1}", "-1 -100000000000005",
         "-100000000000006 0 1 -680330303226613"},
        {INTEGER "\"minimum\": 0, \"maximum\": 18446744073709551615}", "0 999999999999999", "-1"},
        {INTEGER "\"minimum\": 5000000000000, \"multipleOf\": 1000}", "5000000000000 5000000001000",
         "4999999999000 5000000000001"},
        {NUMBER "\"minimum\": 100000000000, \"maximum\": 100000000005}",
         "100000000000 100000000004.5 100000000005", "3333388883627 100000000005.1 99999999999.9"},
        {NUMBER "\"minimum\": 1600000000000}", "1600000000000 1700000000000.2 16000000000000",
         "1599999999999.9 1"},
        {NUMBER "\"minimum\": 0.25, \"maximum\": 900000000000000}", "1 900000000000000",
         "0 0.1 900000000000001"},
    };
    check_choices(cases, sizeof cases / sizeof *cases);
}

/* Repeats are narrowed until every text has a length that the schema allows. */
static void patterns_keep_their_lengths(void **state)
{
    (void)state;
    static const choice cases[] = {
        {"{\"pattern\": \"^[a-z]+$\", \"minLength\": 2, \"maxLength\": 4}", "\"ab\" \"abcd\"",
         "\"a\" \"abcde\""},
        {"{\"pattern\": \"^(a|bb)*$\", \"maxLength\": 5}", "\"\" \"abb\" \"bbbb\"", "\"bbbbbb\""},
        {"{\"pattern\": \"\\\"\", \"maxLength\": 3}", "\"\\\"\" \"a\\\"b\"", "\"ab\\\"c\""},
        {"{\"format\": \"uuid\", \"minLength\": 1, \"maxLength\": 36}",
         "\"12345678-1234-1234-1234-123456789abc\"", "\"\""},
    };
    check_choices(cases, sizeof cases / sizeof *cases);
}

/* --- masks --- */

static const struct {
    lx_shape_kind kind;
    const char *source;
} grammars[] = {
    {LX_SHAPE_REGEX, "(a|ab|abc){0,20}(,b)*"},
    {LX_SHAPE_REGEX, ".{0,9}"},
    {LX_SHAPE_REGEX, "[aé]{3,40}x?"},
    {LX_SHAPE_GBNF,
     "root ::= \"(\" root \")\" | \"a\"+ | item\nitem ::= \"ab\" root \"c\" | \"12\""},
    {LX_SHAPE_SCHEMA, "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\"}, "
                      "\"aa\": {\"enum\": [true, 12, \"é\"]}}, \"required\": [\"a\"]}"},
    {LX_SHAPE_SCHEMA, "{\"type\": \"array\", \"items\": {\"$ref\": \"#\"}}"},
    {LX_SHAPE_SCHEMA, ""},
    {LX_SHAPE_CHOICE, "[\"é\", \"ê\", \"ab\", \"abc\", \"a,b12\", \"aaaaa\"]"},
};

/* An id may follow where its bytes lead to a place, or where it ends a text that may end. */
static void check_mask(machine *m, int32_t place, const uint32_t *bits, int32_t n, int32_t only)
{
    int32_t count = 0, last = -1;
    for (int32_t id = 0; id < N_IDS; id++) {
        bool wanted = id == END ? lx_places_may_end(m->places, place)
                                : lx_places_step_token(m->places, place, id) > 0;
        assert_int_equal(bits[id / 32] >> (id % 32) & 1, wanted);
        count += wanted;
        last = wanted ? id : last;
    }
    assert_int_equal(n, count < LX_MASK_MANY ? count : LX_MASK_MANY);
    assert_int_equal(only, count == 1 ? last : -1);
}

static void masks_are_the_tokens_that_may_follow(void **state)
{
    (void)state;
    uint32_t seed = 1, bits[(N_IDS + 31) / 32];
    for (size_t g = 0; g < sizeof grammars / sizeof *grammars; g++) {
        machine m;
        make_machine(&m, grammars[g].kind, grammars[g].source);
        for (int walk = 0; walk < 30; walk++) {
            int32_t place = lx_places_first(m.places), only = -1, id = -1;
            for (int step = 0; step < 25 && id != END; step++) {
                int32_t n = lx_places_mask(m.places, place, bits, &only);
                assert_true(n > 0);
                check_mask(&m, place, bits, n, only);
                seed = seed * 1664525 + 1013904223;
                id = (int32_t)(seed >> 8) % N_IDS;
                while ((bits[id / 32] >> (id % 32) & 1) == 0)
                    id = (id + 1) % N_IDS;
                place = id == END ? place : lx_places_step_token(m.places, place, id);
            }
        }
        machine_fini(&m);
    }
}

static void a_saved_place_is_found_again(void **state)
{
    (void)state;
    int32_t saved[256];
    uint32_t before[(N_IDS + 31) / 32], after[(N_IDS + 31) / 32];
    for (size_t g = 0; g < sizeof grammars / sizeof *grammars; g++) {
        machine m;
        int32_t only = -1;
        make_machine(&m, grammars[g].kind, grammars[g].source);
        int32_t place = lx_places_first(m.places);
        for (int i = 0; i < 4; i++) {
            int32_t n = lx_places_mask(m.places, place, before, &only);
            assert_int_equal(lx_places_save(m.places, place, saved, 2), -1);
            assert_true(lx_places_save(m.places, place, saved, 256) > 0);
            lx_places_clear(m.places);
            place = lx_places_restore(m.places, saved);
            assert_int_equal(lx_places_mask(m.places, place, after, &only), n);
            assert_memory_equal(before, after, sizeof before);
            int32_t id = 1;
            while (id < N_IDS && (after[id / 32] >> (id % 32) & 1) == 0)
                id++;
            if (id < N_IDS)
                place = lx_places_step_token(m.places, place, id);
        }
        machine_fini(&m);
    }
}

/* --- answers --- */

/* Masks of a follower, whatever its answers ask in between and however long they are, are those of
   a follower that has only this one. */
static void guesses_change_no_mask(void **state)
{
    (void)state;
    const lx_words words = words_of_test();
    const lx_shape shape = {LX_SHAPE_REGEX, "(a|b){0,90}c", 12, "regex", NULL};
    lx_grammars *all = NULL;
    lx_grammar *grammar = NULL;
    lx_follower *f = NULL, *alone = NULL;
    lx_error err = {0};
    int32_t one[64], other[64], only = -1;
    uint32_t bits[(N_IDS + 31) / 32], wanted[(N_IDS + 31) / 32];
    assert_int_equal(lx_grammars_new(&words, &all, &err), LX_OK);
    assert_int_equal(lx_grammars_get(all, &shape, &grammar, &err), LX_OK);
    assert_int_equal(lx_follower_new(grammar, 2, 0, &f, &err), LX_OK);
    for (int32_t i = 0; i < 64; i++) {
        one[i] = 1 + (i % 3 == 0 ? 'a' : 'b');
        other[i] = 1 + 'a';
    }
    for (int32_t step = 0; step < 60; step++) {
        int32_t guessed = one[step], n = lx_follower_mask(f, step, one, bits, &only);
        one[step] = 1 + 'c'; /* a guess that is replaced */
        (void)lx_follower_mask(f, step + 1, one, wanted, &only);
        one[step] = guessed;
        (void)lx_follower_mask(f, step / 2, other, wanted, &only);
        assert_int_equal(lx_grammars_get(all, &shape, &grammar, &err), LX_OK);
        assert_int_equal(lx_follower_new(grammar, 1, 0, &alone, &err), LX_OK);
        assert_int_equal(lx_follower_mask(alone, step, one, wanted, &only), n);
        assert_memory_equal(bits, wanted, sizeof bits);
        lx_follower_free(alone);
    }
    lx_follower_free(f);
    lx_grammars_free(all);
}

static void grammars_without_an_automaton_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"root ::= root \"a\" | \"b\"", "recursive to the left"},
                                         {"root ::= \"a\" root", "no text"},
                                         {"root ::= ((\"a\"{900}){900}){900}", "states"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        machine m;
        lx_error err = {0};
        assert_int_equal(try_machine(&m, LX_SHAPE_GBNF, bad[i][0], &err), LX_ERR_INVALID);
        assert_string_equal(err.param, "grammar");
        assert_non_null(strstr(err.text, bad[i][1]));
        machine_fini(&m);
    }
}

/* --- calls --- */

static const char TOOLS[] =
    "[{\"function\": {\"name\": \"sun\", \"parameters\": {\"type\": \"object\", \"properties\": "
    "{\"city\": {\"type\": \"string\"}, \"n\": {\"type\": [\"integer\", \"null\"]}, \"list\": "
    "{\"type\": \"array\", \"items\": {\"type\": \"boolean\"}}}, \"required\": [\"city\"]}}}, "
    "{\"function\": {\"name\": \"ping\"}}]";

#define ARGUMENTS "{\"city\": \"a \\\"<b>\\\" é\", \"n\": null, \"list\": [true, false]}"

/* Of each format a text with two calls, or one, of which both say the same. */
static const struct {
    const char *template, *text;
    int n;
} answers[] = {
    {"<tool_call> \"arguments\": ",
     "hm\n<tool_call>\n{\"name\": \"sun\", \"arguments\": " ARGUMENTS "}\n</tool_call>\n"
     "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>",
     2},
    {"<tool_call> <function=",
     "hm\n<tool_call>\n<function=sun>\n<parameter=city>\na \"<b>\" é\n</parameter>\n<parameter=n>\n"
     "null\n</parameter>\n<parameter=list>\n[true, false]\n</parameter>\n</function>\n</tool_call>"
     "\n<tool_call>\n<function=ping>\n</function>\n</tool_call>",
     2},
    {"<|tool_call_start|>",
     "hm\n<|tool_call_start|>[sun(city=\"a \\\"<b>\\\" é\", n=None, list=[True, False]), "
     "ping()]<|tool_call_end|>",
     2},
    {"<|tool_call|>",
     "hm\n<|tool_call|>[{\"name\": \"sun\", \"arguments\": " ARGUMENTS "}, {\"name\": \"ping\", "
     "\"arguments\": {}}]",
     2},
    {"<TOOLCALL>",
     "hm\n<TOOLCALL>[{\"name\": \"sun\", \"arguments\": " ARGUMENTS "}, {\"name\": \"ping\", "
     "\"arguments\": {}}]</TOOLCALL>",
     2},
    {"\"parameters\": ipython", "{\"name\": \"sun\", \"parameters\": " ARGUMENTS "}", 1},
};

static lx_status make_calls(const char *template, bool never, lx_calls **out, lx_error *err)
{
    json_t *tools = json_loads(TOOLS, 0, NULL);
    lx_call_rules rules = {.format = lx_call_format_find(template, false),
                           .tools = tools,
                           .never = never,
                           .parallel = true,
                           .field = "tool_choice"};
    assert_non_null(rules.format);
    lx_status st = lx_calls_new(&rules, out, err);
    json_decref(tools);
    return st;
}

/* Reads the text in pieces of n bytes. */
static void check_reading(const lx_calls *calls, size_t i, size_t n)
{
    lx_call_reader *r = NULL;
    lx_error err = {0};
    char text[MOST_TEXT] = "";
    const char *from = answers[i].text;
    size_t length = strlen(from);
    assert_int_equal(lx_call_reader_new(calls, MOST_TEXT, &r, &err), LX_OK);
    for (size_t at = 0; at < length; at += n) {
        size_t bytes = length - at < n ? length - at : n;
        assert_int_equal(lx_call_reader_put(r, from + at, bytes, at + n >= length, &err), LX_OK);
        const lx_buffer *part = lx_call_reader_text(r);
        if (part->length > 0)
            (void)strncat(text, part->data, part->length);
    }
    assert_string_equal(text, answers[i].n == 1 ? "" : "hm");
    assert_int_equal(lx_call_reader_n(r), answers[i].n);
    json_t *wanted = json_loads(ARGUMENTS, 0, NULL);
    json_t *got = json_loads(lx_call_reader_call(r, 0)->arguments.data, 0, NULL);
    assert_true(json_equal(wanted, got));
    json_decref(wanted);
    json_decref(got);
    for (int32_t k = 0; k < answers[i].n; k++) {
        const lx_read_call *call = lx_call_reader_call(r, k);
        assert_true(call->named && call->whole);
        assert_string_equal(call->name.data, k == 0 ? "sun" : "ping");
        if (k == 1)
            assert_string_equal(call->arguments.data, "{}");
    }
    lx_call_reader_free(r);
}

static void calls_are_read_as_they_are_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        lx_calls *calls = NULL;
        lx_error err = {0};
        size_t bytes = 0;
        machine m;
        assert_int_equal(make_calls(answers[i].template, false, &calls, &err), LX_OK);
        make_machine(&m, LX_SHAPE_CALLS, lx_calls_source(calls, &bytes));
        if (!accepts(&m, answers[i].text))
            print_error("%s\n", answers[i].text);
        assert_true(accepts(&m, answers[i].text));
        assert_true(accepts(&m, "any <text> {\"name\": of no call"));
        for (size_t n = 1; n < 40; n += n < 4 ? 1 : 7)
            check_reading(calls, i, n);
        machine_fini(&m);
        lx_calls_unref(calls);
    }
}

/* A text may have a part of the mark, and goes on after it with any other byte. */
static void answers_without_calls_have_no_mark(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        lx_calls *calls = NULL;
        lx_error err = {0};
        size_t bytes = 0;
        char text[64];
        machine m;
        assert_int_equal(make_calls(answers[i].template, true, &calls, &err), LX_OK);
        make_machine(&m, LX_SHAPE_CALLS, lx_calls_source(calls, &bytes));
        const lx_call_format *format = lx_calls_format(calls);
        const char *mark = format->mark;
        int part = (int)strlen(mark) - 1;
        assert_true(accepts(&m, "any <text> of \"name\""));
        (void)snprintf(text, sizeof text, "\n%.*s", part, mark);
        assert_true(accepts(&m, text));
        (void)snprintf(text, sizeof text, "%.*s?\n", part, mark);
        assert_true(accepts(&m, text));
        (void)snprintf(text, sizeof text, "%.*s%s", part, mark, mark);
        assert_int_equal(accepts(&m, text), format->first); /* at the begin only */
        assert_false(accepts(&m, mark));
        assert_false(accepts(&m, answers[i].text));
        machine_fini(&m);
        lx_calls_unref(calls);
    }
}

/* --- failing allocations --- */

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    for (size_t g = 0; g < sizeof grammars / sizeof *grammars; g++) {
        for (int n = 1;; n++) {
            machine m;
            lx_error err = {0};
            failing_arm(n);
            lx_status st = try_machine(&m, grammars[g].kind, grammars[g].source, &err);
            bool hit = failing_hit() != 0;
            machine_fini(&m);
            assert_int_equal(st, hit ? LX_ERR_NO_MEMORY : LX_OK);
            if (!hit)
                break;
        }
    }
}

static void calls_without_memory_are_reported(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        json_t *tools = json_loads(TOOLS, 0, NULL);
        for (int n = 1;; n++) {
            lx_calls *calls = NULL;
            lx_error err = {0};
            const lx_call_rules rules = {.format = lx_call_format_find(answers[i].template, false),
                                         .tools = tools,
                                         .field = "tool_choice"};
            failing_arm(n);
            lx_status st = lx_calls_new(&rules, &calls, &err);
            bool hit = failing_hit() != 0;
            lx_calls_unref(calls);
            assert_int_equal(st, hit ? LX_ERR_NO_MEMORY : LX_OK);
            if (!hit)
                break;
        }
        json_decref(tools);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_those_of_the_language),
        cmocka_unit_test(numbers_keep_their_bounds),
        cmocka_unit_test(numbers_keep_far_bounds),
        cmocka_unit_test(patterns_keep_their_lengths),
        cmocka_unit_test(masks_are_the_tokens_that_may_follow),
        cmocka_unit_test(a_saved_place_is_found_again),
        cmocka_unit_test(guesses_change_no_mask),
        cmocka_unit_test(grammars_without_an_automaton_are_refused),
        cmocka_unit_test(calls_are_read_as_they_are_written),
        cmocka_unit_test(answers_without_calls_have_no_mark),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(calls_without_memory_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
