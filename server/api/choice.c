/*
 * Building choices (see choice.h). While text is added its buffer may move, so a token's text is
 * noted as its length and pointed at when the choice is closed.
 */
#include "server/api/choice.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_CHOICE_TEXT = 1 << 20 };

lx_status lx_choice_open(const lx_completion *c, int32_t prompt, int32_t n, lx_choice *out,
                         lx_error *err)
{
    *out = (lx_choice){0};
    lx_buffer_init(&out->text, MAX_CHOICE_TEXT);
    lx_buffer_puts(&out->text, "");
    const lx_work *w = &c->works[prompt];
    if (c->n_logprobs < 0)
        return LX_OK;
    out->logprobs = (lx_json_logprobs){.n_top = w->params->n_top, .vocab = w->served->model->vocab};
    out->tokens = calloc((size_t)n + 1, sizeof *out->tokens); /* never of size 0 */
    return out->tokens != NULL ? LX_OK
                               : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
}

void lx_choice_fini(lx_choice *o)
{
    lx_buffer_fini(&o->text);
    free(o->tokens);
    o->tokens = NULL;
}

static void add(lx_choice *o, size_t bytes, double logprob, const lx_sample *top)
{
    if (o->tokens != NULL)
        o->tokens[o->n_tokens++] = (lx_json_token){.bytes = bytes, .logprob = logprob, .top = top};
}

void lx_choice_add_prompt(lx_choice *o, const lx_completion *c, int32_t prompt)
{
    const lx_plan *plan = lx_job_plan(c->works[prompt].job);
    for (int32_t i = 0; i < plan->n_pieces; i++) {
        size_t begin = o->text.length;
        plan->model->task->render_prompt(plan, i, &o->text);
        add(o, o->text.length - begin, (double)NAN, NULL);
    }
}

void lx_choice_add_tokens(lx_choice *o, const lx_answer *a, int32_t from, int32_t to)
{
    size_t begin = from > 0 ? a->ends[from - 1] : 0, at = begin;
    if (to > from)
        lx_buffer_append(&o->text, a->text.data + begin, a->ends[to - 1] - begin);
    for (int32_t k = from; k < to; k++) {
        const lx_sample *top = a->top != NULL ? a->top + (int64_t)k * o->logprobs.n_top : NULL;
        add(o, a->ends[k] - at, (double)a->logprob[k], top);
        at = a->ends[k];
    }
}

lx_status lx_choice_close(lx_choice *o, int32_t index, int64_t offset, lx_error *err)
{
    if (o->text.status != LX_OK)
        return lx_fail(err, o->text.status, NULL, "the answer does not fit");
    const char *text = o->text.data;
    for (int32_t i = 0; i < o->n_tokens; i++) {
        o->tokens[i].text = text;
        text += o->tokens[i].bytes;
    }
    o->logprobs.tokens = o->tokens;
    o->logprobs.n = o->n_tokens;
    o->logprobs.offset = offset;
    o->json.index = index;
    o->json.text = o->text.data;
    o->json.text_bytes = o->text.length;
    o->json.logprobs = o->tokens != NULL && o->n_tokens > 0 ? &o->logprobs : NULL;
    return LX_OK;
}

int64_t lx_choice_chars(const lx_choice *o)
{
    int64_t n = 0;
    for (size_t i = 0; i < o->text.length; i++)
        n += ((unsigned char)o->text.data[i] & 0xc0) != 0x80;
    return n;
}
