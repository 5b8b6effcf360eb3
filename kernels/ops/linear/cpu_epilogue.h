/*
 * Activation and residual: the last step of all sums of `linear` (cpu.h, cpu_tiles.h).
 */

/* The outputs of some panels, from `panel` on, for some rows, from `row` on. */
typedef struct block {
    const lx_cpu_linear *job;
    const float *x;       /* chunks of rows from input `from` on, as cpu_rows.h lays them out */
    int64_t chunk_stride; /* between chunks, in floats or words */
    int64_t row, panel;
    int64_t from, to;                /* inputs; `from` begins a chunk */
    float *kept;                     /* sums [rows][LX_CPU_GROUP] before `from`, and before `to` */
    const uint32_t *ask, *asked_end; /* weights to be prefetched; none where they are equal */
    int64_t asked_words;             /* that the next pass prefetches after these */
} block;

V16_FN v16 activate(v16 x, lx_activation activation)
{
    if (activation == LX_ACT_RELU)
        return v16_max(v16_set1(0.0f), x); /* NaN stays */
    return activation == LX_ACT_GELU ? v16_gelu(x) : x;
}

/* sums [rows][panels]. Not inline, to keep micro-kernels small. Skips panels of padding. */
static void finish_block(const block *b, const v16 *sums, int rows, int panels)
{
    const lx_cpu_linear *job = b->job;
    int64_t outputs = job->w->shape.rows;
    for (int v = 0; v < panels && (b->panel + v) * 16 < outputs; v++) {
        int64_t first = (b->panel + v) * 16, at = b->row * job->stride + first;
        int n = outputs - first < 16 ? (int)(outputs - first) : 16;
        for (int r = 0; r < rows; r++, at += job->stride) {
            v16 y = activate(sums[r * panels + v], job->activation);
            if (job->residual != NULL)
                y = v16_add(y, v16_load_n(job->residual + at, n, y));
            v16_store_n(job->y + at, y, n);
        }
    }
}
