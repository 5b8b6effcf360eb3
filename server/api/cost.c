/*
 * What answers cost (see cost.h).
 *
 * Text is built in buffers that double (common/buffer.c): while one grows there are the old and the
 * new, at most three times what is in it. Answers with log-probabilities and lists of states become
 * trees of the JSON library first (answers.c, logprobs.c, states.c); its sizes are those
 * of jansson 2.14 on 64 bits with what malloc adds. Each byte of a token's text
 * may be escaped.
 */
#include "server/api/cost.h"

#include "model/tasks/image.h"
#include "server/json/answers.h"

enum {
    JSON_OBJECT = 256, /* with its first buckets */
    JSON_KEY = 192,    /* a pair, its short key, its share of grown buckets */
    JSON_ARRAY = 160,
    JSON_SLOT = 24, /* of an array that doubles */
    JSON_NUMBER = 32,
    JSON_STRING = 96, /* without its text */
    GROWN = 3,
    ESCAPED = 6,
    HEAD = 8192,             /* what surrounds the choices or images: usage, timings, names */
    CHOICE = 4096,           /* lx_choice, lx_json_choice and a choice's tree */
    CHOICE_TEXT = 320,       /* its JSON but for the text */
    STATE_TEXT = 1024,       /* lx_json_append_kept: facts, or an error's text */
    WARNING_TEXT = 320,      /* lx_json_make_notes: a name, MOST_TEXT and what is around them */
    REAL_TEXT = 24,          /* a number with its comma */
    NAME_TEXT = 64,          /* the names of an entry of a chat's log-probabilities */
    ID_BYTES = 12,           /* a token's id with its comma */
    BYTE_TEXT = 4,           /* a token's byte as a number */
    STREAM = 3 * 128 * 1024, /* what of a stream the client has not taken: OUT_BYTES of http */
    DEFLATE = 512 * 1024,    /* libpng's and zlib's own */
    IMAGE_TEXT = 128,        /* an image's JSON but for the picture */
    EVENT_TEXT = 16 * 1024,  /* an event but for the picture */
    READER = 64,             /* lx_image_reader and more */
    FIRST_ALLOCATION = 1024  /* that a buffer and a list begin with */
};

int64_t lx_cost_states_text(int64_t n)
{
    return n > 0 ? HEAD + n * STATE_TEXT : 0;
}

static int64_t states(int64_t n)
{
    int64_t tree = JSON_OBJECT + 6 * JSON_KEY + 3 * JSON_STRING + JSON_SLOT;
    return GROWN * lx_cost_states_text(n) + n * tree;
}

/* --- completions --- */

/* Of one token's log-probabilities: its text in JSON, and the tree before it. */
static int64_t token_text(const lx_completion_size *s)
{
    int64_t name = s->token_bytes * ESCAPED, entries = s->n_top + 1;
    if (s->n_top < 0)
        return 0;
    if (s->chat)
        return entries * (name + REAL_TEXT + NAME_TEXT + s->token_bytes * BYTE_TEXT);
    return name + 2 * REAL_TEXT + entries * (name + REAL_TEXT);
}

static int64_t token_tree(const lx_completion_size *s)
{
    int64_t string = JSON_STRING + s->token_bytes, entries = s->n_top + 1;
    if (s->n_top < 0)
        return 0;
    if (s->chat)
        return entries * (JSON_OBJECT + 4 * JSON_KEY + string + JSON_NUMBER + 2 * JSON_ARRAY +
                          s->token_bytes * (JSON_SLOT + JSON_NUMBER) + JSON_SLOT);
    return string + 2 * JSON_NUMBER + 4 * JSON_SLOT + JSON_OBJECT +
           entries * (JSON_KEY + JSON_NUMBER);
}

/* Ids that a choice tells. */
static int64_t ids_of(const lx_completion_size *s)
{
    return s->prompt_ids >= 0 ? s->prompt_ids + s->tokens : 0;
}

static int64_t choice_text(const lx_completion_size *s)
{
    return CHOICE_TEXT + s->tokens * (s->token_bytes * ESCAPED + token_text(s)) +
           ids_of(s) * ID_BYTES;
}

/* lx_answer has its text and its tokens, both of which grow. */
static int64_t answer_bytes(const lx_completion_size *s, int64_t tokens)
{
    return LX_COST_CHOICE + FIRST_ALLOCATION +
           tokens * GROWN * (s->token_bytes + (int64_t)sizeof(lx_json_token));
}

/* The tree has the text once more. */
static int64_t choice_work(const lx_completion_size *s)
{
    return CHOICE + answer_bytes(s, s->tokens) + s->tokens * (s->token_bytes + token_tree(s)) +
           ids_of(s) * (JSON_NUMBER + JSON_SLOT);
}

