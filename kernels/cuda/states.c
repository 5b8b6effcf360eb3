/*
 * States on the device: all slots in one allocation, all pages in another. Moves to and from the
 * host have a stream of their own and wait only for the work on their slot, so that steps of other
 * slots run meanwhile.
 */
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

static lx_status allocate_notes(lx_cuda_states *s, lx_error *err)
{
    s->last_step = calloc((size_t)s->base.n_slots, sizeof *s->last_step);
    s->changed = calloc((size_t)s->base.n_slots, sizeof *s->changed);
    return s->last_step != NULL && s->changed != NULL
               ? LX_OK
               : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for states");
}

static lx_status allocate_states(lx_cuda *c, lx_cuda_states *all, lx_error *err)
{
    lx_states *s = &all->base;
    size_t fixed = lx_cuda_floats(s->stride) * (size_t)s->n_slots;
    size_t pool = lx_cuda_floats(s->page_stride) * (size_t)s->n_pages;
    size_t places = (size_t)s->n_slots * (size_t)s->slot_pages;
    lx_status st = lx_cuda_device_new(c, fixed, "states", (void **)&s->data, err);
    if (st == LX_OK && pool > 0)
        st = lx_cuda_device_new(c, pool, "pages of states", (void **)&s->pool, err);
    if (st == LX_OK && places > 0)
        st = lx_cuda_device_put(c, s->pages, places * sizeof *s->pages, "maps of pages",
                                (void **)&all->pages, err);
    if (st == LX_OK)
        st = lx_cuda_device_new(c, (size_t)s->n_slots * LX_DRAWN * sizeof *s->drawn, "drawn tokens",
                                (void **)&s->drawn, err);
    return st;
}

lx_status lx_cuda_states_new(lx_backend *be, const lx_state_layout *layout, int32_t n_slots,
                             lx_states **out, lx_error *err)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_cuda_states *s = calloc(1, sizeof *s);
    if (s == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for states");
    lx_status st = lx_states_init(&s->base, layout, n_slots, err);
    if (st == LX_OK)
        st = allocate_notes(s, err);
    if (st == LX_OK)
        st = lx_cuda_use(c, err);
    if (st == LX_OK)
        st = allocate_states(c, s, err);
    if (st != LX_OK) {
        lx_cuda_states_free(be, &s->base);
        return st;
    }
    *out = &s->base;
    return LX_OK;
}

void lx_cuda_states_free(lx_backend *be, lx_states *s)
{
    lx_cuda *c = (lx_cuda *)be;
    if (s == NULL)
        return;
    lx_cuda_freed_add(c, s);
    (void)cudaSetDevice(c->device);
    (void)cudaStreamSynchronize(c->stream); /* zeroing, mapping and copying are only queued */
    lx_cuda_device_free(c, s->data);
    lx_cuda_device_free(c, s->pool);
    lx_cuda_device_free(c, lx_cuda_states_of(s)->pages);
    lx_cuda_device_free(c, s->drawn);
    free(s->pages);
    free(s->mapped);
    free(lx_cuda_states_of(s)->last_step);
    free(lx_cuda_states_of(s)->changed);
    free(s);
}

void lx_cuda_states_note(const lx_states *s, const lx_batch *b, uint64_t step)
{
    for (int32_t i = 0; i < b->n_seqs; i++) {
        for (int32_t of = 0; of < 2; of++) {
            int32_t slot = of == 0 ? b->slot[i] : b->branch != NULL ? b->branch[i] : -1;
            if (slot >= 0) {
                lx_cuda_states_of(s)->last_step[slot] = step;
                lx_cuda_states_of(s)->changed[slot] = false;
            }
        }
    }
}

static lx_status check_pages(lx_cuda *c, const lx_states *s, int32_t slot, int32_t n_pages)
{
    return lx_states_have(s, slot, n_pages) ? lx_cuda_use(c, NULL) : LX_ERR_INVALID;
}

static lx_status check_copy(lx_cuda *c, cudaError_t e)
{
    return lx_cuda_check(c, e, "copying a state", NULL);
}

/* Copies one part of a state; later work on the stream waits for it. */
static lx_status queue_copy(lx_cuda *c, void *to, const void *from, size_t n_bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return n_bytes == 0 ? LX_OK : check_copy(c, cudaMemcpyAsync(to, from, n_bytes, kind, stream));
}

/* Makes later moves of the slot wait for the work that is queued on `stream` so far. */
static lx_status settle(lx_cuda *c, const lx_states *s, int32_t slot)
{
    lx_cuda_states_of(s)->changed[slot] = true;
    return check_copy(c, cudaEventRecord(c->settled, c->stream));
}

