/*
 * One pass over whole inputs (see encoder.h). The same operations are queued whatever the batch
 * looks like; sequence i of it has room i of the states, which hold nothing else.
 */
#include "model/encoder.h"

#include <math.h>
#include <stdlib.h>

#include "model/forward.h"

enum { MAX_ROWS = 1 << 20 };

struct lx_encoder {
    lx_forward forward;
    int32_t max_rows, max_inputs;
    lx_array *features; /* [max_rows, width] */
    lx_array *logits;   /* [max_rows, ids] */
    lx_states *room;    /* of max_inputs sequences; NULL where no layer has any */
    int32_t *positions; /* [max_rows] */
    int32_t *seq_start; /* [max_inputs + 1] */
    int32_t *slots;     /* [max_inputs]: 0, 1, 2 .. */
    int64_t bytes;
};

int32_t lx_encoder_width(const lx_model *model)
{
    return model->config.n_features;
}

/* --- making --- */

static lx_status new_indices(lx_encoder *e, lx_error *err)
{
    e->positions = calloc((size_t)e->max_rows, sizeof *e->positions);
    e->seq_start = calloc((size_t)e->max_inputs + 1, sizeof *e->seq_start);
    e->slots = calloc((size_t)e->max_inputs, sizeof *e->slots);
    if (e->positions == NULL || e->seq_start == NULL || e->slots == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an encoder");
    for (int32_t i = 0; i < e->max_inputs; i++)
        e->slots[i] = i;
    return LX_OK;
}

static lx_status new_arrays(lx_encoder *e, lx_error *err)
{
    const lx_model *m = e->forward.model;
    lx_backend *be = e->forward.be;
    int64_t width = lx_encoder_width(m), rows = e->max_rows;
    e->bytes =
        e->forward.bytes +
        (rows * (width + m->config.head_size) + e->max_inputs * m->room) * (int64_t)sizeof(float) +
        (rows + 2 * (int64_t)e->max_inputs + 1) * (int64_t)sizeof(int32_t);
    /* not rows_new: the uploaded inputs must still be there in the step */
    lx_status st = be->ops->array_new(be, rows * width, &e->features, err);
    if (st == LX_OK)
        st = be->ops->rows_new(be, rows, m->config.head_size, &e->logits, err);
    if (st == LX_OK && m->room > 0)
        st = be->ops->states_new(be, &(lx_state_layout){.fixed_floats = m->room}, e->max_inputs,
                                 &e->room, err);
    return st;
}

lx_status lx_encoder_new(const lx_model *model, lx_backend *be, int32_t max_rows,
                         int32_t max_inputs, lx_encoder **out, lx_error *err)
{
    if (!model->sees_all)
        return lx_fail(err, LX_ERR_INVALID, "model",
                       "model %s has the task %s and does not transcribe sounds", model->name,
                       model->config.task);
    if (max_rows < model->max_rows || max_rows > MAX_ROWS || max_inputs < 1 ||
        max_inputs > max_rows)
        return lx_fail(err, LX_ERR_INVALID, NULL,
                       "passes of %d rows and %d inputs: rows must be %d to %d, inputs 1 to rows",
                       max_rows, max_inputs, model->max_rows, MAX_ROWS);
    lx_encoder *e = calloc(1, sizeof *e);
    if (e == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an encoder");
    e->max_rows = max_rows;
    e->max_inputs = max_inputs;
    lx_status st = lx_forward_init(&e->forward, model, be, max_rows, err);
    if (st == LX_OK)
        st = new_arrays(e, err);
    if (st == LX_OK)
        st = new_indices(e, err);
    if (st != LX_OK) {
        lx_encoder_free(e);
        return st;
    }
    *out = e;
    return LX_OK;
}

void lx_encoder_free(lx_encoder *e)
{
    if (e == NULL)
        return;
    lx_backend *be = e->forward.be;
    if (be != NULL) {
        be->ops->array_free(be, e->features);
        be->ops->array_free(be, e->logits);
        be->ops->states_free(be, e->room);
    }
    lx_forward_fini(&e->forward);
    free(e->positions);
    free(e->seq_start);
    free(e->slots);
    free(e);
}

const lx_model *lx_encoder_model(const lx_encoder *e)
{
    return e->forward.model;
}

int32_t lx_encoder_max_rows(const lx_encoder *e)
{
    return e->max_rows;
}

int32_t lx_encoder_max_inputs(const lx_encoder *e)
{
    return e->max_inputs;
}

int64_t lx_encoder_bytes(const lx_encoder *e)
{
    return e->bytes;
}

/* --- a pass --- */

static lx_status check(const lx_encoder *e, const lx_encoder_input *inputs, int32_t n,
                       lx_error *err)
{
    int64_t rows = 0;
    if (n < 1 || n > e->max_inputs)
        return lx_fail(err, LX_ERR_INVALID, NULL, "a pass of %d inputs is not within 1 to %d", n,
                       e->max_inputs);
    for (int32_t i = 0; i < n; i++) {
        if (inputs[i].n_rows < 1 || inputs[i].n_rows > e->forward.model->max_rows)
            return lx_fail(err, LX_ERR_INVALID, NULL, "input %d: %d rows are not within 1 to %d", i,
                           inputs[i].n_rows, e->forward.model->max_rows);
        rows += inputs[i].n_rows;
    }
    if (rows > e->max_rows)
        return lx_fail(err, LX_ERR_INVALID, NULL, "a pass of %lld rows is not within 1 to %d",
                       (long long)rows, e->max_rows);
    return LX_OK;
}

/* Rows and their places in their inputs. */
static lx_status upload(lx_encoder *e, const lx_encoder_input *inputs, int32_t n)
{
    lx_backend *be = e->forward.be;
    int64_t width = lx_encoder_width(e->forward.model);
    lx_status st = LX_OK;
    for (int32_t i = 0; i < n && st == LX_OK; i++) {
        int32_t first = e->seq_start[i];
        e->seq_start[i + 1] = first + inputs[i].n_rows;
        for (int32_t r = 0; r < inputs[i].n_rows; r++)
            e->positions[first + r] = r;
        st = be->ops->array_upload(be, e->features, first * width, inputs[i].rows,
                                   inputs[i].n_rows * width);
    }
    return st;
}

static void queue(lx_encoder *e)
{
    const lx_forward *f = &e->forward;
    lx_array *x = f->streams[0];
    lx_forward_embed(f, x, e->positions, NULL);
    lx_forward_product(f, x, e->features, f->weights.features, x, LX_ROWS_TOKENS);
    lx_forward_input_norm(f);
    (void)lx_forward_layers(f, e->room, 0, NULL);
    lx_forward_norm(f, f->normed, x, &f->weights.final_norm, f->model->config.d_model,
                    LX_ROWS_TOKENS);
    lx_forward_product(f, e->logits, f->normed, f->weights.head, NULL, LX_ROWS_TOKENS);
}

/* Logits become their logarithms of probabilities; false: one is no number. */
static bool log_softmax(float *x, int32_t n)
{
    double most = -INFINITY, sum = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return false;
        most = fmax(most, (double)x[i]);
    }
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - most);
    for (int32_t i = 0; i < n; i++)
        x[i] = (float)((double)x[i] - most - log(sum));
    return true;
}

