/* Copies the n values of a row. */
typedef void lx_cpu_gather_loop(float *y, const float *x, int64_t n);
