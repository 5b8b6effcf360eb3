/* See facts.h. */
#include "model/facts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/chat.h"
#include "model/jinja/chat.h"
#include "model/tasks/task.h"
#include "model/tasks/text_config.h"
#include "model/tokenizers/tokenizer.h"

/* Appends as much as has room. */
static void add(lx_fact *f, const char *fmt, ...) LX_PRINTF(2, 3);

static void add(lx_fact *f, const char *fmt, ...)
{
    size_t n = strlen(f->text);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(f->text + n, sizeof f->text - n, fmt, args);
    va_end(args);
}

static void add_template(const lx_model *m, lx_fact *f)
{
    const lx_jinja *with_tools = m->has_tool_template ? m->tool_jinja : m->jinja;
    if (!m->has_template)
        add(f, "none, so chats are refused");
    else if (m->chat != NULL)
        add(f, "%s", m->chat->name);
    else if (m->jinja != NULL)
        add(f, "of its own");
    else
        add(f, "refused: %s", m->no_jinja);
    if (with_tools != NULL && lx_jinja_has_word(with_tools, "tools"))
        add(f, ", with tools");
    if (m->thinks)
        add(f, ", with thoughts");
}

static void add_ends(const lx_model *m, lx_fact *f)
{
    const lx_text_config *c = lx_text_of(&m->config);
    for (int32_t i = 0; i < c->n_ends; i++) {
        size_t n = 0;
        const char *name = lx_tokenizer_token(m->tokenizer, c->ends[i], &n);
        add(f, "%s%d", i > 0 ? ", " : "", c->ends[i]);
        if (name != NULL)
            add(f, " (%.*s)", (int)n, name);
    }
    if (c->n_ends == 0)
        add(f, "none, so answers have the asked length");
}

static void add_value(lx_fact *f, const char *name, double value)
{
    if (!isnan(value))
        add(f, "%s%s %g", f->text[0] != '\0' ? ", " : "", name, value);
}

int32_t lx_model_facts(const lx_model *m, lx_fact out[LX_MAX_FACTS])
{
    static const char *const names[LX_MAX_FACTS] = {"family", "template", "tokenizer",
                                                    "ends",   "context",  "sampling"};
    if (m->task->ends == NULL)
        return 0;
    const lx_text_sampling *s = &lx_text_of(&m->config)->sampling;
    for (int32_t i = 0; i < LX_MAX_FACTS; i++)
        out[i] = (lx_fact){.name = names[i]};
    add(&out[0], "%s", m->config.family != NULL ? m->config.family : "linnet");
    add_template(m, &out[1]);
    add(&out[2], "%s, %d tokens", lx_tokenizer_family_name(m->tokenizer),
        lx_tokenizer_size(m->tokenizer));
    add_ends(m, &out[3]);
    add(&out[4], "%d tokens", lx_text_of(&m->config)->context);
    add_value(&out[5], "temperature", s->temperature);
    add_value(&out[5], "top_p", s->top_p);
    add_value(&out[5], "top_k", s->top_k);
    add_value(&out[5], "min_p", s->min_p);
    add_value(&out[5], "repetition_penalty", s->repetition_penalty);
    return LX_MAX_FACTS - (out[5].text[0] == '\0');
}
