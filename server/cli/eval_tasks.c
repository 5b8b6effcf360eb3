/*
 * linnet eval of models that write couplets, poems, copies or images.
 *
 * Couplets have two measurements. The score: nats per character of the given lower lines, from the
 * forward pass (rules off: every character of the vocabulary competes). The rules: for the upper
 * lines the model writes its own lower lines, once freely and once with the rules enforced. An
 * independent checker counts which rules each line keeps.
 *
 * Poems: nats per character of the texts of a file, each given its kind and title, from the forward
 * pass (no form: every token of the vocabulary competes). A text's nats are those of all its
 * tokens, also of tokens that are one byte of a character; the end after the text is not scored.
 *
 * Copies are of sequences that lx_copy_sequence draws, which no training run has seen if they are
 * long enough. The model writes them, always the likeliest symbol, each from the symbols it wrote
 * before: symbols right and whole sequences right. And nats per symbol of the right copy.
 *
 * Images: bits per dimension of the images of an idx file. Every image is scored whole, nothing
 * given, in parallel form: its values are known, so thousands of rows pass in few steps and no step
 * waits for a sampled token. One plan serves all images, as all have the same request.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "model/characters.h"
#include "model/formats/idx.h"
#include "model/tasks/copy.h"
#include "model/tasks/couplet.h"
#include "model/tasks/image.h"
#include "model/tasks/text.h"
#include "model/utf8.h"
#include "server/cli/eval.h"

/* --- reports --- */

/* The report of texts, or the beginning of its object. `what`: "pairs", of which there are n; their
   scored parts, which the report calls `part`, have n_chars characters and cost so many nats. */
static void print_nats(const lx_eval_options *o, const char *model, const char *what, int64_t n,
                       const char *part, int64_t n_chars, double nats)
{
    double nll = nats / (double)n_chars;
    if (o->json) {
        lx_cli_begin_json(model);
        (void)printf(", \"%s\": %lld, \"characters\": %lld, \"nll\": %.6f, \"perplexity\": %.4f",
                     what, (long long)n, (long long)n_chars, nll, exp(nll));
        return;
    }
    (void)printf("model           %s\n%-15s %lld\ncharacters      %lld\n", model, what,
                 (long long)n, (long long)n_chars);
    (void)printf("nll             %.4f nats per character of the %s\n", nll, part);
    (void)printf("perplexity      %.2f\n", exp(nll));
}

/* --- couplets --- */

/* The pairs of the file, parsed for the model. */
typedef struct pairs {
    const lx_model *model;
    lx_eval_lines lower; /* given the upper lines; rules off */
    char **upper;        /* [n_upper], owned; as many as lower.n after the last was added */
    int32_t n_upper;
} pairs;

typedef struct report {
    int64_t n_pairs, n_chars;
    double nats;
    int64_t kept[2][LX_COUPLET_N_RULES], kept_all[2]; /* [0] free, [1] with rules */
} report;

static void pairs_free(pairs *p)
{
    for (int32_t i = 0; i < p->n_upper; i++)
        free(p->upper[i]);
    free(p->upper);
    lx_eval_lines_free(&p->lower);
}

/* Keeps the upper line of the pair that has just been added. */
static lx_status keep_upper(pairs *p, const char *line, lx_error *err)
{
    char **upper = realloc(p->upper, (size_t)p->lower.n * sizeof *upper), *copy = strdup(line);
    p->upper = upper != NULL ? upper : p->upper;
    if (upper == NULL || copy == NULL) {
        free(copy);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a line");
    }
    p->upper[p->n_upper++] = copy;
    return LX_OK;
}

