/* Adds a row of a table. */

static void embed(float *y, const void *row, lx_dtype dtype, int64_t n)
{
    const float *f32 = row;
    const uint16_t *bf16 = row;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 v = dtype == LX_F32 ? v16_load(f32 + i) : v16_load_bf16(bf16 + i);
        v16_store(y + i, v16_add(v16_load(y + i), v));
    }
    for (; i < n; i++)
        y[i] += dtype == LX_F32 ? f32[i] : lx_bf16_to_f32(bf16[i]);
}
