/*
 * Logits of pairs of lines, couplets, sequences and their copies, or beginnings and poems, against
 * MODEL.bin, every row of every pair. The input rows that the task makes must also equal the
 * fixture's.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tasks/copy.h"
#include "model/tasks/couplet.h"
#include "model/tasks/poem.h"
#include "model/tokenizers/tokenizer.h"
#include "tests/golden/golden.h"

enum { MAX_ROWS = GOLDEN_ROWS, MAX_INPUTS = LX_MAX_INPUTS, MAX_LINE = 512 };
static const double bound = 1e-4;

typedef struct header {
    int32_t pairs, vocabulary, inputs, k;
} header;

typedef struct fixture {
    FILE *golden, *pairs;
    header h;
} fixture;

static int read_exactly(FILE *f, void *out, size_t n)
{
    return fread(out, 1, n, f) == n;
}

static int open_fixture(fixture *f, const char *dir, const char *name)
{
    char path[4096], magic[8];
    (void)snprintf(path, sizeof path, "%s/%s.bin", dir, name);
    f->golden = fopen(path, "rb");
    (void)snprintf(path, sizeof path, "%s/pairs.tsv", dir);
    f->pairs = fopen(path, "r");
    return f->golden != NULL && f->pairs != NULL && read_exactly(f->golden, magic, sizeof magic) &&
           memcmp(magic, "LXGOLD1", 8) == 0 && read_exactly(f->golden, &f->h, sizeof f->h) &&
           f->h.pairs > 0 && f->h.inputs > 0 && f->h.inputs <= MAX_INPUTS && f->h.k > 0;
}

static void close_fixture(fixture *f)
{
    if (f->golden != NULL)
        (void)fclose(f->golden);
    if (f->pairs != NULL)
        (void)fclose(f->pairs);
}

/* The tokens of an answer, and how many there are; -1 when it is none. */
static int32_t read_answer(const lx_plan *plan, const char *text, int32_t *ids)
{
    lx_token_list list;
    lx_token_list_init(&list, MAX_ROWS);
    lx_status st = plan->model->task->read_answer(plan, text, strlen(text), &list, NULL);
    int32_t n = st == LX_OK && list.status == LX_OK ? (int32_t)list.n : -1;
    for (int32_t i = 0; i < n; i++)
        ids[i] = list.ids[i];
    lx_token_list_fini(&list);
    return n;
}

/* The rows the task makes for a pair: prompt, then every token of the answer but the last. */
static int32_t task_rows(const lx_model *model, char *line, int32_t *ids)
{
    lx_plan *plan = NULL;
    int32_t lower[MAX_ROWS], n_inputs = model->config.n_inputs, n = -1;
    char *tab = strchr(line, '\t');
    if (tab == NULL)
        return -1;
    lx_task_request request = {.text = line, .text_bytes = (size_t)(tab - line)};
    if (lx_plan_new(model, &request, &plan, NULL) != LX_OK)
        return -1;
    int32_t n_answer = read_answer(plan, tab + 1, lower);
    if (n_answer > 0 && plan->n_prompt + n_answer - 1 <= MAX_ROWS) {
        n = plan->n_prompt + n_answer - 1;
        memcpy(ids, plan->prompt_ids,
               (size_t)(plan->n_prompt * n_inputs) * sizeof *plan->prompt_ids);
        for (int32_t i = 0; i + 1 < n_answer; i++)
            model->task->input(plan, i, lower, ids + (plan->n_prompt + i) * n_inputs);
    }
    lx_plan_free(plan);
    return n;
}

/* The worst difference of one row, logits picked as generate_lines.py picks them. */
static double row_difference(const header *h, int32_t row, const float *logits, const float *golden)
{
    double worst = 0, sum = 0, max = -INFINITY;
    for (int32_t i = 0; i < h->k; i++) {
        int64_t id = ((int64_t)row * 7919 + (int64_t)i * 104729) % h->vocabulary;
        worst = fmax(worst, fabs((double)logits[id] - (double)golden[i]));
    }
    for (int32_t i = 0; i < h->vocabulary; i++)
        max = fmax(max, (double)logits[i]);
    for (int32_t i = 0; i < h->vocabulary; i++)
        sum += exp((double)logits[i] - max);
    worst = fmax(worst, fabs(max + log(sum) - (double)golden[h->k]));
    worst = fmax(worst, fabs(max - (double)golden[h->k + 1]));
    int32_t best;
    memcpy(&best, &golden[h->k + 2], sizeof best);
    return best >= 0 && best < h->vocabulary ? fmax(worst, fabs((double)logits[best] - max))
                                             : INFINITY;
}