static lx_status add_pair(void *context, char *line, lx_error *err)
{
    pairs *p = context;
    lx_plan *plan = NULL;
    lx_token_list targets = {0};
    char *tab = strchr(line, '\t');
    if (tab == NULL)
        return lx_fail(err, LX_ERR_INVALID, NULL,
                       "the line has no TAB between an upper and a lower line");
    *tab = '\0';
    lx_task_request request = {.text = line, .text_bytes = strlen(line), .rules = false};
    lx_status st = lx_plan_new(p->model, &request, &plan, err);
    if (st == LX_OK) {
        lx_token_list_init(&targets, (size_t)plan->n_new);
        st = plan->model->task->read_answer(plan, tab + 1, strlen(tab + 1), &targets, err);
    }
    if (st == LX_OK && targets.status != LX_OK)
        st = lx_fail(err, targets.status, NULL, "no memory for a pair");
    st = lx_eval_lines_add(&p->lower, plan, targets.ids, st, err);
    return st == LX_OK ? keep_upper(p, line, err) : st;
}

static int32_t codepoints(const char *text, uint32_t *out, int32_t max)
{
    int32_t n = 0;
    size_t size = strlen(text);
    for (size_t pos = 0; pos < size && n < max;)
        out[n++] = (uint32_t)lx_utf8_next(text, size, &pos);
    return n;
}

/* The checker gets the upper line as the task reads it, with marks in their full-width form. */
static void judge_line(const lx_job *job, const char *upper, report *r, int mode)
{
    uint32_t u[LX_EVAL_LINE_BYTES], l[LX_EVAL_LINE_BYTES];
    lx_buffer text;
    const int32_t *tokens = NULL;
    lx_buffer_init(&text, LX_EVAL_LINE_BYTES);
    int32_t n = lx_job_tokens(job, 0, &tokens, NULL);
    lx_plan_text(lx_job_plan(job), tokens, n, &text);
    int32_t n_upper = codepoints(upper, u, LX_EVAL_LINE_BYTES);
    for (int32_t i = 0; i < n_upper; i++)
        u[i] = lx_char_widen(u[i]);
    int32_t n_lower = text.data != NULL ? codepoints(text.data, l, LX_EVAL_LINE_BYTES) : 0;
    unsigned broken = lx_couplet_check(u, n_upper, l, n_lower);
    for (int i = 0; i < LX_COUPLET_N_RULES; i++)
        r->kept[mode][i] += (broken >> i & 1u) == 0;
    r->kept_all[mode] += broken == 0;
    lx_buffer_fini(&text);
}

/* The model answers all pairs once freely, then with the rules. */
typedef struct questions {
    const pairs *pairs;
    const lx_model *model;
    report *report;
} questions;

static lx_status plan_answer(void *context, int32_t i, lx_plan **out, lx_error *err)
{
    const questions *q = context;
    int32_t n = q->pairs->lower.n;
    const char *upper = q->pairs->upper[i % n];
    lx_task_request request = {.text = upper, .text_bytes = strlen(upper), .rules = i >= n};
    return lx_plan_new(q->model, &request, out, err);
}

static void judge_answer(void *context, int32_t i, const lx_job *job)
{
    const questions *q = context;
    int32_t n = q->pairs->lower.n;
    judge_line(job, q->pairs->upper[i % n], q->report, i / n);
}

static lx_status answer(const lx_eval_options *o, const pairs *p, const lx_cli_model *local,
                        report *r, lx_error *err)
{
    questions q = {p, local->model, r};
    lx_eval_answers a = {
        .n = 2 * p->lower.n,
        .sampling = {.has_seed = true, .seed = o->seed, .temperature = o->temperature, .top_p = 1},
        .context = &q,
        .plan = plan_answer,
        .judge = judge_answer};
    return lx_eval_answer(local, &a, err);
}

static void print_rules_json(const report *r)
{
    static const char *const modes[] = {"free", "with_rules"};
    for (int mode = 0; mode < 2; mode++) {
        (void)printf(", \"rules_kept_%s\": {\"all\": %.6f", modes[mode],
                     (double)r->kept_all[mode] / (double)r->n_pairs);
        for (int i = 0; i < LX_COUPLET_N_RULES; i++)
            (void)printf(", \"%s\": %.6f", lx_couplet_rule_name(i),
                         (double)r->kept[mode][i] / (double)r->n_pairs);
        (void)printf("}");
    }
}