static lx_status download(lx_encoder *e, const lx_encoder_input *inputs, int32_t n, lx_error *err)
{
    const lx_model *m = e->forward.model;
    lx_backend *be = e->forward.be;
    int32_t ids = m->config.head_size;
    for (int32_t i = 0; i < n; i++) {
        lx_status st = be->ops->array_download(be, e->logits, (int64_t)e->seq_start[i] * ids,
                                               inputs[i].log_p, (int64_t)inputs[i].n_rows * ids);
        if (st != LX_OK)
            return lx_fail(err, st, NULL, "the logits could not be read");
        for (int32_t r = 0; r < inputs[i].n_rows; r++) {
            if (!log_softmax(inputs[i].log_p + (int64_t)r * ids, ids))
                return lx_fail(err, LX_ERR_DEVICE, NULL, "model %s computes no numbers", m->name);
        }
    }
    return LX_OK;
}

lx_status lx_encoder_run(lx_encoder *e, const lx_encoder_input *inputs, int32_t n, lx_error *err)
{
    lx_backend *be = e->forward.be;
    uint64_t step = 0;
    lx_status st = check(e, inputs, n, err);
    if (st != LX_OK)
        return st;
    st = upload(e, inputs, n);
    if (st != LX_OK)
        return lx_fail(err, st, NULL, "the rows could not be moved to the device");
    const lx_batch batch = {
        .n_tokens = e->seq_start[n], .n_seqs = n, .seq_start = e->seq_start, .slot = e->slots};
    st = be->ops->begin(be, &batch, err);
    if (st != LX_OK)
        return st;
    queue(e);
    st = be->ops->end(be, &step, err);
    if (st == LX_OK)
        st = be->ops->sync(be, step, err);
    return st == LX_OK ? download(e, inputs, n, err) : st;
}
