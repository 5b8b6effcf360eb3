/*
 * linnet tokenize: text to token ids and back, by the tokenizer of a model's folder or of a file.
 * Many texts go through one process as lines or NUL-ended records; each text is answered before the
 * next is read. So a pipe of any length takes the memory of its longest text.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tokenizers/tokenizer.h"
#include "server/cli/cli.h"

enum { MAX_LIST = 256 << 20, MAX_IDS = 64 << 20, MAX_OUTPUT = 512 << 20, CHUNK = 1 << 16 };

typedef struct tokenize_options {
    lx_cli_model_options local; /* the folder alone */
    const char *tokenizer, *each;
    bool decode, count, template, specials, json;
} tokenize_options;

#define LX_OPTIONS tokenize_options
static const lx_option options[] = {
    LX_CLI_LOCAL_MODEL_OPTION("couplet"),
    LX_STRING("tokenizer", tokenizer, NULL, "FILE",
              "In place of the model's tokenizer: a tokenizer.json, an RWKV vocabulary, a "
              "vocab.txt, or the word bytes, whose tokens are bytes."),
    LX_FLAG("decode", decode, "off", "TEXT is a list of token ids, whose text is printed."),
    LX_CHOICE("each", each, "text", "text|line|nul", "UNIT",
              "The unit of the input that is one text: all of it, a line, or the bytes before a "
              "NUL."),
    LX_FLAG("template", template, "on",
            "The special tokens are added that the tokenizer puts around every text."),
    LX_FLAG("specials", specials, "on",
            "Names of special tokens are tokens, and are printed; off: they are plain text, and "
            "are left out of a decoded text."),
    LX_FLAG("count", count, "off", "The number of tokens is printed instead of their ids."),
    LX_CLI_JSON_OPTION,
};

/* --- one text --- */

static void put_pieces(const lx_tokenizer *t, const lx_token_list *ids)
{
    lx_buffer piece;
    lx_buffer_init(&piece, 16 * (size_t)LX_TOKENIZER_MAX_TOKEN);
    (void)printf(", \"pieces\": [");
    for (size_t i = 0; i < ids->n; i++) {
        lx_detokenizer d;
        piece.length = 0;
        lx_buffer_puts(&piece, "");
        lx_detokenizer_init(&d, t, LX_DECODE_SPECIALS | LX_DECODE_CONTINUES);
        if (lx_detokenizer_push(&d, ids->ids[i], &piece, NULL) == LX_OK)
            lx_detokenizer_finish(&d, &piece);
        (void)printf("%s", i > 0 ? ", " : "");
        lx_cli_print_json_bytes(piece.data != NULL ? piece.data : "", piece.length);
    }
    (void)putchar(']');
    lx_buffer_fini(&piece);
}

static void put_ids(const tokenize_options *o, const lx_tokenizer *t, const lx_token_list *ids)
{
    if (o->json && o->count) {
        (void)printf("{\"count\": %zu}\n", ids->n);
        return;
    }
    if (o->count) {
        (void)printf("%zu\n", ids->n);
        return;
    }
    (void)printf("%s", o->json ? "{\"tokens\": [" : "");
    for (size_t i = 0; i < ids->n; i++)
        (void)printf("%s%d", i == 0 ? "" : o->json ? ", " : " ", ids->ids[i]);
    (void)printf("%s", o->json ? "]" : "\n");
    if (o->json) {
        put_pieces(t, ids);
        (void)puts("}");
    }
}

static lx_status encode_one(const tokenize_options *o, const lx_tokenizer *t, const char *text,
                            size_t n, lx_error *err)
{
    lx_token_list ids;
    lx_token_list_init(&ids, MAX_IDS);
    unsigned flags =
        (o->template ? LX_ENCODE_TEMPLATE : 0u) | (o->specials ? 0u : LX_ENCODE_PLAIN_SPECIALS);
    lx_status st = lx_tokenizer_encode(t, text, n, flags, &ids, err);
    if (st == LX_OK)
        put_ids(o, t, &ids);
    lx_token_list_fini(&ids);
    return st;
}

/* Reads one number of "1 2,3"; blanks, commas and brackets separate numbers. */
static lx_status next_id(const char **at, const char *end, int64_t *id, lx_error *err)
{
    while (*at < end && strchr(" \t\r\n,[]", **at) != NULL && **at != '\0')
        (*at)++;
    *id = -1;
    if (*at == end)
        return LX_OK;
    char *after = NULL;
    errno = 0;
    *id = strtoll(*at, &after, 10);
    bool ends = after == end || strchr(" \t\r\n,]", *after) != NULL;
    if (after == *at || errno != 0 || *id < 0 || *id > INT32_MAX || !ends)
        return lx_fail(err, LX_ERR_INVALID, NULL, "\"%.20s\" is not a token id", *at);
    *at = after;
    return LX_OK;
}

static void put_text(const tokenize_options *o, const lx_buffer *out)
{
    const char *text = out->data != NULL ? out->data : "";
    if (o->json) {
        (void)printf("{\"text\": ");
        lx_cli_print_json_bytes(text, out->length);
        (void)puts("}");
        return;
    }
    (void)fwrite(text, 1, out->length, stdout);
    (void)putchar(strcmp(o->each, "nul") == 0 ? '\0' : '\n');
}

