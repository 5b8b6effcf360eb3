/*
 * Before the first job, steps are prepared: one of every size that the back end keeps apart, and
 * one as large as any. So all memory that steps need is there, or the start fails, and what is made
 * once (captured graphs) is made now. Only lists of biases, of which a job may bring many, can
 * still make a later step larger.
 */
#include "server/engine/internal.h"

/* Lists as long as a row's can be; all rows share them. */
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

/* Rows of a sequence: no more than a slot has pages for. */
static int32_t most_rows(const lx_engine *e)
{
    bool grows = e->pages.n > 0 && e->slot_pages < INT32_MAX / LX_PAGE_TOKENS;
    return grows ? e->slot_pages * LX_PAGE_TOKENS : INT32_MAX;
}

/* The slots of prepared steps have this page as all that such a step can need; -1: none again.
   Nothing is computed, so they may share it. */
static lx_status map_slots(lx_engine *e, int32_t page, lx_error *err)
{
    int32_t n = (e->options.max_tokens + LX_PAGE_TOKENS - 1) / LX_PAGE_TOKENS;
    n = n < e->slot_pages ? n : e->slot_pages;
    for (int32_t i = 0; i < n; i++)
        e->page_list[i] = page;
    lx_status st = LX_OK;
    for (int32_t slot = 1; slot <= e->options.n_slots && n > 0 && st == LX_OK; slot++)
        st = lx_transformer_state_map(e->transformer, e->states, slot, n, e->page_list, err);
    return st;
}

/* For steps of n_rows rows in n_seqs sequences, all of them outputs. */
static lx_status prepare(lx_engine *e, int32_t n_seqs, int32_t n_rows, lists *l, lx_error *err)
{
    lx_frame *f = &e->frames[0];
    f->step = (lx_step){
        .batch = {.seq_start = f->seq_start,
                  .slot = f->seq_state,
                  .output_row = f->output_row,
                  .position = f->position}, /* zeros */
        .ids = f->ids,                      /* zeros */
        .sampling = f->sampling,
        .samples = f->samples,
    };
    lx_batch *b = &f->step.batch;
    for (int32_t i = 0; i < n_seqs; i++) {
        int32_t length = n_rows / n_seqs + (i < n_rows % n_seqs), most = most_rows(e);
        length = length < most ? length : most;
        f->seq_start[b->n_seqs] = b->n_tokens;
        f->seq_state[b->n_seqs++] = i + 1; /* there are spare slots */
        for (int32_t row = 0; row < length; row++) {
            b->n_tokens++;
            add_output(e, f, l);
        }
    }
    f->seq_start[n_seqs] = b->n_tokens;
    return lx_transformer_prepare(e->transformer, e->states, &f->step, err);
}

lx_status lx_engine_prepare(lx_engine *e, lx_error *err)
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
