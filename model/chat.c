/* The known templates (see chat.h). A hash is lx_file_hash of the template's text. */
#include "model/chat.h"

#include <string.h>

#include "model/characters.h"
#include "model/formats/file.h"
#include "model/utf8.h"

static const lx_chat_template templates[] = {
    {.name = "chatml", /* with line feeds or \\n in its strings, with or without a default */
     .hashes = {UINT64_C(0xbb3d051c182ece0d), UINT64_C(0x312b5062e7e6811c),
                UINT64_C(0xd2a18531832f2161), UINT64_C(0xcfa9121d9be9e7d0)},
     .before = {"<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n"},
     .behind = "<|im_end|>\n",
     .answer = "<|im_start|>assistant\n",
     .end = "<|im_end|>",
     .marks = {"<|im_start|>", "<|im_end|>"}},
    {.name = "llama3", /* as above, and with or without a condition on the answer */
     .hashes = {UINT64_C(0x8e49e0aad794f4e7), UINT64_C(0x79a4b7f0e60e27bb),
                UINT64_C(0xbeda04c6bf6b648b), UINT64_C(0x55309e1910d949f4)},
     .trims = true,
     .begin = "<|begin_of_text|>",
     .before = {"<|start_header_id|>system<|end_header_id|>\n\n",
                "<|start_header_id|>user<|end_header_id|>\n\n",
                "<|start_header_id|>assistant<|end_header_id|>\n\n"},
     .behind = "<|eot_id|>",
     .answer = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .end = "<|eot_id|>",
     .marks = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
    {.name = "rwkv",
     .begin = "<|rwkv_tokenizer_end_of_text|>",
     .before = {"System: ", "User: ", "Assistant: "},
     .behind = "\n\n",
     .answer = "Assistant:",
     .stop = "\n\nUser:",
     .blank_lines = true},
};

enum { N_TEMPLATES = sizeof templates / sizeof *templates };

static bool is_text_of(const lx_chat_template *t, uint64_t hash)
{
    for (int i = 0; i < LX_CHAT_TEXTS && t->hashes[i] != 0; i++) {
        if (t->hashes[i] == hash)
            return true;
    }
    return false;
}

const lx_chat_template *lx_chat_find(const char *text)
{
    uint64_t hash = lx_file_hash(LX_HASH_SEED, text, strlen(text));
    for (int i = 0; i < N_TEMPLATES; i++) {
        if (strcmp(text, templates[i].name) == 0 || is_text_of(&templates[i], hash))
            return &templates[i];
    }
    return NULL;
}

/* White space as Jinja's trim has it: Python's, which counts four separators among controls. */
static bool is_space(int32_t c)
{
    return (c >= 0x1c && c <= 0x1f) || (c >= 0 && lx_char_is_space((uint32_t)c));
}

/* The text without white space around it. */
static const char *trim(const char *text, size_t *n)
{
    size_t first = *n, last = 0; /* of other characters, and after it */
    for (size_t at = 0, begin = 0; at < *n; begin = at) {
        if (is_space(lx_utf8_next(text, *n, &at)))
            continue;
        first = begin < first ? begin : first;
        last = at;
    }
    *n = last > first ? last - first : 0;
    return text + first;
}

const char *lx_chat_leading(const lx_chat_template *t)
{
    size_t head = strlen(t->answer);
    const char *before = t->before[LX_CHAT_ASSISTANT];
    return strncmp(before, t->answer, head) == 0 ? before + head : "";
}

const char *lx_chat_mark(const lx_chat_template *t, const char *text, size_t n)
{
    for (int i = 0; i < LX_CHAT_MARKS && t->marks[i] != NULL; i++) {
        if (memmem(text, n, t->marks[i], strlen(t->marks[i])) != NULL)
            return t->marks[i];
    }
    return NULL;
}

/* Whether text[n] begins with the name of a role, "User:". */
static bool names_role(const lx_chat_template *t, const char *text, size_t n)
{
    for (int role = 0; role < LX_CHAT_ROLES; role++) {
        size_t name = strcspn(t->before[role], " ");
        if (n >= name && memcmp(text, t->before[role], name) == 0)
            return true;
    }
    return false;
}

static size_t count_feeds(const char *text, size_t n)
{
    size_t feeds = 0;
    while (feeds < n && text[feeds] == '\n')
        feeds++;
    return feeds;
}

static void write_lines(const lx_chat_template *t, const char *text, size_t n, lx_buffer *out)
{
    for (size_t at = 0; at < n;) {
        size_t feeds = count_feeds(text + at, n - at);
        size_t kept = feeds > 1 && names_role(t, text + at + feeds, n - at - feeds) ? 1 : feeds;
        lx_buffer_append(out, text + at, kept);
        at += feeds;
        const char *feed = memchr(text + at, '\n', n - at);
        size_t line = feed != NULL ? (size_t)(feed - text) - at : n - at;
        lx_buffer_append(out, text + at, line);
        at += line;
    }
}

void lx_chat_write(const lx_chat_template *t, const char *text, size_t n, lx_buffer *out)
{
    if (t->trims)
        text = trim(text, &n);
    if (t->blank_lines)
        write_lines(t, text, n, out);
    else
        lx_buffer_append(out, text, n);
}

void lx_chat_list(lx_buffer *out)
{
    for (int i = 0; i < N_TEMPLATES; i++)
        lx_buffer_printf(out, "%s%s", i > 0 ? ", " : "", templates[i].name);
}
