/* Rules of a request about the tokens of its answers (see token_rules.h). */
#include "server/api/token_rules.h"

#include <stdlib.h>

#include "model/tasks/text.h"

lx_status lx_tokens_biases(const lx_completion_params *p, int32_t n_ids, lx_bias **out, int32_t *n,
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

static bool is_ban(const lx_bias *b)
{
    return b->add <= -LX_MAX_ASKED_BIAS;
}

static bool has_bans(const lx_completion_params *p)
{
    for (int32_t i = 0; i < p->n_biases; i++)
        if (is_ban(&p->biases[i]))
            return true;
    return false;
}

/* Whether an id that is not banned may be drawn at every step: one of the list, where there is one.
 */
static bool has_drawable(const lx_model *model, const lx_completion_params *p,
                         const uint8_t *banned)
{
    bool endless = p->ignore_eos || p->min_tokens > 0, listed = p->n_allowed > 0;
    int32_t n = listed ? p->n_allowed : model->config.n_values;
    for (int32_t i = 0; i < n; i++) {
        int32_t id = listed ? p->allowed[i] : i;
        if (!banned[id] && !(endless && lx_text_is_end(&model->config, id)))
            return true;
    }
    return false;
}

static lx_status check_drawable(const lx_model *model, const lx_completion_params *p, lx_error *err)
{
    uint8_t *banned = calloc((size_t)model->config.head_size, 1);
    if (banned == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    model->task->fill_mask(model, 0, banned);
    bool drawable = p->n_allowed == 0 || has_drawable(model, p, banned);
    for (int32_t i = 0; i < p->n_biases; i++)
        banned[p->biases[i].id] |= is_ban(&p->biases[i]);
    bool left = has_drawable(model, p, banned);
    free(banned);
    if (!drawable)
        return lx_fail(err, LX_ERR_INVALID, "allowed_token_ids",
                       "allowed_token_ids has no token that an answer can have in it");
    if (!left)
        return lx_fail(err, LX_ERR_INVALID, "logit_bias", "logit_bias bans every token %s",
                       p->n_allowed > 0 ? "of allowed_token_ids" : "that an answer can have in it");
    return LX_OK;
}

lx_status lx_tokens_check(const lx_model *model, const lx_completion_params *p, lx_error *err)
{
    static const char field[] = "allowed_token_ids";
    int32_t n_ids = model->config.n_values;
    bool formed = model->task->ends == NULL || p->fields.at[LX_ASKED_form].text != NULL;
    if (p->n_allowed > 0 && formed)
        return lx_fail(err, LX_ERR_INVALID, field,
                       "%s is for text without a form: a form has its own list at every step",
                       field);
    if (p->n_allowed > 0 && p->allowed[p->n_allowed - 1] >= n_ids)
        return lx_fail(err, LX_ERR_INVALID, field, "%s: %d is not a token, they are 0 to %d here",
                       field, p->allowed[p->n_allowed - 1], n_ids - 1);
    bool all_may_come = p->n_allowed == 0 && !has_bans(p);
    return formed || all_may_come ? LX_OK : check_drawable(model, p, err);
}
