/* y += c x, n values. */
typedef void lx_cpu_experts_loop(float *y, const float *x, float c, int64_t n);