/* Makes the moves that follow wait for the slot's last step and for later changes of the slot; a
   page may have changed through another slot. If another thread records either event again
   meanwhile, the moves only wait longer. */
static lx_status begin_moves(lx_cuda *c, const lx_states *s, int32_t slot)
{
    uint64_t step = lx_cuda_states_of(s)->last_step[slot];
    lx_status st = LX_OK;
    if (step > c->n_finished)
        st = check_copy(c, cudaStreamWaitEvent(c->moves, c->frames[step % LX_CUDA_STEPS].done, 0));
    if (st == LX_OK && (lx_cuda_states_of(s)->changed[slot] || s->pool != NULL))
        st = check_copy(c, cudaStreamWaitEvent(c->moves, c->settled, 0));
    return st;
}

lx_status lx_cuda_state_map(lx_backend *be, lx_states *s, int32_t slot, int32_t first, int32_t n,
                            const int32_t *pages)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_status st = lx_states_map(s, slot, first, n, pages);
    if (st == LX_OK)
        st = lx_cuda_use(c, NULL);
    if (st != LX_OK)
        return st;
    /* The call returns after it has read pageable memory. */
    st = queue_copy(c, lx_cuda_states_of(s)->pages + (int64_t)slot * s->slot_pages + first, pages,
                    (size_t)n * sizeof *pages, cudaMemcpyHostToDevice, c->stream);
    return st == LX_OK ? settle(c, s, slot) : st;
}

lx_status lx_cuda_state_zero(lx_backend *be, lx_states *s, int32_t slot)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_status st = check_pages(c, s, slot, 0);
    if (st != LX_OK || s->floats == 0)
        return st;
    cudaError_t e =
        cudaMemsetAsync(s->data + slot * s->stride, 0, lx_cuda_floats(s->floats), c->stream);
    return e == cudaSuccess ? settle(c, s, slot) : lx_cuda_lose(c, e, "zeroing a state", NULL);
}

lx_status lx_cuda_state_copy(lx_backend *be, lx_states *s, int32_t to, int32_t from,
                             int32_t n_pages)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_status st = check_pages(c, s, to, n_pages);
    if (st == LX_OK)
        st = check_pages(c, s, from, n_pages);
    if (st != LX_OK || to == from)
        return st;
    st = queue_copy(c, s->data + to * s->stride, s->data + from * s->stride,
                    lx_cuda_floats(s->floats), cudaMemcpyDeviceToDevice, c->stream);
    for (int32_t i = 0; st == LX_OK && i < n_pages; i++) {
        float *page = lx_states_page(s, to, i);
        if (page != lx_states_page(s, from, i))
            st = queue_copy(c, page, lx_states_page(s, from, i), lx_cuda_floats(s->page_floats),
                            cudaMemcpyDeviceToDevice, c->stream);
    }
    lx_cuda_states_of(s)->changed[from] = true; /* an import there must wait for this copy */
    return st == LX_OK ? settle(c, s, to) : st;
}

/* Moves a state to the host's dst, or from src if dst is NULL. */
static lx_status move_state(lx_cuda *c, const lx_states *s, int32_t slot, float *dst,
                            const float *src, int32_t n_pages)
{
    lx_status st = check_pages(c, s, slot, n_pages);
    if (st == LX_OK)
        st = begin_moves(c, s, slot);
    if (st != LX_OK)
        return st;
    int64_t at = 0;
    for (int32_t i = -1; st == LX_OK && i < n_pages; i++) { /* -1: the fixed part */
        float *part = i < 0 ? s->data + slot * s->stride : lx_states_page(s, slot, i);
        int64_t n = i < 0 ? s->floats : s->page_floats;
        size_t bytes = lx_cuda_floats(n);
        st = dst != NULL ? queue_copy(c, dst + at, part, bytes, cudaMemcpyDeviceToHost, c->moves)
                         : queue_copy(c, part, src + at, bytes, cudaMemcpyHostToDevice, c->moves);
        at += n;
    }
    return st == LX_OK ? check_copy(c, cudaStreamSynchronize(c->moves)) : st;
}

lx_status lx_cuda_state_export(lx_backend *be, const lx_states *s, int32_t slot, float *dst,
                               int32_t n_pages)
{
    return move_state((lx_cuda *)be, s, slot, dst, NULL, n_pages);
}

lx_status lx_cuda_state_import(lx_backend *be, lx_states *s, int32_t slot, const float *src,
                               int32_t n_pages)
{
    return move_state((lx_cuda *)be, s, slot, NULL, src, n_pages);
}
