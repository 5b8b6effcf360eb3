/* See world.h. */
#include "tests/simt/world.h"

#include <string.h>

static lx_status make_objects(world *w, lx_error *err)
{
    const lx_kernels *k = w->k;
    lx_host_tensor table = {LX_F32, WORLD_IDS, WORLD_WIDTH, w->values}, head = table,
                   qkv = {LX_BF16, 3 * WORLD_WIDTH, WORLD_WIDTH, w->values},
                   out = {LX_BF16, WORLD_WIDTH, WORLD_WIDTH, w->values};
    lx_state_layout layout = {
        .fixed_floats = WORLD_STATE, .page_floats = WORLD_PAGE, .n_pages = 2, .slot_pages = 1};
    lx_status st = k->rows_new(w->be, WORLD_ROWS, WORLD_WIDTH, &w->x, err);
    if (st == LX_OK)
        st = k->rows_new(w->be, WORLD_ROWS, WORLD_WIDTH, &w->y, err);
    if (st == LX_OK)
        st = k->rows_new(w->be, WORLD_ROWS, 3 * WORLD_WIDTH, &w->wide, err);
    if (st == LX_OK)
        st = k->array_new(w->be, WORLD_WIDTH, &w->ones, err);
    if (st == LX_OK)
        st = k->array_upload(w->be, w->ones, 0, w->values, WORLD_WIDTH);
    if (st != LX_OK && err->text[0] == '\0')
        return lx_fail(err, st, NULL, "an array cannot be filled"); /* the call has no text */
    if (st == LX_OK)
        st = k->table_new(w->be, &table, NULL, &w->table, err);
    if (st == LX_OK)
        st = k->matrix_new(w->be, &qkv, NULL, w->values, &w->qkv, err);
    if (st == LX_OK)
        st = k->matrix_new(w->be, &head, NULL, NULL, &w->head, err);
    if (st == LX_OK)
        st = k->matrix_new(w->be, &out, NULL, w->values, &w->out, err);
    if (st == LX_OK)
        st = k->mask_new(w->be, w->banned, WORLD_IDS, &w->mask, err);
    return st == LX_OK ? k->states_new(w->be, &layout, WORLD_ROWS, &w->states, err) : st;
}

lx_status world_open(world *w, const lx_backend_options *how, lx_error *err)
{
    *w = (world){.eps = 1e-6f};
    for (int i = 0; i < 3 * WORLD_WIDTH * WORLD_WIDTH; i++)
        w->values[i] = (float)(i % 7) * 0.25f - 0.5f;
    for (int32_t i = 0; i <= WORLD_ROWS; i++)
        w->order[i] = i;
    memcpy(w->slot, w->order, sizeof w->slot);
    lx_status st = lx_backend_open("cuda", how, &w->be, err);
    if (st != LX_OK)
        return st;
    w->k = w->be->ops;
    st = make_objects(w, err);
    static const int32_t banned[] = {4};
    for (int32_t i = 0; i < WORLD_ROWS; i++)
        w->how[i] = (lx_sampling){.temperature = 1,
                                  .top_p = 0.9f,
                                  .forced = -1,
                                  .mask = w->mask,
                                  .banned = banned,
                                  .n_banned = 1};
    return st;
}

void world_close(world *w)
{
    const lx_kernels *k = w->k;
    if (w->be == NULL)
        return;
    k->array_free(w->be, w->x);
    k->array_free(w->be, w->y);
    k->array_free(w->be, w->wide);
    k->array_free(w->be, w->ones);
    k->table_free(w->be, w->table);
    k->matrix_free(w->be, w->qkv);
    k->matrix_free(w->be, w->out);
    k->matrix_free(w->be, w->head);
    k->mask_free(w->be, w->mask);
    k->states_free(w->be, w->states);
    k->close(w->be);
    w->be = NULL;
}

/* Records a step with every operation and does not end it; its arguments' objects live until
   then. */