static void print_rules(const report *r)
{
    (void)printf("\nown lower lines that keep   free    with rules\n");
    for (int i = 0; i <= LX_COUPLET_N_RULES; i++) {
        bool all = i == LX_COUPLET_N_RULES;
        const int64_t kept[2] = {all ? r->kept_all[0] : r->kept[0][i],
                                 all ? r->kept_all[1] : r->kept[1][i]};
        (void)printf("  %-22s %7.2f %%  %7.2f %%\n", all ? "all of them" : lx_couplet_rule_name(i),
                     100.0 * (double)kept[0] / (double)r->n_pairs,
                     100.0 * (double)kept[1] / (double)r->n_pairs);
    }
}

static void print_couplets(const lx_eval_options *o, const report *r, const char *model)
{
    print_nats(o, model, "pairs", r->n_pairs, "lower line", r->n_chars, r->nats);
    if (o->answers)
        (o->json ? print_rules_json : print_rules)(r);
    (void)printf(o->json ? "}\n" : "");
}

lx_status lx_eval_couplets(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                           lx_error *err)
{
    pairs p = {.model = local->model};
    report r = {0};
    lx_status st = lx_eval_lines_read(path, o->limit, "pair", add_pair, &p, err);
    if (st == LX_OK)
        st = lx_eval_lines_score(&p.lower, local->transformer, &r.nats, &r.n_chars, err);
    r.n_pairs = p.lower.n;
    if (st == LX_OK && o->answers)
        st = answer(o, &p, local, &r, err);
    if (st == LX_OK)
        print_couplets(o, &r, local->model->name);
    pairs_free(&p);
    return st;
}

/* --- poems --- */

enum { COLUMNS = 4 };
enum { KIND, AUTHOR, TITLE, TEXT };

typedef struct poems {
    const lx_model *model;
    lx_eval_lines texts; /* given kind and title */
    int64_t n_chars;
} poems;

/* Cuts a line into its columns. */
static lx_status split(char *line, char *columns[COLUMNS], lx_error *err)
{
    for (int32_t i = 0; i < COLUMNS; i++) {
        columns[i] = line;
        char *tab = strchr(line, '\t');
        if ((tab == NULL) != (i == COLUMNS - 1) || (tab == NULL && line[0] == '\0'))
            return lx_fail(err, LX_ERR_INVALID, NULL,
                           "the line is not kind TAB author TAB title TAB text");
        if (tab != NULL)
            *tab = '\0';
        line = tab != NULL ? tab + 1 : line;
    }
    return LX_OK;
}

static lx_status plan_poem(const lx_model *model, char *const columns[COLUMNS], lx_plan **out,
                           lx_error *err)
{
    char prompt[LX_EVAL_LINE_BYTES + sizeof "《》"];
    int n = snprintf(prompt, sizeof prompt, "%s《%s》", columns[KIND], columns[TITLE]);
    lx_task_request request = {.text = prompt, .text_bytes = (size_t)n};
    return lx_plan_new(model, &request, out, err);
}

static lx_status add_poem(void *context, char *line, lx_error *err)
{
    poems *p = context;
    char *columns[COLUMNS];
    lx_plan *plan = NULL;
    lx_token_list list = {0};
    lx_status st = split(line, columns, err);
    if (st == LX_OK)
        st = plan_poem(p->model, columns, &plan, err);
    if (st != LX_OK)
        return st;
    const char *text = columns[TEXT];
    size_t bytes = strlen(text);
    lx_token_list_init(&list, (size_t)plan->n_new);
    st = lx_text_encode(p->model, text, bytes, 0, NULL, &list, err);
    if (st == LX_OK && list.status != LX_OK)
        st = lx_fail(err, list.status, NULL, "the tokens of the text: %s",
                     lx_status_text(list.status));
    plan->n_new = (int32_t)list.n;
    for (size_t at = 0; at < bytes; p->n_chars++)
        (void)lx_utf8_next(text, bytes, &at);
    return lx_eval_lines_add(&p->texts, plan, list.ids, st, err);
}

