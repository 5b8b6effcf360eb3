/*
 * JSON bodies: the first byte chooses the route, the rest is the body. Accepted values lie within
 * the ranges that the readers promise; an error names a field.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/json/answers.h"
#include "server/json/requests.h"
#include "server/json/scan.h"
#include "tests/fuzz/subject.h"

enum { MAX_N = 8 };

static void check_failure(lx_status st, const lx_error *err)
{
    if (st == LX_ERR_NOT_FOUND) { /* a name that no model can have */
        MUST(strcmp(err->param, "model") == 0);
        return;
    }
    subject_check_error(st, err);
    MUST(st == LX_ERR_INVALID && err->param[0] != '\0');
}

static void check_prompts(const lx_completion_params *p)
{
    MUST(p->n_prompts >= 1 && p->n_prompts <= LX_MAX_PROMPTS);
    for (int32_t i = 0; i < p->n_prompts; i++) {
        const lx_prompt *one = &p->prompts[i];
        if (p->state != NULL && !p->response) { /* one in place of the state's */
            MUST(p->n_prompts == 1 && one->text == NULL && one->ids == NULL && p->state[0] != '\0');
            continue;
        }
        MUST((one->text != NULL) != (one->ids != NULL));
        MUST(one->text == NULL || one->text[one->bytes] == '\0');
        for (int32_t k = 0; k < one->n_ids; k++)
            MUST(one->ids[k] >= 0);
    }
}

static void check_completion(const lx_completion_params *p)
{
    check_prompts(p);
    MUST(p->n >= 1 && p->n <= MAX_N && p->max_tokens >= 0 && p->sampling.top_k >= 0);
    MUST(p->best_of == 0 || (p->best_of >= p->n && p->best_of <= MAX_N));
    MUST(p->sampling.temperature >= 0 && p->sampling.temperature <= 10 && p->sampling.top_p > 0 &&
         p->sampling.top_p <= 1);
    MUST(p->sampling.seed >= 0 && p->sampling.seed <= LX_MAX_SEED && p->timeout_ms >= 0);
    MUST(p->n_logprobs >= -1 && p->n_logprobs <= (p->chat ? LX_MAX_TOP : 5));
    MUST(p->stops.n >= 0 && p->stops.n <= LX_MAX_STOPS);
    for (int32_t i = 0; i < p->stops.n; i++)
        MUST(p->stops.stop[i].bytes >= 1 && p->stops.stop[i].bytes <= LX_MAX_STOP_BYTES);
    for (int32_t i = 0; i < p->n_biases; i++) {
        MUST(p->biases[i].id >= 0 && fabsf(p->biases[i].add) <= 100);
        MUST(i == 0 || p->biases[i].id > p->biases[i - 1].id);
    }
    MUST(p->stream || !p->include_usage);
}

static void try_completion(const char *body, size_t n, bool chat)
{
    lx_error err = {0};
    lx_completion_params p;
    lx_status st = chat ? lx_json_read_chat(body, n, MAX_N, &p, &err)
                        : lx_json_read_completion(body, n, MAX_N, &p, &err);
    if (st == LX_OK)
        check_completion(&p);
    else
        check_failure(st, &err);
    lx_completion_params_fini(&p);
}

static void try_response(const char *body, size_t n)
{
    lx_error err = {0};
    lx_completion_params p;
    lx_status st = lx_json_read_response(body, n, &p, &err);
    if (st == LX_OK)
        check_completion(&p);
    else
        check_failure(st, &err);
    lx_completion_params_fini(&p);
}

/* Anthropic's form of a chat, as a request for an answer or for the number of its tokens. */
static void try_message(const char *body, size_t n, bool counts)
{
    lx_error err = {0};
    lx_completion_params p;
    lx_status st = counts ? lx_json_read_message_prompt(body, n, &p, &err)
                          : lx_json_read_message(body, n, &p, &err);
    if (st == LX_OK)
        check_completion(&p);
    else
        check_failure(st, &err);
    for (int32_t i = 0; i < p.n_messages; i++)
        MUST(p.messages[i].text != NULL && p.messages[i].at >= 0);
    lx_completion_params_fini(&p);
}

