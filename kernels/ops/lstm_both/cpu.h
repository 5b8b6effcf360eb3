/* One way of one sequence, token after token. Lanes are gates and cells. */

#define LSTM_SUMS (BODY_MAX_SUMS >= 8 ? 8 : 4) /* held in registers at once */

/* nc times 16 columns of x + U^T h, of the last sixteen as many as are `left`; h NULL: zeros. nc is
   a constant to the compiler. */
V16_FN void lstm_columns(const lx_cpu_lstm_both *a, const float *x, const float *h, int32_t column,
                         int32_t left, const int nc, float *gates)
{
    v16 sum[LSTM_SUMS];
    const float *u = a->u + column;
    for (int c = 0; c + 1 < nc; c++)
        sum[c] = v16_load(x + column + 16 * c);
    sum[nc - 1] = seen_load(x + column + 16 * (nc - 1), left);
    for (int32_t k = 0; k < a->n && h != NULL; k++, u += 4 * (int64_t)a->n) {
        v16 value = v16_set1(h[k]);
        for (int c = 0; c + 1 < nc; c++)
            sum[c] = v16_fma(value, v16_load(u + 16 * c), sum[c]);
        sum[nc - 1] = v16_fma(value, seen_load(u + 16 * (nc - 1), left), sum[nc - 1]);
    }
    for (int c = 0; c < nc; c++)
        v16_store(gates + column + 16 * c, sum[c]);
}

static void lstm_gates(const lx_cpu_lstm_both *a, const float *x, const float *h, float *gates)
{
    int32_t n = 4 * a->n, j = 0;
    for (; n - j > 16 * (LSTM_SUMS - 1); j += 16 * LSTM_SUMS)
        lstm_columns(a, x, h, j, n - j - 16 * (LSTM_SUMS - 1), LSTM_SUMS, gates);
    for (; n - j > 48; j += 64)
        lstm_columns(a, x, h, j, n - j - 48, 4, gates);
    for (; n - j > 16; j += 32)
        lstm_columns(a, x, h, j, n - j - 16, 2, gates);
    if (j < n)
        lstm_columns(a, x, h, j, n - j, 1, gates);
}

static void lstm_cells(const lx_cpu_lstm_both *a, const float *gates, float *cells, float *y)
{
    int32_t n = a->n;
    for (int32_t j = 0; j < n; j += 16) {
        v16 in = v16_sigmoid(seen_load(gates + j, n - j));
        v16 keep = v16_sigmoid(seen_load(gates + n + j, n - j));
        v16 fresh = v16_tanh(seen_load(gates + 2 * n + j, n - j));
        v16 out = v16_sigmoid(seen_load(gates + 3 * n + j, n - j));
        v16 cell = v16_fma(keep, v16_load(cells + j), v16_mul(in, fresh));
        v16_store(cells + j, cell);
        seen_store(y + j, v16_mul(out, v16_tanh(cell)), n - j);
    }
}

static void lstm_both(const lx_cpu_lstm_both *a)
{
    float *gates = a->scratch, *cells = gates + lx_cpu_lstm_both_gates(a->n);
    const float *h = NULL;
    memset(cells, 0, (size_t)((a->n + 15) / 16 * 16) * sizeof *cells);
    for (int64_t t = 0; t < a->n_tokens; t++) {
        float *y = a->y + t * a->y_stride;
        lstm_gates(a, a->x + t * a->x_stride, h, gates);
        lstm_cells(a, gates, cells, y);
        h = y;
    }
}