lx_status lx_eval_poems(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                        lx_error *err)
{
    poems p = {.model = local->model};
    double nats = 0;
    int64_t tokens = 0; /* a character may be several */
    lx_status st = lx_eval_lines_read(path, o->limit, "poem", add_poem, &p, err);
    if (st == LX_OK)
        st = lx_eval_lines_score(&p.texts, local->transformer, &nats, &tokens, err);
    if (st == LX_OK) {
        print_nats(o, local->model->name, "poems", p.texts.n, "text", p.n_chars, nats);
        (void)printf(o->json ? "}\n" : "");
    }
    lx_eval_lines_free(&p.texts);
    return st;
}

/* --- copies --- */

enum { USUAL_SEQUENCES = 1000, MAX_SEQUENCES = 1 << 20 };

typedef struct copies {
    const lx_model *model;
    uint64_t seed;
    int32_t n, length;
    int32_t *sequence; /* [length], the current one */
    int64_t right_symbols, right_sequences;
    double nats;
} copies;

static lx_status plan_copy(void *context, int32_t i, lx_plan **out, lx_error *err)
{
    copies *c = context;
    lx_copy_sequence(&c->model->config, c->seed, (uint32_t)i, c->length, c->sequence);
    lx_task_request request = {.ids = c->sequence, .n_ids = c->length};
    return lx_plan_new(c->model, &request, out, err);
}

static void judge_copy(void *context, int32_t i, const lx_job *job)
{
    copies *c = context;
    const int32_t *tokens = NULL;
    int32_t n = lx_job_tokens(job, 0, &tokens, NULL), right = 0;
    lx_copy_sequence(&c->model->config, c->seed, (uint32_t)i, c->length, c->sequence);
    for (int32_t k = 0; k < n; k++)
        right += tokens[k] == c->sequence[k];
    c->right_symbols += right;
    c->right_sequences += right == c->length;
}

/* Sequences first .. first + n - 1 of all. */
static lx_status score_some(copies *c, lx_transformer *t, int32_t first, int32_t n, lx_error *err)
{
    lx_eval_lines lines = {0};
    int64_t tokens = 0;
    lx_status st = LX_OK;
    for (int32_t i = 0; i < n && st == LX_OK; i++) {
        lx_plan *plan = NULL;
        int32_t *targets = NULL;
        st = plan_copy(c, first + i, &plan, err);
        if (st == LX_OK)
            targets = malloc((size_t)c->length * sizeof *targets);
        if (targets != NULL)
            memcpy(targets, c->sequence, (size_t)c->length * sizeof *targets);
        else if (st == LX_OK)
            st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a sequence");
        st = lx_eval_lines_add(&lines, plan, targets, st, err);
    }
    if (st == LX_OK)
        st = lx_eval_lines_score(&lines, t, &c->nats, &tokens, err);
    lx_eval_lines_free(&lines);
    return st;
}

static lx_status score_copies(copies *c, lx_transformer *t, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t i = 0; i < c->n && st == LX_OK; i += LX_EVAL_SLOTS)
        st = score_some(c, t, i, c->n - i < LX_EVAL_SLOTS ? c->n - i : LX_EVAL_SLOTS, err);
    return st;
}

