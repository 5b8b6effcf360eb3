/* One head of one whole sequence: each token sees all tokens, or those of the chunks around it. */

/* --- all tokens --- */

/* A block of keys that some tokens share, with keys as lanes, and the rows of its values. */
typedef struct whole_block {
    float *keys;                       /* [d_key][LX_WHOLE_BLOCK] */
    const float *rows[LX_WHOLE_BLOCK]; /* of v */
    int64_t first;                     /* its first token; -1: none yet */
    int32_t n;
} whole_block;

/* Fills the last vector with zeros. */
static void whole_take(const lx_cpu_attend_whole *a, int64_t first, whole_block *b)
{
    if (b->first == first)
        return;
    b->first = first;
    b->n = a->n_tokens - first < LX_WHOLE_BLOCK ? (int32_t)(a->n_tokens - first) : LX_WHOLE_BLOCK;
    for (int32_t d = 0; d < a->d_key; d++) {
        float *to = b->keys + (int64_t)d * LX_WHOLE_BLOCK;
        for (int32_t j = 0; j < b->n; j++)
            to[j] = a->k[(first + j) * a->x_stride + d];
        for (int32_t j = b->n; j % 16 != 0; j++)
            to[j] = 0.0f;
    }
    for (int32_t j = 0; j < b->n; j++)
        b->rows[j] = a->v + (first + j) * a->x_stride;
}

/* nc vectors of logits; nc is a constant to the compiler. */
V16_FN void whole_logits(const lx_cpu_attend_whole *a, const float *q, const float *keys,
                         const int nc, float *x)
{
    v16 sum[4], scale = v16_set1(a->scale);
    for (int c = 0; c < nc; c++)
        sum[c] = v16_set1(0.0f);
    for (int32_t d = 0; d < a->d_key; d++, keys += LX_WHOLE_BLOCK) {
        v16 value = v16_set1(q[d]);
        for (int c = 0; c < nc; c++)
            sum[c] = v16_fma(value, v16_load(keys + 16 * c), sum[c]);
    }
    for (int c = 0; c < nc; c++)
        v16_store(x + 16 * c, v16_mul(sum[c], scale));
}

/* Adds a block to the sums of a token. Scratch: x for its logits, `here` for its values. */
static void whole_add(const lx_cpu_attend_whole *a, const float *q, const whole_block *b, float *x,
                      float *here, float *o, seen_sum *all)
{
    float largest;
    int32_t j = 0;
    for (; b->n - j > 48; j += 64)
        whole_logits(a, q, b->keys + j, 4, x + j);
    for (; b->n - j > 16; j += 32)
        whole_logits(a, q, b->keys + j, 2, x + j);
    if (j < b->n)
        whole_logits(a, q, b->keys + j, 1, x + j);
    float sum = seen_weights(x, b->n, &largest);
    seen_values(b->rows, x, b->n, a->d_value, here);
    seen_add(all, largest, sum);
    for (int32_t m = 0; m < a->d_value; m += 16)
        v16_store(o + m, seen_add_values(all, v16_load(o + m), v16_load(here + m)));
}

static void whole_write(float *y, const float *o, float sum, int32_t n)
{
    for (int32_t m = 0; m < n; m += 16)
        seen_store(y + m, v16_div(v16_load(o + m), v16_set1(sum)), n - m);
}

/* Several tokens share a block's transposed keys; each has its own sums. */
static void whole_all(const lx_cpu_attend_whole *a)
{
    int64_t room = (a->d_value + 15) / 16 * 16;
    float *keys = a->scratch, *x = keys + (int64_t)a->d_key * LX_WHOLE_BLOCK;
    float *here = x + LX_WHOLE_BLOCK, *o = here + room;
    whole_block held = {.keys = keys, .first = -1};
    for (int64_t t0 = 0; t0 < a->n_tokens; t0 += LX_WHOLE_SHARED) {
        int64_t left = a->n_tokens - t0, n = left < LX_WHOLE_SHARED ? left : LX_WHOLE_SHARED;
        seen_sum all[LX_WHOLE_SHARED];
        memset(o, 0, (size_t)(n * room) * sizeof *o);
        for (int64_t i = 0; i < n; i++)
            all[i] = (seen_sum){.largest = -INFINITY};
        for (int64_t first = 0; first < a->n_tokens; first += LX_WHOLE_BLOCK) {
            whole_take(a, first, &held);
            for (int64_t i = 0; i < n; i++)
                whole_add(a, a->q + (t0 + i) * a->x_stride, &held, x, here, o + i * room, &all[i]);
        }
        for (int64_t i = 0; i < n; i++)
            whole_write(a->y + (t0 + i) * a->y_stride, o + i * room, all[i].sum, a->d_value);
    }
}

