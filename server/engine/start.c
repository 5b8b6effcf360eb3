/*
 * The engine's start: it checks the options, allocates all memory of the engine, prepares steps and
 * starts the thread. The engine's end is the reverse.
 */
#include <stdlib.h>

#include "common/clock.h"
#include "server/engine/internal.h"

/* The pages of a slot hold at most 2^20 tokens. */
enum { MAX_PAGES = 1 << 24, MAX_SLOT_PAGES = 1 << 14 };
enum { MAX_SLOTS = 1 << 20, MAX_QUEUE = 1 << 20, MAX_ROWS = 1 << 20, MAX_PREFIXES = 1 << 16 };

static lx_status check_options(const lx_engine_options *o, lx_error *err)
{
    const struct {
        const char *field;
        int64_t value, least, most;
    } ranges[] = {
        {"slots", o->n_slots, 1, MAX_SLOTS},
        {"max_queue", o->max_queue, 0, MAX_QUEUE},
        {"max_tokens", o->max_tokens, o->n_slots, MAX_ROWS},
        {"prefix_cache_mb", o->prefix_bytes, 0, INT64_MAX},
        {"prefix_every", o->prefix_every, 0, INT32_MAX},
        {"move_bytes", o->move_bytes, 0, INT64_MAX},
        {"prompt_beside", o->prompt_beside, 1, INT32_MAX},
        {"ahead", o->ahead, 0, LX_MAX_AHEAD},
        {"draft", o->draft, 0, LX_MAX_DRAFT},
        {"prompt_chunk", o->prompt_chunk, 1, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (ranges[i].value < ranges[i].least || ranges[i].value > ranges[i].most)
            return lx_fail(err, LX_ERR_INVALID, ranges[i].field, "%s is %lld, not in %lld .. %lld",
                           ranges[i].field, (long long)ranges[i].value, (long long)ranges[i].least,
                           (long long)ranges[i].most);
    }
    return LX_OK;
}

/* One zeroed array that the engine owns. NULL without memory, and where the list of arrays is full.
 */
static void *grab(lx_engine *e, size_t n, size_t size)
{
    void *p = e->n_memory < LX_ENGINE_ARRAYS ? calloc(n, size) : NULL;
    if (p != NULL)
        e->memory[e->n_memory++] = p;
    e->has_memory = e->has_memory && p != NULL;
    return p;
}

#define GRAB(owner, field, n) ((owner)->field = grab(e, (size_t)(n), sizeof *(owner)->field))

static void allocate_frame(lx_engine *e, lx_frame *f)
{
    int32_t n = e->options.n_slots, rows = e->options.max_tokens;
    GRAB(f, seq_start, n + 1);
    GRAB(f, seq_slot, n);
    GRAB(f, seq_state, n);
    GRAB(f, branch, n);
    GRAB(f, branch_row, n);
    GRAB(f, position, n);
    GRAB(f, constraints, rows);
    GRAB(f, allowed, (int64_t)rows * lx_task_words(e->model));
    for (int32_t i = 0; f->constraints != NULL && f->allowed != NULL && i < rows; i++)
        f->constraints[i].room = f->allowed + (int64_t)i * lx_task_words(e->model);
    GRAB(f, ids, (int64_t)rows * e->model->config.n_inputs);
    GRAB(f, output_row, rows);
    GRAB(f, output_slot, rows);
    GRAB(f, guess, rows);
    GRAB(f, sampling, rows);
    GRAB(f, samples, rows);
}

static void allocate_usage(lx_engine *e, lx_usage_table *u, int32_t n)
{
    GRAB(u, at, n);
    GRAB(u, clocks, n);
    GRAB(u, unused, n);
}

static bool allocate(lx_engine *e)
{
    int32_t n = e->total_slots;
    e->n_room = 2 * (e->options.max_queue + e->options.n_slots);
    int32_t n_jobs = 2 * e->n_room + n; /* in the queue, dropped from it, and running */
    e->has_memory = lx_pages_init(&e->pages, e->pages.n);
    GRAB(e, masks, lx_task_masks(e->model) + 1);
    GRAB(e, queue, e->n_room);
    GRAB(e, admitted, n);
    GRAB(e, dropped, e->n_room);
    GRAB(e, slots, n);
    GRAB(e, free_slots, n);
    GRAB(e, runs, n);
    GRAB(e, run_order, n);
    GRAB(e, rows, n);
    GRAB(e, items, n);
    GRAB(e, page_list, e->slot_pages + 1);
    e->drafts.rule.room = GRAB(&e->drafts, allowed, lx_task_words(e->model) + 1);
    GRAB(&e->moves, ring, n);
    allocate_usage(e, &e->clients, n_jobs);
    allocate_usage(e, &e->requests, n_jobs);
    for (int32_t i = 0; i <= e->options.ahead; i++)
        allocate_frame(e, &e->frames[i]);
    return e->has_memory;
}

static void release(lx_engine *e)
{
    for (int32_t i = 0; e->masks != NULL && i < lx_task_masks(e->model); i++)
        e->be->ops->mask_free(e->be, e->masks[i]);
    lx_transformer_states_free(e->transformer, e->states);
    lx_pages_fini(&e->pages);
    lx_prefix_cache_free(e->prefixes);
    lx_drafter_free(e->drafts.drafter);
    for (int32_t i = 0; i < e->n_memory; i++)
        free(e->memory[i]);
    free(e);
}

static lx_status make_masks(lx_engine *e, lx_error *err)
{
    int32_t n_ids = e->model->config.head_size;
    uint8_t *banned = malloc((size_t)n_ids);
    if (banned == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a mask");
    lx_status st = LX_OK;
    for (int32_t i = 0; i < lx_task_masks(e->model) && st == LX_OK; i++) {
        e->model->task->fill_mask(e->model, i, banned);
        st = e->be->ops->mask_new(e->be, banned, n_ids, &e->masks[i], err);
    }
    free(banned);
    return st;
}

/* The pages of the pool, and the most pages of a slot. */
static void count_pages(lx_engine *e)
{
    int64_t each = lx_engine_page_bytes(e);
    int64_t all = (int64_t)e->total_slots * lx_model_state_pages(e->model, e->model->max_rows);
    int64_t n = each > 0 && e->options.page_bytes > 0 ? e->options.page_bytes / each : all;
    n = n > MAX_PAGES ? MAX_PAGES : n;
    e->pages.n = each > 0 && n < 1 ? 1 : (int32_t)n;
    int32_t most = lx_model_state_pages(e->model, e->model->max_rows);
    most = most < MAX_SLOT_PAGES ? most : MAX_SLOT_PAGES;
    e->slot_pages = e->pages.n < most ? e->pages.n : most;
}

/* As many slots for kept states as the bytes allow, with one page each if states grow. More pages
   are those that runs leave (prefix.c). */
static lx_status make_prefixes(lx_engine *e, int32_t *n, lx_error *err)
{
    int64_t page = lx_engine_page_bytes(e), bytes = e->options.prefix_bytes;
    int64_t fixed = e->model->state.fixed_floats * (int64_t)sizeof(float);
    int64_t slots = bytes / (fixed + page);
    *n = slots < MAX_PREFIXES ? (int32_t)slots : MAX_PREFIXES;
    if (*n == 0)
        return LX_OK;
    GRAB(e, kept_pages, *n);
    GRAB(e, answer_ids, (int64_t)e->model->max_rows * e->model->config.n_inputs);
    if (!e->has_memory)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d prefixes", *n);
    for (int32_t i = 0; i < *n; i++)
        e->kept_pages[i] = -1;
    return lx_prefix_cache_new(*n, e->model->config.n_inputs, &e->prefixes, err);
}

static lx_status make_states(lx_engine *e, lx_error *err)
{
    int32_t n_kept = 0;
    lx_status st = make_prefixes(e, &n_kept, err);
    int32_t n = e->total_slots + n_kept;
    if (st == LX_OK)
        st = lx_drafts_init(e, n, err);
    if (st != LX_OK)
        return st;
    e->n_states = n + e->drafts.n_second;
    return lx_transformer_states_pool(e->transformer, e->n_states, e->pages.n + 1, e->slot_pages,
                                      &e->states, err); /* one page is the probe's */
}

/*
 * --- steps are prepared before the first job ---
 *
 * One step of each size that the back end distinguishes, and one of the largest size. So steps have
 * all their memory, or the start fails, and captured graphs are made now. Only lists of biases, of
 * which a job may bring many, can make a later step larger.
 */

/* The longest lists that a row can have; all rows share them. */
typedef struct lists {
    int32_t banned[LX_MAX_BANNED];
    lx_sample top[LX_MAX_TOP];
} lists;

static void add_output(const lx_engine *e, lx_frame *f, lists *l)
{
    bool text = e->model->task->modality == LX_TEXT; /* others have no lists */
    int32_t n_ids = e->model->config.n_values, i = f->step.batch.n_outputs++;
    int32_t most_top = n_ids < LX_MAX_TOP ? n_ids : LX_MAX_TOP;
    f->output_row[i] = f->step.batch.n_tokens - 1;
    f->sampling[i] = (lx_sampling){
        .temperature = 1,
        .top_p = 1,
        .forced = -1,
        .n_banned = text && n_ids > 1 ? LX_MAX_BANNED : 0,
        .banned = l->banned,
        .n_top = text ? most_top : 0,
        .top = l->top,
    };
}

/* Maps this page as all pages that a prepared step can need; -1: no page. Nothing is computed, so
   one page may stand for all. */
static lx_status map_slots(lx_engine *e, int32_t page, lx_error *err)
{
    int32_t n = (e->options.max_tokens + LX_PAGE_TOKENS - 1) / LX_PAGE_TOKENS;
    n = n < e->slot_pages ? n : e->slot_pages;
    for (int32_t i = 0; i < n; i++)
        e->page_list[i] = page;
    lx_status st = LX_OK;
    for (int32_t slot = 1; slot <= e->options.n_slots && n > 0 && st == LX_OK; slot++)
        st = lx_transformer_state_map(e->transformer, e->states, slot, n, e->page_list, err);
    if (st == LX_OK && n > 0 && e->n_states > e->total_slots) /* the branch's */
        st = lx_transformer_state_map(e->transformer, e->states, e->n_states - 1, n, e->page_list,
                                      err);
    return st;
}

/* Prepares steps of n_rows rows in n_seqs sequences; all rows are outputs. If it can, the first
   sequence branches into the last state, since a back end notes which states a step has. */
static lx_status prepare(lx_engine *e, int32_t n_seqs, int32_t n_rows, lists *l, lx_error *err)
{
    lx_frame *f = &e->frames[0];
    lx_frame_clear(f); /* ids and positions are zeros */
    lx_batch *b = &f->step.batch;
    for (int32_t i = 0; i < n_seqs; i++) {
        int64_t length = n_rows / n_seqs + (i < n_rows % n_seqs);
        if (e->pages.n > 0 && length > (int64_t)e->slot_pages * LX_PAGE_TOKENS)
            length = (int64_t)e->slot_pages * LX_PAGE_TOKENS;
        f->seq_start[b->n_seqs] = b->n_tokens;
        f->branch[i] = -1;
        f->seq_state[b->n_seqs++] = i + 1; /* there are spare slots */
        for (int64_t row = 0; row < length; row++) {
            b->n_tokens++;
            add_output(e, f, l);
        }
    }
    f->seq_start[n_seqs] = b->n_tokens;
    if (lx_model_can_branch(e->model) && e->n_states > e->total_slots && f->seq_start[1] > 1) {
        f->branch[0] = e->n_states - 1;
        f->branch_row[0] = 1;
        b->branch = f->branch;
        b->branch_row = f->branch_row;
    }
    return lx_transformer_prepare(e->transformer, e->states, &f->step, err);
}

static lx_status prepare_all(lx_engine *e, lx_error *err)
{
    lists l = {0};
    int32_t n_slots = e->options.n_slots, size = 0;
    if (e->be->ops->prepare == NULL)
        return LX_OK;
    lx_status st = map_slots(e, e->pages.n, err); /* the probe's */
    if (st == LX_OK)
        st = prepare(e, n_slots, e->options.max_tokens, &l, err);
    while (st == LX_OK && size < n_slots) {
        size = e->be->ops->step_size(size + 1);
        int32_t n = size < n_slots ? size : n_slots;
        st = prepare(e, n, n, &l, err);
    }
    return st == LX_OK ? map_slots(e, -1, err) : st;
}

/* --- the thread --- */

/* The engine's thread has ended. */
static void end_shared(lx_engine *e)
{
    lx_moves_fini(e);
    (void)pthread_cond_destroy(&e->changed);
    (void)pthread_mutex_destroy(&e->mutex);
}

static lx_status start_threads(lx_engine *e, lx_error *err)
{
    if (pthread_mutex_init(&e->mutex, NULL) != 0 || !lx_timed_cond_init(&e->changed))
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a lock");
    lx_status st = lx_moves_init(e, err);
    if (st == LX_OK && lx_engine_thread(&e->thread, lx_engine_run, e))
        return LX_OK;
    if (st == LX_OK)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "the engine's thread could not be started");
    end_shared(e);
    return st;
}

lx_status lx_engine_start(lx_transformer *t, const lx_engine_options *options, lx_metrics *metrics,
                          lx_engine **out, lx_error *err)
{
    lx_status st = check_options(options, err);
    if (st != LX_OK)
        return st;
    lx_engine *e = calloc(1, sizeof *e);
    if (e == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an engine");
    e->transformer = t;
    e->model = lx_transformer_model(t);
    e->be = lx_transformer_backend(t);
    e->metrics = metrics;
    e->options = *options;
    int32_t n_spare = options->n_spare > 0 ? options->n_spare : lx_fair_spare(options->n_slots);
    e->total_slots = options->n_slots + n_spare;
    count_pages(e);
    lx_stored_init(e);
    atomic_init(&e->healthy, true);
    atomic_init(&e->last_step_ns, lx_now_ns());
    e->paced_ns = lx_now_ns();
    st = allocate(e) ? LX_OK : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an engine");
    if (st == LX_OK)
        st = make_states(e, err);
    if (st == LX_OK)
        st = make_masks(e, err);
    if (st == LX_OK)
        st = prepare_all(e, err);
    if (st == LX_OK) {
        lx_runs_init(e);
        e->credit = options->n_slots;
        e->page_credit = e->pages.n;
        atomic_store(&metrics->slots_total, options->n_slots);
        atomic_store(&metrics->pool_bytes, e->pages.n * lx_engine_page_bytes(e));
        atomic_store(&metrics->queue_limit, options->max_queue);
        st = start_threads(e, err);
    }
    if (st != LX_OK) {
        release(e);
        return st;
    }
    *out = e;
    return LX_OK;
}

void lx_engine_stop(lx_engine *e)
{
    if (e == NULL)
        return;
    (void)pthread_mutex_lock(&e->mutex);
    e->draining = e->stopping = true;
    (void)pthread_cond_signal(&e->changed);
    (void)pthread_mutex_unlock(&e->mutex);
    (void)pthread_join(e->thread, NULL);
    end_shared(e);
    release(e);
}
