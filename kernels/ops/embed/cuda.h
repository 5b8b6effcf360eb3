typedef struct lx_cuda_table {
    const void *data; /* [rows, d] */
    int32_t dtype, rows;
} lx_cuda_table;
static_assert(sizeof(lx_cuda_table) == 16, "in memory for both, so it has one layout");

typedef struct lx_cuda_embed {
    float *y;
    const lx_cuda_table *tables; /* [n_tables] */
    const int32_t *ids;          /* [rows, n_tables]; below 0: -1 - a place in `drawn` */
    const int32_t *drawn;
    const int32_t *live;
    int32_t n_tables, d, rows;
} lx_cuda_embed;
