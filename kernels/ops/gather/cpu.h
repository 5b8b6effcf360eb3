/* One row. */

static void gather(float *y, const float *x, int64_t n)
{
    memcpy(y, x, (size_t)n * sizeof *y);
}
