/* y += row of n values, f32 or bf16 */
typedef void lx_cpu_embed_loop(float *y, const void *row, lx_dtype dtype, int64_t n);
