/* Chat templates: a parsed template renders one chat, and each byte of the text has a mark of 0
 * or 1. */
#include <stdlib.h>
#include <string.h>

#include "model/jinja/chat.h"
#include "tests/fuzz/subject.h"

enum { MOST = 4096 };

static void check(const lx_jinja_text *t)
{
    MUST(t->n <= MOST + LX_JINJA_MAX_TEMPLATE && t->bytes[t->n] == '\0');
    for (size_t i = 0; i < t->n; i++)
        MUST(t->marks[i] == 0 || t->marks[i] == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const lx_jinja_message messages[] = {
        {.role = "system", .text = "Be kind.", .bytes = 8},
        {.role = "user", .text = " a\xc3\xa9<s>\n", .bytes = 8},
        {.role = "assistant", .text = "b", .bytes = 1}};
    lx_error err = {0};
    lx_jinja *t = NULL;
    lx_status st = lx_jinja_parse((const char *)data, n, &t, &err);
    if (st != LX_OK) {
        subject_check_text(st, &err);
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        const lx_jinja_chat chat = {.messages = messages,
                                    .n = 2 + i,
                                    .begin = "<s>",
                                    .end = "</s>",
                                    .answers = i == 0,
                                    .continues = i == 1};
        lx_jinja_text out;
        st = lx_jinja_render_chat(t, &chat, 1764200000, MOST, &out, &err);
        if (st != LX_OK) {
            subject_check_text(st, &err);
            continue;
        }
        check(&out);
        free(out.bytes);
        free(out.marks);
    }
    lx_jinja_free(t);
    return 0;
}