/* A streamed choice holds only what was not sent yet. */
static int64_t streamed_answer(const lx_completion_size *s)
{
    return answer_bytes(s, s->tokens < s->pending ? s->tokens : s->pending);
}

static int64_t warnings_tree(int64_t n)
{
    return n * (JSON_OBJECT + 2 * JSON_KEY + 2 * JSON_STRING + WARNING_TEXT + JSON_SLOT);
}

int64_t lx_cost_completion_text(const lx_completion_size *s)
{
    return HEAD + s->n_warnings * WARNING_TEXT + s->repeated_bytes * ESCAPED +
           s->n_choices * choice_text(s) + lx_cost_states_text(s->n_states);
}

int64_t lx_cost_completion(const lx_completion_size *s)
{
    int64_t kept = states(s->n_states) + warnings_tree(s->n_warnings) + 2 * s->repeated_bytes;
    if (s->stream && s->response)
        kept += streamed_answer(s) + STREAM;
    else if (s->stream) /* a choice at a time */
        return HEAD + s->n_choices * streamed_answer(s) + choice_work(s) +
               GROWN * (choice_text(s) + s->n_warnings * WARNING_TEXT) + kept + STREAM;
    return GROWN * lx_cost_completion_text(s) + s->n_choices * choice_work(s) + kept;
}

/* --- images --- */

/* A PNG whose rows do not get smaller: zlib then stores them, libpng frames 8 KiB at a time. */
static int64_t png_bytes(int64_t width, int64_t height, int64_t n_channels)
{
    int64_t raw = (width * n_channels + 1) * height;
    return raw + raw / 8 + 1024;
}

static int64_t base64_bytes(int64_t n)
{
    return n / 3 * 4 + 8;
}

/* lx_png_write_sheet: a near-square grid with a border of 2 pixels, made a row of images at a time;
   at most 2 n + 2 images have room in it. */
static int64_t sheet_png(const lx_image_config *c, int64_t n)
{
    return png_bytes(c->width + 4, c->height + 4, c->n_channels) * (2 * n + 2);
}

int64_t lx_cost_images(const lx_config *config, const lx_images_size *s)
{
    const lx_image_config *c = lx_image_of(config);
    int64_t raster = (int64_t)c->width * c->height * c->n_channels;
    int64_t png = png_bytes(c->width, c->height, c->n_channels), n = s->n;
    if (s->contact_sheet && !s->stream) {
        png = sheet_png(c, s->n);
        n = 1;
    }
    int64_t text =
        s->stream ? base64_bytes(png) + EVENT_TEXT + lx_cost_states_text(s->n_states)
                  : n * (base64_bytes(png) + IMAGE_TEXT) + lx_cost_states_text(s->n_states) + HEAD;
    int64_t band = s->contact_sheet ? png : 0;
    return GROWN * (text + png) + band + raster + s->n * READER + states(s->n_states) + DEFLATE +
           (s->stream ? STREAM : 0);
}

/* --- the rest --- */

enum { ID_TEXT = 8, PIECE_TEXT = 40, REPLACEMENT = 3 };

int64_t lx_cost_tokens_text(int64_t n, int64_t piece_bytes, bool with_pieces)
{
    int64_t each = with_pieces ? PIECE_TEXT : ID_TEXT;
    return FIRST_ALLOCATION + n * each + (with_pieces ? piece_bytes * ESCAPED : 0);
}

/* Each byte may be escaped, or be none of a character. */
int64_t lx_cost_content_text(const lx_tokenizer *t, const int32_t *tokens, size_t n)
{
    int64_t bytes = REPLACEMENT;
    for (size_t i = 0; i < n; i++) {
        size_t length = 0;
        (void)lx_tokenizer_token(t, tokens[i], &length);
        bytes += (int64_t)length;
    }
    return FIRST_ALLOCATION + bytes * ESCAPED;
}

/* The text, what it is made of, and its tree. */
int64_t lx_cost_text(int64_t bytes)
{
    return HEAD + 3 * GROWN * bytes;
}

int64_t lx_cost_notes(const lx_json_notes *notes)
{
    int64_t n = notes != NULL ? lx_json_count_notes(notes) : 0;
    return n > 0 ? (int64_t)sizeof *notes + n * GROWN * WARNING_TEXT + warnings_tree(n) : 0;
}

int64_t lx_cost_stream(void)
{
    return STREAM;
}

int64_t lx_cost_score(int64_t n)
{
    return GROWN * (HEAD + n * REAL_TEXT);
}

int64_t lx_cost_facts(void)
{
    return states(1) + HEAD;
}
