/* Rules of a request about its tokens (see token_rules.h). */
#include "server/api/token_rules.h"

#include <stdlib.h>

#include "model/tasks/text.h"

lx_status lx_make_biases(const lx_completion_params *p, int32_t n_ids, lx_bias **out, int32_t *n,
                         lx_error *err)
{
    *out = malloc((size_t)n_ids * sizeof **out);
    *n = 0;
    if (*out == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the biases");
    for (int32_t id = 0, a = 0, b = 0; id < n_ids; id++) {
        bool allowed = a < p->n_allowed && p->allowed[a] == id;
        bool biased = b < p->n_biases && p->biases[b].id == id;
        if (!allowed)
            (*out)[(*n)++] = (lx_bias){id, -LX_MAX_BIAS, 0};
        else if (biased)
            (*out)[(*n)++] = p->biases[b];
        a += allowed;
        b += biased;
    }
    return LX_OK;
}

/* Whether one of the ids may be drawn at every step. */
static bool has_drawable(const lx_model *model, const lx_completion_params *p, uint8_t *banned)
{
    bool endless = p->ignore_eos || p->min_tokens > 0;
    model->task->fill_mask(model, 0, banned);
    for (int32_t i = 0; i < p->n_allowed; i++)
        if (!banned[p->allowed[i]] && !(endless && lx_text_is_end(&model->config, p->allowed[i])))
            return true;
    return false;
}

lx_status lx_check_allowed(const lx_model *model, const lx_completion_params *p, lx_error *err)
{
    static const char field[] = "allowed_token_ids";
    int32_t n_ids = model->config.n_values;
    if (p->n_allowed == 0)
        return LX_OK;
    if (model->task->ends == NULL || p->poem.form != NULL)
        return lx_fail(err, LX_ERR_INVALID, field,
                       "%s is for text without a form: a form has its own list at every step",
                       field);
    if (p->allowed[p->n_allowed - 1] >= n_ids)
        return lx_fail(err, LX_ERR_INVALID, field, "%s: %d is not a token, they are 0 to %d here",
                       field, p->allowed[p->n_allowed - 1], n_ids - 1);
    uint8_t *banned = calloc((size_t)model->config.head_size, 1);
    if (banned == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    bool drawable = has_drawable(model, p, banned);
    free(banned);
    return drawable ? LX_OK
                    : lx_fail(err, LX_ERR_INVALID, field,
                              "%s has no token that an answer can have in it", field);
}

lx_status lx_open_plan(lx_plan *plan, const lx_work_params *w, const lx_completion_params *p,
                       lx_error *err)
{
    int32_t most = lx_work_new_tokens(w, plan);
    if (p->min_tokens > most)
        return lx_fail(err, LX_ERR_INVALID, p->min_tokens_field,
                       "%s is %d, but the answer has at most %d tokens", p->min_tokens_field,
                       p->min_tokens, most);
    int32_t there = p->from != NULL ? p->from->start.n_tokens : plan->n_given;
    plan->n_open = p->min_tokens > 0 ? there + p->min_tokens : 0;
    return LX_OK;
}
