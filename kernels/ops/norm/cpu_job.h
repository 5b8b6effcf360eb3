typedef void lx_cpu_norm_loop(float *y, const float *x, const float *gamma, const float *beta,
                              int32_t d, float eps);
