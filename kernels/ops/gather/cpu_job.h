/* Copies a row, n values. */
typedef void lx_cpu_gather_loop(float *y, const float *x, int64_t n);