static lx_status record_step(world *w, const lx_batch *b, lx_error *err)
{
    const lx_kernels *k = w->k;
    w->tables[0] = w->table;
    for (int32_t i = 0; i < b->n_tokens; i++)
        w->ids[i] = (i + 1) % WORLD_IDS;
    lx_embed_args embed = {w->x, 1, w->tables, w->ids, w->states};
    lx_norm_args norm = {w->y,          w->x,        w->gamma != NULL ? w->gamma : w->ones,
                         w->ones,       WORLD_WIDTH, 1e-5f,
                         LX_ROWS_TOKENS};
    lx_linear_args qkv = {w->wide, w->y, w->qkv, LX_ACT_GELU, NULL, LX_ROWS_TOKENS};
    lx_attend_linear_args attend = {w->y,        w->wide,     w->states,   0,      1,
                                    WORLD_WIDTH, WORLD_WIDTH, LX_PHI_ELU1, w->eps, NULL};
    static const lx_rows_pattern pattern = {.kind = LX_PATTERN_WINDOW, .window = 4, .dilation = 1};
    lx_attend_rows_args rows = {.y = w->y,
                                .qkv = w->wide,
                                .states = w->states,
                                .offset = WORLD_WIDTH * (WORLD_WIDTH + 1),
                                .ring = WORLD_RING,
                                .n_heads = 1,
                                .d_key = WORLD_WIDTH,
                                .d_value = WORLD_WIDTH,
                                .key_heads = 1,
                                .scale = w->eps,
                                .patterns = &pattern,
                                .n_patterns = 1,
                                .weighting = LX_WEIGHT_SOFTMAX};
    lx_linear_args out = {w->x, w->y, w->out, LX_ACT_NONE, w->x, LX_ROWS_TOKENS};
    lx_gather_args gather = {w->y, w->x, WORLD_WIDTH, WORLD_WIDTH, 0};
    lx_linear_args head = {w->wide, w->y, w->head, LX_ACT_NONE, NULL, LX_ROWS_OUTPUTS};
    lx_sample_args sample = {w->wide, WORLD_IDS, w->how, w->samples, w->states};
    lx_sample_mixture_args mixture = {w->wide, 3, 256, w->how, w->samples + WORLD_ROWS, NULL};
    lx_status st = k->begin(w->be, b, err);
    if (st != LX_OK)
        return st;
    k->embed(w->be, &embed);
    k->norm(w->be, &norm);
    k->linear(w->be, &qkv);
    k->attend_linear(w->be, &attend);
    if (b->branch == NULL) /* the slots of branches have no pages */
        k->attend_rows(w->be, &rows);
    k->linear(w->be, &out);
    k->gather(w->be, &gather);
    k->linear(w->be, &head);
    k->sample(w->be, &sample);
    k->sample_mixture(w->be, &mixture);
    return LX_OK;
}

/* Not waited for. */
static lx_status start_step(world *w, const lx_batch *b, uint64_t *number, lx_error *err)
{
    lx_status st = record_step(w, b, err);
    return st == LX_OK ? w->k->end(w->be, number, err) : st;
}

static lx_status run_step(world *w, const lx_batch *b, lx_error *err)
{
    uint64_t number = 0;
    lx_status st = start_step(w, b, &number, err);
    return st == LX_OK ? w->k->sync(w->be, number, err) : st;
}

lx_status world_prompt(world *w, lx_error *err)
{
    static const int32_t start[] = {0, 1, 3}, slot[] = {2, 0}, row[] = {0, 2};
    const lx_batch b = {.n_tokens = 3,
                        .n_seqs = 2,
                        .seq_start = start,
                        .slot = slot,
                        .n_outputs = 2,
                        .output_row = row,
                        .position = w->position};
    return run_step(w, &b, err);
}

static lx_batch single_rows(const world *w, int32_t n)
{
    return (lx_batch){.n_tokens = n,
                      .n_seqs = n,
                      .seq_start = w->order,
                      .slot = w->slot,
                      .n_outputs = n,
                      .output_row = w->order,
                      .position = w->position};
}

lx_status world_decode(world *w, int32_t n, lx_error *err)
{
    const lx_batch b = single_rows(w, n);
    return run_step(w, &b, err);
}

lx_status world_prepare(world *w, int32_t n, lx_error *err)
{
    const lx_batch b = single_rows(w, n);
    lx_status st = record_step(w, &b, err);
    return st == LX_OK ? w->k->prepare(w->be, err) : st;
}

lx_status world_start(world *w, int32_t slot, int32_t branch, uint64_t *number, lx_error *err)
{
    int32_t rows = branch >= 0 ? 2 : 1;
    const int32_t start[] = {0, rows}, row[] = {rows - 1}, first[] = {1};
    const lx_batch b = {.n_tokens = rows,
                        .n_seqs = 1,
                        .seq_start = start,
                        .slot = &slot,
                        .n_outputs = 1,
                        .output_row = row,
                        .position = w->position,
                        .branch = branch >= 0 ? &branch : NULL,
                        .branch_row = first};
    return start_step(w, &b, number, err);
}
