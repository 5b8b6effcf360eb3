#include "kernels/reference/reference.h"

/* The turn of pair i at a position. */
static void turn_of(const lx_rotary_args *a, int32_t position, int32_t i, double *cosine,
                    double *sine)
{
    double c = 1, s = 0;
    for (int32_t level = 0; level < LX_ROTARY_LEVELS; level++, position /= LX_ROTARY_STEPS) {
        int64_t row = (int64_t)level * LX_ROTARY_STEPS + position % LX_ROTARY_STEPS;
        double more = (double)a->turns->data[row * a->d + i], old = c;
        double aside = (double)a->turns->data[row * a->d + a->d / 2 + i];
        c = c * more - s * aside;
        s = s * more + old * aside;
    }
    *cosine = c;
    *sine = s;
}

static void turn_row(const lx_rotary_args *a, float *x, int32_t position)
{
    for (int32_t i = 0; i < a->d / 2; i++) {
        double c, s;
        turn_of(a, position, i, &c, &s);
        for (int32_t h = 0; h < a->n_heads; h++) {
            float *left = x + (int64_t)h * a->apart + i, *right = left + a->d / 2;
            double l = (double)*left, r = (double)*right;
            *left = (float)(l * c - r * s);
            *right = (float)(r * c + l * s);
        }
    }
}

lx_status lx_reference_rotary(const lx_batch *b, const void *args)
{
    const lx_rotary_args *a = args;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        for (int32_t row = b->seq_start[i]; row < b->seq_start[i + 1]; row++)
            turn_row(a, a->x->data + (int64_t)row * a->width + a->first,
                     b->position[i] + row - b->seq_start[i]);
    }
    return LX_OK;
}