/* Token by token, as a stream would be. text[n] is NUL. */
static lx_status decode_one(const tokenize_options *o, const lx_tokenizer *t, const char *text,
                            size_t n, lx_error *err)
{
    lx_buffer out;
    lx_detokenizer d;
    lx_status st = LX_OK;
    int64_t id = 0;
    lx_buffer_init(&out, MAX_OUTPUT);
    lx_detokenizer_init(&d, t, o->specials ? LX_DECODE_SPECIALS : 0);
    for (const char *at = text; st == LX_OK;) {
        st = next_id(&at, text + n, &id, err);
        if (st != LX_OK || id < 0)
            break;
        st = lx_detokenizer_push(&d, (int32_t)id, &out, err);
    }
    lx_detokenizer_finish(&d, &out);
    if (st == LX_OK && out.status != LX_OK)
        st = lx_fail(err, out.status, NULL, "the text: %s", lx_status_text(out.status));
    if (st == LX_OK)
        put_text(o, &out);
    lx_buffer_fini(&out);
    return st;
}

static lx_status run_one(const tokenize_options *o, const lx_tokenizer *t, const char *text,
                         size_t n, lx_error *err)
{
    return (o->decode ? decode_one : encode_one)(o, t, text, n, err);
}

/* --- the input --- */

/* The byte that ends a text; EOF: the end of the input does. Lists of ids are always lines. */
static int delimiter(const tokenize_options *o)
{
    if (strcmp(o->each, "line") == 0 || o->decode)
        return '\n';
    return strcmp(o->each, "nul") == 0 ? '\0' : EOF;
}

static lx_status run_record(const tokenize_options *o, const lx_tokenizer *t, lx_buffer *record,
                            lx_error *err)
{
    if (record->status != LX_OK)
        return lx_fail(
            err, record->status, NULL,
            "a text of the input has more than %zu bytes; --each divides the input into texts",
            record->max);
    lx_buffer_puts(record, "");
    lx_status st = run_one(o, t, record->data, record->length, err);
    record->length = 0;
    return st;
}

static lx_status run_input(const tokenize_options *o, const lx_tokenizer *t, lx_error *err)
{
    static char chunk[CHUNK];
    lx_buffer record;
    lx_status st = LX_OK;
    int ends_with = delimiter(o);
    size_t n;
    lx_buffer_init(&record, o->decode ? MAX_LIST : LX_TOKENIZER_MAX_TEXT);
    while (st == LX_OK && (n = fread(chunk, 1, sizeof chunk, stdin)) > 0) {
        for (char *at = chunk, *end = chunk + n; st == LX_OK && at < end;) {
            char *stop = ends_with == EOF ? NULL : memchr(at, ends_with, (size_t)(end - at));
            lx_buffer_append(&record, at, (size_t)((stop != NULL ? stop : end) - at));
            if (stop != NULL)
                st = run_record(o, t, &record, err);
            at = stop != NULL ? stop + 1 : end;
        }
    }
    if (st == LX_OK && ferror(stdin) != 0)
        st = lx_fail(err, LX_ERR_IO, NULL, "standard input: %s", strerror(errno));
    if (st == LX_OK && (record.length > 0 || ends_with == EOF))
        st = run_record(o, t, &record, err);
    lx_buffer_fini(&record);
    return st;
}

/* --- the command --- */

static lx_status open_tokenizer(const tokenize_options *o, lx_tokenizer **out, lx_error *err)
{
    char dir[LX_PLACE_BYTES];
    if (o->tokenizer == NULL) {
        lx_status st = lx_places_model(o->local.model, dir, err);
        return st == LX_OK ? lx_model_load_tokenizer(dir, out, err) : st;
    }
    if (strcmp(o->tokenizer, "bytes") == 0)
        return lx_tokenizer_new_bytes(out, err);
    return lx_tokenizer_load_file(o->tokenizer, out, err);
}

static lx_status run(void *values, const char *const *rest, lx_error *err)
{
    const tokenize_options *o = values;
    lx_tokenizer *t = NULL;
    const char *unread = o->count ? "--count" : !o->template ? "--no-template" : NULL;
    if (o->decode && unread != NULL)
        return lx_fail(err, LX_ERR_INVALID, "decode",
                       "%s does not fit: --decode prints the texts of ids", unread);
    lx_status st = open_tokenizer(o, &t, err);
    if (st == LX_OK && rest[0] != NULL && strcmp(rest[0], "-") != 0)
        st = run_one(o, t, rest[0], strlen(rest[0]), err);
    else if (st == LX_OK)
        st = run_input(o, t, err);
    if (st == LX_OK && fflush(stdout) != 0)
        st = lx_fail(err, LX_ERR_IO, NULL, "standard output: %s", strerror(errno));
    lx_tokenizer_free(t);
    return st;
}

const lx_command lx_tokenize_command = {
    .name = "tokenize",
    .brief = "print the token ids of a text, or the text of ids",
    .summary = "Prints the token ids of TEXT (-: of standard input), or the text of token ids.",
    .positional = "[TEXT]",
    .max_positional = 1,
    LX_COMMAND(run),
    .notes =
        "Ids are printed with blanks between them, one line per text. With --json a line is an\n"
        "object with \"tokens\", and with \"pieces\", the tokens' texts. With --decode every\n"
        "line of the input is a list of ids; texts end as --each says.\n",
};
