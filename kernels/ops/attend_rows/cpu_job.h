/* A head of keys of one sequence, and the queries that read its rows; where these lie: op.h. */
typedef struct lx_cpu_attend_rows {
    const float *q, *k, *v;
    const float *common; /* the last common_key columns of the key */
    float *y;
    int64_t x_stride, y_stride;
    int32_t shared; /* heads of queries that read these rows, neighbours in q and y */
    const lx_rows_pattern *pattern;
    int32_t position; /* of the first token */
    /* this head's tiles: `ring` tiles in the slot, of which `kept` keep their place; or with ring 0
       the tiles in page 0 of the pool, and the slot's pages */
    float *tiles;
    int32_t ring, kept;
    const int32_t *pages;
    int64_t page_stride;
    int64_t to_next_head; /* floats from a tile to that of the next head; 0: no such head */
    int32_t d_key, d_value, common_key;
    float scale;
    float divisor; /* of squares, and by_count; 0: softmax */
    bool by_count, leave_unseeing;
    /* see lx_rows_distances: all d_key rows of `keys`, the head's row of `weights`; or NULL */
    const float *distance_keys, *distance_weights;
    int32_t n_distances;
    bool zeros_before;
    bool together;     /* rows of LX_ROWS_TILE tokens may be kept before the first of them reads */
    int64_t from, to;  /* queries of this piece: number t * shared + h is head h of token t */
    bool keeps, reads; /* it keeps the rows of its queries' tokens; it computes its queries */
    float *scratch;    /* lx_cpu_attend_rows_scratch(d_key, d_value) floats of this thread */
} lx_cpu_attend_rows;

#define LX_CPU_QUERIES 4   /* that share the reading of a row, at most */
#define LX_CPU_TOGETHER 64 /* that read a block of rows one after another, at most */

static inline int64_t lx_cpu_attend_rows_scratch(int64_t d_key, int64_t d_value)
{
    return LX_CPU_TOGETHER * ((d_key + 15) / 16 * 16 + (d_value + 15) / 16 * 16) +
           LX_CPU_QUERIES * LX_ROWS_BLOCK;
}

typedef void lx_cpu_attend_rows_loop(const lx_cpu_attend_rows *job);
