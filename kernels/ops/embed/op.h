/* Embedding: y[r] = sum_j tables[j][ids[r * n_tables + j]]          y [T, d] */
#define LX_EMBED_MAX_TABLES 64

typedef struct lx_embed_args {
    lx_array *y;
    int32_t n_tables;
    const lx_table *const *tables; /* [n_tables], all of one width; borrowed until sync() */
    /* [T, n_tables], host, each within its table or of lx_drawn_id; borrowed until sync() */
    const int32_t *ids;
    const lx_states *states; /* whose deferred tokens ids may name; NULL: no id names one */
} lx_embed_args;
