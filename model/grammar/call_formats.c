/* The formats of calls (see call_formats.h). */
#include "model/grammar/call_formats.h"

#include <string.h>

static const lx_call_format formats[] = {
    {.name = "qwen_xml",
     .words = {"<tool_call>", "<function="},
     .spelling = LX_CALL_XML,
     .each = true,
     .mark = "<tool_call>",
     .head = "",
     .before_name = "\n<function=",
     .after_name = ">\n",
     .after_arguments = "</function>",
     .between = "\n",
     .end = "\n",
     .end_mark = "</tool_call>"},
    {.name = "lfm2",
     .words = {"<|tool_call_start|>", ""},
     .spelling = LX_CALL_PYTHON,
     .mark = "<|tool_call_start|>",
     .head = "[",
     .before_name = "",
     .after_name = "(",
     .after_arguments = ")",
     .between = ", ",
     .end = "]",
     .end_mark = "<|tool_call_end|>"},
    {.name = "granite",
     .words = {"<|tool_call|>", ""},
     .spelling = LX_CALL_JSON,
     .mark = "<|tool_call|>",
     .head = "[",
     .before_name = "{\"name\": \"",
     .after_name = "\", \"arguments\": ",
     .after_arguments = "}",
     .between = ", ",
     .end = "]",
     .end_mark = ""},
    {.name = "nemotron",
     .words = {"<TOOLCALL>", ""},
     .spelling = LX_CALL_JSON,
     .mark = "<TOOLCALL>",
     .head = "[",
     .before_name = "{\"name\": \"",
     .after_name = "\", \"arguments\": ",
     .after_arguments = "}",
     .between = ", ",
     .end = "]",
     .end_mark = "</TOOLCALL>"},
    {.name = "hermes",
     .words = {"<tool_call>", "\"arguments\": "},
     .spelling = LX_CALL_JSON,
     .each = true,
     .mark = "<tool_call>",
     .head = "",
     .before_name = "\n{\"name\": \"",
     .after_name = "\", \"arguments\": ",
     .after_arguments = "}",
     .between = "\n",
     .end = "\n",
     .end_mark = "</tool_call>"},
    {.name = "llama3",
     .words = {"\"parameters\": ", "ipython"},
     .spelling = LX_CALL_JSON,
     .each = true,
     .single = true,
     .first = true,
     .mark = "{\"name\": \"",
     .head = "",
     .before_name = "",
     .after_name = "\", \"parameters\": ",
     .after_arguments = "}",
     .between = "",
     .end = "",
     .end_mark = ""},
};

const lx_call_format *lx_call_format_find(const char *text, bool pythonic)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const char *const *words = formats[i].words;
        bool known = strstr(text, words[0]) != NULL && strstr(text, words[1]) != NULL;
        if (known || (pythonic && formats[i].spelling == LX_CALL_PYTHON))
            return &formats[i];
    }
    return NULL;
}

const char *lx_call_mark_text(const lx_call_format *f, lx_call_mark mark)
{
    const char *const texts[LX_CALL_MARKS] = {f->mark, f->end_mark, "<think>", "</think>"};
    return texts[mark];
}

const char *lx_call_mark_byte(lx_call_mark mark)
{
    static const char bytes[LX_CALL_MARKS][2] = {"\xf8", "\xf9", "\xfa", "\xfb"};
    return bytes[mark];
}

const lx_call_format *lx_call_format_named(const char *name)
{
    size_t i = 0, n = sizeof formats / sizeof *formats;
    while (i < n && strcmp(formats[i].name, name) != 0)
        i++;
    return i < n ? &formats[i] : NULL;
}