/* --- by hashes --- */

/* Fills a round of `sorted`. Until all buckets are known, they take the places' room. */
static void whole_sort(const lx_cpu_attend_whole *a, int32_t r)
{
    int32_t before[LX_LSH_MOST_BUCKETS + 1] = {0}; /* tokens of the buckets below */
    float *order = a->sorted + r, *place = order + a->rounds;
    const float *hash = a->hashes + (int64_t)r * a->d_key * (a->n_buckets / 2);
    for (int64_t t = 0; t < a->n_tokens; t++) {
        int32_t bucket =
            lsh_bucket(hash, a->d_key, a->n_buckets, a->q + t * a->x_stride, a->scratch);
        place[t * a->sorted_stride] = (float)bucket;
        before[bucket + 1]++;
    }
    for (int32_t b = 0; b < a->n_buckets; b++)
        before[b + 1] += before[b];
    for (int64_t t = 0; t < a->n_tokens; t++) {
        int32_t own = before[(int32_t)place[t * a->sorted_stride]]++;
        place[t * a->sorted_stride] = (float)own;
        order[own * a->sorted_stride] = (float)t;
    }
}

/* Logits and values of all rows that token t sees, round by round, in order; returns their number.
 */
static int32_t whole_collect(const lx_cpu_attend_whole *a, int64_t t, float *x, const float **rows)
{
    int32_t n = 0;
    for (int32_t r = 0; r < a->rounds; r++) {
        int64_t chunk = (int64_t)a->sorted[t * a->sorted_stride + a->rounds + r] / a->chunk;
        int64_t from = chunk > 0 ? (chunk - 1) * a->chunk : 0, to = (chunk + 2) * a->chunk;
        to = to < a->n_tokens ? to : a->n_tokens;
        for (int64_t p = from; p < to; p++) {
            int64_t j = (int64_t)a->sorted[p * a->sorted_stride + r];
            if (j == t)
                continue;
            float dot = seen_dot(a->q + t * a->x_stride, a->k + j * a->x_stride, a->d_key);
            x[n] = dot * a->sorted[j * a->sorted_stride + 2 * a->rounds] * a->scale;
            rows[n++] = a->v + j * a->x_stride;
        }
    }
    return n;
}

static void whole_hashed(const lx_cpu_attend_whole *a)
{
    const float *rows[LX_LSH_MOST_SEEN];
    float *x = a->scratch,
          *o = x + lx_cpu_attend_lsh_logits(a->rounds, a->n_buckets, 3L * a->chunk);
    float largest;
    for (int32_t r = 0; r < a->rounds; r++)
        whole_sort(a, r);
    for (int64_t t = 0; t < a->n_tokens; t++) {
        const float *k = a->k + t * a->x_stride;
        a->sorted[t * a->sorted_stride + 2 * a->rounds] =
            1.0f / sqrtf(seen_dot(k, k, a->d_key) + 1e-12f);
    }
    for (int64_t t = 0; t < a->n_tokens; t++) {
        int32_t n = whole_collect(a, t, x, rows);
        if (n == 0) {
            memcpy(a->y + t * a->y_stride, a->v + t * a->x_stride, (size_t)a->d_value * sizeof *x);
            continue;
        }
        float sum = seen_weights(x, n, &largest);
        seen_values(rows, x, n, a->d_value, o);
        whole_write(a->y + t * a->y_stride, o, sum, a->d_value);
    }
}

static void attend_whole(const lx_cpu_attend_whole *a)
{
    if (a->hashes != NULL)
        whole_hashed(a);
    else
        whole_all(a);
}