static void print_copies(const lx_eval_options *o, const copies *c)
{
    double symbols = (double)c->n * c->length, nll = c->nats / symbols;
    double right = (double)c->right_symbols / symbols, whole = (double)c->right_sequences / c->n;
    if (o->json) {
        lx_cli_begin_json(c->model->name);
        (void)printf(
            ", \"sequences\": %d, \"length\": %d, \"seed\": %lld, \"symbols_right\": %.6f, "
            "\"sequences_right\": %.6f, \"nll\": %.6f}\n",
            c->n, c->length, (long long)o->seed, right, whole, nll);
        return;
    }
    (void)printf("model            %s\nsequences        %d of %d symbols, seed %lld\n",
                 c->model->name, c->n, c->length, (long long)o->seed);
    (void)printf("symbols right    %.3f %%\nsequences right  %.2f %%\n", 100 * right, 100 * whole);
    (void)printf("nll              %.5f nats per symbol\n", nll);
}

static lx_status check_sizes(const lx_eval_options *o, const lx_model *model, lx_error *err)
{
    if (o->limit > MAX_SEQUENCES)
        return lx_fail(err, LX_ERR_INVALID, "limit",
                       "--limit: a model that copies is measured on at most %d sequences",
                       MAX_SEQUENCES);
    if (o->length > lx_copy_of(&model->config)->length)
        return lx_fail(err, LX_ERR_INVALID, "length",
                       "--length %lld: model %s reads at most %d symbols", (long long)o->length,
                       model->name, lx_copy_of(&model->config)->length);
    return LX_OK;
}

