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

const char *lx_chat_leading(const lx_chat_template *t)
{
    size_t head = strlen(t->answer);
    const char *before = t->before[LX_CHAT_ASSISTANT];
    return strncmp(before, t->answer, head) == 0 ? before + head : "";
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

/* Line breaks as Python's splitlines has them. */
static bool is_break(int32_t c)
{
    return (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

/* The blank lines that text[n] begins with: bytes up to and with the last line break, and how many
   breaks there are. CR LF is one. */
static size_t measure_blank(const char *text, size_t n, size_t *breaks)
{
    size_t end = 0;
    *breaks = 0;
    for (size_t at = 0; at < n;) {
        int32_t c = lx_utf8_next(text, n, &at);
        if (!lx_char_is_stripped(c))
            break;
        if (!is_break(c))
            continue;
        at += c == '\r' && at < n && text[at] == '\n';
        end = at;
        ++*breaks;
    }
    return end;
}

/* Bytes of text[n] before its first line break. */
static size_t measure_line(const char *text, size_t n)
{
    size_t at = 0, next = 0;
    while (at < n && !is_break(lx_utf8_next(text, n, &next)))
        at = next;
    return at;
}

static void write_lines(const lx_chat_template *t, const char *text, size_t n, lx_buffer *out)
{
    for (size_t at = 0; at < n;) {
        size_t breaks = 0, line = measure_line(text + at, n - at);
        lx_buffer_append(out, text + at, line);
        at += line;
        size_t blank = measure_blank(text + at, n - at, &breaks);
        if (breaks > 1 && names_role(t, text + at + blank, n - at - blank))
            lx_buffer_puts(out, "\n");
        else
            lx_buffer_append(out, text + at, blank);
        at += blank;
    }
}

void lx_chat_write(const lx_chat_template *t, const char *text, size_t n, lx_buffer *out)
{
    if (t->trims)
        text = lx_char_strip(text, &n);
    if (t->blank_lines)
        write_lines(t, text, n, out);
    else
        lx_buffer_append(out, text, n);
}
