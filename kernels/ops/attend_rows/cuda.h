typedef struct lx_cuda_attend_rows {
    float *y;
    uint16_t *twin;
    const float *qkv;
    float *tiles;         /* the layer's part of slot 0, or of page 0 of the pool */
    int64_t stride;       /* from slot to slot, or from page to page */
    const int32_t *pages; /* [n_slots, slot_pages]; NULL: a ring */
    int32_t slot_pages;
    int32_t ring, kept; /* tiles of a ring, and how many of them keep their place */
    lx_cuda_branches branches;
    const int32_t *seq_start, *slot, *position;
    const int32_t *live;
    const lx_rows_pattern *patterns;
    int32_t n_patterns, n_seqs, n_heads, d_key, d_value;
    int32_t shared;                    /* heads of queries per head of keys */
    int32_t width, keys_at, values_at; /* of a row of qkv */
    int32_t common_key;                /* the last columns of a key, at the end of that row */
    float scale;
    float divisor; /* of squares, and by_count; 0: softmax */
    bool by_count, leave_unseeing, zeros_before;
    const float *distance_keys, *distance_weights; /* see lx_rows_distances; or NULL */
    int32_t n_distances;
} lx_cuda_attend_rows;