lx_status lx_eval_copies(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                         lx_error *err)
{
    (void)path;
    lx_status st = check_sizes(o, local->model, err);
    if (st != LX_OK)
        return st;
    copies c = {.model = local->model,
                .seed = (uint64_t)o->seed,
                .n = o->limit > 0 ? (int32_t)o->limit : USUAL_SEQUENCES,
                .length =
                    o->length > 0 ? (int32_t)o->length : lx_copy_of(&local->model->config)->length};
    lx_eval_answers a = {.n = c.n,
                         .sampling = {.has_seed = true, .top_p = 1},
                         .context = &c,
                         .plan = plan_copy,
                         .judge = judge_copy};
    c.sequence = calloc((size_t)c.length, sizeof *c.sequence);
    if (c.sequence == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a sequence");
    st = lx_eval_answer(local, &a, err);
    if (st == LX_OK)
        st = score_copies(&c, local->transformer, err);
    if (st == LX_OK)
        print_copies(o, &c);
    free(c.sequence);
    return st;
}

/* --- images --- */

/* Values scored between two moves of the progress bar; sequences a step can hold. */
enum { GROUP_VALUES = 1 << 16, IMAGE_SLOTS = 16 };

/* Images that are scored by one call. */
typedef struct group {
    int32_t capacity, n_values; /* images; values per image */
    lx_score_item *items;       /* [capacity] */
    int32_t *targets;           /* [capacity, n_values] */
    float *logprobs;            /* [capacity, n_values] */
} group;

typedef struct pixels {
    int64_t n_images, n_pixels, n_values;
    double bits, seconds;
} pixels;

static void group_fini(group *g)
{
    free(g->items);
    free(g->targets);
    free(g->logprobs);
}

static lx_status group_init(group *g, const lx_plan *plan, lx_error *err)
{
    int32_t size = plan->n_new;
    *g = (group){.capacity = size < GROUP_VALUES ? GROUP_VALUES / size : 1, .n_values = size};
    size_t n = (size_t)g->capacity, n_values = n * (size_t)size;
    g->items = calloc(n, sizeof *g->items);
    g->targets = calloc(n_values, sizeof *g->targets);
    g->logprobs = calloc(n_values, sizeof *g->logprobs);
    if (g->items == NULL || g->targets == NULL || g->logprobs == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d images", g->capacity);
    for (size_t i = 0; i < n; i++)
        g->items[i] =
            (lx_score_item){plan, g->targets + i * (size_t)size, g->logprobs + i * (size_t)size};
    return LX_OK;
}

/* Adds the bits of n images, whose values follow each other. */
static lx_status score_group(group *g, lx_scorer *scorer, const uint8_t *values, int32_t n,
                             pixels *r, lx_error *err)
{
    size_t n_values = (size_t)n * (size_t)g->n_values;
    const lx_config *c = &g->items[0].plan->model->config;
    for (size_t i = 0; i < n_values; i++)
        g->targets[i] = lx_image_level(c, values[i]);
    lx_status st = lx_scorer_run(scorer, g->items, n, err);
    for (size_t i = 0; i < n_values && st == LX_OK; i++)
        r->bits -= (double)g->logprobs[i] / log(2.0);
    return st;
}

static lx_status score_all(const lx_idx *x, lx_scorer *scorer, group *g, pixels *r, lx_error *err)
{
    lx_progress bar;
    lx_status st = LX_OK;
    int64_t start = lx_now_ns(), n_values = g->n_values;
    lx_progress_begin(&bar, "pixels", x->n * n_values / x->channels);
    for (int32_t i = 0; i < x->n && st == LX_OK; i += g->capacity) {
        int32_t n = x->n - i < g->capacity ? x->n - i : g->capacity;
        st = score_group(g, scorer, x->values + i * n_values, n, r, err);
        lx_progress_update(&bar, (i + n) * n_values / x->channels);
    }
    lx_progress_end(&bar);
    r->n_images = x->n;
    r->n_values = x->n * n_values;
    r->n_pixels = r->n_values / x->channels;
    r->seconds = (double)(lx_now_ns() - start) / (double)LX_NS_PER_S;
    return st;
}

static lx_status check_fit(const lx_idx *x, const lx_image_config *c, const char *path,
                           lx_error *err)
{
    if (x->width == c->width && x->height == c->height && x->channels == c->n_channels)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, NULL,
                   "%s: holds %s images of %dx%d, the model's are %s ones of %dx%d", path,
                   x->channels == 1 ? "grey" : "colour", x->width, x->height,
                   c->n_channels == 1 ? "grey" : "colour", c->width, c->height);
}

static void print_images(const lx_eval_options *o, const char *model, const pixels *r)
{
    double bits = r->bits / (double)r->n_values, rate = (double)r->n_pixels / r->seconds;
    if (o->json) {
        lx_cli_begin_json(model);
        (void)printf(", \"images\": %lld, \"pixels\": %lld, \"bits_per_dim\": %.6f, "
                     "\"seconds\": %.3f, \"pixels_per_second\": %.1f}\n",
                     (long long)r->n_images, (long long)r->n_pixels, bits, r->seconds, rate);
        return;
    }
    (void)printf("model           %s\nimages          %lld\npixels          %lld\n", model,
                 (long long)r->n_images, (long long)r->n_pixels);
    (void)printf("bits/dim        %.4f\nspeed           %.0f pixels/s, %.1f s\n", bits, rate,
                 r->seconds);
}

lx_status lx_eval_images(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                         lx_error *err)
{
    lx_idx x = {.values = NULL};
    group g = {.items = NULL};
    pixels r = {.bits = 0};
    lx_plan *plan = NULL;
    lx_scorer *scorer = NULL;
    const lx_task_request whole = {.text = NULL};
    lx_status st = lx_idx_read(path, (int32_t)o->limit, &x, err);
    if (st == LX_OK)
        st = check_fit(&x, lx_image_of(&local->model->config), path, err);
    if (st == LX_OK)
        st = lx_plan_new(local->model, &whole, &plan, err);
    if (st == LX_OK)
        st = group_init(&g, plan, err);
    if (st == LX_OK)
        st = lx_scorer_new(local->transformer, LX_EVAL_ROWS, IMAGE_SLOTS, &scorer, err);
    if (st == LX_OK)
        st = score_all(&x, scorer, &g, &r, err);
    if (st == LX_OK)
        print_images(o, local->model->name, &r);
    lx_scorer_free(scorer);
    lx_plan_free(plan);
    group_fini(&g);
    lx_idx_fini(&x);
    return st;
}