/* Reads a pair from both files and compares all its rows; the worst difference, or infinity. */
static double check_pair(fixture *f, lx_transformer *t, lx_states *states, float *logits)
{
    const lx_model *model = lx_transformer_model(t);
    int32_t ids[MAX_ROWS * MAX_INPUTS], golden_ids[MAX_ROWS * MAX_INPUTS], rows = 0, row[MAX_ROWS];
    char line[MAX_LINE];
    if (fgets(line, sizeof line, f->pairs) == NULL)
        return INFINITY;
    line[strcspn(line, "\n")] = '\0';
    int32_t n = task_rows(model, line, ids);
    if (!read_exactly(f->golden, &rows, sizeof rows) || rows != n || rows > MAX_ROWS)
        return INFINITY;
    size_t id_bytes = (size_t)(rows * f->h.inputs) * sizeof *ids;
    if (!read_exactly(f->golden, golden_ids, id_bytes) || memcmp(ids, golden_ids, id_bytes) != 0)
        return INFINITY;
    lx_sampling sampling[MAX_ROWS];
    lx_sample samples[MAX_ROWS];
    for (int32_t i = 0; i < rows; i++) {
        row[i] = i;
        sampling[i] = (lx_sampling){.forced = -1, .top_p = 1.0f};
    }
    lx_step step = {
        .batch = {.n_tokens = rows,
                  .n_seqs = 1,
                  .seq_start = (const int32_t[]){0, rows},
                  .slot = (const int32_t[]){0},
                  .n_outputs = rows,
                  .output_row = row,
                  .position = (const int32_t[]){0}},
        .ids = ids,
        .sampling = sampling,
        .samples = samples,
        .logits = logits,
    };
    lx_error err = {0};
    if (lx_transformer_state_zero(t, states, 0, &err) != LX_OK ||
        lx_transformer_step(t, states, &step, &err) != LX_OK) {
        (void)printf("step failed: %s\n", err.text);
        return INFINITY;
    }
    double worst = 0;
    for (int32_t i = 0; i < rows; i++) {
        float golden[64];
        if (!read_exactly(f->golden, golden, (size_t)(f->h.k + 3) * sizeof *golden))
            return INFINITY;
        worst = fmax(
            worst, row_difference(&f->h, i, logits + (size_t)i * (size_t)f->h.vocabulary, golden));
    }
    return worst;
}

static void check_all(fixture *f, lx_transformer *t, lx_states *states, const char *what)
{
    const lx_model *model = lx_transformer_model(t);
    float *logits = calloc((size_t)MAX_ROWS * (size_t)model->config.head_size, sizeof *logits);
    double worst = 0;
    if (logits == NULL || f->h.vocabulary != model->config.head_size ||
        f->h.inputs != model->config.n_inputs) {
        golden_count(false, "%s: the fixture does not fit the model", what);
        free(logits);
        return;
    }
    for (int32_t i = 0; i < golden_part(f->h.pairs); i++) {
        double difference = check_pair(f, t, states, logits);
        worst = fmax(worst, difference);
        golden_count(difference <= bound, "%s: pair %d differs by %g", what, i + 1, difference);
        if (isinf(difference))
            break;
    }
    (void)printf("%-28s worst difference of a logit %.2e\n", what, worst);
    free(logits);
}

void golden_lines(lx_transformer *t, const char *dir, const char *what)
{
    lx_states *states = NULL;
    lx_error err = {0};
    fixture f = {0};
    lx_status st = lx_transformer_states_new(t, 1, MAX_ROWS, &states, &err);
    const char *name = lx_transformer_model(t)->name;
    if (st == LX_OK && !open_fixture(&f, dir, name))
        st = lx_fail(&err, LX_ERR_IO, NULL, "%s: no readable %s.bin and pairs.tsv", dir, name);
    if (st == LX_OK)
        check_all(&f, t, states, what);
    else
        golden_count(false, "%s: %s", what, err.text);
    close_fixture(&f);
    lx_transformer_states_free(t, states);
}