/* Few messages and no more; of items at least one. */
static void try_conversation(const char *body, size_t n, bool items)
{
    lx_error err = {0};
    lx_completion_params p;
    lx_status st = items ? lx_json_read_items(body, n, &p, &err)
                         : lx_json_read_conversation(body, n, &p, &err);
    if (st != LX_OK)
        check_failure(st, &err);
    else
        MUST(p.n_messages >= items && p.n_messages <= 20 && (!items || p.metadata == NULL));
    lx_completion_params_fini(&p);
}

static void try_images(const char *body, size_t n, bool edit)
{
    lx_error err = {0};
    lx_image_params p;
    lx_status st = edit ? lx_json_read_edit(body, n, MAX_N, &p, &err)
                        : lx_json_read_generation(body, n, MAX_N, &p, &err);
    if (st == LX_OK)
        MUST(p.n >= 1 && p.n <= MAX_N && p.max_tokens >= 0 && p.max_tokens <= LX_MAX_JOB_VALUES);
    else
        check_failure(st, &err);
    lx_image_params_fini(&p);
}

static void try_score(const char *body, size_t n)
{
    lx_error err = {0};
    lx_score_params p;
    lx_status st = lx_json_read_score(body, n, &p, &err);
    if (st != LX_OK)
        check_failure(st, &err);
    lx_score_params_fini(&p);
}

static void try_state_create(const char *body, size_t n)
{
    lx_error err = {0};
    lx_state_create p;
    lx_status st = lx_json_read_state_create(body, n, &p, &err);
    if (st == LX_OK)
        MUST(p.sampling.seed >= 0 && p.sampling.seed <= LX_MAX_SEED && p.timeout_ms >= 0);
    else
        check_failure(st, &err);
    lx_state_create_fini(&p);
}

static void try_state_fork(const char *body, size_t n)
{
    lx_error err = {0};
    lx_state_fork p;
    lx_status st = lx_json_read_state_fork(body, n, MAX_N, &p, &err);
    if (st != LX_OK)
        check_failure(st, &err);
    for (int32_t i = 0; st == LX_OK && p.seeds != NULL && i < p.n; i++)
        MUST(p.seeds[i] <= (uint64_t)LX_MAX_SEED);
    free(p.seeds);
}

/* Every value has bytes of its own (an escape at the end counts for two that are not there), and
 * nothing outside the text is read. */
static void check_scan(const char *body, size_t n)
{
    lx_json_extent e;
    lx_json_scan(body, n, &e);
    MUST(e.containers + e.strings + e.scalars <= (int64_t)n && e.depth <= e.containers);
    MUST(e.string_bytes <= (int64_t)n + 2 && e.key[0] != '\0');
    MUST(lx_json_tree_bytes(&e) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0)
        return 0;
    char *body = malloc(n); /* of the exact size and without a NUL after it; n - 1 bytes are used */
    MUST(body != NULL);
    memcpy(body, data + 1, n - 1);
    check_scan(body, n - 1);
    int route = data[0] % 12;
    switch (route) {
    case 0:
    case 1:
        try_completion(body, n - 1, route == 1);
        break;
    case 2:
    case 3:
        try_images(body, n - 1, route == 3);
        break;
    case 4:
        try_score(body, n - 1);
        break;
    case 5:
        try_state_create(body, n - 1);
        break;
    case 6:
        try_state_fork(body, n - 1);
        break;
    case 7:
        try_response(body, n - 1);
        break;
    case 8:
    case 9:
        try_conversation(body, n - 1, route == 9);
        break;
    default:
        try_message(body, n - 1, route == 11);
    }
    free(body);
    return 0;
}
